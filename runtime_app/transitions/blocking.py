"""A Run with nobody on the line does not wait for a person: it ends with the concrete thing it lacked (R33-R35)."""

from datetime import timedelta

from .. import actions, canonical, clock
from ..events import current_epoch
from ..ids import uuid7
from ..models import Blocker, Effect, Request, Run
from .change import Change
from .continuing import GIVEN, end
from .counting import count_equal

QUESTION_WAITS = timedelta(days=7)


def block(change: Change, run: Run, request: Request) -> None:
    """A noninteractive Run needed a person: it ends with the concrete thing it could not get, bound already to the ids
    that its successor will have (R33, R34). Equal Blockers of one job are counted."""
    if request.kind == "wait_user":
        unblocks = "Answer the question for the next run, or start the Run with somebody on the line."
    else:
        unblocks = f"Grant this exact {request.action_name} for the next run, or allow it by a policy."
    if Request.objects.filter(run_id=run.pk, key=GIVEN).exists():
        unblocks = f"What was given for this run did not fit what it asked for. {unblocks}"
    successor, next_request = uuid7(), uuid7()
    blocker = Blocker(
        tenant_id=run.tenant_id, session_id=run.session_id, run_id=run.pk, kind=request.kind, prompt=request.prompt,
        schema=request.schema, action_name=request.action_name, action_version=request.action_version,
        action_bytes=request.action_bytes, action_hash=request.action_hash, claim=request.claim,
        described=request.described, policy=request.policy, unblocks=unblocks, successor_run=successor,
        successor_request=next_request,
    )  # fmt: skip
    if request.kind == "wait_approval":
        blocker.digest = canonical.digest(
            tenant=run.tenant_id, session=run.session_id, run=successor, request=next_request,
            action_bytes=request.action_bytes,
        )  # fmt: skip
    count_equal(change, run, blocker)
    blocker.save(force_insert=True)
    end(change, run, "blocked", reason=unblocks, blocker=request.kind)


def given(blocker: Blocker, blocked: Run) -> Request:
    """The Request that the blocked Run's successor will have, as it is answered before that Run starts (R34)."""
    policy = blocker.policy or {}
    asked = {"answer": {"schema": blocker.schema}}
    decided = {"approve": {"digest": blocker.digest}, "deny": {"digest": blocker.digest}}
    accepts = asked if blocker.kind == "wait_user" else decided
    return Request(
        id=blocker.successor_request, tenant_id=blocked.tenant_id, session_id=blocked.session_id, run_id=blocked.pk,
        environment_id=blocked.environment_id, kind=blocker.kind, key=GIVEN, prompt=blocker.prompt,
        schema=blocker.schema, action_name=blocker.action_name, action_version=blocker.action_version,
        action_bytes=blocker.action_bytes, action_hash=blocker.action_hash, digest=blocker.digest,
        described=blocker.described, claim=blocker.claim, policy=blocker.policy, epoch=current_epoch(), accepts=accepts,
        expires_at=clock.now() + timedelta(seconds=policy.get("request_for", QUESTION_WAITS.total_seconds())),
    )  # fmt: skip


def can_block(run: Run) -> bool:
    """Whether this is a job that ends when nobody knows what happened (R35). One elsewhere does not stop at what it
    sent, so it may be running, or have lost its turn; one that was cancelled ends as that."""
    if run.interactive or run.cancel_requested_at:
        return False
    return run.state == "waiting" or not run.hosted and run.state in ("queued", "running")


def block_on(change: Change, run: Run, effect: Effect) -> None:
    """Nobody is on the line to establish what happened: the Run ends `blocked`, its `wait_effect` stays (R35)."""
    if run.state == "queued":  # no queued Run is blocked: it ends in the turn that its agent did not take
        run.state, run.lease_until = "running", change.now()
        run.save(update_fields=["state", "lease_until"])
    Blocker.objects.create(
        tenant_id=run.tenant_id, session_id=run.session_id, run_id=run.pk, kind="wait_effect", effect=effect.pk,
        action_name=effect.action_name, action_version=effect.action_version,
        described=actions.described(actions.registered(effect.action_name)) or effect.request.described,
        unblocks="Establish whether it happened, then start the job again.",
    )  # fmt: skip
    end(change, run, "blocked", reason="The outcome of an effect is unknown.", blocker="wait_effect")
