"""The sweep writes down what the clock has decided: expiry, lapsed Leases, unreported dispatches (R08, R23, R30).

Every worker sweeps; each row is locked in order and looked at again, so two sweeps at once do no harm.
"""

from datetime import timedelta

from django.conf import settings
from django.db import connection, transaction

from .. import clock, permissions
from ..models import Attempt, Effect, Environment, Grant, Request, Run, Worker
from .acting import end_with_instance
from .blocking import block_on, can_block
from .change import Change, opened
from .continuing import close, end, wake
from .evidence import conclude, doubt, locked, wake_recoverers
from .runs import LAPSES, requeue

BATCH = 100

_DUE = """
select 'expire', id, tenant_id from runtime_app_request
 where state = 'pending' and expires_at is not null and expires_at <= sayso_now()
union all
select 'lapse', id, tenant_id from runtime_app_run where state = 'running' and lease_until <= sayso_now()
union all
select 'doubt', e.id, e.tenant_id from runtime_app_effect e where e.state = 'in_flight' and (
    e.deadline_at <= sayso_now() or exists (
        select 1 from runtime_app_attempt a join runtime_app_run r on r.id = e.run_id and r.hosted
         where a.effect_id = e.id and a.replied_at is null and not exists (
            select 1 from runtime_app_worker w where w.id = a.worker and w.seen_at > sayso_now() - %s)))
union all
select 'stuck', e.id, e.tenant_id from runtime_app_effect e join runtime_app_run r on r.id = e.run_id
 where e.state = 'uncertain' and e.accepted_at is null and e.deadline_at <= sayso_now()
   and not r.interactive and (r.state = 'waiting' or not r.hosted and r.state in ('queued', 'running'))
   and r.cancel_requested_at is null
union all
select 'orphan', r.id, r.tenant_id from runtime_app_run r join runtime_app_instance i on i.id = r.instance_id
 where not r.hosted and r.state in ('queued', 'running', 'waiting') and i.deleted_at is not null
limit %s
"""


def sweep() -> int:
    """Do what is due, at most a batch. Returns how many rows were looked at again."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_DUE, [_silence(), BATCH])
        due = cursor.fetchall()
    failed = []
    for what, pk, tenant_id in due:
        try:
            with opened(what, permissions.system("sweep", tenant_id)) as change:
                _DONE[what](change, pk)
        except Exception as error:  # one row that cannot be written now must not keep the others from it
            failed.append(error)
    if failed:
        raise failed[0]
    return len(due)


def _silence() -> timedelta:
    """How long a worker may be silent before it counts as dead."""
    return timedelta(seconds=settings.SAYSO_LEASE_SECONDS)


def expire(change: Change, pk) -> None:
    """Its time is the deadline, whenever it is written down; nobody is named, no answer invented (R08)."""
    seen = Request.objects.values("session_id", "run_id").get(pk=pk)
    change.lock_session(seen["session_id"])
    run = change.lock(Run, seen["run_id"])
    request = change.lock(Request, pk)
    if request.state == "pending" and request.expires_at <= change.now():
        close(change, run, request, "expired", at=request.expires_at)
        wake(change, run)


def lapse(change: Change, pk) -> None:
    """A Lease ran out: the Run is another worker's, unless it was marked, or lapsed five times running (R30)."""
    change.lock_session(Run.objects.values_list("session_id", flat=True).get(pk=pk))
    run = change.lock(Run, pk)
    if run.state != "running" or run.lease_until > change.now():
        return
    if run.single and Effect.objects.filter(run_id=run.pk, state="in_flight").exists():
        return  # its deadline has passed as well, and a person is asked
    if run.single and Environment.objects.filter(pk=run.environment_id).exclude(held_at=None).exists():
        run.lease_until = change.now() + _silence()  # nothing is voided under a hold (R16); looked at again after it
        run.save(update_fields=["lease_until"])
        return
    if run.single:
        used = Grant.objects.filter(run_id=run.pk, state="consumed").exists()
        unused = "The approval was not used before it expired."
        end(change, run, "failed", reason="The approval was used; its agent reported nothing." if used else unused)
        return
    run.lapses += 1
    if run.cancel_requested_at:
        end(change, run, "cancelled", by=run.cancelled_by)
    elif run.lapses >= LAPSES:
        end(change, run, "failed", reason=f"Its worker was lost {LAPSES} times running.")
    else:
        requeue(change, run)


def give_up(change: Change, pk) -> None:
    """A dispatch past its deadline, or whose worker is dead: nobody knows, so it is uncertain. Never a replay (R23)."""
    run, effect = locked(change, pk)
    if effect.state != "in_flight":
        return
    attempt = Attempt.objects.filter(effect_id=pk).order_by("-number").first()
    if effect.deadline_at <= change.now():
        why = "No reply came before the deadline." if run.hosted else "Its agent reported nothing before the deadline."
    elif run.hosted and attempt.replied_at is None and not _lives(attempt.worker):
        why = "The worker that sent it, or was about to, is gone."
    else:
        return
    conclude(
        change, run, effect, finding="unknown", grade="observed", source="deadline", statement=why, attempt=attempt
    )
    doubt(change, run, effect)
    wake_recoverers(change, effect)


def block(change: Change, pk) -> None:
    """Probed until its deadline, and still nobody knows: the job with nobody on the line ends (R35)."""
    run, effect = locked(change, pk)
    if effect.state == "uncertain" and effect.accepted_at is None and can_block(run):
        block_on(change, run, effect)


def bury(change: Change, pk) -> None:
    """Who deleted its Instance did not get to end this Run."""
    change.lock_session(Run.objects.values_list("session_id", flat=True).get(pk=pk))
    end_with_instance(change, change.lock(Run, pk))


_DONE = {"expire": expire, "lapse": lapse, "doubt": give_up, "stuck": block, "orphan": bury}


def _lives(worker_id) -> bool:
    return Worker.objects.filter(pk=worker_id, seen_at__gt=clock.now() - _silence()).exists()
