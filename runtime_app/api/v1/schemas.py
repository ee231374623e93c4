"""The shapes of `documents`, as the OpenAPI document has them."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

Object = dict[str, Any]


class Refused(BaseModel):
    """A refusal: its `code` is the same in Python, here and on the page; `message` is for people."""

    model_config = ConfigDict(extra="allow")

    code: str
    message: str
    reason: str = Field(default="", description="Narrows the code.")
    fields: dict[str, str] = Field(default={}, description="Which field is wrong, and why.")


class InstanceDoc(BaseModel):
    id: UUID
    agent: str
    name: str


class Me(BaseModel):
    """`instance`: whose credential this is; or `person`: who is signed in, with the token for `X-CSRFToken`."""

    tenant: str
    instance: InstanceDoc | None
    environment: str | None
    scopes: list[str]
    expires_at: datetime | None
    person: str | None
    csrf_token: str | None


class SessionDoc(BaseModel):
    id: UUID
    title: str
    thread: str
    created_at: datetime
    cursor: str = Field(default="", description="Before its first Event, or, when it is read, after its newest.")


class Sessions(BaseModel):
    sessions: list[SessionDoc]
    next: UUID | None = Field(description="`before` of the next page.")


class RunRow(BaseModel):
    id: UUID
    session: UUID
    agent: str
    environment: str
    state: str
    interactive: bool
    hosted: bool
    message: str
    lease: int
    lease_until: datetime | None
    held: bool
    cancel_requested: bool
    created_at: datetime
    started_by: str
    ended_at: datetime | None


class Runs(BaseModel):
    runs: list[RunRow]
    next: UUID | None = Field(description="`before` of the next page.")


class EffectInShort(BaseModel):
    id: UUID
    key: str
    state: str
    deadline_at: datetime | None


class EffectDoc(BaseModel):
    model_config = ConfigDict(extra="allow")

    id: UUID
    run: UUID
    session: UUID
    request: UUID
    action: str
    key: str
    state: str
    disputed: bool
    uncertain: bool
    accepted: bool
    remains: str = Field(description="What is still uncertain about it, in a sentence.")
    evidence: list[Object]
    later_evidence: list[Object]
    prepared_at: datetime
    intent_at: datetime | None
    deadline_at: datetime | None
    settled_at: datetime | None


class ActionDoc(BaseModel):
    name: str
    version: str
    parameters: Object | None
    title: str | None
    consequence: str | None
    reversible: str | None
    registered: bool | None


class GrantDoc(BaseModel):
    state: str
    expires_at: datetime
    used_at: datetime | None
    void_why: str | None


class RequestDoc(BaseModel):
    id: UUID
    run: UUID
    session: UUID
    environment: str
    kind: str
    key: str
    number: int
    replaces: UUID | None
    state: str = Field(description="By the clock: a pending one past its deadline is expired.")
    outcome: str | None
    accepts: Object = Field(description="Which responses it accepts, as data.")
    who_could: list[str] = Field(description="Who could respond to it now.")
    created_at: datetime
    expires_at: datetime | None
    resolved_at: datetime | None
    resolved_by: str | None
    prompt: str | None
    form: Object | None = Field(alias="schema")
    action: ActionDoc | None
    digest: str | None
    claim: str | None
    response: Object | None = Field(description="kind; values, suggestion or finding; message, by, at.")
    grant: GrantDoc | None
    effect: EffectInShort | None


class RunDoc(RunRow):
    requests: list[RequestDoc]
    effects: list[EffectDoc]
    result: Object | None = Field(description="The terminal result, once it ended.")


class Sending(BaseModel):
    """What may be done now, once. A provider gets `effect.key`."""

    effect: EffectInShort | None
    action: str
    parameters: Object
    digest: str


class Reported(BaseModel):
    status: str
    effect: EffectDoc | None


class Acknowledged(BaseModel):
    destroyed: int


class Kept(BaseModel):
    """Evidence, kept as what an agent claims."""

    id: UUID
    grade: str
    finding: str
    reference: str
    statement: str
    late: bool
    at: datetime


class EventDoc(BaseModel):
    id: str = Field(description="The cursor after it.")
    seq: int
    session: UUID
    kind: str
    run: UUID | None
    subject: UUID | None
    actor: dict[str, str]
    at: datetime
    data: Object


class EventPage(BaseModel):
    events: list[EventDoc]
    cursor: str
    gap: bool = Field(description="What came before the first of them is not given: look at everything anew.")
    more: bool


class InboxDoc(BaseModel):
    for_you: list[RequestDoc]
    for_others: list[RequestDoc]
    more: bool


class Recorded(BaseModel):
    """What a response did; the same again gets the same."""

    request: UUID
    state: str
    outcome: str | None
