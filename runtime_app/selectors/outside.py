"""What agents elsewhere and other front ends read: Runs, Requests and Effects, each with what stands around it."""

from dataclasses import dataclass, field
from uuid import UUID

from .. import states
from ..ids import parse_id
from ..models import Effect, Grant, Now, Request, Response, Run, Session
from ..permissions import Context, visible, who_could
from .ledger import ledger, of_runs
from .rows import before, one, page

MOST = 100  # Requests and Effects of one Run that are told with it: the newest, where what still waits is


@dataclass
class Asked:
    """One Request and what came of it. `stands`: its state by the clock (R08)."""

    request: Request
    stands: str
    response: Response | None = None
    grant: Grant | None = None
    effect: Effect | None = None
    could: list[str] = field(default_factory=list)


@dataclass
class Told:
    """One Run with everything it stopped at and everything it did or may have done."""

    run: Run
    requests: list[Asked]
    effects: list[Effect]


def asked(context: Context, id) -> Asked:
    """NotFound as `permissions.find`."""
    request = one(Request, context, id, "run", "environment", "effect")
    found = around([request])[0]
    if found.stands == "pending":
        found.could = who_could(request)
    return found


def raised(context: Context, run_id, key: str) -> set:
    """The Requests of this Run that there are under this key of the agent's."""
    rows = visible(Request, context).filter(run_id=parse_id(run_id) or UUID(int=0), key=key)
    return set(rows.values_list("pk", flat=True))


def told(context: Context, id) -> Told:
    """NotFound as `permissions.find`."""
    run = one(Run, context, id, "session", "environment")
    requests = visible(Request, context).filter(run_id=run.pk).select_related("environment", "effect")
    requests = list(requests.order_by("-created_at", "-id")[:MOST])[::-1]
    for request in requests:
        request.run = run
    return Told(run, around(requests), of_runs(context, [run.pk]))


def around(requests: list[Request]) -> list[Asked]:
    """Each with what resolved it, its Grant and its Effect: four queries, whatever their number."""
    ids = [request.pk for request in requests]
    now = Request.objects.filter(pk__in=ids[:1]).values_list(Now(), flat=True).first()
    found = {request.pk: Asked(request, _stands(request, now)) for request in requests}
    resolved = [request.pk for request in requests if request.state == "resolved"]
    approved = [request.pk for request in requests if request.outcome == "approved"]
    for response in Response.objects.filter(request_id__in=resolved, spent_at=None).order_by("at", "id"):
        found[response.request_id].response = response
    for grant in Grant.objects.filter(request_id__in=approved):
        found[grant.request_id].grant = grant
    for effect in Effect.objects.filter(request_id__in=approved):
        found[effect.request_id].effect = effect
    for each in found.values():
        each.effect = each.effect or (each.request.effect if each.request.kind == "wait_effect" else None)
    return list(found.values())


def _stands(request: Request, now) -> str:
    past = request.state == "pending" and request.expires_at is not None and request.expires_at <= now
    return "expired" if past else request.state


def runs_before(context: Context, *, state: str = "", last=None, limit: int = 30):
    """Newest first. Returns (Runs, the id that the next page starts after, or None)."""
    rows = visible(Run, context).select_related("environment")
    if state:
        rows = rows.filter(state__in=states.ENDED if state == "ended" else [state])
    return page(before(rows, context, last, "created_at"), limit)


def sessions_before(context: Context, *, last=None, limit: int = 30):
    """Newest first. Returns (Sessions, the id that the next page starts after, or None)."""
    return page(before(visible(Session, context), context, last, "created_at"), limit)


def effect(context: Context, id) -> Effect:
    """NotFound as `permissions.find`."""
    return ledger([one(Effect, context, id, "request", "environment")])[0]
