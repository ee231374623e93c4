"""Schedules: what starts by the clock, as whom, and what its last Run came to."""

from django.db.models import Count, OuterRef, Subquery
from django.db.models.functions import Coalesce

from ..models import Run, Schedule
from ..permissions import Context, Roles, may_operate, person, visible
from .work import with_doubts, with_waits

MOST = 100


def active_schedules() -> list[tuple]:
    """Id and cron of every active Schedule, for the clock."""
    return list(Schedule.objects.filter(active=True).values_list("pk", "cron").order_by("pk"))


def schedules(context: Context, held: Roles) -> list[Schedule]:
    """Those that start something first. Each with `last`, its newest Run or None, `started`, how many there were,
    `whose`, as whom they start, and `why_not`, why the caller may not pause it."""
    runs = Run.objects.filter(schedule_id=OuterRef("pk"), parent_id=None)
    counted = runs.order_by().values("schedule_id").annotate(n=Count("pk")).values("n")
    rows = visible(Schedule, context).select_related("environment", "set_by")
    rows = rows.annotate(
        newest=Subquery(runs.order_by("-created_at", "-pk").values("pk")[:1]), started=Coalesce(Subquery(counted), 0)
    )
    found = list(rows.order_by("-active", "agent", "environment__name", "pk")[:MOST])
    newest = with_doubts(Run.objects.filter(pk__in=[each.newest for each in found]).select_related("environment"))
    by_id = {run.pk: run for run in with_waits(context, newest)}
    for each in found:
        each.whose = person(each.set_by).name
        each.last = by_id.get(each.newest)
        each.why_not = may_operate(context, each.environment_id, held)
    return found
