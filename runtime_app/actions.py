"""The registry of Actions: what agents may ask for, how it is sent, what its provider can be asked (R15, R22-R24).

An Action is a small class in the user's own module, registered at start. A registration that contradicts itself stops
the start, by name.
"""

from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from . import canonical
from .errors import InvalidInput


@dataclass(frozen=True)
class Committed:
    """The provider's clear yes. `reference`: an identifier or link under which it can be looked up."""

    reference: str = ""
    statement: str = ""
    finding: ClassVar = "committed"


@dataclass(frozen=True)
class NotCommitted:
    """The provider's clear no: it did not happen, and it will not."""

    reference: str = ""
    statement: str = ""
    finding: ClassVar = "not_committed"


@dataclass(frozen=True)
class Working:
    """Accepted, still working: the Effect stays in flight and its Run waits (R23)."""

    reference: str = ""
    statement: str = ""
    finding: ClassVar = "working"


@dataclass(frozen=True)
class Unknown:
    """A probe that looked and cannot tell."""

    reference: str = ""
    statement: str = ""
    finding: ClassVar = "unknown"


Reply = Committed | NotCommitted | Working | Unknown


class NotSent(Exception):
    """Our worker did not call the provider at all: the time to send had passed (R23)."""


class Action:
    """One kind of external act. Subclass it, then `@register` the subclass.

    `deadline`: how long after the intent a silent dispatch becomes uncertain. `send_within`: how long after the intent
    it may still be sent. `lag`: a look-up's "not found" younger than this proves nothing. `nothing_sent`: exceptions
    that prove that nothing was sent; every other exception leaves the Effect uncertain.
    """

    name: ClassVar[str]
    version: ClassVar[str] = "1"
    title: ClassVar[str]
    consequence: ClassVar[str] = ""
    reversible: ClassVar[str] = ""
    deadline: ClassVar[timedelta] = timedelta(seconds=30)
    send_within: ClassVar[timedelta] = timedelta(seconds=5)
    lag: ClassVar[timedelta] = timedelta(0)
    nothing_sent: ClassVar[tuple[type[BaseException], ...]] = ()
    risky: ClassVar[tuple[str, ...]] = ()
    probe_title: ClassVar[str] = "Look it up"
    probe_looks: ClassVar[str] = "Asks the provider what became of it. Sends nothing."

    class Parameters(BaseModel):
        """The action's parameters. Unknown ones are refused, types are strict."""

    def dispatch(self, key: str, parameters: BaseModel, environment: str) -> Reply:
        """Send it once, under `key`. Called after the intent is committed, never twice for one Grant (R22)."""
        raise NotImplementedError

    probe = None  # def probe(self, key, parameters, environment) -> Committed | NotCommitted | Unknown

    @classmethod
    def bind(cls, raw: str | bytes) -> bytes:
        """The canonical bytes of the parameters in `raw`, the text as it was sent: validated strictly, defaults filled
        in. Raises InvalidInput, naming what is wrong (R15)."""
        sent = canonical.dump(canonical.parse(raw))
        try:
            parameters = cls._strict.model_validate_json(sent)
        except ValidationError as refused:
            wrong = {".".join(map(str, e["loc"])) or "parameters": e["msg"] for e in refused.errors(include_url=False)}
            told = "; ".join(f"{name}: {why}" for name, why in wrong.items())
            raise InvalidInput(f"The parameters of {cls.name} are not valid. {told}", fields=wrong) from None
        return canonical.dump(parameters.model_dump(mode="json"))

    @classmethod
    def parsed(cls, parameters: bytes) -> BaseModel:
        """What a handler is called with, parsed from the very bytes that were shown and digested."""
        return cls._strict.model_validate_json(parameters)


_registered: dict[str, Action] = {}


def register(cls: type[Action]) -> type[Action]:
    """Make an Action known by its name. Raises TypeError, by name, for one that contradicts itself."""
    for needed in ("name", "title"):
        if not getattr(cls, needed, None):
            raise TypeError(f"Action {cls.__name__} has no {needed}.")
    if cls.name in _registered and type(_registered[cls.name]).__qualname__ != cls.__qualname__:
        raise TypeError(f"Two actions are registered as {cls.name}.")
    if cls.dispatch is Action.dispatch:
        raise TypeError(f"Action {cls.name} cannot be dispatched: it has no dispatch method.")
    if cls.send_within > cls.deadline:
        raise TypeError(f"Action {cls.name} may be sent after its own deadline: send_within is longer than deadline.")
    unknown = set(cls.risky) - set(cls.Parameters.model_fields)
    if unknown:
        raise TypeError(f"Action {cls.name} calls risky what is no parameter of it: {', '.join(sorted(unknown))}.")
    cls._strict = create_model(cls.Parameters.__name__, __base__=cls.Parameters)
    cls._strict.model_config = ConfigDict(**(cls.Parameters.model_config | {"extra": "forbid", "strict": True}))
    cls._strict.model_rebuild(force=True)
    _registered[cls.name] = cls()
    return cls


def registered(name: str) -> Action | None:
    return _registered.get(name)


def names() -> list[str]:
    return sorted(_registered)


def described(action: Action | None) -> dict:
    """What a card says about an Action, from its registration; kept in the Request as it was then."""
    if action is None:
        return {}
    return {
        "title": action.title,
        "consequence": action.consequence,
        "reversible": action.reversible,
        "risky": list(action.risky),
    }


def recoveries(action: Action | None) -> list[dict]:
    """The recovery actions of an Effect, in data: name, title, what each looks at or changes (R24)."""
    probe = (
        [{"name": "probe", "title": action.probe_title, "does": action.probe_looks}] if action and action.probe else []
    )
    accept = {
        "name": "accept",
        "title": "Accept that it stays unknown",
        "does": "Sends nothing and settles nothing. The Run is told that the outcome is unknown and goes on.",
    }
    return [*probe, accept]


def action_bytes(*, name: str, version: str, environment, actor: str, parameters: bytes) -> bytes:
    """The Action's canonical bytes: a header line, then the parameters (R15). Made once, when the Request is raised."""
    where = {"id": str(environment.pk), "name": environment.name}
    header = {"action": name, "actor": actor, "environment": where, "version": version}
    return canonical.dump(header) + b"\n" + parameters


def action_hash(*, name: str, environment: str, parameters: bytes) -> str:
    """Equal Actions, and only they, have equal hashes: name, environment and parameter bytes."""
    hashed = sha256(b"sayso equal action v1")
    for part in (name.encode(), environment.encode(), parameters):
        hashed.update(len(part).to_bytes(8, "big") + part)
    return hashed.hexdigest()
