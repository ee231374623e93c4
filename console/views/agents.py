"""Agents: those hosted here, those elsewhere, and the credentials that these prove themselves with (R18, R20)."""

from django.shortcuts import redirect
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_safe

from runtime_app import permissions, selectors, transitions
from runtime_app.errors import NotFound, SaysoError
from runtime_app.ids import uuid7
from runtime_app.models import Credential, Instance

from .. import forms, setup_forms
from ..pages import SeeOther, in_tenant, page
from .requests import refusals


@require_safe
@in_tenant
def index(request):
    return everybody(request)


def everybody(request, status=200, error=None):
    asked = {"show": "deleted" if request.GET.get("show") == "deleted" else "", "before": request.GET.get("before", "")}
    found = selectors.agents(request.context, request.held, deleted=bool(asked["show"]), last=asked["before"])
    facts = {"found": found, "asked": asked, "error": error, "overlaps": setup_forms.OVERLAPS.items()}
    return page(request, "agents.html", status, now=found.now, lives=setup_forms.LIVES.items(), **facts)


@in_tenant
def new(request):
    """GET shows the form; POST makes a credential and shows its token, this once."""
    return made(request) if request.method == "POST" else making(request)


def making(request, status=200, error=None):
    named = request.POST.get("instance") or request.GET.get("agent")
    facts = {"instance": selectors.agent_elsewhere(request.context, named) if named else None, "error": error}
    facts |= {"kept": forms.typed(request.POST) if error else {}, "credential_id": uuid7()}
    facts |= {"places": selectors.environments(request.context), "lives": setup_forms.LIVES.items()}
    facts["why_not"] = permissions.may_administer(request.context, request.held)
    return page(request, "credential.html", status, **facts)


def made(request):
    try:
        with refusals(request, "make_credential", ""):
            said = setup_forms.credential(forms.fields(request))
        return shown_once(request, transitions.make_credential(request.context, **said))
    except NotFound:
        raise
    except SaysoError as error:
        return making(request, error.status, error)


@sensitive_variables("made")
def shown_once(request, made):
    """The only page that ever has a token. It is no answer to a GET, kept by no cache, and refreshed by nothing."""
    bases = {"aap": request.build_absolute_uri("/api/aap"), "api": request.build_absolute_uri("/api/v1")}
    facts = {"credential": made.credential, "token": made.token}
    facts["bases"] = [(scope, bases[scope]) for scope in made.credential.scopes]
    return page(request, "token.html", **facts)


def posted(verb: str, model, target: str, read, say):
    """A view that says one thing of one row, and shows everybody again."""

    @in_tenant
    def view(request, **ids):
        if request.method != "POST":
            permissions.find(model, request.context, ids[target])
            return redirect("agents", request.tenant.slug)
        try:
            with refusals(request, verb, ids[target]):
                said = read(forms.fields(request))
            return say(request, said | ids) or SeeOther("agents", request.tenant.slug)
        except NotFound:
            raise
        except SaysoError as error:
            return everybody(request, error.status, error)

    return view


def _revoke(request, said):
    transitions.revoke_credential(request.context, **said)


def _delete(request, said):
    transitions.delete_instance(request.context, **said)


def _rotate(request, said):
    return shown_once(request, transitions.rotate_credential(request.context, **said))


rotate = posted("rotate_credential", Credential, "credential_id", setup_forms.rotation, _rotate)
revoke = posted("revoke_credential", Credential, "credential_id", setup_forms.nothing, _revoke)
delete = posted("delete_instance", Instance, "instance_id", setup_forms.nothing, _delete)
