"""The door: choose a tenant, sign in, sign out."""

from allauth.account.views import LoginView, LogoutView
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from runtime_app import permissions
from runtime_app.errors import NotSignedIn

from ..pages import page


@require_safe
def choose(request):
    """The one tenant a person belongs to, or a choice among them."""
    if not request.user.is_authenticated:
        raise NotSignedIn
    tenants = list(permissions.memberships(request.user))
    if len(tenants) == 1:
        return redirect("inbox", tenants[0].slug)
    return page(request, "choose.html", tenants=tenants)


class SignIn(LoginView):
    template_name = "sign_in.html"


class SignOut(LogoutView):
    """By POST alone: no link and no prefetch signs anybody out (R11)."""

    http_method_names = ["post", "options"]


@require_safe
def health(request):
    """For machines: this process answers."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
def guide(request):
    return page(request, "help.html")
