"""The page of one Request and the three forms that answer it."""

from contextlib import contextmanager
from dataclasses import replace

from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from runtime_app import permissions, selectors, transitions
from runtime_app.errors import InvalidInput, InvalidResponse, NotFound, SaysoError
from runtime_app.ids import uuid7
from runtime_app.models import Request
from runtime_app.responses import Finding
from runtime_app.transitions.refusals import record_refusal

from .. import forms, uploads
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
    kept = forms.typed(request.POST, found.request.schema) if error else {}
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
    with refusals(request, "respond", request_id):
        said = read(forms.fields(request), permissions.find(Request, request.context, request_id))
    return transitions.respond(request.context, resume=said)


@contextmanager
def refusals(request, verb: str, target: str):
    """What is refused before a transition is called is written down as well."""
    try:
        yield
    except SaysoError as error:
        record_refusal(request.context, verb, error, target)
        raise


def refused(request, request_id, error):
    """Wrong content: the form again. Too late, changed or not allowed: what stands now, in the place of the card."""
    if isinstance(error, InvalidResponse | InvalidInput):
        return card(request, request_id, error.status, error)
    found = selectors.card(request.context, request_id, request.held)
    kept = forms.written(request.POST, found.request.schema)
    facts = {"card": found, "asked": found.request, "run": found.run, "error": error, "heading": heading(error)}
    return page(request, "late.html", error.status, kept=kept, **facts)


answer = posted(forms.answer)
decide = posted(forms.decision)


@uploads.takes_files
@in_tenant
def find(request, request_id):
    """What was established, with files that show it; or a recovery action to start."""
    if request.method != "POST":
        return redirect("request", request.tenant.slug, request_id)
    try:
        establish(request, request_id)
    except NotFound:
        raise
    except SaysoError as error:
        return refused(request, request_id, error)
    if request.POST.get("desk"):
        return next_on_desk(request, request_id)
    return SeeOther("request", request.tenant.slug, request_id)


def establish(request, request_id):
    with refusals(request, "respond", request_id):
        said = forms.finding(forms.fields(request, "files"), permissions.find(Request, request.context, request_id))
    if not isinstance(said.response, Finding):
        return transitions.respond(request.context, resume=said)
    with uploads.kept(request) as files:
        said = replace(said, response=replace(said.response, files=files))
        return transitions.respond(request.context, resume=said)


def next_on_desk(request, request_id):
    """Back at the list, where the next one of the same outage is open: each is settled by itself."""
    asked = permissions.find(Request, request.context, request_id)
    like = selectors.next_debt(request.context, asked.effect)
    return SeeOther("effects", request.tenant.slug, query=f"?open={like}#settle" if like else "")


@in_tenant
def void(request, request_id):
    """Take back an approval that was not used."""
    if request.method != "POST":
        return redirect("request", request.tenant.slug, request_id)
    try:
        with refusals(request, "void", request_id):
            permissions.find(Request, request.context, request_id)
            said = forms.reason(forms.fields(request))
        transitions.void(request.context, request_id=request_id, **said)
    except NotFound:
        raise
    except SaysoError as error:
        return refused(request, request_id, error)
    return SeeOther("request", request.tenant.slug, request_id)
