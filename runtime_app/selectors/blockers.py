"""What jobs could not get, and whether it was given (R33, R34)."""

from dataclasses import dataclass

from django.db.models import Count, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from ..models import Blocker, Response, Run
from ..permissions import Context, visible
from .rows import before, one, page

PAGE = 30
MOST = 100


@dataclass
class BlockerPage:
    blocker: Blocker
    run: Run
    successor: Run | None
    newer: Blocker | None  # an equal one that counts this one, or was given since, or denied
    earlier: list[Blocker]  # equal ones that this one counts
    lacking: Blocker | None  # of a child: what is given there is given here (R28)
    parents: list[Run]  # whose children, one below the other, met this; the nearest first
    votes: list[Response]  # those that count, before as many are there as the policy asks for
    voted: bool  # by the caller

    @property
    def approvals(self) -> int:
        return sum(each.kind == "approve" for each in self.votes)

    @property
    def denials(self) -> int:
        return sum(each.kind == "deny" for each in self.votes)


def blockers(context: Context, *, last=None):
    """What can still be given, oldest first, on the first page; then what was given or counted elsewhere, newest first.
    Returns (open, rest, the id the next page starts after)."""
    approvals = Response.objects.filter(blocker_id=OuterRef("pk"), kind="approve", spent_at=None).order_by()
    counted = Subquery(approvals.values("blocker").annotate(n=Count("pk")).values("n"))
    rows = visible(Blocker, context).select_related("run__session", "run__environment")
    rows = rows.annotate(approvals=Coalesce(counted, 0))
    rows = rows.filter(child=None)  # a child's is its parent's, and shown once (R28)
    waiting = rows.filter(Blocker.OPEN)
    open_ones = [] if last else list(waiting.order_by("created_at", "pk")[:MOST])
    rest = rows.exclude(Blocker.OPEN)
    found, after = page(before(rest, context, last, "created_at"), PAGE)
    return open_ones, found, after


def blocker_page(context: Context, id) -> BlockerPage:
    """NotFound as `permissions.find`."""
    blocker = one(Blocker, context, id, "run__session", "run__environment", "run__instance")
    successors = visible(Run, context).filter(pk=blocker.successor_run) if blocker.supplied_at else Run.objects.none()
    equal = visible(Blocker, context).filter(same=blocker.same).exclude(pk=blocker.pk).exclude(same="")
    since = Q(supplied_at__gte=blocker.created_at) | Q(denied_at__gte=blocker.created_at)
    counting = equal.filter(replaced_at=None, created_at__gt=blocker.created_at).order_by("-created_at")
    older = equal.filter(replaced_at__isnull=False, created_at__lt=blocker.created_at).order_by("-created_at")
    votes = list(Response.objects.filter(blocker_id=blocker.pk, spent_at=None).order_by("at", "pk"))
    return BlockerPage(
        blocker=blocker,
        run=blocker.run,
        successor=successors.first(),
        newer=equal.filter(since).first() or counting.first() if blocker.replaced_at else None,
        earlier=list(older[:MOST]),
        lacking=_lacking(context, blocker),
        parents=_parents(context, blocker.run),
        votes=votes,
        voted=any(each.user_id == context.user_id for each in votes),
    )


def _lacking(context: Context, blocker: Blocker) -> Blocker | None:
    """The Blocker, below, of the Run that met what this one names."""
    found = None
    while blocker and blocker.child:
        blocker = found = visible(Blocker, context).filter(run_id=blocker.child).first()
    return found


def _parents(context: Context, run: Run) -> list[Run]:
    found = []
    while run and run.parent_id:
        run = visible(Run, context).filter(pk=run.parent_id).select_related("session", "environment").first()
        if run:
            found.append(run)
    return found
