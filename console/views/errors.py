"""A refusal as a page: what was not done, what stands now, what one can do (ux: states and outcomes)."""

import sys
import uuid

from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.db import InterfaceError, OperationalError
from django.http import HttpResponse

from runtime_app.errors import InvalidInput, NotFound, SaysoError

from ..pages import page

HEADINGS = {
    "not_found": "Nothing here that you can see",
    "not_authorized": "You may not do this",
    "already_resolved": "This was already decided",
    "already_voted": "You have already voted",
    "recovering": "Somebody has already started looking",
    "cancelled": "This was cancelled",
    "expired": "This expired",
    "superseded": "This was replaced by a newer request",
    "digest_mismatch": "This changed while you were reading",
    "idempotency_conflict": "This form was already sent, with something else in it",
    "grant_unusable": "There is no usable approval",
    "run_ended": "This Run has already ended",
    "invalid_response": "There is a problem",
    "invalid_input": "This cannot be accepted",
    "too_many": "Too many tries",
    "no_room": "There is no room to write this",
    "busy": "Somebody else is changing this right now",
}


def heading(error: SaysoError) -> str:
    return HEADINGS.get(error.reason) or HEADINGS.get(error.code) or "This was refused"


def refused(request, error: SaysoError):
    """The page of an error that has no better place."""
    if isinstance(error, NotFound):
        request.tenant = None  # one page for whatever does not exist here, also for a tenant that does not
    return page(request, "error.html", status=error.status, error=error, heading=heading(error))


def bad_request(request, exception=None):
    if isinstance(exception, RequestDataTooBig | TooManyFieldsSent | TooManyFilesSent):
        error = InvalidInput("This is larger than a form here can be. Nothing was recorded.", reason="too_large")
    else:
        error = InvalidInput("The server could not read this. Nothing was recorded.", reason="unparsable")
    return refused(request, error)


def not_found(request, exception=None):
    return refused(request, NotFound())


def forbidden(request, reason=""):
    """A form without this site's own token: from another site, or from before a sign-in."""
    return page(request, "csrf.html", status=403)


def failed(request):
    """500; 503 while the database cannot be reached. Nothing of it is asked, since it may be what failed."""
    if isinstance(sys.exc_info()[1], OperationalError | InterfaceError):
        return HttpResponse(AWAY, status=503, headers={"Retry-After": "5"})
    code = uuid.uuid4().hex[:12]
    request.failure_code = code
    return HttpResponse(FAILED.format(code=code), status=500)


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s · Sayso</title>
<link rel="stylesheet" href="/static/sayso/sayso.css"></head>
<body><main class="page"><header class="head"><h1>%s</h1>
<p>%s If you sent something, look at its page before you send it again: it shows what was recorded.</p>
<p><a href="/">To the first page</a></p></header></main></body></html>
"""
FAILED = _PAGE % (
    "Something failed", "Something failed here",
    "The fault is ours. Quote <code>{code}</code> when you tell somebody.",
)  # fmt: skip
AWAY = _PAGE % ("Not now", "The database cannot be reached", "Try again in a moment.")
