"""The ledger: Effects with their Attempts, their Evidence, and the Request that asks about them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import Q

from .. import actions, canonical
from ..models import Attempt, Effect, Evidence, Grant, Request, Response
from ..permissions import Context, Roles, visible, why_not
from .rows import before, one, page

PAGE = 30
MOST = 100

OPEN = Q(state="uncertain", accepted_at=None) | Q(disputed=True)


@dataclass
class EffectPage:
    """Everything the page of one Effect shows."""

    effect: Effect
    request: Request  # whose approval prepared it
    asks: Request | None  # the pending wait_effect
    grant: Grant | None
    approvals: list[Response]
    recoveries: list[dict]
    why_not: Exception | None
    could: list[str] = field(default_factory=list)


def ledger(effects: Iterable[Effect]) -> list[Effect]:
    """The same Effects, each with `attempts` and `evidence` in order: two queries, whatever their number."""
    effects = list(effects)
    by_id = {effect.pk: effect for effect in effects}
    for effect in effects:
        effect.attempts, effect.evidence = [], []
    for attempt in Attempt.objects.filter(effect_id__in=by_id).order_by("effect_id", "number"):
        by_id[attempt.effect_id].attempts.append(attempt)
    for said in Evidence.objects.filter(effect_id__in=by_id).order_by("effect_id", "at", "id"):
        by_id[said.effect_id].evidence.append(said)
    for effect in effects:
        _cells(effect)
    return effects


def effects(context: Context, *, state: str = "", environment: str = "", last=None):
    """Debts first, all of them up to a bound, on the first page; then the rest, newest first. Returns
    (debts, rest, the id the next page starts after)."""
    rows = visible(Effect, context).select_related("run", "environment", "request")
    if state:
        rows = rows.filter(state=state)
    if environment:
        rows = rows.filter(environment__name=environment)
    debts = [] if last else list(rows.filter(OPEN).order_by("uncertain_at", "pk")[:MOST])
    rest, after = page(before(rows.exclude(OPEN), context, last, "prepared_at"), PAGE)
    ledger([*debts, *rest])
    return debts, rest, after


def effect_page(context: Context, id, held: Roles) -> EffectPage:
    effect = one(Effect, context, id, "run__session", "run__instance", "environment", "request")
    return around(context, effect, held)


def around(context: Context, effect: Effect, held: Roles) -> EffectPage:
    """What stands around an Effect that was already found, its own Request and Run with it."""
    ledger([effect])
    asks = Request.objects.filter(effect_id=effect.pk, kind="wait_effect", state="pending").first()
    approvals = Response.objects.filter(request_id=effect.request_id, kind="approve", spent_at=None)
    offered = actions.recoveries(actions.registered(effect.action_name))
    return EffectPage(
        effect=effect,
        request=effect.request,
        asks=asks,
        grant=Grant.objects.filter(request_id=effect.request_id).first(),
        approvals=list(approvals.order_by("at")),
        recoveries=[each for each in offered if asks and each["name"] in asks.accepts.get("recover", [])],
        why_not=why_not(context, asks, held) if asks else None,
    )


def of_runs(context: Context, runs: Iterable[UUID]) -> list[Effect]:
    """The Effects of these Runs with attempts and evidence, in the order they were prepared."""
    rows = visible(Effect, context).filter(run_id__in=list(runs)).select_related("request", "environment")
    return ledger(rows.order_by("prepared_at", "pk")[:MOST])


def parameters(stored) -> list[canonical.Leaf]:
    return canonical.leaves(canonical.parse(bytes(stored)))


def _cells(effect: Effect) -> None:
    """What the row of the ledger shows; what should be known and is not stays empty."""
    effect.attempt = effect.attempts[-1] if effect.attempts else None
    settling = [said for said in effect.evidence if said.finding == effect.state]
    effect.settled_by = settling[-1] if settling else None
    effect.open = effect.disputed or (effect.state == "uncertain" and not effect.accepted_at)
    effect.doubtful = effect.disputed or effect.state == "uncertain"
