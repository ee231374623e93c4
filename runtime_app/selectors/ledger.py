"""The ledger: Effects with their Attempts, their Evidence, and the Request that asks about them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import Count, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from .. import actions, canonical, evidence_files, states
from ..errors import NotAuthorized, NotFound
from ..models import Attempt, Effect, Evidence, EvidenceFile, Grant, Request, Response, Run
from ..permissions import Context, Roles, entitled, may_operate, visible, why_not
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
    why_not: Exception | None  # why the caller may not answer what is asked
    why_not_operate: Exception | None
    could: list[str]
    recovering: list[Run]  # what was started to send it again or to undo it
    undoes: Effect | None
    undone: list[Effect]
    offered: list[dict]
    sides: list[Evidence] = field(default_factory=list)  # of a dispute: what was stated, on either side

    @property
    def compensation(self) -> dict | None:
        """What could be started to undo it, if it happened and nothing that undoes it stands or may stand."""
        stands = [each for each in self.undone if each.state not in ("withdrawn", "not_committed")]
        stands += [run for run in self.recovering if run.recovery == "compensate" and run.state not in states.ENDED]
        free = self.effect.state == "committed" and not (self.effect.compensates_id or self.effect.recovering or stands)
        return next((each for each in self.offered if each["name"] == "compensate"), None) if free else None


def ledger(effects: Iterable[Effect]) -> list[Effect]:
    """The same Effects, each with `attempts` and `evidence` in order, and its files: three queries, whatever their
    number."""
    effects = list(effects)
    by_id = {effect.pk: effect for effect in effects}
    for effect in effects:
        effect.attempts, effect.evidence = [], []
    for attempt in Attempt.objects.filter(effect_id__in=by_id).order_by("effect_id", "number"):
        by_id[attempt.effect_id].attempts.append(attempt)
    for said in Evidence.objects.filter(effect_id__in=by_id).order_by("effect_id", "at", "id"):
        said.files = []
        by_id[said.effect_id].evidence.append(said)
    said = {each.pk: each for effect in effects for each in effect.evidence}
    for file in EvidenceFile.objects.filter(evidence_id__in=[pk for pk in said if said[pk].user_id]).order_by("pk"):
        file.there = evidence_files.there(file.stored)
        said[file.evidence_id].files.append(file)
    for effect in effects:
        _cells(effect)
    return effects


def effects(context: Context, *, state: str = "", environment: str = "", action: str = "", last=None):
    """Debts first, disputed ones before all, up to a bound, on the first page; then the rest, newest first. Returns
    (debts, rest, the id the next page starts after)."""
    rows = visible(Effect, context).select_related("run__parent", "environment", "request")
    if action:
        rows = rows.filter(action_name=action)
    if state:
        rows = rows.filter(state=state)
    if environment:
        rows = rows.filter(environment__name=environment)
    debts = [] if last else list(_hanging(rows.filter(OPEN)).order_by("-disputed", "uncertain_at", "pk")[:MOST])
    rest, after = page(before(rows.exclude(OPEN), context, last, "prepared_at"), PAGE)
    ledger([*debts, *rest])
    for debt in debts:
        above = debt.run.parent
        debt.hangs = (debt.run.state == "waiting") + bool(above and above.state == "waiting") + debt.equal
    return debts, rest, after


def action_names(context: Context) -> list[str]:
    """The names of actions that this tenant has debts of."""
    rows = visible(Effect, context).filter(OPEN)
    return list(rows.order_by("action_name").values_list("action_name", flat=True).distinct()[:MOST])


def next_debt(context: Context, like: Effect) -> UUID | None:
    """The oldest debt of the same action and environment: an outage leaves several, and each is settled by itself."""
    rows = visible(Effect, context).filter(OPEN, action_name=like.action_name, environment_id=like.environment_id)
    return rows.exclude(pk=like.pk).order_by("-disputed", "uncertain_at", "pk").values_list("pk", flat=True).first()


def files_named(stored: Iterable[str]) -> set[str]:
    """Those of these names under which a file beside a statement is kept."""
    return set(EvidenceFile.objects.filter(stored__in=list(stored)).values_list("stored", flat=True))


def files_missing() -> int:
    """How many files that statements name are not among this installation's, whatever became of them."""
    return sum(not evidence_files.there(each) for each in EvidenceFile.objects.values_list("stored", flat=True))


def evidence_file(context: Context, effect_id, file_id) -> EvidenceFile:
    """NotFound as `permissions.find`, also for a file of another Effect."""
    effect = one(Effect, context, effect_id)
    file = one(EvidenceFile, context, file_id, "evidence")
    if file.evidence.effect_id != effect.pk:
        raise NotFound
    return file


def _hanging(rows):
    """With `equal`: how many Runs ask for an equal action meanwhile, which is not done unasked (R24); and how often a
    Run was started to send it again or to undo it."""
    equal = Request.objects.filter(
        tenant_id=OuterRef("tenant_id"), action_hash=OuterRef("action_hash"), kind="wait_approval", state="pending"
    ).exclude(run_id=OuterRef("run_id"))
    counted = equal.order_by().values("tenant_id").annotate(n=Count("run_id", distinct=True)).values("n")
    sent_again = Run.objects.filter(recovers_id=OuterRef("pk")).order_by().values("recovers_id")
    return rows.annotate(
        equal=Coalesce(Subquery(counted), 0),
        recoveries=Coalesce(Subquery(sent_again.annotate(n=Count("pk")).values("n")), 0),
    )


def effect_page(context: Context, id, held: Roles) -> EffectPage:
    effect = one(Effect, context, id, "run__session", "run__instance", "environment", "request")
    return around(context, effect, held)


def around(context: Context, effect: Effect, held: Roles) -> EffectPage:
    """What stands around an Effect that was already found, its own Request and Run with it."""
    ledger([effect])
    asks = Request.objects.filter(effect_id=effect.pk, kind="wait_effect", state="pending").first()
    approvals = Response.objects.filter(request_id=effect.request_id, kind="approve", spent_at=None)
    action = actions.registered(effect.action_name)
    offered = actions.recoveries(action, compensates=effect.compensates_id is not None)
    undone = visible(Effect, context).filter(compensates_id=effect.pk).select_related("request", "run")
    undoes = visible(Effect, context).filter(pk=effect.compensates_id).select_related("request")
    parties = [each for each in effect.evidence if each.finding in ("committed", "not_committed")]
    attested = {each.user_id for each in parties} if effect.disputed else set()
    refused = why_not(context, asks, held) if asks else None
    if asks and not refused and context.user_id in attested:
        refused = NotAuthorized("You attested one side of this dispute. Another operator has to settle it.")
    return EffectPage(
        effect=effect,
        request=effect.request,
        asks=asks,
        grant=Grant.objects.filter(request_id=effect.request_id).first(),
        approvals=list(approvals.order_by("at")),
        recoveries=[each for each in offered if asks and _offered(effect, asks, each["name"])],
        why_not=refused,
        why_not_operate=may_operate(context, effect.environment_id, held),
        could=sorted(name for pk, name in entitled(asks).items() if pk not in attested) if asks else [],
        recovering=list(visible(Run, context).filter(recovers_id=effect.pk).order_by("created_at")[:MOST]),
        undoes=undoes.first() if effect.compensates_id else None,
        undone=list(undone.order_by("prepared_at")[:MOST]),
        sides=parties if effect.disputed else [],
        offered=offered,
    )


def _offered(effect: Effect, asks: Request, name: str) -> bool:
    """Only what is uncertain is sent again, or accepted as such."""
    fits = name == "probe" or effect.state == "uncertain" or name == "compensate" and effect.state == "committed"
    return fits and name in asks.accepts.get("recover", [])


def of_runs(context: Context, runs: Iterable[UUID]) -> list[Effect]:
    """The Effects of these Runs with attempts and evidence, in the order they were prepared: the newest of them."""
    rows = visible(Effect, context).filter(run_id__in=list(runs)).select_related("request", "environment")
    return ledger(reversed(rows.order_by("-prepared_at", "-pk")[:MOST]))


def parameters(stored) -> list[canonical.Leaf]:
    return canonical.leaves(canonical.parse(bytes(stored)))


def _cells(effect: Effect) -> None:
    """What the row of the ledger shows; what should be known and is not stays empty."""
    effect.attempt = effect.attempts[-1] if effect.attempts else None
    for attempt in effect.attempts:
        attempt.evidence = [said for said in effect.evidence if said.attempt_id == attempt.pk]
        attempt.newest = attempt is effect.attempt
    attested = [said for said in effect.evidence if said.user_id]
    effect.owner = effect.recovering_by or (attested[-1].name if attested else "")
    effect.looked = sum(said.source == "probe" for said in effect.evidence)
    settling = [said for said in effect.evidence if said.finding == effect.state]
    effect.settled_by = settling[-1] if settling else None
    effect.open = effect.disputed or (effect.state == "uncertain" and not effect.accepted_at)
    effect.doubtful = effect.disputed or effect.state == "uncertain"
