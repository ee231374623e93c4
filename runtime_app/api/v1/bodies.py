"""What a call may say: these fields and no others, of these types, and no null (T91). What was sent came through the
strict parser; where it becomes an action's parameters it is bound as it came."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ...canonical import Number


def _whole(value: Any) -> Any:
    """2.0 is the integer 2 in JSON."""
    return int(value) if isinstance(value, Number) and value == value.to_integral_value() else value


Text = Annotated[str, Field(max_length=20_000)]
Short = Annotated[str, Field(max_length=200)]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
Message = Annotated[str, Field(max_length=65_536, pattern=r"\S")]
Id = Annotated[str, Field(min_length=1, max_length=64)]
Lease = Annotated[int, Field(ge=1, lt=2**31), BeforeValidator(_whole)]
Finding = Literal["committed", "not_committed", "unknown"]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Nothing(Body):
    """No field at all; no body is as good."""


class NewSession(Body):
    title: Short = ""
    thread: Short = ""


class NewMessage(Body):
    """`agent` and `environment` name a hosted agent and are a person's to choose; a credential has its own (R20)."""

    message: Message
    interactive: bool = True
    agent: Short = ""
    environment: Short = ""


class NewRun(NewMessage):
    title: Short = ""
    thread: Short = ""


class Leased(Body):
    lease: Lease


class Completed(Leased):
    result: Text = ""


class Failed(Leased):
    reason: Text = ""


class Cancelled(Body):
    reason: Text = ""


class AskedQuestion(Leased):
    """A wait for information."""

    kind: Literal["wait_user"]
    key: Name
    prompt: Annotated[str, Field(max_length=20_000, pattern=r"\S")]
    form: dict[str, Any] = Field(alias="schema")


class AskedApproval(Leased):
    """A wait for authority over one exact action: `parameters` are bound as they came, every digit of a number."""

    kind: Literal["wait_approval"]
    key: Name
    action: Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
    parameters: dict[str, Any]
    claim: Text = ""
    replaces: Id = Field(default="")


NewRequest = Annotated[AskedQuestion | AskedApproval, Field(discriminator="kind")]


class Dispatched(Body):
    """Without a Lease, or with 0: whoever has the Run's turn."""

    lease: Annotated[int, Field(ge=0, lt=2**31), BeforeValidator(_whole)] = 0


class Outcome(Body):
    status: Literal["succeeded", "failed", "unknown"]
    reference: Annotated[str, Field(max_length=2_000)] = ""
    note: Text = ""


class Claimed(Body):
    finding: Finding
    reference: Annotated[str, Field(max_length=2_000)] = ""
    statement: Annotated[str, Field(max_length=2_000)] = ""


# ---------------------------------------------------------------- what a signed-in person says to one Request


class Said(Body):
    session: Id
    message: Text = ""


class SaidAnswer(Said):
    kind: Literal["answer"]
    values: dict[str, Any]


class SaidApprove(Said):
    kind: Literal["approve"]
    digest: Id
    confirm: Short = ""


class SaidDeny(Said):
    kind: Literal["deny"]
    digest: Id
    suggestion: dict[str, Any] = Field(default_factory=dict)


class SaidFinding(Said):
    kind: Literal["finding"]
    outcome: Finding
    reference: Annotated[str, Field(max_length=2_000)] = ""


class SaidRecover(Said):
    kind: Literal["recover"]
    action: Short


NewResponse = Annotated[SaidAnswer | SaidApprove | SaidDeny | SaidFinding | SaidRecover, Field(discriminator="kind")]
