"""Schedules: jobs that start by the clock, paused and started again."""

from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from runtime_app import jobs, permissions, selectors, transitions
from runtime_app.errors import NotFound, SaysoError
from runtime_app.models import Schedule

from .. import forms
from ..pages import SeeOther, in_tenant, page
from .requests import refusals


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


def posted(verb: str, say):
    @in_tenant
    def view(request, schedule_id):
        with refusals(request, verb, schedule_id):
            schedule = permissions.find(Schedule, request.context, schedule_id)
        if request.method != "POST":
            return redirect("schedules", request.tenant.slug)
        try:
            with refusals(request, verb, schedule_id):
                said = forms.reason(forms.fields(request))
            say(request.context, schedule_id=schedule.pk, **said)
        except NotFound:
            raise
        except SaysoError as error:
            return listed(request, error.status, error, schedule.pk)
        return SeeOther("schedules", request.tenant.slug)

    return view


pause = posted("pause", transitions.pause)
unpause = posted("unpause", transitions.unpause)
