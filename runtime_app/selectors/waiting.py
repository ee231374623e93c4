"""What waits for whom: the inbox, the numbers in the header, what was decided lately."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db.models import BooleanField, Count, Exists, ExpressionWrapper, OuterRef, Q, Subquery, Window
from django.db.models.functions import Coalesce, RowNumber

from ..models import Credential, Epoch, Now, Request, Response, Tenant, Worker
from ..permissions import NEEDED, Context, Roles, visible

MOST = 200  # pending Requests of one kind of list; nobody reads more on a page
LAST = datetime.max.replace(tzinfo=UTC)
SILENT = 3  # beats a live worker may miss


@dataclass
class Inbox:
    """Pending Requests the caller sees: those they may answer first. Soonest deadline first, then those without one."""

    for_you: list[Request]
    for_others: list[Request]
    unknown: list[Request]
    rest: list[Request]  # all that is for others, debts among it
    more: bool

    @property
    def all(self) -> int:
        return len(self.for_you) + len(self.rest)


@dataclass
class Shell:
    """What the header says: Requests the caller may answer, debts of the tenant counted apart, the clock, a live worker
    or none, and the newest epoch of this installation."""

    requests: int
    debts: int
    now: datetime
    worker: bool
    epoch: int
    epoch_began: datetime
    epoch_why: str
    epoch_released: datetime | None

    @property
    def restored(self) -> bool:
        """Nothing is sent until a person says so (R27)."""
        return self.epoch > 1 and self.epoch_released is None


@dataclass
class Group:
    """Rows of one deadline range."""

    name: str
    note: str
    rows: list = field(default_factory=list)


def pending(context: Context):
    """What waits now: expired is read from the clock, not from the sweep (R08)."""
    return visible(Request, context).filter(Q(expires_at=None) | Q(expires_at__gt=Now()), state="pending")


def inbox(context: Context, held: Roles) -> Inbox:
    """One query, whatever the number of rows. Of more than can be listed those the caller may answer are, and of these
    some of each kind and of each agent: however many one agent asks, it hides nobody else's, and no debt (T93)."""
    soonest = ("expires_at", "created_at", "id")
    place = Window(RowNumber(), partition_by=["kind", "run__instance_id"], order_by=soonest)
    rows = list(
        pending(context)
        .select_related("run", "environment", "effect__request", "run__session")
        .annotate(mine=mine(context, held), approvals=votes("approve"), place=place)
        .order_by("-mine", "place", *soonest)[: MOST + 1]
    )
    more = len(rows) > MOST
    rows = sorted(rows[:MOST], key=lambda row: (row.expires_at or LAST, row.created_at, row.pk))
    return Inbox(
        for_you=[row for row in rows if row.mine],
        for_others=[row for row in rows if not row.mine and row.kind != "wait_effect"],
        unknown=[row for row in rows if row.kind == "wait_effect"],
        rest=[row for row in rows if not row.mine],
        more=more,
    )


def decided(context: Context, limit: int = 50) -> list[Request]:
    """What was resolved lately, newest first."""
    return list(
        visible(Request, context)
        .exclude(state="pending")
        .select_related("run", "environment", "effect__request")
        .order_by("-resolved_at", "-id")[:limit]
    )


def shell(context: Context, held: Roles) -> Shell:
    """One query for everything the header shows."""
    waiting = pending(context).order_by().values("tenant")
    yours = waiting.exclude(kind="wait_effect").filter(mine(context, held)).annotate(n=Count("pk")).values("n")
    debts = waiting.filter(kind="wait_effect").annotate(n=Count("pk")).values("n")
    epoch = Epoch.objects.order_by("-number")
    return Shell(
        **Tenant.objects.filter(pk=context.tenant_id)
        .annotate(
            requests=Coalesce(Subquery(yours), 0),
            debts=Coalesce(Subquery(debts), 0),
            now=Now(),
            worker=Exists(alive()),
            epoch=Subquery(epoch.values("number")[:1]),
            epoch_began=Subquery(epoch.values("began_at")[:1]),
            epoch_why=Subquery(epoch.values("why")[:1]),
            epoch_released=Subquery(epoch.values("released_at")[:1]),
        )
        .values("requests", "debts", "now", "worker", "epoch", "epoch_began", "epoch_why", "epoch_released")
        .get()
    )


def workers_alive() -> bool:
    """Whether any worker has beaten lately. Without one nothing moves, and the pages say so."""
    return alive().exists()


def mine(context: Context, held: Roles):
    """The condition under which the caller may respond now. It says in SQL what `permissions.why_not` says of one
    Request, and that they have not voted yet; a test holds the two together (R21)."""
    if context.user_id is None:
        return ExpressionWrapper(Q(pk=None), output_field=BooleanField())
    may = Q(pk=None)
    for kind, role in NEEDED.items():
        may |= Q(kind=kind) & _where(held, role)
    for role in ("approver", "operator", "admin"):
        may |= Q(kind="wait_approval", policy__role=role, policy__fresh_sign_in=False) & _where(held, role)
    staked = (
        Q(run__initiator_id=context.user_id)
        | Q(run__instance__owner_id=context.user_id)
        | Q(run__schedule__set_by_id=context.user_id)
        | Exists(
            Credential.objects.filter(
                Q(instance_id=OuterRef("run__instance_id")) | Q(pk=OuterRef("run__instance__provisioner_id")),
                made_by_id=context.user_id,
            )
        )
        | Exists(
            Response.objects.filter(
                run_id=OuterRef("run_id"),
                user_id=context.user_id,
                kind="deny",
                request__action_name=OuterRef("action_name"),
            ).exclude(suggestion="")
        )
    )
    admitted = Q(policy__allow_stake=True, environment__protected=False)
    voted = Exists(
        Response.objects.filter(
            request_id=OuterRef("pk"), user_id=context.user_id, kind__in=["approve", "deny"], spent_at=None
        )
    )
    free = ~Q(kind="wait_approval") | (admitted | ~staked) & ~voted
    return ExpressionWrapper(may & free, output_field=BooleanField())


def votes(kind: str):
    """How many Responses of this kind count on the Request now."""
    found = Response.objects.filter(request_id=OuterRef("pk"), kind=kind, spent_at=None).order_by().values("request")
    return Coalesce(Subquery(found.annotate(n=Count("pk")).values("n")), 0)


def _where(held: Roles, role: str) -> Q:
    places = [environment for name, environment in held.held if name == role]
    if None in places:
        return Q()
    return Q(environment_id__in=places) if places else Q(pk=None)


def alive():
    """Workers that have beaten lately."""
    return Worker.objects.filter(seen_at__gt=Now() - timedelta(seconds=max(15, SILENT * settings.SAYSO_BEAT_SECONDS)))
