"""The desk: Effects whose outcome is open, the ledger of all, and one Effect with what is known and can be tried."""

from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from runtime_app import evidence_files, permissions, selectors, states, transitions
from runtime_app.errors import InvalidInput, InvalidResponse, NotFound, SaysoError
from runtime_app.ids import uuid7
from runtime_app.models import Effect

from .. import forms, uploads
from ..pages import SeeOther, filters, in_tenant, page
from .errors import heading
from .requests import refusals


@require_safe
@in_tenant
def index(request):
    """Debts first. One of them may be open in the list, with its own form and evidence."""
    asked = filters(request, state=list(states.EFFECT), environment=None, action=None)
    debts, rest, after = selectors.effects(request.context, **asked, last=request.GET.get("before"))
    open_one = next((each for each in debts if str(each.pk) == request.GET.get("open")), None)
    found = selectors.effect_page(request.context, open_one.pk, request.held) if open_one else None
    facts = {"debts": debts, "effects": rest, "after": after, "asked": asked, "now_open": found}
    facts["environments"] = selectors.environments(request.context)
    facts["actions"] = selectors.action_names(request.context)
    return page(request, "effects.html", topic="inbox", kept={}, response_id=uuid7(), **facts)


@require_safe
@in_tenant
def show(request, effect_id):
    return ledger(request, effect_id)


def ledger(request, effect_id, status=200, error=None):
    """One Effect as it stands. After a refusal: with what was typed, and what is wrong with it."""
    found = selectors.effect_page(request.context, effect_id, request.held)
    run = found.effect.run
    facts = {"ledger": found, "effect": found.effect, "run": run, "asked": found.asks, "response_id": uuid7()}
    facts |= {"error": error, "kept": forms.typed(request.POST) if error else {}}
    facts["refused"] = heading(error) if error and not isinstance(error, InvalidResponse | InvalidInput) else ""
    return page(request, "effect.html", status, topic=f"s/{run.session_id}", seq=run.session.last_seq, **facts)


def posted(verb: str, say):
    """A view that finds the Effect, says what was posted about it, and shows it again."""

    @in_tenant
    def view(request, effect_id):
        if request.method != "POST":
            return redirect("effect", request.tenant.slug, effect_id)
        try:
            with refusals(request, verb, effect_id):
                permissions.find(Effect, request.context, effect_id)
            say(request, effect_id)
        except NotFound:
            raise
        except SaysoError as error:
            return ledger(request, effect_id, error.status, error)
        return SeeOther("effect", request.tenant.slug, effect_id)

    return view


def _state(request, effect_id):
    with refusals(request, "add_evidence", effect_id):
        said = forms.evidence(forms.fields(request, "files"))
    with uploads.kept(request) as files:
        transitions.add_evidence(request.context, effect_id=effect_id, files=files, **said)


def _compensate(request, effect_id):
    with refusals(request, "compensate", effect_id):
        said = forms.reason(forms.fields(request))
    transitions.compensate(
        request.context, effect_id=effect_id, response_id=said["response_id"], message=said["reason"]
    )


state = uploads.takes_files(posted("add_evidence", _state))
compensate = posted("compensate", _compensate)

INERT = {
    "Content-Type": "application/octet-stream",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@require_safe
@in_tenant
def file(request, effect_id, file_id):
    """A file beside a statement: bytes to be saved, whatever they are (T70)."""
    found = selectors.evidence_file(request.context, effect_id, file_id)
    content = evidence_files.read(found.stored)
    if content is None:
        missing = f"{found.name} is named here, but is not among this installation's files. A backup may have it."
        return ledger(request, effect_id, 404, NotFound(missing))
    response = HttpResponse(content, headers=INERT)
    response["Content-Disposition"] = content_disposition_header(True, found.name)
    return response
