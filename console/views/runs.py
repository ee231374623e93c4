"""Runs: the list, one Run, and cancelling exactly that one."""

from django.http import HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from runtime_app import permissions, selectors, states, transitions
from runtime_app.errors import InvalidInput, InvalidResponse, NotFound, SaysoError
from runtime_app.ids import uuid7
from runtime_app.models import Run
from runtime_app.transitions.refusals import record_refusal

from .. import forms, timeline
from ..pages import SeeOther, filters, in_tenant, page
from .errors import heading


@require_safe
@in_tenant
def index(request):
    asked = filters(request, state=[*states.RUN, "ended"], environment=None, schedule=None)
    found, after = selectors.runs(request.context, **asked, last=request.GET.get("before"))
    places = selectors.environments(request.context)
    return page(request, "runs.html", runs=found, after=after, asked=asked, environments=places, topic="inbox")


@require_safe
@in_tenant
def show(request, run_id):
    found = selectors.run_page(request.context, run_id, request.held)
    drawn = timeline.of(found)
    left = selectors.terminal_result(found.run) if found.ended else None
    return page(request, "run.html", found=found, run=found.run, timeline=drawn, result=left, **_live(found))


@require_safe
@in_tenant
def result(request, run_id):
    """The terminal result as one document; the page shows the same (R31)."""
    return JsonResponse(selectors.terminal_result(permissions.find(Run, request.context, run_id)))


@require_safe
@in_tenant
def trace(request, run_id):
    """What was asked, granted and done, one JSON object a line, for `agentack check`."""
    run = permissions.find(Run, request.context, run_id)
    lines = selectors.as_lines(selectors.trace(run))
    named = {"Content-Disposition": f'attachment; filename="{run.pk}.jsonl"'}
    return HttpResponse(lines, content_type="application/x-ndjson", headers=named)


@in_tenant
def cancel(request, run_id):
    """GET shows what would stop and what cannot; POST cancels."""
    if request.method != "POST":
        return asking(request, run_id)
    try:
        said = read(request, run_id)
        transitions.cancel(request.context, run_id=run_id, response_id=said["response_id"], reason=said["reason"])
    except NotFound:
        raise
    except SaysoError as error:
        return asking(request, run_id, error.status, error)
    return SeeOther("run", request.tenant.slug, run_id)


def read(request, run_id) -> dict:
    try:
        return forms.cancel(forms.fields(request))
    except SaysoError as error:
        record_refusal(request.context, "cancel", error, run_id)
        raise


def asking(request, run_id, status=200, error=None):
    found = selectors.run_page(request.context, run_id, request.held)
    facts = {"found": found, "run": found.run, "error": error, "response_id": uuid7()}
    facts |= {"kept": forms.typed(request.POST) if error else {}, "heading": heading(error) if error else ""}
    facts["wrong"] = isinstance(error, InvalidResponse | InvalidInput)
    return page(request, "cancel.html", status, **facts, **_live(found))


def _live(found) -> dict:
    return {"topic": f"s/{found.run.session_id}", "seq": found.run.session.last_seq}
