"""What a Run costs, by count: commits, statements, write-ahead log; the same whatever came before it (goal 4)."""

from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from django.db import connection

from runtime_app import transitions
from runtime_app.actions import Committed
from runtime_app.ids import uuid7
from runtime_app.models import Effect, Event, Now, Request, Run, Session
from tests.cast import KEY_NAME, WORKER, Answer, deployment

QUESTION = transitions.Question("q", "What is the API key called?", KEY_NAME)
REPLY = '{"parts": [{"content": "I need the name of the key."}]}' * 4


@dataclass
class Cost:
    commits: int = 0
    statements: int = 0  # BEGIN and COMMIT included
    wal: int = 0  # bytes, without the full pages that follow a checkpoint


@pytest.fixture
def counting(owner, monkeypatch):
    """The cost of what is done inside, by this process's one connection."""

    @contextmanager
    def counting():
        cost = Cost()

        def note(execute, sql, params, many, context):
            cost.statements += 1
            if not connection.in_atomic_block:
                cost.commits += 1
            return execute(sql, params, many, context)

        def commit(commit=connection._commit):
            cost.commits += 1
            cost.statements += 2
            commit()

        connection.ensure_connection()
        before = _wal(owner)
        with monkeypatch.context() as patched, connection.execute_wrapper(note):
            patched.setattr(connection, "_commit", commit)
            yield cost
        cost.wal = _wal(owner) - before

    return counting


def _wal(owner) -> int:
    """What our connection's backend has written so far; before PostgreSQL 18, what the whole server has."""
    if connection.pg_version < 180000:
        return owner.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint").fetchone()[0]
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush(), pg_backend_pid()")
        pid = cursor.fetchone()[1]
    written = "SELECT wal_bytes::bigint, wal_fpi FROM pg_stat_get_backend_wal(%s)"
    written, pages = owner.execute(written, [pid]).fetchone()
    return written - pages * 8192


def with_a_question(northgate, session_id=None) -> Run:
    """start, claim, suspend, respond, claim, finish."""
    run = northgate.start(session_id=session_id)
    turn = transitions.claim(WORKER)
    transitions.suspend(turn, waits=[QUESTION], entries=[transitions.NewEntry("reply", 0, REPLY)])
    northgate.says("Sam", _pending(run), Answer({"name": "ci"}))
    turn = transitions.claim(WORKER)
    transitions.finish(turn, state="succeeded", result="done", entries=[transitions.NewEntry("reply", 1, REPLY)])
    return run


def with_an_approval(northgate, session_id=None) -> Run:
    """start, claim, suspend, respond, intend, record, claim, finish."""
    run = northgate.start(session_id=session_id)
    turn = transitions.claim(WORKER)
    transitions.suspend(turn, waits=[deployment()], entries=[transitions.NewEntry("reply", 0, REPLY)])
    northgate.approves("Ada", _pending(run))
    transitions.record(transitions.intend(WORKER), Committed("build 7"))
    turn = transitions.claim(WORKER)
    transitions.finish(turn, state="succeeded", result="done", entries=[transitions.NewEntry("reply", 1, REPLY)])
    return run


def _pending(run) -> Request:
    return Request.objects.get(run_id=run.pk, state="pending")


def least(counting, do, *arguments) -> Cost:
    """Of three times, each figure at its least: a vacuum or a new page of an index is nobody's cost."""
    costs = []
    for _ in range(3):
        with counting() as cost:
            do(*arguments)
        costs.append(cost)
    return Cost(*(min(getattr(cost, name) for cost in costs) for name in ("commits", "statements", "wal")))


LIMITS = {with_a_question: Cost(7, 66, 12 * 1024), with_an_approval: Cost(9, 120, 22 * 1024)}


@pytest.mark.parametrize("do", LIMITS, ids=lambda do: do.__name__)
def test_a_run_costs_no_more_than_its_limits(northgate, counting, do):
    """Goal 4: hard limits, as counts are the same on every machine. Reading the Request is one statement and commit."""
    transitions.beat(WORKER, "worker", [])
    do(northgate)
    cost, limit = least(counting, do, northgate), LIMITS[do]
    assert cost.commits <= limit.commits and cost.statements <= limit.statements and cost.wal <= limit.wal, cost


@pytest.mark.parametrize("do", LIMITS, ids=lambda do: do.__name__)
def test_a_run_costs_the_same_whatever_came_before_it(northgate, counting, do):
    """Goal 4: with 10 and with 1,000 Events in its Session, and as many past Runs."""
    transitions.beat(WORKER, "worker", [])
    do(northgate)
    run = northgate.start()
    northgate.cancels("Olga", run)
    few = least(counting, do, northgate, run.session_id)
    _fill(run, 1_000)
    many = least(counting, do, northgate, run.session_id)
    assert (many.commits, many.statements) == (few.commits, few.statements)
    assert many.wal <= few.wal * 1.1 + 512
    assert Event.objects.filter(session_id=run.session_id).count() > 1_000 < Run.objects.count()


def _fill(run: Run, count: int) -> None:
    """So many more Events in the Run's Session, and ended Runs."""
    like = {"tenant_id": run.tenant_id, "session_id": run.session_id}
    seen = Session.objects.get(pk=run.session_id).last_seq
    Event.objects.bulk_create(
        Event(seq=seen + n, kind="x", actor_kind="system", actor_name="x", **like) for n in range(1, count + 1)
    )
    Session.objects.filter(pk=run.session_id).update(last_seq=seen + count)
    ended = {"state": "succeeded", "ended_at": Now(), "agent": run.agent, "message": "x"}
    place = {"environment_id": run.environment_id, "instance_id": run.instance_id}
    Run.objects.bulk_create(Run(**like, **ended, **place) for _ in range(count))


def test_the_cost_of_each_verb(northgate, counting):
    """Goal 4: no verb is more than one transaction."""
    transitions.beat(WORKER, "worker", [])
    run = northgate.start()
    steps = {
        "claim": lambda: turns.append(transitions.claim(WORKER)),
        "suspend": lambda: transitions.suspend(turns[0], waits=[deployment()]),
        "approve": lambda: northgate.approves("Ada", request),
        "intend": lambda: sent.append(transitions.intend(WORKER)),
        "record": lambda: transitions.record(sent[0], TimeoutError()),
        "cancel": lambda: northgate.cancels("Olga", run),
    }
    turns, sent, request = [], [], None
    for name, do in steps.items():
        if name == "approve":
            request = _pending(run)
        with counting() as cost:
            do()
        assert cost.commits == 1, (name, cost)
    assert Effect.objects.get().state == "uncertain"
    with counting() as cost:
        assert transitions.claim(uuid7()) is None and transitions.intend(WORKER) is None
    assert cost.statements <= 8, "nothing to do costs next to nothing"
