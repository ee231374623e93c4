"""A Blocker is actionable: what the job lacked is given, and its one successor is queued in that commit (R34).

Where several have to approve it their votes collect on the Blocker, and nothing starts before the last. What a child
lacked is its parent's (R28): then the parent's successor is what is queued, and the child's waits until that asks for
it.
"""

from .. import permissions
from ..errors import InvalidResponse, NotAuthorized, StaleRequest
from ..events import current_epoch
from ..ids import uuid7
from ..models import Blocker, Now, Request, Response, Run
from ..responses import Answer, Approve, Deny, Resume
from .blocking import given
from .calls import gone
from .change import Change, transition
from .continuing import GIVEN
from .counting import close_equal, lock_equal
from .raising import announce
from .resolving import earlier_response
from .responding import conclude_vote, recorded, said_in, take, weigh

GIVES = {"wait_user": (Answer,), "wait_approval": (Approve, Deny)}


@transition("supply", "blocker_id")
def supply(
    change: Change, *, blocker_id, response: Answer | Approve | Deny, response_id, message: str = ""
) -> Response:  # fmt: skip
    """Answer the question, or grant or deny the exact action, for the next run of a blocked job. One person wins, or,
    where the policy asks for more, as many as it asks for; one denial too many, and nothing is started.

    The successor runs under the identity that started the blocked Run; who helps has not started it. Raises NotFound,
    InvalidResponse, NotAuthorized, StaleRequest (already_resolved, already_voted), DigestMismatch, IdempotencyConflict.
    """
    context = change.context
    found = permissions.find(Blocker, context, blocker_id)
    change.lock_session(found.session_id)
    blocked = change.lock(Run, found.run_id)
    blocker, equal = lock_equal(change, found.pk)
    request = given(blocker, blocked)
    resume = Resume(blocked.session_id, request.pk, response, message, response_id)
    said = said_in(resume, request)
    if earlier := earlier_response(context, said):
        return earlier
    if blocker.child:
        raise InvalidResponse("Its child lacked this: it is given on the child's page.", reason="wrong_kind")
    if blocker.over or blocker.kind == "wait_effect":
        raise _too_late(blocker)
    if equal:
        raise _too_late(equal)
    if not isinstance(response, GIVES[blocker.kind]):
        raise InvalidResponse(f"This job lacked a {blocker.kind}.", reason="wrong_kind")
    if refused := permissions.why_not(context, request):
        raise refused
    if not blocked.hosted and not isinstance(response, Deny) and gone(blocked.instance_id):
        raise InvalidResponse("Its agent was deleted: nobody would take up what is given.", reason="agent_deleted")
    said.name, said.user_id = context.actor.name, context.user_id
    if isinstance(response, Answer):
        successor = _start(change, blocked, blocker, request)
        said.run_id = successor.pk
        take(change, successor, request, said, response)
    else:
        _vote(change, blocked, blocker, request, said, response)
    return said


def _vote(change: Change, blocked: Run, blocker: Blocker, request: Request, said: Response, vote: Approve | Deny):
    if isinstance(vote, Deny) and vote.suggestion:
        raise InvalidResponse("No agent is there to be told a suggestion.", fields={"suggestion": "nobody reads it"})
    votes = Response.objects.filter(blocker_id=blocker.pk)
    outcome = weigh(change, blocked, request, said, vote, votes, of=blocker)
    said.request_id, said.blocker_id = None, blocker.pk
    if outcome == "approved":
        successor = _start(change, blocked, blocker, request)
        votes.update(request=request.pk)
        said.request_id, said.run_id = request.pk, successor.pk
    recorded(said, request, "resolved" if outcome else "pending", outcome)
    if outcome == "approved":
        conclude_vote(change, successor, request, outcome, said.name)
    elif outcome == "denied":
        _denied(change, blocked, blocker)


def _too_late(blocker: Blocker) -> StaleRequest | NotAuthorized:
    if blocker.kind == "wait_effect":
        return NotAuthorized("Its effect is established on the effect's own page.", permission="settle effects")
    by, at = blocker.supplied_by or blocker.denied_by, blocker.supplied_at or blocker.denied_at
    did = "supplied" if blocker.supplied_at else "denied"
    return StaleRequest(
        f"{by} already {did} this, at {at:%Y-%m-%d %H:%M:%S} UTC.",
        reason="already_resolved", by=by, at=at.isoformat(),
    )  # fmt: skip


def _start(change: Change, blocked: Run, blocker: Blocker, request: Request) -> Run:
    """The successor with the Request it is given, under the successor of its parent, if it had one."""
    successor = _follow(change, blocked, blocker, _parent_of(change, blocked), "waiting")
    request.run_id = successor.pk
    request.save(force_insert=True)
    announce(change, successor, request)
    return successor


def _parent_of(change: Change, blocked: Run) -> Run | None:
    """The successor of the Run that was blocked by what this one lacked: the topmost starts, from its message."""
    above = _above(change, blocked)
    if above is None:
        return None
    parent = change.lock(Run, above.run_id)
    over = _parent_of(change, parent)
    successor = _follow(change, parent, above, over, "waiting" if over else "queued")
    if over is None:
        change.log.work("run")
    return successor


def _above(change: Change, blocked: Run) -> Blocker | None:
    """The Blocker of its parent, if that was blocked by the same (R28)."""
    found = Blocker.objects.filter(run_id=blocked.parent_id, child=blocked.pk).first() if blocked.parent_id else None
    above = found and change.lock(Blocker, found.pk)
    return above if above and not above.over else None


def _follow(change: Change, blocked: Run, blocker: Blocker, parent: Run | None, state: str) -> Run:
    """The successor: same Session, identity and message. One that carries something, or whose parent has not asked for
    it yet, is `waiting`. It begins anew, so with whichever version of its agent there is then."""
    now = change.now()
    successor = Run(
        id=blocker.successor_run or uuid7(), tenant_id=blocked.tenant_id, session_id=blocked.session_id,
        environment_id=blocked.environment_id, instance_id=blocked.instance_id, agent=blocked.agent,
        hosted=blocked.hosted, follows_id=blocked.pk, interactive=False,
        message=blocked.message,
        initiator_id=blocked.initiator_id, initiator_name=blocked.initiator_name, schedule_id=blocked.schedule_id,
        parent_id=parent and parent.pk, key=GIVEN if parent else "", epoch=current_epoch(), state=state,
        waiting_since=now if state == "waiting" else None, queued_at=Now(),
    )  # fmt: skip
    successor.save(force_insert=True)
    change.note("run.started", run=successor, follows=str(blocked.pk))
    blocker.successor_run, blocker.supplied_at, blocker.supplied_by = successor.pk, now, change.context.actor.name
    blocker.save(update_fields=["successor_run", "supplied_at", "supplied_by"])
    close_equal(change, blocker)
    change.note("blocker.supplied", run=blocked, subject=blocker.pk, successor=str(successor.pk))
    return successor


def _denied(change: Change, blocked: Run, blocker: Blocker) -> None:
    """Nothing is started; the job asks again when it is started again."""
    blocker.denied_at, blocker.denied_by = change.now(), change.context.actor.name
    blocker.save(update_fields=["denied_at", "denied_by"])
    close_equal(change, blocker)
    change.note("blocker.denied", run=blocked, subject=blocker.pk)
    if above := _above(change, blocked):
        _denied(change, change.lock(Run, above.run_id), above)
