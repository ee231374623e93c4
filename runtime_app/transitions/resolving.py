"""Pending or not, and the one write that resolves a Request (R08)."""

from ..errors import StaleRequest
from ..models import Request, Run
from .change import Change


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
    request.save(update_fields=["state", "outcome", "resolved_by", "resolved_at"])
    change.note("request.resolved", run=run, subject=request.pk, request_kind=request.kind, outcome=outcome, by=by)
