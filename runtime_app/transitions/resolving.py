"""Pending or not, and the one write that resolves a Request (R08)."""

import json
from hashlib import sha256

from .. import permissions, statements
from ..errors import IdempotencyConflict, InvalidResponse, StaleRequest
from ..ids import parse_id
from ..models import Request, Response, Run
from .change import Change
from .deliveries import tell
from .texts import legal_texts

MESSAGE_BYTES = 20_000


def still_pending(change: Change, request: Request) -> None:
    if request.state == "resolved":
        raise stale(request, "already_resolved")
    if request.state != "pending":
        raise stale(request, request.state)
    if request.expires_at and request.expires_at <= change.now():
        raise stale(request, "expired")


def stale(request: Request, reason: str) -> StaleRequest:
    """Too late: what happened, when, and by whom (R08, I33)."""
    at = request.expires_at if reason == "expired" else request.resolved_at
    what = {"already_resolved": request.outcome, "already_voted": "you voted before"}.get(reason, reason)
    by = f" by {request.resolved_by}" if request.resolved_by and reason != "expired" else ""
    when = f" at {at:%Y-%m-%d %H:%M:%S} UTC" if at else ""
    return StaleRequest(
        f"Your response was not recorded. This Request: {what}{by}{when}.",
        reason=reason, state=request.state, outcome=request.outcome, by=request.resolved_by,
        at=at.isoformat() if at else None,
    )  # fmt: skip


def resolve(change: Change, run: Run, request: Request, outcome: str, by: str) -> None:
    request.state, request.outcome, request.resolved_by, request.resolved_at = "resolved", outcome, by, change.now()
    statements.update(request, "state", "outcome", "resolved_by", "resolved_at")
    change.note("request.resolved", run=run, subject=request.pk, request_kind=request.kind, outcome=outcome, by=by)
    tell(change, run, request)


def said_of(
    kind: str, subject, response_id, message: str, *, run: Run | None = None, session_id=None, **facts
) -> Response:  # fmt: skip
    """What one actor says outside a Request, with the hash that a repeat must equal (R09). `tenant_id` and `session_id`
    come from the Run, or are given."""
    parsed = parse_id(response_id)
    if parsed is None:
        raise InvalidResponse("The response_id is not a UUID.", fields={"response_id": "not a UUID"})
    legal_texts(MESSAGE_BYTES, message=message)
    text = json.dumps([str(subject), kind, message, facts], sort_keys=True, default=str)
    return Response(
        tenant_id=run.tenant_id if run else facts["tenant_id"], session_id=run.session_id if run else session_id,
        run_id=run.pk if run else None, kind=kind, response_id=parsed, message=message,
        same=sha256(text.encode()).hexdigest(),
    )  # fmt: skip


def earlier_response(context, said: Response) -> Response | None:
    """What this actor recorded under this response_id; IdempotencyConflict if it was something else (R09)."""
    mine = "user_id = %s and response_id = %s"
    earlier = permissions.seen(Response, context, mine, context.user_id, said.response_id)
    if earlier and earlier.same != said.same:
        raise IdempotencyConflict("This response_id was already used for another response. Nothing was changed.")
    return earlier


def keep(change: Change, said: Response, recorded: dict) -> Response:
    """Write what this actor said outside a Request, with the outcome that a repeat gets again."""
    said.name, said.user_id, said.recorded = change.context.actor.name, change.context.user_id, recorded
    said.save(force_insert=True)
    return said
