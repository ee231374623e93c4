"""Schedules: jobs that start by the clock, paused and started again."""

from django.views.decorators.http import require_safe

from runtime_app import jobs, selectors, transitions
from runtime_app.models import Schedule

from .. import forms
from ..pages import in_tenant, page
from .reasoned import reasoned


@require_safe
@in_tenant
def index(request):
    return listed(request)


def listed(request, status=200, error=None, of=None):
    found = selectors.schedules(request.context, request.held)
    for each in found:
        each.next = jobs.next_time(each.cron) if each.active else None
    facts = {"schedules": found, "error": error, "of": of, "kept": forms.typed(request.POST) if error else {}}
    return page(request, "schedules.html", status, topic="inbox", **facts)


def say_pause(context, row, **said):
    transitions.pause(context, schedule_id=row.pk, **said)


def say_unpause(context, row, **said):
    transitions.unpause(context, schedule_id=row.pk, **said)


pause = reasoned(Schedule, "schedules", "pause", say_pause, listed)
unpause = reasoned(Schedule, "schedules", "unpause", say_unpause, listed)
