"""The loop of hosted Runs: who the agents are, what a turn has journaled, how the model, tools and waits meet."""
