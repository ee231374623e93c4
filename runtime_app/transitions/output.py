"""Streamed output: chunks by offset beside the Run, without the Session's lock (R36). A push says only that it grew."""

from django.conf import settings
from django.db import connection

from ..errors import LeaseLost
from ..events import NEWS
from ..ids import uuid7
from .runs import Turn

_WRITE = """
with lease as (
    select tenant_id, session_id, id from runtime_app_run
     where id = %(run)s and state = 'running' and lease_number = %(lease)s and lease_worker = %(worker)s
       and cancel_requested_at is null),
written as (
    insert into runtime_app_chunk (id, tenant_id, run_id, stream, "offset", text)
    select %(id)s, tenant_id, id, %(stream)s, %(offset)s, %(text)s from lease returning 1)
select pg_notify(%(news)s, concat_ws(' ', lease.tenant_id, lease.session_id, last_seq))
  from lease join runtime_app_session on runtime_app_session.id = session_id, written
"""

BATCH = 1_000  # chunks removed in one transaction

# Runs that have ended change no more: whoever marks them needs no Session lock.
_REMOVE = """
with old as (
    select c.id, c.run_id from runtime_app_chunk c join runtime_app_run r on r.id = c.run_id
     where r.ended_at < sayso_now() - make_interval(days => %(days)s)
     order by c.run_id, c.stream, c."offset" limit %(batch)s),
marked as (
    update runtime_app_run set output_removed_at = sayso_now()
     where id in (select run_id from old) and output_removed_at is null)
delete from runtime_app_chunk where id in (select id from old)
"""


def output(turn: Turn, stream: str, offset: int, text: str) -> None:
    """Append what a running step wrote. Only the newest Lease of an unmarked Run may; else LeaseLost (R29)."""
    facts = {
        "run": turn.run.pk, "lease": turn.lease_number, "worker": turn.worker_id, "id": uuid7(), "stream": stream,
        "offset": offset, "text": text, "news": NEWS,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(_WRITE, facts)
        if cursor.fetchone() is None:
            raise LeaseLost


def remove_output() -> int:
    """Remove output whose Run ended more than SAYSO_OUTPUT_DAYS ago, each stream from its beginning, at most BATCH
    chunks; the Run says since when. Returns how many were removed."""
    with connection.cursor() as cursor:
        cursor.execute(_REMOVE, {"days": settings.SAYSO_OUTPUT_DAYS, "batch": BATCH})
        return cursor.rowcount
