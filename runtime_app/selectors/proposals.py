"""A Run that is one Request, as its own agent reads it; and the Instances that a provisioner token made."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from .. import clock, statements
from ..errors import NotFound
from ..ids import parse_id
from ..models import Grant, Instance, Receiver, Request, Response
from ..permissions import Context, seen, visible


@dataclass(frozen=True)
class Proposal:
    """`status`: pending, approved, denied, expired or cancelled, by the clock (R08)."""

    request: Request
    status: str
    decided_at: datetime | None
    grant: Grant | None = None
    said: Response | None = None  # the Response that decided it

    @property
    def final(self) -> bool:
        return self.status != "pending"


def _proposal(context: Context, id) -> Request | None:
    single = "exists (select from runtime_app_run r where r.id = run_id and r.single)"
    return seen(Request, context, f"id = %s and kind = 'wait_approval' and {single}", parse_id(id) or UUID(int=0))


def proposed(context: Context, id) -> None:
    """NotFound for every Request that is not this agent's, or not a Run of its own."""
    if _proposal(context, id) is None:
        raise NotFound


def proposal(context: Context, id) -> Proposal:
    """As it is now. NotFound as in `proposed`."""
    request = _proposal(context, id)
    if request is None:
        raise NotFound
    if request.state == "pending":
        past = request.expires_at <= clock.now()
        return Proposal(request, *("expired", request.expires_at) if past else ("pending", None))
    if request.state != "resolved":
        return Proposal(request, "expired" if request.state == "expired" else "cancelled", request.resolved_at)
    vote = {"approved": "approve", "denied": "deny"}[request.outcome]
    which = "where request_id = %s and kind = %s and spent_at is null order by at desc limit 1"
    said = statements.first(Response, which, request.pk, vote)
    grant = statements.first(Grant, "where request_id = %s", request.pk)
    return Proposal(request, request.outcome, request.resolved_at, grant, said)


def provisioned_instance(context: Context, id) -> tuple[Instance, Receiver | None]:
    """One that this provisioner token made and nobody deleted, and where it is told. NotFound for every other."""
    found = visible(Instance, context).filter(pk=parse_id(id) or UUID(int=0), deleted_at=None).first()
    if found is None:
        raise NotFound
    return found, Receiver.objects.filter(instance_id=found.pk, removed_at=None).first()
