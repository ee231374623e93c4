"""What every page shares: who looks, in which tenant, and the header that says what waits."""

from functools import wraps

from django.conf import settings
from django.http import HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone

from runtime_app import permissions, selectors
from runtime_app.errors import NotFound, NotSignedIn
from runtime_app.transitions.refusals import record_refusal

SAFE = ("GET", "HEAD", "OPTIONS", "TRACE")
VERBS = {"answer": "respond", "decision": "respond", "finding": "respond", "cancel": "cancel"}  # all others: start


def in_tenant(view):
    """A page at /t/<slug>/…: the view gets the caller's Context and roles of now. Outsiders: NotFound."""

    @wraps(view)
    def inside(request, slug, **ids):
        request.tenant, request.context, request.held = enter(request, slug)
        return view(request, **ids)

    return inside


def enter(request, slug):
    if not request.user.is_authenticated:
        raise NotSignedIn
    try:
        tenant, context = permissions.member(request.user, slug)
        return tenant, context, permissions.roles(context)
    except NotFound as refused:
        if request.method not in SAFE:  # an outsider's attempt is written down without a tenant (R13)
            outside = permissions.Context(None, permissions.person(request.user))
            record_refusal(outside, VERBS.get(request.resolver_match.url_name, "start"), refused, _aimed_at(request))
        raise


def _aimed_at(request) -> str:
    ids = {name: id for name, id in request.resolver_match.kwargs.items() if name != "slug"}
    return next(iter(ids.values()), "")


def page(request, template: str, status: int = 200, **facts):
    """The page, or, for htmx, the part of it that can change. `now` is the database's clock."""
    if tenant := getattr(request, "tenant", None):
        shell = selectors.shell(request.context, request.held)
        facts = {"now": shell.now, "shell": shell, "tenants": permissions.memberships(request.user)} | facts
        facts |= {"tenant": tenant, "held": request.held}
    facts.setdefault("now", timezone.now())
    facts["frame"] = "fragment.html" if getattr(request, "htmx", False) else "base.html"
    facts["zone"] = zone(facts["now"])
    response = render(request, template, facts, status=status)
    if status >= 400:
        response["HX-Push-Url"] = "false"  # a refusal is no place to come back to
    if (error := facts.get("error")) and "retry_after" in error.facts:
        response["Retry-After"] = str(error.facts["retry_after"])
    return response


def zone(now) -> str:
    """The zone that times are shown in, said once a page."""
    if settings.TIME_ZONE == "UTC":
        return "UTC"
    return f"{settings.TIME_ZONE.rpartition('/')[2].replace('_', ' ')}, {timezone.localtime(now).tzname()}"


def filters(request, **known) -> dict[str, str]:
    """The filters of a list as the address has them; a word that is no filter filters nothing."""
    asked = {name: request.GET.get(name, "")[:80].replace("\0", "") for name in known}
    return {name: text if known[name] is None or text in known[name] else "" for name, text in asked.items()}


class SeeOther(HttpResponseRedirect):
    """303: what was posted is done, and this is where it shows."""

    status_code = 303

    def __init__(self, name: str, *ids, query: str = ""):
        super().__init__(reverse(name, args=ids) + query)
