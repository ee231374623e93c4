"""What jobs could not get, and whether it was given (R33, R34)."""

from dataclasses import dataclass

from ..models import Blocker, Run
from ..permissions import Context, visible
from .rows import before, one, page

PAGE = 30
MOST = 100


@dataclass
class BlockerPage:
    blocker: Blocker
    run: Run
    successor: Run | None
    newer: Blocker | None  # an equal one that counts this one
    earlier: list[Blocker]  # equal ones that this one counts


def blockers(context: Context, *, last=None):
    """What can still be given, oldest first, on the first page; then what was given or counted elsewhere, newest first.
    Returns (open, rest, the id the next page starts after)."""
    rows = visible(Blocker, context).select_related("run__session", "run__environment")
    waiting = rows.filter(supplied_at=None, replaced_at=None)
    open_ones = [] if last else list(waiting.order_by("created_at", "pk")[:MOST])
    rest = rows.exclude(supplied_at=None, replaced_at=None)
    found, after = page(before(rest, context, last, "created_at"), PAGE)
    return open_ones, found, after


def blocker_page(context: Context, id) -> BlockerPage:
    """NotFound as `permissions.find`."""
    blocker = one(Blocker, context, id, "run__session", "run__environment", "run__instance")
    successors = visible(Run, context).filter(pk=blocker.successor_run) if blocker.supplied_at else Run.objects.none()
    equal = visible(Blocker, context).filter(same=blocker.same).exclude(pk=blocker.pk).exclude(same="")
    newer = equal.filter(replaced_at=None, created_at__gt=blocker.created_at).order_by("-created_at")
    older = equal.filter(replaced_at__isnull=False, created_at__lt=blocker.created_at).order_by("-created_at")
    return BlockerPage(
        blocker, blocker.run, successors.first(), newer.first() if blocker.replaced_at else None, list(older[:MOST])
    )
