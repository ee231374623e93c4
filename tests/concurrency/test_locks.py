"""One order of locks for every verb (R05), and so no deadlock (T53)."""

import random
import re
from contextlib import contextmanager, suppress
from functools import partial

import pytest
from django.db import connection

from runtime_app import transitions
from runtime_app.errors import Busy, SaysoError
from runtime_app.ids import uuid7
from runtime_app.models import Effect, Policy, Request, Run
from tests.cast import KEY_NAME, Answer, Approve, Deny, Finding, Recover, claim, deployment, intend, send

ORDER = ["session", "run", "request", "effect", "environment"]
LOCK = re.compile(r'from "?runtime_app_(\w+)"?.* for (no key update|share)', re.IGNORECASE | re.DOTALL)


@contextmanager
def locks_taken():
    """The tables whose rows were locked by a statement of their own, in order."""
    taken = []

    def note(execute, sql, params, many, context):
        if found := LOCK.search(sql):
            assert "join" not in sql.lower(), "a locking join answers from before it waited"
            taken.append(found[1])
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield taken


def in_order(taken: list[str]) -> bool:
    return [ORDER.index(table) for table in taken] == sorted(ORDER.index(table) for table in taken)


def verbs(northgate):
    """Every verb that locks, each with how to get to where it can be called."""
    question = transitions.Question("q", "What is the API key called?", KEY_NAME)

    def turn(*waits, **more):
        return claim(northgate.start(**more))

    def approved():
        return partial(northgate.approves, "Ada", northgate.approval())

    def cancelled(request):
        return partial(northgate.cancels, "Olga", Run.objects.get(pk=request.run_id))

    def in_flight():
        northgate.granted()
        return intend()

    def recovering():
        northgate.says("Olga", northgate.unknown(), Recover("probe"))
        return partial(transitions.recovering, uuid7())

    def drifted():
        northgate.granted()
        northgate.policy(verdict="deny")
        return intend

    def replaced():
        request = northgate.question()
        northgate.says("Sam", request, Answer({"name": "ci"}))
        return partial(transitions.suspend, claim(), waits=[deployment(), question])

    def marked():
        held = turn()
        northgate.cancels("Olga", held.run)
        return held

    def ending():
        """A Run that ends with a pending Request and a prepared Effect."""
        requests = northgate.ask({"key": "a"}, {"key": "b"}, question)
        northgate.approves("Ada", requests[0])
        return requests[0]

    return {
        "start": lambda: partial(northgate.start, session_id=northgate.start().session_id),
        "claim": lambda: northgate.start() and claim,
        "journal": lambda: partial(transitions.journal, turn(), transitions.NewEntry("reply", 0, "{}")),
        "suspend": lambda: partial(transitions.suspend, turn(), waits=[question, deployment()]),
        "suspend again": replaced,
        "suspend, blocked": lambda: partial(transitions.suspend, turn(interactive=False), waits=[question]),
        "answer": lambda: partial(northgate.says, "Sam", northgate.question(), Answer({"name": "ci"})),
        "approve": approved,
        "deny": lambda: partial(northgate.says, "Ada", (r := northgate.approval()), Deny(r.digest)),
        "finding": lambda: partial(northgate.says, "Olga", northgate.unknown(), Finding("committed", "7")),
        "recover": lambda: partial(northgate.says, "Olga", northgate.unknown(), Recover("probe")),
        "accept": lambda: partial(northgate.says, "Olga", northgate.unknown(), Recover("accept")),
        "cancel": lambda: cancelled(ending()),
        "cancel, uncertain": lambda: cancelled(northgate.unknown()),
        "stopped": lambda: partial(transitions.stopped, marked()),
        "finish": lambda: partial(transitions.finish, turn(), state="succeeded"),
        "give back": lambda: partial(transitions.give_back, turn()),
        "intend": lambda: northgate.granted() and intend,
        "intend, drifted": drifted,
        "record": lambda: partial(send, in_flight()),
        "record, unknown": lambda: partial(transitions.record, in_flight(), TimeoutError()),
        "recovering": recovering,
        "recovered": lambda: partial(transitions.recovered, recovering()(), TimeoutError()),
    }


def test_every_verb_locks_in_one_order(northgate, clock):
    """R05: Session, Run, Request, Effect, Environment; each by a statement of its own, the Session always first."""
    for name in verbs(northgate):
        call = verbs(northgate)[name]()
        with locks_taken() as taken:
            call()
        taken = [table for table in taken if table != "worker"]
        assert taken[0] == "session", (name, taken)
        assert in_order(taken), (name, taken)
        assert taken.count("session") == 1 and taken.count("run") == (name != "start"), (name, taken)
        Policy.objects.all().delete()
        for run in Run.objects.exclude(state__in=["succeeded", "failed", "cancelled", "blocked"]):
            with suppress(SaysoError):
                northgate.cancels("Olga", run)


def test_the_sweep_locks_in_the_same_order(northgate, clock):
    """R05, R30: row by row, each in a transaction of its own."""
    northgate.question()
    claim(northgate.start())
    northgate.granted()
    intend()
    clock.move(days=8)
    with locks_taken() as taken:
        assert transitions.sweep() == 3
    rows = " ".join(taken).split("session")[1:]
    assert len(rows) == 3 and all(in_order(row.split()) and row.split()[0] == "run" for row in rows), taken


def test_a_noninteractive_run_ends_under_its_sessions_lock(northgate, clock):
    """R05, R33: what its end takes back is locked again; nobody can be waiting there, since the Session came first."""
    northgate.policy(verdict="allow")
    turn = claim(northgate.start(interactive=False))
    transitions.suspend(turn, waits=[deployment()])
    transitions.record(intend(), TimeoutError())
    clock.move(minutes=1)  # past the deadline until which it is probed (R35)
    with locks_taken() as taken:
        transitions.sweep()
    assert Run.objects.get().state == "blocked"
    assert taken[:2] == ["session", "run"]


@pytest.mark.parametrize("sessions", [1, 2])
def test_all_verbs_at_once_never_deadlock(northgate, crowd, race, deadlocks, owner, sessions):
    """T53: sixteen at once, whatever they meet."""
    before = deadlocks()
    crowd("operator", 2)
    held = [northgate.start().session_id for _ in range(sessions)]
    for number in range(24):
        northgate.start(session_id=held[number % sessions], interactive=number % 6 > 0)
    question = transitions.Question("q", "Which key?", KEY_NAME)

    def acts(seed):
        chance, worker, seen = random.Random(seed), uuid7(), []
        transitions.beat(worker, "worker", [])

        def take():
            if turn := transitions.claim(worker):
                waits = chance.sample([question, deployment(key="a"), deployment("0.8.9", key="b")], 2)
                chance.choice([
                    lambda: transitions.suspend(turn, waits=waits),
                    lambda: transitions.finish(turn, state="succeeded"),
                    lambda: transitions.give_back(turn),
                ])()  # fmt: skip

        def respond():
            pending = list(Request.objects.filter(state="pending"))
            if pending:
                request = chance.choice(pending)
                who, response = {
                    "wait_user": ("Sam", Answer({"name": "ci"})),
                    "wait_approval": ("Ada", chance.choice([Approve, Deny])(request.digest)),
                    "wait_effect": (
                        "Olga",
                        chance.choice([Finding("committed", "7"), Recover("accept"), Recover("probe")]),
                    ),
                }[request.kind]
                northgate.says(who, request, response)

        def cancel():
            northgate.cancels("Operator0", chance.choice(list(Run.objects.all())))

        def dispatch():
            if found := transitions.intend(worker):
                transitions.record(
                    found, chance.choice([TimeoutError(), found.action.dispatch(found.key, found.parameters, "")])
                )

        def recover():
            if found := transitions.recovering(worker):
                transitions.recovered(found, found.action.probe(found.key, found.parameters, ""))

        def beat():
            transitions.beat(worker, "worker", [])

        def start():
            northgate.start("Operator1", session_id=chance.choice(held))

        for _ in range(14):
            act = chance.choice(
                [take, take, respond, respond, respond, cancel, dispatch, recover, beat, start, transitions.sweep]
            )
            try:
                act()
            except SaysoError as error:
                seen.append(error)
        return seen

    met = race(*(partial(acts, seed) for seed in range(16)))
    assert not [each for each in met if isinstance(each, Exception)], met
    assert not [error for each in met for error in each if isinstance(error, Busy)]
    assert deadlocks() == before
    assert Effect.objects.exists()
