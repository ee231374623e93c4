"""The example: Harbor, a pretend deployment provider, and the agent that deploys through it."""
