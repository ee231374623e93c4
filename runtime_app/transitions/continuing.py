"""When a waiting Run goes on, and what any end of a Run takes back (R08, R30). Both under the caller's locks."""

from django.db import connection

from .. import statements, states
from ..ids import uuid7
from ..models import Blocker, Effect, Grant, Now, Request, Run
from .change import Change
from .counting import count_equal
from .deliveries import tell
from .secrets import destroy

GIVEN = "given"  # the key of what was supplied to a successor, a Request or a child, until it asks for it (R34)

_ASKED = "select exists (select 1 from runtime_app_request where run_id = %(run)s and state = 'pending' and stops)"

_STOPPED = """
select exists (select 1 from runtime_app_request where run_id = %(run)s and state = 'pending' and stops)
    or exists (select 1 from runtime_app_grant g join runtime_app_request q on q.id = g.request_id
               where g.run_id = %(run)s and g.state = 'unused' and q.key <> %(given)s)
    or exists (select 1 from runtime_app_effect where run_id = %(run)s
               and (state = 'in_flight' or state = 'uncertain' and accepted_at is null))
    or exists (select 1 from runtime_app_effect where id = %(recovers)s and state = 'in_flight')
    or exists (select 1 from runtime_app_run where parent_id = %(run)s and not state = any(%(ended)s)
               and key <> %(given)s)
"""


def stopped_at_something(run: Run) -> bool:
    """A Run waits until everything it stopped at is answered, what was granted is sent and known, and its children have
    ended. What a successor was given and has not asked for stops nothing (R34)."""
    redispatched = run.recovers_id if run.recovery == "redispatch" else None
    with connection.cursor() as cursor:  # a remote agent sends what it was granted itself, and goes on to do so
        cursor.execute(
            _STOPPED if run.hosted else _ASKED,
            {"run": run.pk, "given": GIVEN, "recovers": redispatched, "ended": list(states.ENDED)},
        )
        return cursor.fetchone()[0]


def wake(change: Change, run: Run) -> None:
    """Make the Run claimable if nothing stops it any more. Nothing else wakes a Run. A child that was given something
    starts when its parent has asked for it (R34)."""
    if run.state != "waiting" or run.key == GIVEN or stopped_at_something(run):
        return
    run.state, run.waiting_since = "queued", None
    run.queued_at = Now()
    statements.update(run, "state", "waiting_since", "queued_at")
    change.note("run.queued", run=run)
    if run.single:
        go_on(change, run)
    elif run.hosted:
        change.log.work("run")


def go_on(change: Change, run: Run) -> None:
    """A Run that is one Request takes its turn: to use the Grant, or to end with what the Request came to (R08)."""
    request = Request.objects.get(run_id=run.pk, kind="wait_approval")
    made = Grant.objects.filter(request_id=request.pk).first()
    run.state, run.lease_number, run.started_at = "running", run.lease_number + 1, run.started_at or change.now()
    run.lease_until = made.expires_at if made and made.state == "unused" else change.now()
    run.save(update_fields=["state", "lease_number", "started_at", "lease_until"])
    change.note("run.running", run=run, lease=run.lease_number)
    if made and made.state == "unused":
        return
    effect = Effect.objects.filter(request_id=request.pk).first()
    if effect and effect.state == "committed":
        end(change, run, "succeeded")
    elif made is None:
        end(change, run, "failed", reason=request.outcome or request.state)
    elif made.state == "void":
        end(change, run, "failed", reason=f"The approval was void: {made.void_why}.")
    elif effect and effect.state == "not_committed":
        end(change, run, "failed", reason="It did not happen.")
    else:
        end(change, run, "failed", reason="Nobody established what happened; that was accepted.")


def end(
    change: Change, run: Run, state: str, *, result: str = "", reason: str = "", _ends_with_parent=False, **told
) -> None:
    """End the Run, in the only way a Run ends: pending questions and approvals are cancelled, what was prepared and
    granted is withdrawn, what was sent stays what it is (R30). A `wait_effect` is not touched."""
    children, open_waits = _left(change, run)
    if children:
        for child in Run.objects.filter(parent_id=run.pk).exclude(state__in=states.ENDED).order_by("pk"):
            end_child(change, run, change.lock(Run, child.pk), state)
    uncertain = take_back(change, run) if open_waits else []
    if run.secrets:
        destroy(change, run)
    run.state, run.result, run.reason, run.ended_at = state, result, reason, change.now()
    run.lease_until = run.lease_worker = run.waiting_since = None
    statements.update(
        run, "state", "result", "reason", "ended_at", "lease_until", "lease_worker", "waiting_since", "cancelled_by",
        "cancel_reason", "cancel_requested_at",
    )  # fmt: skip
    change.note(f"run.{state}", run=run, reason=reason, uncertain=uncertain, **told)
    if run.recovers_id:
        Effect.objects.filter(pk=run.recovers_id, recovering=run.recovery).update(
            recovering="", recovering_since=None, recovering_by="", probe_at=None
        )
    if run.parent_id and not _ends_with_parent:
        after_child(change, change.lock(Run, run.parent_id), run)


_LEFT = """
select sayso_now(),
       exists (select from runtime_app_run where parent_id = %(run)s and not state = any(%(ended)s)),
       exists (select from runtime_app_request where run_id = %(run)s and state = 'pending')
    or exists (select from runtime_app_effect where run_id = %(run)s and not state = any(%(settled)s))
    or exists (select from runtime_app_grant where run_id = %(run)s and state = 'unused')
"""


def _left(change: Change, run: Run) -> tuple[bool, bool]:
    """Whether the Run has children that live, and anything to take back: most have neither when they end. Under the
    Session's lock nothing is added meanwhile. The clock is read with it."""
    with connection.cursor() as cursor:
        cursor.execute(_LEFT, {"run": run.pk, "ended": list(states.ENDED), "settled": list(states.SETTLED)})
        now, children, open_waits = cursor.fetchone()
    change.reads(now)
    return children, open_waits


def take_back(change: Change, run: Run, why: str = "the Run ended") -> list[str]:
    """Cancel what still waits and withdraw what was not sent. Requests are locked by id, then Effects (R05). Returns
    the ids of Effects that were sent, or may have been, and are not settled."""
    pending = Request.objects.select_for_update(no_key=True).filter(
        run_id=run.pk, state="pending", kind__in=["wait_user", "wait_approval"]
    )
    for request in pending.order_by("pk"):
        close(change, run, request, "cancelled")
    unsettled = Effect.objects.select_for_update(no_key=True).filter(run_id=run.pk).exclude(state__in=states.SETTLED)
    remaining = []
    for effect in unsettled.order_by("pk"):
        if effect.state == "prepared":
            withdraw(change, run, effect, why)
        else:
            remaining.append(str(effect.pk))
    if run.recovery == "redispatch" or not run.hosted:  # Grants that prepared nothing
        for made in Grant.objects.filter(run_id=run.pk, state="unused").select_related("request"):
            revoke(change, run, made.request, why)
    return remaining


def close(change: Change, run: Run, request: Request, state: str, *, at=None, **told) -> None:
    """End a pending Request without a Response: cancelled, expired or superseded. Whose deadline has passed is expired,
    whether or not a sweep has written it down yet (R08)."""
    if request.expires_at and request.expires_at <= change.now():
        state, at, told = "expired", request.expires_at, {}
    request.state, request.resolved_at = state, at or change.now()
    request.resolved_by = "" if state == "expired" else change.context.actor.name
    request.save(update_fields=["state", "resolved_at", "resolved_by"])
    change.note(f"request.{state}", run=run, subject=request.pk, request_kind=request.kind, **told)
    tell(change, run, request)


def end_child(change: Change, parent: Run, child: Run, how: str) -> None:
    """What ends a parent ends its live children: by name, each with its own Event (R28)."""
    by = parent.cancelled_by or f"Run {parent.pk}"
    child.cancelled_by, child.cancel_requested_at = by, child.cancel_requested_at or change.now()
    unasked = " What was given for it was not asked for." if child.key == GIVEN else ""
    child.cancel_reason = child.cancel_reason or f"Its parent {how}.{unasked}"
    if child.state == "running":  # its worker has to stop first
        child.save(update_fields=["cancelled_by", "cancel_requested_at", "cancel_reason"])
        change.note("run.cancelling", run=child, by=by, parent=str(parent.pk))
        change.log.work(f"cancel {child.pk}")
    else:
        end(change, child, "cancelled", by=by, parent=str(parent.pk), _ends_with_parent=True)


def after_child(change: Change, parent: Run, child: Run) -> None:
    """A child ended: its Blocker is its parent's; else the parent goes on when nothing else stops it (R28)."""
    if parent.state != "waiting":
        return
    found = Blocker.objects.filter(run_id=child.pk).first() if child.state == "blocked" else None
    if found and not parent.interactive:
        rise(change, parent, child, found)
    else:
        wake(change, parent)


def rise(change: Change, parent: Run, child: Run, found: Blocker) -> None:
    unblocks = found.unblocks
    if Run.objects.filter(parent_id=parent.pk, key=GIVEN).exists():
        unblocks = f"What was given for this run was not asked for. {unblocks}"
    raised = Blocker(
        **{
            name: getattr(found, name)
            for name in ("kind", "prompt", "schema", "action_name", "action_version", "action_bytes", "action_hash")
            + ("claim", "described", "policy", "effect")
        },
        tenant_id=parent.tenant_id, session_id=parent.session_id, run_id=parent.pk, child=child.pk,
        unblocks=unblocks, successor_run=uuid7(),
    )  # fmt: skip
    count_equal(change, parent, raised)
    raised.save(force_insert=True)
    end(change, parent, "blocked", reason=unblocks, blocker=found.kind, child=str(child.pk))


def revoke(change: Change, run: Run, request: Request, why: str) -> None:
    """Void the unused Grant of this Request; the Effect it prepared, which the caller has locked, is withdrawn. One it
    would send again stays."""
    effect = Effect.objects.filter(request_id=request.pk, state="prepared").first()
    if effect:
        withdraw(change, run, effect, why)
        return
    made = Grant.objects.get(request_id=request.pk)
    made.state, made.void_why = "void", why[:200]
    made.save(update_fields=["state", "void_why"])
    change.note("grant.void", run=run, subject=made.pk, why=why)


def withdraw(change: Change, run: Run, effect: Effect, why: str) -> None:
    """What was granted and not sent is never sent: the Effect is withdrawn, its Grant void."""
    effect.state, effect.settled_at = "withdrawn", change.now()
    effect.save(update_fields=["state", "settled_at"])
    made = Grant.objects.get(request_id=effect.request_id)
    made.state, made.void_why = "void", why[:200]
    made.save(update_fields=["state", "void_why"])
    change.note("grant.void", run=run, subject=made.pk, why=why)
    change.note("effect.withdrawn", run=run, subject=effect.pk, why=why)


def open_effects(run: Run):
    """Ids of the Run's Effects that were sent, or may have been, and are not settled."""
    return (
        Effect.objects.filter(run_id=run.pk)
        .exclude(state__in=states.SETTLED)
        .values_list("pk", flat=True)
        .order_by("pk")
    )
