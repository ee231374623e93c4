"""The dispatch intent, what is sent after it, and what became of it (R16, R22, R23)."""

from dataclasses import dataclass
from uuid import UUID

from django.db.models import Max, Q
from pydantic import BaseModel

from .. import actions, permissions, states
from ..failpoints import failpoint
from ..models import Attempt, Effect, Environment, Grant, Request, Run
from . import epochs
from .change import Change, opened
from .continuing import GIVEN, revoke, wake
from .evidence import conclude, locked, read_reply
from .granting import drift, undoes_nothing
from .raising import raise_anew


@dataclass(frozen=True)
class Dispatch:
    """What a worker sends once, after the intent: `seconds` are left to begin the call (R23)."""

    effect_id: UUID
    attempt_id: UUID
    tenant_id: UUID
    key: str
    action: actions.Action
    parameters: BaseModel
    environment: str
    seconds: float
    deadline: float
    intent: int


def known_actions(of: str = "") -> Q:
    """Only what this process has the code for, in that version or one that continues it, is sent or probed by it."""
    known = Q(pk=None)
    for action in map(actions.registered, actions.names()):
        versions = [action.version, *action.continues]
        known |= Q(**{f"{of}action_name": action.name, f"{of}action_version__in": versions})
    return known


# ---------------------------------------------------------------- dispatch


def intend(worker_id: UUID) -> Dispatch | None:
    """Write the dispatch intent for the next unused Grant: the one commit that consumes it. After it, send."""
    while True:
        with opened("intend") as change:
            unused = Grant.objects.filter(
                known_actions("request__"), state="unused", run__state="waiting", run__hosted=True,
                run__held_at=None,
                run__environment__held_at=None,
            ).exclude(request__key=GIVEN).order_by("made_at")  # fmt: skip
            pk = change.lock_first("worker", unused.values_list("pk", "tenant_id", "run__session_id")[:8])
            if pk is None or not epochs.released(epoch := epochs.current()):
                return None
            same = not epochs.differences(epoch)
            dispatch = _intend(change, pk, worker_id) if same else None
        if not same:
            epochs.watch()  # a restore or a copy: nothing is sent until a person says so (R27)
        elif dispatch and _marked(dispatch):
            return dispatch
        # else it was taken back, or voided and asked anew: look for another


def _marked(dispatch: "Dispatch") -> bool:
    """The intent is committed; it is marked outside the database before it is sent, or it is not sent (R27)."""
    try:
        epochs.mark(dispatch.intent, dispatch.attempt_id)
    except OSError as failed:
        why = f"The mark outside the database could not be written ({type(failed).__name__})"
        record(dispatch, actions.NotSent(why))
        return False
    return True


def _intend(change: Change, pk: UUID, worker_id: UUID) -> Dispatch | None:
    seen = Grant.objects.values("run_id", "request_id").get(pk=pk)
    run = change.lock(Run, seen["run_id"])
    request = change.lock(Request, seen["request_id"])
    prepared = Effect.objects.filter(request_id=request.pk).values_list("pk", flat=True).first()
    effect = change.lock(Effect, request.effect_id or prepared)
    # last, so that a hold that has returned is complete: nothing it did not see is dispatched after it (R16)
    environment = Environment.objects.raw(
        "select * from runtime_app_environment where id = %s for share", [effect.environment_id]
    )[0]
    grant = Grant.objects.get(pk=pk)
    if grant.state != "unused" or environment.held_at or run.state in states.ENDED or run.cancel_requested_at:
        return None
    if why := drift(change, run, request, effect, grant, environment):
        _void(change, run, request, effect, why)
        return None
    if why := _unreadable(effect, request):
        revoke(change, run, request, why)  # nor can it be asked anew: the agent is told
        wake(change, run)
        return None
    return _consume(change, run, request, effect, grant, worker_id)


def _unreadable(effect: Effect, request: Request) -> str | None:
    """Why its action cannot be called with what was approved. One such Grant keeps no other from being sent."""
    try:
        actions.registered(effect.action_name).parsed(request.parameters)
    except Exception as error:  # of the action's own code
        return f"its action, as it is now, does not take these parameters ({type(error).__name__})"
    return None


def _consume(change, run, request, effect, grant, worker_id) -> Dispatch:
    failpoint("dispatch.claim")
    action = actions.registered(effect.action_name)
    now = change.now()
    spend(change, run, grant)
    attempt = fly(
        change, run, effect, grant, worker=worker_id, send_by=now + action.send_within, deadline=now + action.deadline
    )
    return Dispatch(
        effect.pk, attempt.pk, run.tenant_id, effect.key, action, action.parsed(request.parameters),
        request.bound["environment"]["name"], action.send_within.total_seconds(), action.deadline.total_seconds(),
        epochs.next_intent(),
    )  # fmt: skip


def spend(change: Change, run: Run, grant: Grant, key: str = "") -> None:
    """The one use of a Grant; `key`: under which an agent elsewhere took it."""
    grant.state, grant.used_at, grant.used_key = "consumed", change.now(), key
    grant.save(update_fields=["state", "used_at", "used_key"])
    change.note("grant.consumed", run=run, subject=grant.pk)


def fly(change: Change, run: Run, effect: Effect, grant: Grant, *, worker: UUID, send_by, deadline) -> Attempt:
    """From the commit of this on it may have been sent (R22)."""
    now = change.now()
    attempt = Attempt.objects.create(
        tenant_id=run.tenant_id, effect_id=effect.pk, number=last_number(effect) + 1, grant_id=grant.pk,
        worker=worker, intent_at=now, send_by=send_by,
    )  # fmt: skip
    effect.state, effect.intent_at, effect.deadline_at = "in_flight", now, deadline
    effect.save(update_fields=["state", "intent_at", "deadline_at"])
    change.note("effect.in_flight", run=run, subject=effect.pk, attempt=attempt.number, key=effect.key)
    return attempt


def last_number(effect: Effect) -> int:
    return Attempt.objects.filter(effect_id=effect.pk).aggregate(last=Max("number"))["last"] or 0


def _void(change: Change, run: Run, request: Request, effect: Effect, why: str) -> None:
    """What was approved is not what would be sent now, or not by whom: nothing is sent, it is asked anew (R16)."""
    revoke(change, run, request, why)
    still_wanted = effect.state == "uncertain" if request.effect_id else not undoes_nothing(effect)
    if still_wanted:
        raise_anew(change, run, request, because=why)
    wake(change, run)


def record(dispatch: Dispatch, reply: actions.Reply | BaseException) -> None:
    """Write what became of an Attempt: the provider's clear yes or no, still working, or doubt. Never a guess (R23).

    Also under a lost Lease and beside an ended Run: a reply is evidence whoever carries it (R29).
    """
    unsent = isinstance(reply, (actions.NotSent, *dispatch.action.nothing_sent))
    with opened("record", permissions.system("worker" if unsent else "provider", dispatch.tenant_id)) as change:
        run, effect = locked(change, dispatch.effect_id)
        attempt = Attempt.objects.get(pk=dispatch.attempt_id)
        read = read_reply(dispatch.action, reply) | {"source": "worker" if unsent else "reply"}
        if attempt.replied_at is None:
            attempt.replied_at, attempt.reply = change.now(), "not_sent" if unsent else read["finding"]
            attempt.save(update_fields=["replied_at", "reply"])
        newest = attempt.number == last_number(effect)
        conclude(change, run, effect, attempt=attempt, newest=newest, grade="observed", **read)
