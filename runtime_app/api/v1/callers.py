"""Who may call: an agent by its credential, or a signed-in person by their session. A credential is never a person."""

from django.conf import settings
from django.middleware.csrf import get_token
from ninja.utils import check_csrf

from ... import permissions, transitions
from ...errors import InvalidInput, NotAuthorized, NotFound, NotSignedIn, SaysoError
from ...ids import parse_id
from .. import doors

SAFE = ("GET", "HEAD", "OPTIONS")
TENANT = "Sayso-Tenant"


class Credential:
    """`Authorization: Bearer sayso_i_…`, of an Instance, with the scope `api`."""

    openapi_security_schema = {"type": "http", "scheme": "bearer"}

    def __call__(self, request):
        if "Authorization" not in request.headers:
            return None
        request.credential, request.context = doors.authenticate(request, "api")
        doors.limit(request.credential)
        take_body(request)
        return request.context


class SignedIn:
    """A person's session, with the CSRF token for what changes something; `Sayso-Tenant` names the tenant."""

    openapi_security_schema = {"type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME}

    def __call__(self, request):
        if "Authorization" in request.headers:
            return refuse_credential(request)
        if not request.user.is_authenticated:
            raise NotSignedIn
        doors.limit(request.user)
        if request.method not in SAFE and check_csrf(request) is not None:
            raise NotAuthorized("This takes the CSRF token of this session, in X-CSRFToken.", permission="csrf")
        request.tenant, request.context = permissions.member(request.user, request.headers.get(TENANT, ""))
        get_token(request)  # the cookie that another front end takes the token from
        take_body(request)
        return request.context


def refuse_credential(request):
    """No token approves: not even to see what the people of a tenant see (R18, T21)."""
    _, context = doors.authenticate(request, "api")
    refused = NotAuthorized(
        "A credential never answers, approves or settles; a signed-in person does.", permission="person"
    )
    record(request, context, refused)
    raise refused


def take_body(request) -> None:
    """Read what was sent, before anything else looks at it (R15). Nothing at all is an empty object."""
    if request.method in SAFE:
        return
    try:
        sent = doors.read(request)
        request.said = doors.parsed(request, sent) if sent else {}
        if not isinstance(request.said, dict):
            raise InvalidInput("The body is a JSON object.")
    except InvalidInput as refused:
        record(request, request.context, refused)
        raise
    request._body = b"{}"  # so that nobody reads, or parses, it again


def record(request, context, refused: SaysoError) -> None:
    """A refusal that no transition made is a fact as well (R13)."""
    if request.method not in SAFE and context is not None and not isinstance(refused, NotFound):
        transitions.record_refusal(context, "call", refused, request.path)


agent = [Credential()]
person = [SignedIn()]
either = [Credential(), SignedIn()]


def response_id(key: str):
    """Of a person the Idempotency-Key is the `response_id` (R09). Raises InvalidInput."""
    found = parse_id(key)
    if found is None:
        raise InvalidInput("The Idempotency-Key of a person is a UUID.", fields={"Idempotency-Key": "not a UUID"})
    return found
