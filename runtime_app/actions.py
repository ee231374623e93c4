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
    idempotent: ClassVar[bool] = False  # its provider does a key at most once
    redispatch: ClassVar[bool] = False  # an uncertain one may be sent again under its key; only if idempotent
    compensation: ClassVar[str] = ""  # the name of the registered action that undoes it
    continues: ClassVar[tuple[str, ...]] = ()  # older versions whose granted Effects this code may send
    probe_title: ClassVar[str] = "Look it up"
    probe_looks: ClassVar[str] = "Asks the provider what became of it. Sends nothing."

    class Parameters(BaseModel):
        """The action's parameters. Unknown ones are refused, types are strict."""

    def dispatch(self, key: str, parameters: BaseModel, environment: str) -> Reply:
        """Send it once, under `key`. Called after the intent is committed, never twice for one Grant (R22)."""
        raise NotImplementedError

    def compensating(self, parameters: BaseModel) -> dict:
        """The parameters of the compensation of what was done with these."""
        return parameters.model_dump(mode="json")

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
    if cls.redispatch and not cls.idempotent:
        raise TypeError(f"Action {cls.name} may be sent again, but its provider does not do a key at most once.")
    if cls.compensation == cls.name:
        raise TypeError(f"Action {cls.name} compensates itself.")
    if cls.version in cls.continues:
        raise TypeError(f"Action {cls.name} continues its own version.")
    if cls.send_within > cls.deadline:
        raise TypeError(f"Action {cls.name} may be sent after its own deadline: send_within is longer than deadline.")
    if cls.deadline <= timedelta(0):
        raise TypeError(f"Action {cls.name} has no time to reply: its deadline is not above zero.")
    if cls.lag < timedelta(0):
        raise TypeError(f"Action {cls.name} has a lag below zero.")
    for each in cls.nothing_sent:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise TypeError(f"Action {cls.name} names what is no exception as a proof that nothing was sent: {each!r}.")
        if each in (BaseException, Exception):
            raise TypeError(f"Action {cls.name} takes every error as a proof that nothing was sent.")
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


def check_compensations() -> None:
    """Raises TypeError, by name, for an action whose compensation nobody registered. Called when all are."""
    for action in _registered.values():
        if action.compensation and action.compensation not in _registered:
            raise TypeError(f"Action {action.name} is compensated by {action.compensation}, which is not registered.")


def recoveries(action: Action | None, *, compensates: bool = False) -> list[dict]:
    """The recovery actions of an Effect, in data: name, title, what each looks at or changes, whether it sends and so
    asks for an approval of its own (R24). A compensation has no compensation."""
    offered = []
    if action and action.probe:
        offered.append(_recovery("probe", action.probe_title, action.probe_looks))
    if action and action.redispatch:
        does = "A Run asks for an approval of its own; then the same key goes out again, which is done at most once."
        offered.append(_recovery("redispatch", "Send it again under its key", does, sends=True))
    if action and action.compensation and not compensates:
        undo = registered(action.compensation)
        does = f"Starts a Run that asks for its own approval. {undo.consequence}".strip()
        offered.append(_recovery("compensate", undo.title, does, sends=True))
    does = "Sends nothing and settles nothing. The Run is told that the outcome is unknown and goes on."
    return [*offered, _recovery("accept", "Accept that it stays unknown", does)]


def _recovery(name: str, title: str, does: str, *, sends: bool = False) -> dict:
    return {"name": name, "title": title, "does": does, "sends": sends, "role": "operator", "approval": sends}


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
