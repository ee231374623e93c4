"""Environments: which are held, by whom, and what waits behind a hold (R16)."""

from django.db.models import Count, OuterRef, Subquery
from django.db.models.functions import Coalesce

from ..models import Effect, Environment, Grant, Request
from ..permissions import Context, Roles, may_operate, visible


def held_places(context: Context, held: Roles) -> list[Environment]:
    """Every Environment, held ones first: `granted` and `asked` count what waits to be sent and to be decided there;
    `why_not` is why the caller may not hold or release it."""
    granted = Grant.objects.filter(state="unused", request__environment_id=OuterRef("pk"))
    asked = Request.objects.filter(kind="wait_approval", state="pending", environment_id=OuterRef("pk"))
    rows = visible(Environment, context).annotate(
        granted=_count(granted, "request__environment_id"), asked=_count(asked, "environment_id")
    )
    found = sorted(rows, key=lambda each: (each.held_at is None, each.name))
    for each in found:
        each.why_not = may_operate(context, each.pk, held)
    return found


def behind(context: Context, environments: list[Environment]) -> dict:
    """The first prepared Effects of each of these Environments, by its id: what a release lets go."""
    rows = visible(Effect, context).filter(state="prepared", environment_id__in=[each.pk for each in environments])
    found = {}
    for effect in rows.select_related("run__session", "request").order_by("prepared_at")[:100]:
        found.setdefault(effect.environment_id, []).append(effect)
    return found


def _count(rows, by: str):
    return Coalesce(Subquery(rows.order_by().values(by).annotate(n=Count("pk")).values("n")), 0)
