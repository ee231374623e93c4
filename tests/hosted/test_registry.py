"""A registration that contradicts itself stops the start, by name."""

import pytest

from runtime_app.actions import Action
from runtime_app.hosted import registry
from tests.cast import Deploy


@pytest.fixture(autouse=True)
def forgets(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})


def tool():
    pass


def ask_person():
    pass


class Unregistered(Action):
    name = "unregistered"
    title = "Not registered"


async def loop(steps):
    return ""


@pytest.mark.parametrize(
    "name, more, told",
    [
        ("mute", {}, "has no model"),
        ("Deployer!", {"loop": loop}, "small letters"),
        ("stranger", {"loop": loop, "actions": [Unregistered]}, "not registered"),
        ("double", {"loop": loop, "actions": [Deploy, Deploy]}, "two tools or actions called 'deploy'"),
        ("twice", {"loop": loop, "tools": [tool, tool]}, "two tools or actions called 'tool'"),
        ("ours", {"loop": loop, "tools": [ask_person]}, "two tools or actions called 'ask_person'"),
    ],
)
def test_a_contradiction_is_refused_by_name(name, more, told):
    with pytest.raises(TypeError, match=f"Agent '{name}' .*{told}"):
        registry.agent(name, **more)
    assert registry.find(name) is None


def test_one_name_is_one_agent():
    registry.agent("deployer", loop=loop)
    with pytest.raises(TypeError, match="registered twice"):
        registry.agent("deployer", loop=loop)


def test_an_agent_without_a_model_takes_the_one_in_the_settings(settings):
    settings.SAYSO_MODEL = "test"
    assert registry.agent("deployer").model == "test"
