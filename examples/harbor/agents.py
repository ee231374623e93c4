"""The agent of the example. `SAYSO_AGENTS=examples.harbor.agents` registers it and its action."""

from examples.harbor.actions import DeployRelease
from examples.harbor.script import scripted
from runtime_app.hosted.registry import agent

deployer = agent(
    "deployer",
    title="Deployer",
    instructions="You deploy releases. Ask a person for what you do not know. Say plainly what stays unknown.",
    actions=[DeployRelease],
    model=scripted,  # a model's name, as pydantic-ai writes it, makes it a real one
)
