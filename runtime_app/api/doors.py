"""What both doors of software share: who calls, from where and how often; what a body may be; how a no is said.

@door()  # or door(refuse), where the contract has words of its own for a refusal
def view(request):
    credential, context = authenticate(request, "api")
    limit(credential)
    said = body(request)
"""

import math
import time
from collections.abc import Callable
from functools import wraps
from uuid import uuid4

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from .. import canonical, credentials, permissions
from ..errors import Busy, InvalidInput, NotFound, NotSignedIn, SaysoError, TooMany
from ..models import Credential
from ..permissions import Context

BODY = 256 * 1024  # bytes
RATE, BURST = 500, 2_000  # calls a second of one credential in this process, and how many at once
KEPT = 10_000  # callers whose rate is remembered


class Exchanges:
    """Middleware: every answer of a door names its HTTP exchange: `X-Request-ID`."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        if not request.path.startswith("/api/"):
            return self.get_response(request)
        exchange(request)
        response = self.get_response(request)
        if isinstance(response, HttpResponseNotAllowed):  # not by a view of ours: its words are no JSON
            wrong = InvalidInput("This method does nothing here.", reason="method_not_allowed")
            allow = {"Allow": response.headers["Allow"]}
            response = JsonResponse(wrong.as_data(), status=response.status_code, headers=allow)
        response.headers["X-Request-ID"] = exchange(request)
        return response


def exchange(request) -> str:
    """The id of this HTTP exchange, a UUID made here: a client's own is not taken."""
    if not hasattr(request, "exchange"):
        request.exchange = str(uuid4())
    return request.exchange


def refused(request, error: SaysoError) -> HttpResponse:
    """A refusal as JSON: the code, the sentence and the facts that Python and the pages have (spec section 9)."""
    response = JsonResponse(error.as_data(), status=error.status)
    for name, value in headers_of(error):
        response.headers[name] = value
    return response


def headers_of(error: SaysoError) -> list[tuple[str, str]]:
    found = []
    if "retry_after" in error.facts:
        found.append(("Retry-After", str(error.facts["retry_after"])))
    if isinstance(error, NotSignedIn):
        found.append(("WWW-Authenticate", "Bearer"))
    return found


AWAY = (OperationalError, InterfaceError)  # the database cannot be reached, or took too long


def away() -> Busy:
    return Busy("The database does not answer. Ask again: asked twice under one key, it is done once.", retry_after=1)


def door(refuse: Callable = refused) -> Callable:
    """Make a view one for software: no cookie counts there, and a refusal is said by `refuse(request, error)`."""

    def of(view):
        @csrf_exempt  # who calls shows a credential in a header, which no other site's page can send
        @wraps(view)
        def call(request, *args, **kwargs):
            try:
                return view(request, *args, **kwargs)
            except SaysoError as error:
                return refuse(request, error)

        return call

    return of


# ---------------------------------------------------------------- who calls


def authenticate(request, scope: str, kind: str = "instance") -> tuple[Credential, Context]:
    """The live credential in this call's `Authorization` header, and its Context. Raises NotSignedIn."""
    return credentials.authenticate(
        bearer(request.headers.get("Authorization", "")), scope=scope, kind=kind, address=address(request)
    )


def bearer(authorization: str) -> str:
    """The token of an `Authorization` header. It is taken from nowhere else: no address, no cookie, no body (T82)."""
    word, _, token = authorization.partition(" ")
    if word.lower() != "bearer" or not token:
        raise NotSignedIn("This takes a credential: Authorization: Bearer …")
    return token.strip()


def address(request: HttpRequest) -> str:
    """Where the call comes from: what the proxy before us says, where there is one."""
    return address_of(request.META.get("REMOTE_ADDR", ""), request.headers.get("X-Forwarded-For", ""))


def address_of(peer: str, forwarded: str) -> str:
    if settings.SECURE_PROXY_SSL_HEADER and forwarded:
        return forwarded.rpartition(",")[2].strip()[:64]  # the last one is the proxy's own word
    return peer[:64]


def nothing(context: Context | None) -> None:
    """NotFound; but to a credential that ended since this call showed it nothing is there, and it is told that."""
    if context and context.credential_id:
        permissions.still_live(context)
    raise NotFound


_left: dict = {}  # caller to (calls left, when)


def limit(credential: Credential, weight: int = 1) -> None:
    """Count this call; TooMany once its credential has called `BURST` times at once, or `RATE` a second for long."""
    now = time.monotonic()
    left, since = _left.get(credential.pk, (BURST, now))
    left = min(BURST, left + (now - since) * RATE)
    if left < weight:
        raise TooMany(retry_after=max(1, math.ceil((weight - left) / RATE)))
    if len(_left) >= KEPT and credential.pk not in _left:
        _left.pop(next(iter(_left)))
    _left[credential.pk] = (left - weight, now)


# ---------------------------------------------------------------- what was sent


def body(request: HttpRequest, limit: int = BODY):
    """The JSON of this call, as `canonical.parse` reads it: every digit of a number, nothing twice (R15).

    Raises InvalidInput: 415 for another content type or a compressed body, 413 before any of a large one is parsed,
    400 for what is no JSON, else 422.
    """
    return parsed(request, read(request, limit), limit)


def parsed(request: HttpRequest, sent: bytes, limit: int = BODY):
    """What was sent, if it is JSON by what it says of itself, and not compressed."""
    if request.content_type != "application/json":
        raise InvalidInput("The body is JSON: Content-Type: application/json.", reason="content_type")
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise InvalidInput("A compressed body is not taken.", reason="content_type")
    return canonical.parse(sent, limit=limit)


def read(request: HttpRequest, limit: int = BODY) -> bytes:
    """The bytes of this call's body, whatever they are; no more than `limit` of them are held."""
    told = request.headers.get("Content-Length", "")
    large = told.isdecimal() and (len(told) > 12 or int(told) > limit)
    sent = b"" if large else request.read(limit + 1)
    if large or len(sent) > limit:
        raise InvalidInput(f"This is larger than the {limit:,} bytes accepted here.", reason="too_large", limit=limit)
    return sent
