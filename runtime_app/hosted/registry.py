"""The registry of hosted agents. One call of `agent` a piece, in the user's own module, named in SAYSO_AGENTS.

A registration that contradicts itself stops the start, by name. Nothing here imports the agent library: the web console
reads this registry too, and never runs a model.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.conf import settings

from .. import actions as known

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from .contained import Command
    from .steps import Steps

ASK_PERSON = "ask_person"  # the one tool every agent has
RUN_AGENT = "run_agent"  # the one of agents that have children

_AGENT_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,79}")
_TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")  # what every model provider accepts


@dataclass(frozen=True)
class HostedAgent:
    """One agent that our worker runs. `model`: a pydantic-ai model, its name, or a function that makes one."""

    name: str
    version: str
    title: str
    instructions: str
    actions: tuple[type[known.Action], ...]
    tools: "tuple[Callable | Command, ...]"
    model: "Model | str | Callable[[], Model] | None"
    loop: "Callable[[Steps], Awaitable[str]] | None"
    steps: int
    children: tuple[str, ...]
    continues: tuple[str, ...]


_registered: dict[str, HostedAgent] = {}


def agent(
    name: str,
    *,
    version: str = "1",
    title: str = "",
    instructions: str = "",
    actions: Sequence[type[known.Action]] = (),
    tools: "Sequence[Callable | Command]" = (),
    model: Any = None,
    loop: "Callable[[Steps], Awaitable[str]] | None" = None,
    steps: int = 100,
    children: Sequence[str] = (),
    continues: Sequence[str] = (),
) -> HostedAgent:
    """Register an agent. Raises TypeError, by name, for one that contradicts itself.

    `actions` are what it may ask approval for; `tools` are plain functions, which run at once and are journaled (R22),
    or commands (`contained.command`); `children` names the agents whose Runs it may start and wait for (R28); `steps`
    bounds the model's replies in one Run. `loop` replaces model and library: a coroutine function that gets the turn's
    `Steps` and returns what the Run says at its end.

    A Run goes on only with the `version` of its first turn, or one that `continues` it; else it waits for a worker that
    has it.
    """
    made = HostedAgent(
        name, version, title or name, instructions, tuple(actions), tuple(tools), model or settings.SAYSO_MODEL or None,
        loop, steps, tuple(children), tuple(continues),
    )  # fmt: skip
    if wrong := _contradiction(made):
        raise TypeError(f"Agent {name!r} {wrong}")
    _registered[name] = made
    return made


def find(name: str) -> HostedAgent | None:
    return _registered.get(name)


def registered() -> list[HostedAgent]:
    """All of them, by name."""
    return [_registered[name] for name in sorted(_registered)]


def knows() -> dict[str, dict[str, list[str]]]:
    """What this process can go on with: agents and actions, each with its version first, then those it continues."""
    actions = [known.registered(name) for name in known.names()]
    return {
        "agents": {each.name: [each.version, *each.continues] for each in registered()},
        "actions": {each.name: [each.version, *each.continues] for each in actions},
    }


def check_children() -> None:
    """Raises TypeError, by name, for an agent whose child nobody registered. Called when all are."""
    for each in registered():
        if missing := sorted(set(each.children) - set(_registered)):
            raise TypeError(f"Agent {each.name!r} may run {missing[0]!r}, which is not registered.")


def _contradiction(made: HostedAgent) -> str | None:
    if not _AGENT_NAME.fullmatch(made.name):
        return "has a name that is not made of small letters, digits, - and _."
    if made.name in _registered:
        return "is registered twice."
    if made.loop is None and made.model is None:
        return "has no model: name one in its registration or in SAYSO_MODEL."
    if made.version in made.continues:
        return "continues its own version."
    names = [ASK_PERSON, RUN_AGENT]
    for action in made.actions:
        if type(known.registered(getattr(action, "name", ""))) is not action:
            return f"names an action that is not registered: {action!r}."
        names.append(action.name)
    names += [tool.__name__ for tool in made.tools]
    for each in names:
        if not _TOOL_NAME.fullmatch(each):
            return f"has a tool or action whose name no model accepts: {each!r}."
        if names.count(each) > 1:
            return f"has two tools or actions called {each!r}."
    return None
