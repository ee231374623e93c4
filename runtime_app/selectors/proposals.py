"""A Run that is one Request, as its own agent reads it; and the Instances that a provisioner token made."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ..errors import NotFound
from ..ids import parse_id
from ..models import Grant, Instance, Now, Receiver, Request, Response
from ..permissions import Context, visible


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


def _proposals(context: Context, id):
    rows = visible(Request, context).filter(kind="wait_approval", run__single=True)
    return rows.filter(pk=parse_id(id) or UUID(int=0))


def proposed(context: Context, id) -> None:
    """NotFound for every Request that is not this agent's, or not a Run of its own."""
    if not _proposals(context, id).exists():
        raise NotFound


def proposal(context: Context, id) -> Proposal:
    """As it is now. NotFound as in `proposed`."""
    request = _proposals(context, id).select_related("run").annotate(now=Now()).first()
    if request is None:
        raise NotFound
    if request.state == "pending":
        past = request.expires_at <= request.now
        return Proposal(request, *("expired", request.expires_at) if past else ("pending", None))
    if request.state != "resolved":
        return Proposal(request, "expired" if request.state == "expired" else "cancelled", request.resolved_at)
    vote = {"approved": "approve", "denied": "deny"}[request.outcome]
    said = Response.objects.filter(request_id=request.pk, kind=vote, spent_at=None).order_by("-at").first()
    grant = Grant.objects.filter(request_id=request.pk).first()
    return Proposal(request, request.outcome, request.resolved_at, grant, said)


def provisioned_instance(context: Context, id) -> tuple[Instance, Receiver | None]:
    """One that this provisioner token made and nobody deleted, and where it is told. NotFound for every other."""
    found = visible(Instance, context).filter(pk=parse_id(id) or UUID(int=0), deleted_at=None).first()
    if found is None:
        raise NotFound
    return found, Receiver.objects.filter(instance_id=found.pk, removed_at=None).first()
