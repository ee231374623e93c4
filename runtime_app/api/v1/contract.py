"""The native API as django-ninja has it: who may call what, how a refusal is said, and the OpenAPI document."""

import json
from functools import cache
from hashlib import sha256
from typing import Annotated, Any

from django.http import Http404, HttpResponse
from ninja import Header, NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.parser import Parser

from ...errors import InvalidInput, NotFound, NotSignedIn, SaysoError
from .. import doors
from .callers import record
from .documents import written
from .schemas import Refused

BASE = "/api/v1/"
DESCRIPTION = """
Sessions, Runs, Requests, Effects and Events, for agents elsewhere (`Authorization: Bearer sayso_i_…`) and for other
front ends of signed-in people (session cookie, `X-CSRFToken`, `Sayso-Tenant`). Every POST takes an `Idempotency-Key`:
the same call again under it does nothing again; of a person it is the `response_id`, a UUID. A GET gives an `ETag`. No
token approves.
"""
# Spec section 9: each code under its status.
CODES = {
    400: "`invalid_input` (`unparsable`: no JSON), `cursor_invalid`",
    401: "`not_signed_in`: no credential that is live, of this kind, and for this interface",
    403: "`not_authorized`: names the missing permission, or the stake",
    404: "`not_found`: unknown, or not yours to see; the two are one answer",
    409: "`stale_request`, `digest_mismatch`, `idempotency_conflict`, `grant_unusable`, `run_ended`, `lease_lost`",
    413: "`invalid_input` (`too_large`)",
    415: "`invalid_input` (`content_type`): no JSON by what it says of itself, or compressed",
    422: "`invalid_input`, `invalid_response`: `fields` says which field is wrong, and why",
    429: "`too_many`: try again after `Retry-After` seconds",
    503: "`busy`: nothing happened; try again after `Retry-After` seconds",
}


class Said(Parser):
    """The body as the strict parser read it, before anything else looked at it (R15)."""

    def parse_body(self, request):
        return request.said


class Native(NinjaAPI):
    def get_openapi_operation_id(self, operation) -> str:
        return operation.view_func.__name__


api = Native(
    title="Sayso",
    version="1",
    description=" ".join(DESCRIPTION.split()),
    openapi_url=None,
    docs_url=None,
    urls_namespace="v1",
    parser=Said(),
)

Key = Annotated[
    str,
    Header(
        alias="Idempotency-Key", min_length=1, max_length=255, pattern=r"^[!-~]+$",
        description="The same call again under the same key does nothing again.",
    ),
]  # fmt: skip

ResponseId = Annotated[
    str,
    Header(
        alias="Idempotency-Key", pattern=r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
        description="The `response_id`: the same response again under it changes nothing.",
    ),
]  # fmt: skip


def responses(model: Any, *statuses: int) -> dict:
    """What an operation may answer: this, or any refusal there is."""
    return {status: model for status in statuses or (200,)} | dict.fromkeys(CODES, Refused)


def answered(request, data, status: int = 200) -> HttpResponse:
    """Data as JSON. What is read has an ETag, and is not sent to who has it."""
    body = written(data).encode()
    response = HttpResponse(body, status=status, content_type="application/json")
    if request.method == "GET":
        response.headers["ETag"] = tag = etag(body)
        if tag in [each.strip() for each in request.headers.get("If-None-Match", "").split(",")]:
            response = HttpResponse(status=304, headers={"ETag": tag})
    return response


def etag(body: bytes) -> str:
    return f'"{sha256(body).hexdigest()[:32]}"'


def told(error: SaysoError, exchange: str) -> tuple[int, list[tuple[str, str]], bytes]:
    """A refusal of a call that waits."""
    return error.status, [("Content-Type", "application/json"), *doors.headers_of(error)], said_of(error)


def said_of(error: SaysoError) -> bytes:
    return written(error.as_data()).encode()


# ---------------------------------------------------------------- refusals


@api.exception_handler(SaysoError)
def _refused(request, error):
    return doors.refused(request, error)


@api.exception_handler(NotFound)
def _unseen(request, error):
    try:
        doors.nothing(getattr(request, "context", None))
    except SaysoError as told:
        return doors.refused(request, told)


def _away(request, error):
    return doors.refused(request, doors.away())


for each in doors.AWAY:
    api.add_exception_handler(each, _away)


@api.exception_handler(AuthenticationError)
def _nobody(request, error):
    return doors.refused(request, NotSignedIn("This takes a credential, or a signed-in person's session."))


@api.exception_handler(ValidationError)
def _invalid(request, error):
    """Which field is wrong, and why: in its own words, without what was sent."""
    fields = {}
    for each in error.errors:
        where = ".".join(str(part) for part in each["loc"][1:] if part not in ("said", "query"))
        fields[(where or "body")[:200]] = each["msg"]
    refused = InvalidInput("This is not what this call takes. Nothing was changed.", fields=fields)
    record(request, getattr(request, "context", None), refused)
    return doors.refused(request, refused)


@api.exception_handler(Http404)
def _nothing(request, error):
    return doors.refused(request, NotFound())


@api.exception_handler(HttpError)
def _unreadable(request, error):
    return doors.refused(request, InvalidInput("This cannot be read.", reason="unparsable"))


@doors.door()
def nowhere(request):
    raise NotFound


# ---------------------------------------------------------------- the document


@cache
def document() -> dict:
    """The OpenAPI 3.1 document. The committed one is equal to it (a test sees to that)."""
    schema = json.loads(json.dumps(api.get_openapi_schema(path_prefix=BASE), default=str))
    for path in schema["paths"].values():
        for operation in path.values():
            for status, said in operation["responses"].items():
                said["description"] = CODES.get(int(status), said["description"])
                if int(status) in (429, 503):
                    said["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}
    return schema


@doors.door()
def openapi(request):
    return answered(request, document())
