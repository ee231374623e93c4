"""Environments: held or not, and what waits behind a hold (R16)."""

from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from runtime_app import permissions, selectors, transitions
from runtime_app.errors import NotFound, SaysoError
from runtime_app.models import Environment

from .. import forms
from ..pages import SeeOther, in_tenant, page
from .requests import refusals


@require_safe
@in_tenant
def index(request):
    return places(request)


def places(request, status=200, error=None, of=None):
    found = selectors.held_places(request.context, request.held)
    behind = selectors.behind(request.context, [each for each in found if each.held_at])
    for each in found:
        each.behind = behind.get(each.pk, [])
    facts = {"places": found, "error": error, "of": of, "kept": forms.typed(request.POST) if error else {}}
    return page(request, "environments.html", status, topic="inbox", **facts)


def posted(verb: str, say):
    @in_tenant
    def view(request, environment_id):
        with refusals(request, verb, environment_id):
            where = permissions.find(Environment, request.context, environment_id)
        if request.method != "POST":
            return redirect("environments", request.tenant.slug)
        try:
            with refusals(request, verb, environment_id):
                said = forms.reason(forms.fields(request))
            say(request.context, environment=where.name, **said)
        except NotFound:
            raise
        except SaysoError as error:
            return places(request, error.status, error, where.pk)
        return SeeOther("environments", request.tenant.slug)

    return view


hold = posted("hold", transitions.hold)
release = posted("release", transitions.release)
