"""How a refusal is said in AAP: a type, a code, a sentence, and the id of the HTTP exchange."""

import json
import logging
from functools import wraps

from django.http import HttpResponse

from ... import transitions
from ...errors import (
    Busy,
    GrantUnusable,
    IdempotencyConflict,
    InvalidInput,
    InvalidResponse,
    NotAuthorized,
    NotFound,
    NotSignedIn,
    RunEnded,
    SaysoError,
    StaleRequest,
    TooMany,
)
from .. import doors

TYPES = {
    400: "invalid_request", 401: "authentication", 403: "authorization", 404: "not_found", 405: "invalid_request",
    409: "conflict", 413: "invalid_request", 415: "invalid_request", 422: "invalid_request", 429: "rate_limit",
    500: "internal", 503: "dependency",
}  # fmt: skip
USED = {"already_consumed", "not_approved", "not_consumed", "approval_expired"}
MALFORMED = {
    "missing_idempotency_key", "invalid_webhook_url", "unsupported_delivery_type", "unparsable", "too_large",
    "content_type",
}  # fmt: skip
CODES = {
    NotSignedIn: "unauthenticated", NotAuthorized: "forbidden", NotFound: "not_found", TooMany: "rate_limited",
    StaleRequest: "already_terminal",
    RunEnded: "approval_expired",  # AAP has no word for it: what a client does not know, it takes for no decision
}  # fmt: skip

log = logging.getLogger(__name__)


class Unverified(SaysoError):
    """The receiver did not give its challenge back."""

    code, status = "webhook_verification_failed", 422
    default = "The receiver did not prove itself: it has to answer 200 with the challenge, within 10 seconds."


class NotAllowed(SaysoError):
    code, status = "method_not_allowed", 405
    default = "This method does nothing here."


def code_of(error: SaysoError) -> tuple[int, str]:
    """The status and the code of AAP for a refusal of ours."""
    match error:
        case InvalidInput() | InvalidResponse():
            status = error.status if error.status in (413, 415) else 400
            return status, error.reason if error.reason in MALFORMED else "invalid_request"
        case GrantUnusable():
            return 409, error.reason if error.reason in USED else "approval_expired"
        case IdempotencyConflict():
            return 409, error.reason or error.code
    return error.status, CODES.get(type(error), error.code)


def told(error: SaysoError, exchange: str) -> tuple[int, list[tuple[str, str]], bytes]:
    """A refusal as status, headers and body."""
    status, code = code_of(error)
    said = {"type": TYPES[status], "code": code, "message": error.message, "request_id": exchange}
    if param := next(iter(error.facts.get("fields", {})), None):
        said["param"] = str(param)[:200]
    headers = [("Content-Type", "application/json"), *doors.headers_of(error)]
    return status, headers, json.dumps({"error": said}).encode()


def refuse(request, error: SaysoError) -> HttpResponse:
    return answered(*told(error, doors.exchange(request)))


def answered(status: int, headers: list[tuple[str, str]], body: bytes) -> HttpResponse:
    response = HttpResponse(body, status=status)
    for name, value in headers:
        response.headers[name] = value
    return response


def record(request, error: SaysoError) -> None:
    """A refusal of a known caller that no transition made is a fact as well (R13)."""
    changes, caller = request.method not in ("GET", "HEAD", "OPTIONS"), getattr(request, "caller", None)
    if changes and caller and not error.recorded and not isinstance(error, (Busy, TooMany)):
        transitions.record_refusal(caller, "call", error, request.path)


def operations(**by_method):
    """One path: a view for each method. What breaks in one is logged, and told as `internal` without a word of it."""

    @doors.door(refuse)
    @wraps(next(iter(by_method.values())))
    def path(request, *args, **kwargs):
        operation = by_method.get(request.method)
        if operation is None:
            response = refuse(request, NotAllowed())
            response.headers["Allow"] = ", ".join(sorted(by_method))
            return response
        try:
            return operation(request, *args, **kwargs)
        except SaysoError as error:
            record(request, error)
            if isinstance(error, NotFound):
                doors.nothing(getattr(request, "caller", None))
            raise
        except doors.AWAY as failed:
            log.warning("%s %s: %s", request.method, request.path, type(failed).__name__)
            return refuse(request, doors.away())
        except Exception:
            log.exception("%s %s broke", request.method, request.path)
            return refuse(request, SaysoError("This could not be done. It is a fault of ours."))

    return path
