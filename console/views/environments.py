"""Environments: held or not, and what waits behind a hold (R16)."""

from django.views.decorators.http import require_safe

from runtime_app import selectors, transitions
from runtime_app.models import Environment

from .. import forms
from ..pages import in_tenant, page
from .reasoned import reasoned


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


def say_hold(context, row, **said):
    transitions.hold(context, environment=row.name, **said)


def say_release(context, row, **said):
    transitions.release(context, environment=row.name, **said)


hold = reasoned(Environment, "environments", "hold", say_hold, places)
release = reasoned(Environment, "environments", "release", say_release, places)
