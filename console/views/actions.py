"""The registry: what the tenant's admins say of actions that have no code here."""

from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from runtime_app import permissions, selectors, transitions
from runtime_app.errors import InvalidInput, InvalidResponse, NotFound, SaysoError
from runtime_app.models import Registration

from .. import forms, setup_forms
from ..pages import SeeOther, in_tenant, page
from .errors import refused
from .requests import refusals


@require_safe
@in_tenant
def index(request):
    described, lately = selectors.registry(request.context)
    why_not = permissions.may_administer(request.context, request.held)
    return page(request, "actions.html", described=described, lately=lately, why_not=why_not)


@in_tenant
def new(request):
    return written(request, None) if request.method == "POST" else form(request, None)


@in_tenant
def edit(request, registration_id):
    if request.method != "POST":
        return form(request, permissions.find(Registration, request.context, registration_id))
    with refusals(request, "register_action", registration_id):
        found = permissions.find(Registration, request.context, registration_id)
    return written(request, found)


def form(request, found, status=200, error=None):
    """What is said of one name, to be read, and by an admin to be written."""
    facts = {"found": found, "error": error, "kept": forms.typed(request.POST) if error else _of(request, found)}
    facts["why_not"] = permissions.may_administer(request.context, request.held)
    return page(request, "action.html", status, **facts)


def written(request, found):
    target = str(found.pk) if found else ""
    try:
        with refusals(request, "register_action", target):
            said = setup_forms.registration(forms.fields(request))
        transitions.register_action(request.context, registration_id=found and found.pk, **said)
    except (InvalidInput, InvalidResponse) as error:
        return form(request, found, error.status, error)
    return SeeOther("actions", request.tenant.slug)


@in_tenant
def remove(request, registration_id):
    if request.method != "POST":
        permissions.find(Registration, request.context, registration_id)
        return redirect("actions", request.tenant.slug)
    try:
        with refusals(request, "unregister_action", registration_id):
            setup_forms.nothing(forms.fields(request))
        transitions.unregister_action(request.context, registration_id=registration_id)
    except NotFound:
        raise
    except SaysoError as error:
        return refused(request, error)
    return SeeOther("actions", request.tenant.slug)


def _of(request, found) -> dict[str, list[str]]:
    """The form's fields as they stand; a new one may come with a name that was asked for."""
    if found is None:
        return {"pattern": [request.GET.get("name", "")[:200].replace("\0", "")], "minutes": ["10"], "changes": ["on"],
                "conclusive": ["on"]}  # fmt: skip
    said = {name: [getattr(found, name)] for name in ("pattern", "title", "consequence", "reversible")}
    said |= {"minutes": [str(max(1, round(found.deadline.total_seconds() / 60)))], "risky": ["\n".join(found.risky)]}
    ticks = {"changes": found.changes, "conclusive": found.failure_conclusive}
    return said | {name: ["on"] for name, tick in ticks.items() if tick}
