"""What one may say to a Request (spec section 3). Plain data; what each Request accepts is in its `accepts` (R02)."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from .ids import uuid7


@dataclass(frozen=True)
class Answer:
    """To a `wait_user`: typed values that satisfy its schema. Some may be secret, so it does not print them (R12)."""

    values: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Approve:
    """To a `wait_approval`: this digest and no other. `confirm`: the environment's name, where the policy wants it."""

    digest: str
    confirm: str = ""


@dataclass(frozen=True)
class Deny:
    """To a `wait_approval`. `suggestion`: JSON text of the parameters the agent might ask for instead (R19)."""

    digest: str
    suggestion: str | None = None


@dataclass(frozen=True)
class File:
    """A file beside a finding, kept already under a random name, which a repeat does not have to equal (R09)."""

    name: str
    size: int
    sha256: str
    stored: str = field(repr=False, compare=False)


@dataclass(frozen=True)
class Finding:
    """To a `wait_effect`: what was established (`committed`, `not_committed`, `unknown`), where to look it up, and
    files that show it."""

    outcome: str
    reference: str = ""
    files: tuple[File, ...] = ()


@dataclass(frozen=True)
class Recover:
    """To a `wait_effect`: start the recovery action registered under this name (R24)."""

    action: str


Said = Answer | Approve | Deny | Finding | Recover


@dataclass(frozen=True)
class Resume:
    """A Response to exactly one Request. `response_id` is made by the client: the same again changes nothing (R09)."""

    session_id: UUID | str
    request_id: UUID | str
    response: Said
    message: str = ""
    response_id: UUID | str = field(default_factory=uuid7)
