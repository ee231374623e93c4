"""Refusals become pages; signed-in pages are kept by nobody."""

from urllib.parse import urlsplit

from django.contrib.auth.views import redirect_to_login
from django.http import HttpResponse

from runtime_app.errors import NotSignedIn, SaysoError

from .views import errors

QUIET = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"


class Refusals:
    """One place maps each error to its status and its words (spec section 9)."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        response = self.get_response(request)
        response.headers.setdefault("Permissions-Policy", QUIET)
        if not request.path.startswith("/static/"):
            response.headers["Cache-Control"] = "no-store"
        return response

    def process_exception(self, request, error):
        if isinstance(error, NotSignedIn):
            return sign_in(request)
        if isinstance(error, SaysoError):
            return errors.refused(request, error)
        return None


def sign_in(request):
    """To sign-in and back to the page; what was posted is not sent again by that, and the page has it still."""
    back = request.get_full_path() if request.method in ("GET", "HEAD") else _came_from(request)
    to_sign_in = redirect_to_login(back)
    if getattr(request, "htmx", False):
        return HttpResponse(status=401, headers={"HX-Redirect": to_sign_in.url})
    return to_sign_in


def _came_from(request) -> str:
    """The page a form was sent from, if it is one of ours."""
    page = urlsplit(request.META.get("HTTP_REFERER", ""))
    return page._replace(scheme="", netloc="").geturl() if page.netloc == request.get_host() else "/"
