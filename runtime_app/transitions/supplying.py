"""A Blocker is actionable: what the job lacked is given, and its one successor is queued in that commit (R34)."""

from .. import permissions
from ..errors import InvalidResponse, NotAuthorized, StaleRequest
from ..models import Blocker, Now, Response, Run
from ..responses import Answer, Approve, Resume
from .blocking import given
from .change import Change, transition
from .raising import announce
from .resolving import earlier_response
from .responding import said_in, take


@transition("supply", "blocker_id")
def supply(change: Change, *, blocker_id, response: Answer | Approve, response_id, message: str = "") -> Response:
    """Answer the question, or grant the exact action, for the next run of a blocked job. One person wins.

    The successor runs under the identity that started the blocked Run; who helps has not started it. Raises NotFound,
    InvalidResponse, NotAuthorized, StaleRequest (already_resolved), DigestMismatch, IdempotencyConflict.
    """
    context = change.context
    found = permissions.find(Blocker, context, blocker_id)
    change.lock_session(found.session_id)
    blocked = change.lock(Run, found.run_id)
    blocker = change.lock(Blocker, found.pk)
    request = given(blocker, blocked)
    resume = Resume(blocked.session_id, request.pk, response, message, response_id)
    said = said_in(resume, request)
    if earlier := earlier_response(context, said):
        return earlier
    if blocker.child:
        raise InvalidResponse("Its child lacked this: it is given on the child's page.", reason="wrong_kind")
    if blocker.supplied_at or blocker.kind == "wait_effect":
        raise _too_late(blocker)
    if not isinstance(response, Answer if blocker.kind == "wait_user" else Approve):
        raise InvalidResponse(f"This job lacked a {blocker.kind}.", reason="wrong_kind")
    if refused := permissions.why_not(context, request):
        raise refused
    successor = _follow(change, blocked, blocker)
    request.run_id = successor.pk
    request.save(force_insert=True)
    announce(change, successor, request)
    said.run_id = successor.pk
    take(change, successor, request, said, response)
    blocker.supplied_at, blocker.supplied_by = change.now(), context.actor.name
    blocker.save(update_fields=["supplied_at", "supplied_by"])
    change.note("blocker.supplied", run=blocked, subject=blocker.pk, successor=str(successor.pk))
    return said


def _too_late(blocker: Blocker) -> StaleRequest | NotAuthorized:
    if blocker.kind == "wait_effect":
        return NotAuthorized("Its effect is established on the effect's own page.", permission="settle effects")
    return StaleRequest(
        f"{blocker.supplied_by} already supplied this, at {blocker.supplied_at:%Y-%m-%d %H:%M:%S} UTC.",
        reason="already_resolved", by=blocker.supplied_by, at=blocker.supplied_at.isoformat(),
    )  # fmt: skip


def _follow(change: Change, blocked: Run, blocker: Blocker) -> Run:
    """The successor: same Session, identity and message; it carries what it was given and waits for nothing else."""
    successor = Run(
        id=blocker.successor_run, tenant_id=blocked.tenant_id, session_id=blocked.session_id,
        environment_id=blocked.environment_id, instance_id=blocked.instance_id, agent=blocked.agent,
        agent_version=blocked.agent_version, hosted=blocked.hosted, follows_id=blocked.pk, interactive=False,
        message=blocked.message, initiator_id=blocked.initiator_id, initiator_name=blocked.initiator_name,
        schedule_id=blocked.schedule_id,
        epoch=blocked.epoch, state="waiting", waiting_since=change.now(), queued_at=Now(),
    )  # fmt: skip
    successor.save(force_insert=True)
    change.note("run.started", run=successor, follows=str(blocked.pk))
    return successor


