"""The tables: fields and constraints, no verbs. A state changes only in `transitions`."""

from .base import Now, TenantKey, TenantRow
from .effects import Attempt, CallbackSecret, Effect, Evidence, EvidenceFile
from .events import Epoch, Event, Refusal
from .policies import Policy
from .requests import Grant, Request, Response
from .tenancy import Environment, Instance, Membership, Role, Tenant
from .work import Blocker, Chunk, Entry, Run, Schedule, Session, Worker

__all__ = [
    "Attempt", "Blocker", "CallbackSecret", "Chunk", "Effect", "Entry", "Environment", "Epoch", "Event",
    "Evidence", "EvidenceFile", "Grant", "Instance", "Membership", "Now", "Policy", "Refusal", "Request", "Response",
    "Role", "Run", "Schedule", "Session", "Tenant", "TenantKey", "TenantRow", "Worker",
]  # fmt: skip
