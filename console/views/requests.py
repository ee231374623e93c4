"""The page of one Request and the three forms that answer it."""

from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from runtime_app import permissions, selectors, transitions
from runtime_app.errors import InvalidInput, InvalidResponse, NotFound, SaysoError
from runtime_app.ids import uuid7
from runtime_app.models import Request
from runtime_app.transitions.refusals import record_refusal

from .. import forms
from ..pages import SeeOther, in_tenant, page
from .errors import heading

TEMPLATES = {"wait_user": "question.html", "wait_approval": "decision.html", "wait_effect": "unknown.html"}


@require_safe
@in_tenant
def show(request, request_id):
    return card(request, request_id)


def card(request, request_id, status=200, error=None):
    """The Request as it stands. After a refusal of what was typed: with that, and what is wrong with it."""
    found = selectors.card(request.context, request_id, request.held)
    kept = forms.typed(request.POST) if error else {}
    facts = {"card": found, "asked": found.request, "run": found.run, "topic": f"s/{found.run.session_id}"}
    facts |= {"seq": found.run.session.last_seq, "error": error, "kept": kept, "response_id": uuid7()}
    return page(request, TEMPLATES[found.request.kind], status, **facts)


def posted(read):
    """A view that reads one kind of form and says it to the Request."""

    @in_tenant
    def view(request, request_id):
        if request.method != "POST":
            return redirect("request", request.tenant.slug, request_id)
        try:
            respond(request, request_id, read)
        except NotFound:
            raise
        except SaysoError as error:
            return refused(request, request_id, error)
        return SeeOther("request", request.tenant.slug, request_id)

    return view


def respond(request, request_id, read):
    """Say what was posted. A form that cannot be read is a refusal like any other (R13)."""
    try:
        said = read(forms.fields(request), permissions.find(Request, request.context, request_id))
    except SaysoError as error:
        record_refusal(request.context, "respond", error, request_id)
        raise
    return transitions.respond(request.context, resume=said)


def refused(request, request_id, error):
    """Wrong content: the form again. Too late, changed or not allowed: what stands now, in the place of the card."""
    if isinstance(error, InvalidResponse | InvalidInput):
        return card(request, request_id, error.status, error)
    found = selectors.card(request.context, request_id, request.held)
    kept = forms.written(request.POST)
    facts = {"card": found, "asked": found.request, "run": found.run, "error": error, "heading": heading(error)}
    response = page(request, "late.html", error.status, kept=kept, **facts)
    if "retry_after" in error.facts:
        response["Retry-After"] = str(error.facts["retry_after"])
    return response


answer = posted(forms.answer)
decide = posted(forms.decision)
find = posted(forms.finding)
