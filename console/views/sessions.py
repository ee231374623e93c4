"""Sessions: a thread of messages and Runs, and the form that starts a Run."""

from django.views.decorators.http import require_safe

from runtime_app import selectors, transitions
from runtime_app.errors import Busy, IdempotencyConflict, InvalidInput, InvalidResponse, NotAuthorized, SaysoError
from runtime_app.ids import uuid7
from runtime_app.transitions.refusals import record_refusal

from .. import forms
from ..pages import SeeOther, in_tenant, page

KEEPS = (Busy, IdempotencyConflict, InvalidInput, InvalidResponse, NotAuthorized)  # the form stays, with what was typed


@require_safe
@in_tenant
def index(request):
    found, after = selectors.sessions(request.context, last=request.GET.get("before"))
    return page(request, "sessions.html", sessions=found, after=after)


@in_tenant
def new(request):
    """A Session begins with its first Run."""
    return started(request, None) if request.method == "POST" else beginning(request)


@in_tenant
def show(request, session_id):
    """GET shows it; POST starts a Run with a message in it (R10)."""
    return started(request, session_id) if request.method == "POST" else thread(request, session_id)


def started(request, session_id):
    try:
        run = transitions.start(request.context, session_id=session_id, **read(request))
    except KEEPS as error:
        if session_id is None:
            return beginning(request, error.status, error)
        return thread(request, session_id, error.status, error)
    return SeeOther("run", request.tenant.slug, run.pk)


def read(request) -> dict:
    try:
        return forms.start(forms.fields(request))
    except SaysoError as error:
        record_refusal(request.context, "start", error)
        raise


def beginning(request, status=200, error=None):
    places = selectors.places(request.context, request.held)
    return page(request, "begin.html", status, places=places, error=error, kept=_kept(request, error), start_id=uuid7())


def thread(request, session_id, status=200, error=None):
    found = selectors.session_page(request.context, session_id, request.held, last=request.GET.get("before"))
    facts = {"found": found, "session": found.session, "places": found.places, "topic": f"s/{found.session.pk}"}
    facts |= {"seq": found.session.last_seq, "error": error, "kept": _kept(request, error), "start_id": uuid7()}
    return page(request, "session.html", status, **facts)


def _kept(request, error):
    return forms.typed(request.POST) if error else {}
