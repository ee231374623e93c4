"""The tables: fields and constraints, no verbs. A state changes only in `transitions`."""

from .base import Now, TenantKey, TenantRow
from .credentials import Call, Credential
from .deliveries import Delivery, Receiver
from .effects import Attempt, CallbackSecret, Effect, Evidence, EvidenceFile
from .events import Epoch, Event, Refusal
from .policies import Policy
from .registrations import Registration
from .requests import Grant, Request, Response, Secret
from .tenancy import Environment, Instance, Membership, Role, Tenant
from .work import Blocker, Chunk, Entry, Run, Schedule, Session, Worker

__all__ = [
    "Attempt", "Blocker", "Call", "CallbackSecret", "Chunk", "Credential", "Delivery", "Effect", "Entry",
    "Environment", "Epoch", "Event", "Evidence", "EvidenceFile", "Grant", "Instance", "Membership", "Now", "Policy",
    "Receiver", "Refusal", "Registration", "Request", "Response", "Role", "Run", "Schedule", "Secret", "Session",
    "Tenant", "TenantKey", "TenantRow", "Worker",
]  # fmt: skip
