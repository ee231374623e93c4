"""What jobs with nobody on the line could not get, and the forms that give it to their next run (R33, R34)."""

from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from runtime_app import permissions, selectors, transitions
from runtime_app.errors import InvalidInput, InvalidResponse, NotFound, SaysoError
from runtime_app.ids import uuid7
from runtime_app.models import Blocker
from runtime_app.transitions.blocking import given

from .. import forms
from ..pages import SeeOther, in_tenant, page
from .errors import heading
from .requests import refusals


@require_safe
@in_tenant
def index(request):
    found, rest, after = selectors.blockers(request.context, last=request.GET.get("before"))
    return page(request, "blockers.html", blockers=found, rest=rest, after=after, topic="inbox")


@require_safe
@in_tenant
def show(request, blocker_id):
    return card(request, blocker_id)


def card(request, blocker_id, status=200, error=None):
    found = selectors.blocker_page(request.context, blocker_id)
    facts = {"found": found, "blocker": found.blocker, "run": found.run, "error": error, "response_id": uuid7()}
    facts |= about(request, found)
    facts["kept"] = forms.typed(request.POST, found.blocker.schema) if error else {}
    facts["topic"] = f"s/{found.run.session_id}"
    facts["refused"] = heading(error) if error and not isinstance(error, InvalidResponse | InvalidInput) else ""
    return page(request, "blocker.html", status, seq=found.run.session.last_seq, **facts)


def about(request, found) -> dict:
    """The Request its successor will have, and who may answer it now; nothing where there is nothing to give."""
    blocker, run = found.blocker, found.run
    if blocker.kind == "wait_effect" or blocker.child or blocker.over or found.newer and found.newer.over:
        return {}
    asked = given(blocker, run)
    asked.environment, asked.run = run.environment, run
    voted = {each.user_id for each in found.votes}
    could = sorted(name for pk, name in permissions.entitled(asked).items() if pk not in voted)
    why_not = permissions.why_not(request.context, asked, request.held)
    return {"asked": asked, "why_not": why_not, "could": could}


@in_tenant
def supply(request, blocker_id):
    if request.method != "POST":
        return redirect("blocker", request.tenant.slug, blocker_id)
    try:
        with refusals(request, "supply", blocker_id):
            blocker = permissions.find(Blocker, request.context, blocker_id)
            said = forms.supply(forms.fields(request), blocker)
        transitions.supply(request.context, blocker_id=blocker_id, **said)
    except NotFound:
        raise
    except SaysoError as error:
        return card(request, blocker_id, error.status, error)
    return SeeOther("blocker", request.tenant.slug, blocker_id)
