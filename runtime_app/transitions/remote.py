"""Runs of agents elsewhere: they call, nobody here runs their loop (R12, R16, R20, R25, R26, R29).

A remote Run's turn is its Lease: numbered, renewed by `heartbeat`, fenced as a worker's is. A Run that is one Request
(`propose`) has no turns of its own: it waits, is granted, uses its Grant and ends.
"""

from datetime import timedelta
from typing import NamedTuple

from django.conf import settings

from .. import permissions, statements, states
from ..errors import Busy, InvalidInput, InvalidResponse, LeaseLost, NotFound, RunEnded
from ..events import current_epoch
from ..models import Environment, Instance, Now, Request, Run, Session
from .calls import alive, earlier_call, earlier_reply, remember
from .cancellation import how_it_ended
from .change import Change, transition
from .continuing import end, stopped_at_something, wake
from .raising import Ask, Question, raise_waits
from .resolving import still_pending
from .texts import legal_message, legal_texts

TEXT = 20_000  # bytes of a result, a reason, a note


# ---------------------------------------------------------------- Sessions and Runs


@transition("open_session", "key")
def open_session(change: Change, *, key: str, title: str = "", thread: str = "") -> Session:
    """A Session of this Instance alone. Raises InvalidInput, IdempotencyConflict."""
    alive(change)
    asked = {"title": title, "thread": thread}
    if earlier := earlier_call(change.context, key, "open_session", asked):
        return Session.objects.get(pk=earlier)
    session = _session(change, None, thread, title)
    if session._state.adding:
        session.save(force_insert=True)
    remember(change.context, key, "open_session", asked, session.pk)
    return session


@transition("begin", "session_id")
def begin(
    change: Change, *, key: str, message: str, session_id=None, thread: str = "", title: str = "",
    interactive: bool = True,
) -> Run:  # fmt: skip
    """Start a Run of this Instance, in its Environment, with its first turn taken (R10, R20).

    Raises NotFound, InvalidInput, IdempotencyConflict, NotSignedIn.
    """
    context = change.context
    session = _session(change, session_id, thread, title or message)
    alive(change)
    asked = {"message": message, "session": str(session_id or ""), "thread": thread, "interactive": interactive}
    asked |= {"title": title}
    if earlier := earlier_call(context, key, "begin", asked):
        return Run.objects.get(pk=earlier)
    legal_message(message)
    run = _begun(change, session, message=message, interactive=interactive)
    run.state, run.lease_number, run.lease_until = "running", 1, _lease()
    run.started_at = Now()
    run.save(force_insert=True)
    _told(change, run)
    change.note("run.running", run=run, lease=1)
    remember(context, key, "begin", asked, run.pk)
    return Run.objects.get(pk=run.pk)


def _session(change: Change, session_id, thread: str, title: str) -> Session:
    legal_texts(title=title, thread=thread)
    if len(thread) > 200:
        raise InvalidInput("A thread's name has at most 200 characters.", fields={"thread": "too long"})
    context = change.context
    if session_id:
        return change.lock_session(permissions.find(Session, context, session_id).pk)
    if thread:
        found = Session.objects.filter(instance_id=context.actor.id, thread=thread).values_list("pk", flat=True).first()
        if found:
            return change.lock_session(found)
    session = Session(
        tenant_id=context.tenant_id, instance_id=context.actor.id, thread=thread,
        title=" ".join(title.split())[:120] or "Untitled",
    )  # fmt: skip
    change.log_of(session)
    return session


def _begun(change: Change, session: Session, **more) -> Run:
    if session._state.adding:
        session.save(force_insert=True)
    instance = statements.first(Instance, "where id = %s", change.context.actor.id)
    environment = statements.first(Environment, "where id = %s", instance.environment_id)
    return Run(
        tenant_id=instance.tenant_id, session_id=session.pk, environment=environment,
        instance_id=instance.pk, agent=instance.agent, hosted=False, initiator_name=change.context.actor.name,
        epoch=current_epoch(), **more,
    )  # fmt: skip


def _told(change: Change, run: Run) -> None:
    change.note("run.started", run=run, agent=run.agent, environment=run.environment.name, interactive=run.interactive)


def _lease():
    return Now() + timedelta(seconds=settings.SAYSO_REMOTE_LEASE_SECONDS)


def _mine(change: Change, run_id, lease: int | None) -> Run:
    """The caller's own Run, locked, if it is unended, unmarked, and this is its newest Lease (R29, R32)."""
    found = permissions.find(Run, change.context, run_id)
    change.lock_session(found.session_id)
    run = change.lock(Run, found.pk)
    alive(change)
    if run.state in states.ENDED:
        raise RunEnded(how_it_ended(run), reason=run.state, by=run.cancelled_by, at=run.ended_at.isoformat())
    if run.cancel_requested_at:
        raise RunEnded(
            f"{run.cancelled_by} cancelled this Run. Stop, then say so.", reason="cancelling", by=run.cancelled_by,
            at=run.cancel_requested_at.isoformat(),
        )  # fmt: skip
    if lease is not None and lease != run.lease_number:
        raise LeaseLost("Another turn at this Run was taken since. Nothing was changed.")
    return run


@transition("take_turn", "run_id")
def take_turn(change: Change, *, run_id, key: str = "") -> Run:
    """Go on with a Run that is `queued`: its next Lease. One that runs already gives its turn to the caller, who is
    the same Instance started anew. The same `key` again takes no other turn.

    Raises NotFound, RunEnded, InvalidResponse (`waiting`), IdempotencyConflict, LeaseLost (of that turn), Busy.
    """
    run = _mine(change, run_id, None)
    asked = {"run": str(run.pk)}
    taken = earlier_reply(change.context, key, "turn", asked) if key else None
    if taken is not None:
        if taken != str(run.lease_number):  # that turn is over; the Lease is somebody else's
            raise LeaseLost("Another turn at this Run was taken since. Nothing was changed.")
        return run
    if run.single or run.state == "waiting":
        raise InvalidResponse("This Run waits: read its Requests.", reason="waiting")
    if run.held_at:
        raise Busy("This installation was restored or copied; a person has to release it first.", retry_after=30)
    run.state, run.lease_number, run.lease_until = "running", run.lease_number + 1, _lease()
    run.save(update_fields=["state", "lease_number", "lease_until"])
    change.note("run.running", run=run, lease=run.lease_number)
    if key:
        remember(change.context, key, "turn", asked, run.pk, str(run.lease_number))
    return Run.objects.get(pk=run.pk)


@transition("heartbeat", "run_id")
def heartbeat(change: Change, *, run_id, lease: int) -> Run:
    """Extend the Lease. No Event: nothing happened. Raises NotFound, LeaseLost, RunEnded (how, or `cancelling`)."""
    run = _mine(change, run_id, lease)
    _goes_on(change, run)
    if run.state == "running" and not run.single:
        run.lease_until, run.lapses = _lease(), 0
        run.save(update_fields=["lease_until", "lapses"])
    return Run.objects.get(pk=run.pk)


def _goes_on(change: Change, run: Run) -> None:
    """A Lease that ran out, and that no other followed, is the newest still: its Run goes on under it (R29)."""
    if run.state == "queued" and run.lapses and not run.held_at:
        run.state, run.lease_until = "running", _lease()
        run.save(update_fields=["state", "lease_until"])
        change.note("run.running", run=run, lease=run.lease_number)


@transition("conclude_run", "run_id")
def conclude_run(change: Change, *, run_id, lease: int, state: str, result: str = "", reason: str = "") -> Run:
    """The agent says that its Run is over: `succeeded` or `failed`. The same again is calm.

    Raises NotFound, LeaseLost, RunEnded, InvalidInput.
    """
    legal_texts(TEXT, result=result, reason=reason)
    found = permissions.find(Run, change.context, run_id)
    if found.state == state and (found.result, found.reason, found.lease_number) == (result, reason, lease):
        return found
    run = _mine(change, run_id, lease)
    _goes_on(change, run)
    if run.state == "queued":
        raise InvalidResponse("What this Run waited for was answered: take its next turn first.", reason="waiting")
    if run.single or run.state != "running":
        raise InvalidResponse("This Run waits; it cannot end before that is answered.", reason="waiting")
    end(change, run, state, result=result, reason=reason)
    return run


@transition("stand_down", "run_id")
def stand_down(change: Change, *, run_id, lease: int) -> Run:
    """The agent has stopped a Run that was cancelled while it ran (R30).

    Raises NotFound, LeaseLost, InvalidResponse.
    """
    found = permissions.find(Run, change.context, run_id)
    change.lock_session(found.session_id)
    run = change.lock(Run, found.pk)
    alive(change)
    if run.state == "cancelled":
        return run
    if not run.cancel_requested_at:
        raise InvalidResponse("Nobody cancelled this Run.", reason="wrong_kind")
    if run.lease_number != lease:
        raise LeaseLost
    end(change, run, "cancelled", by=run.cancelled_by)
    return run


@transition("cancel", "run_id")
def cancel_own(change: Change, *, run_id, key: str, reason: str = "") -> Run:
    """An Instance cancels a Run of its own. It has nobody to stop but itself, so it is cancelled at once (R28, R30).

    Raises NotFound, RunEnded, IdempotencyConflict, InvalidInput.
    """
    found = permissions.find(Run, change.context, run_id)
    legal_texts(TEXT, reason=reason)
    asked = {"run": str(found.pk), "reason": reason}
    if earlier_call(change.context, key, "cancel", asked):
        return found
    run = _mine(change, found.pk, None)
    run.cancel_requested_at, run.cancelled_by, run.cancel_reason = change.now(), change.context.actor.name, reason
    end(change, run, "cancelled", by=run.cancelled_by)
    remember(change.context, key, "cancel", asked, run.pk)
    return run


# ---------------------------------------------------------------- asking


@transition("raise_request", "run_id")
def raise_request(change: Change, *, run_id, lease: int, wait: Question | Ask) -> Request:
    """Stop the Run at a Request, unless a policy decides it at once. Several may be raised one after another; the Run
    waits until all are answered (R04). The same key and content is the same Request.

    Raises NotFound, LeaseLost, RunEnded (`blocked`: a noninteractive Run needed a person, R33), InvalidInput,
    IdempotencyConflict.
    """
    run = _mine(change, run_id, lease)
    if run.single:
        raise InvalidResponse("This Run is one Request, and has it.", reason="wrong_kind")
    _goes_on(change, run)
    raised = raise_waits(change, run, [wait])
    if raised is None:
        return None
    if run.state != "waiting" and stopped_at_something(run):
        park(change, run, raised)
    return raised[0]


def park(change: Change, run: Run, raised: list[Request]) -> None:
    if run.state == "queued":  # it had not taken its turn yet; the same Lease asks on
        run.state, run.lease_until = "running", _lease()
        run.save(update_fields=["state", "lease_until"])
    run.state, run.lease_until, run.lapses, run.waiting_since = "waiting", None, 0, change.now()
    run.save(update_fields=["state", "lease_until", "lapses", "waiting_since"])
    change.note("run.waiting", run=run, on=[str(request.pk) for request in raised])


class Proposed(NamedTuple):
    request: Request
    new: bool


@transition("propose", "key")
def propose(change: Change, *, key: str, ask: Ask, thread: str = "", title: str = "", asked: dict) -> Proposed:
    """A Run that is one Request: may this exact action be done? (AAP). A policy may decide at once.

    `asked`: what a repeat under `key` must equal. Raises InvalidInput, IdempotencyConflict, NotSignedIn.
    """
    context = change.context
    session = _session(change, None, thread, title)
    alive(change)
    if earlier := earlier_call(context, key, "propose", asked):
        return Proposed(Request.objects.get(pk=earlier), new=False)
    run = _begun(change, session, message=title, interactive=True, single=True)
    run.state, run.waiting_since = "waiting", Now()
    run.save(force_insert=True)
    _told(change, run)
    request = raise_waits(change, run, [ask])[0]
    change.note("run.waiting", run=run, on=[str(request.pk)])
    if request.state != "pending":
        wake(change, run)
    remember(context, key, "propose", asked, request.pk)
    return Proposed(request, new=True)


@transition("retract", "request_id")
def retract(change: Change, *, request_id) -> None:
    """An agent takes back what it proposed, while nobody decided it. Taken back already, by whomever, it is calm.

    Raises NotFound, StaleRequest (already_resolved, expired).
    """
    found = permissions.find(Request, change.context, request_id)
    change.lock_session(found.session_id)
    run = change.lock(Run, found.run_id)
    request = change.lock(Request, found.pk)
    alive(change)
    if not run.single or request.kind != "wait_approval":
        raise NotFound
    if request.state == "cancelled":
        return
    still_pending(change, request)
    run.cancel_requested_at, run.cancelled_by = change.now(), change.context.actor.name
    end(change, run, "cancelled", by=run.cancelled_by)
