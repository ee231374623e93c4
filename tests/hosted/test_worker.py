"""Real worker processes: killed anywhere, several at once, told to stop, asked to hurry."""

import asyncio
import signal
import threading
import time
from collections import Counter

import pytest
from django.db import connections
from django.test import override_settings

from runtime_app import transitions, worker
from runtime_app.models import Effect, Evidence, Request, Run, Worker
from tests.cast import Answer, Recover
from tests.hosted.agents import runs
from tests.hosted.processes import soon


def start(northgate, message, agent="deployer", **more) -> Run:
    return transitions.start(northgate.context("Olga"), agent=agent, environment="staging", message=message, **more)


def state(run: Run) -> str:
    return Run.objects.values_list("state", flat=True).get(pk=run.pk)


def reaches(run: Run, wanted: str, within: float = 20) -> None:
    soon(lambda: state(run) == wanted, within)


def deliveries(harbor) -> int:
    return sum(line["what"] in ("committed", "repeat") for line in harbor.log.lines)


def test_a_question_and_a_deployment_reach_their_ends(northgate, workers, harbor):
    """The text's first two Runs, by a real worker, against a real provider."""
    workers.start()
    question, deployment = start(northgate, "ask for the key"), start(northgate, "deploy card-api 0.8.8")
    northgate.says("Sam", soon(lambda: Request.objects.filter(run=question).first()), Answer({"name": "ci-october"}))
    northgate.approves("Ada", soon(lambda: Request.objects.filter(run=deployment).first()))
    reaches(question, "succeeded")
    reaches(deployment, "succeeded")
    assert "ci-october" in Run.objects.get(pk=question.pk).result
    assert deliveries(harbor) == 1


SENT = {
    "dispatch.claim": ("prepared", 0),
    "dispatch.intent_committed": ("in_flight", 0),
    "dispatch.before_send": ("in_flight", 0),
    "dispatch.after_send": ("in_flight", 1),
    "dispatch.result_committed": ("committed", 1),
}


@pytest.mark.parametrize("point", SENT)
def test_a_worker_killed_at_any_point_of_a_dispatch_never_sends_twice(
    northgate, workers, worked, harbor, clock, point
):
    """R22, R23: what is not known is asked, a look-up settles it, and nothing is sent again."""
    run = worked(start(northgate, "deploy card-api 0.8.8"))
    northgate.approves("Ada", Request.objects.get())
    assert workers.start(f"{point}:kill").wait(20) == -signal.SIGKILL
    expected, sent = SENT[point]
    assert (Effect.objects.get().state, deliveries(harbor)) == (expected, sent)
    clock.move(seconds=60)  # the dead worker is missed
    transitions.sweep()
    if expected == "in_flight":
        asked = Request.objects.get(kind="wait_effect")
        assert Effect.objects.get().state == "uncertain"
        northgate.says("Olga", asked, Recover("probe"))
    workers.start()
    reaches(run, "succeeded")
    committed = sent or expected == "prepared"
    assert Effect.objects.get().state == ("committed" if committed else "not_committed")
    assert deliveries(harbor) == committed
    if expected == "in_flight":
        assert Evidence.objects.filter(source="probe", grade="observed").exists()


@pytest.mark.parametrize(
    "point", ["turn.claimed", "turn.reply_journaled", "turn.tool_returned", "turn.suspended"]
)
def test_a_worker_killed_at_any_point_of_a_turn_repeats_no_finished_tool(northgate, workers, worked, clock, point):
    """R22, R29: another takes the Run up where the journal ends."""
    run = start(northgate, "tool and wait", agent="scripted")
    assert workers.start(f"{point}:kill").wait(20) == -signal.SIGKILL
    if point != "turn.suspended":
        assert state(run) == "running"
        clock.move(seconds=60)
        transitions.sweep()
        worked(run)
    assert state(run) == "waiting"
    assert (runs().count("model"), runs().count("count one")) == (1, 1)
    assert Request.objects.count() == 1


@pytest.mark.parametrize("agent", ["scripted", "stubborn"])
def test_cancelling_stops_a_hanging_run_within_a_second(northgate, workers, agent):
    """R29: a model call in progress, and a tool's thread that nobody can stop."""
    workers.start(SAYSO_LEASE_SECONDS="20", SAYSO_BEAT_SECONDS="8", SAYSO_LOOK_SECONDS="30")
    run = start(northgate, "hang", agent=agent)
    soon(lambda: "hanging" in runs())
    northgate.cancels("Olga", run)
    began = time.monotonic()
    reaches(run, "cancelled", within=1)
    assert time.monotonic() - began < 1


def test_a_worker_told_to_end_gives_its_runs_back(northgate, workers):
    """Within five seconds, also when a thread hangs; the Run is another's at once."""
    leaving = workers.start(SAYSO_LEASE_SECONDS="60", SAYSO_BEAT_SECONDS="8")
    run = start(northgate, "hang", agent="stubborn")
    soon(lambda: "hanging" in runs())
    leaving.send_signal(signal.SIGTERM)
    assert leaving.wait(5) == 0
    assert state(run) == "queued"
    assert not Worker.objects.exists()


def test_many_workers_side_by_side_take_each_run_once(northgate, workers):
    for _ in range(3):
        workers.start()
    started = [start(northgate, "two tools", agent="scripted") for _ in range(30)]
    for run in started:
        reaches(run, "succeeded")
    assert runs().count("count one") == runs().count("slow two done") == 30
    assert runs().count("model") == 60


def test_no_wake_up_is_lost(northgate, workers):
    """A worker that looks by itself only every half minute is told of everything in time."""
    workers.start(SAYSO_LOOK_SECONDS="30", SAYSO_LEASE_SECONDS="60", SAYSO_BEAT_SECONDS="20")
    began = time.monotonic()
    for number in range(100):
        run = start(northgate, "go", agent="asks")
        request = soon(lambda run=run: Request.objects.filter(run=run).first())
        northgate.says("Sam", request, Answer({"name": str(number)}))
        reaches(run, "succeeded")
    assert time.monotonic() - began < 28, "nothing waited for the worker's own look"


def test_a_run_whose_session_was_busy_is_not_forgotten(northgate, workers, owner):
    """A wake-up that comes while somebody else changes the Session is not lost either."""
    busy, free = start(northgate, "go", agent="asks"), start(northgate, "go", agent="asks")
    owner.execute("set idle_in_transaction_session_timeout = 0")
    with owner.transaction():
        owner.execute("select 1 from runtime_app_session where id = %s for no key update", [busy.session_id])
        workers.start(SAYSO_LOOK_SECONDS="30", SAYSO_LEASE_SECONDS="60", SAYSO_BEAT_SECONDS="20")
        reaches(free, "waiting")
    reaches(busy, "waiting", within=7)


# ---------------------------------------------------------------- what it costs, counted


def counted(people, **intervals) -> Counter:
    """The transactions of a worker in this process, by name, while `people` do what they do in another thread."""
    calls = Counter()

    class Counting(worker.Worker):
        async def _in(self, threads, function, *arguments, **named):
            calls[function.__name__] += 1
            return await super()._in(threads, function, *arguments, **named)

    async def work():
        counting = Counting()
        working = asyncio.create_task(counting.run())
        try:
            await asyncio.to_thread(_with_own_connection, people)
        finally:
            counting.stop()
            await working
            for threads, number in ((counting.domain, worker.DOMAIN_THREADS), (counting.pulse, 1)):
                _close(threads, number)
            counting.providers.shutdown()

    with override_settings(**intervals):
        asyncio.run(work())
    return calls


def _close(threads, number: int) -> None:
    """Each thread's connection: at a barrier, so that no thread comes twice."""
    line = threading.Barrier(number)
    list(threads.map(lambda _: (line.wait(5), connections.close_all()), range(number)))
    threads.shutdown()


def _with_own_connection(people) -> None:
    try:
        people()
    finally:
        connections.close_all()


def test_a_run_with_one_question_costs_seven_commits(northgate):
    """The worker's five: claim, suspend, claim, what the answer was, finish. The start and the answer are two."""

    def people():
        for _ in range(10):
            run = start(northgate, "go", agent="asks")
            northgate.says("Sam", soon(lambda run=run: Request.objects.filter(run=run).first()), Answer({"name": "x"}))
            reaches(run, "succeeded")

    calls = counted(people, SAYSO_LOOK_SECONDS=60, SAYSO_BEAT_SECONDS=60)
    for seldom in ("sweep", "claimable", "beat", "leave"):
        assert calls.pop(seldom) <= 2
    assert calls == {"claim": 20, "suspend": 10, "of": 10, "finish": 10}


def test_a_run_with_a_deployment_costs_ten_commits(northgate, harbor):
    def people():
        for _ in range(5):
            run = start(northgate, "deploy card-api 0.8.8")
            northgate.approves("Ada", soon(lambda run=run: Request.objects.filter(run=run).first()))
            reaches(run, "succeeded")

    calls = counted(people, SAYSO_LOOK_SECONDS=60, SAYSO_BEAT_SECONDS=60)
    assert {name: calls[name] for name in ("claim", "suspend", "intend", "record", "of", "finish")} == {
        "claim": 10, "suspend": 5, "intend": 10, "record": 5, "of": 5, "finish": 5,
    }  # fmt: skip


def test_an_idle_worker_commits_less_than_once_a_second(northgate):
    """R39: with the ratio of intervals it has by default (5 s, 3 s), a hundred times as fast."""
    began = time.monotonic()
    idle = counted(lambda: soon(lambda: time.monotonic() - began > 1), SAYSO_LOOK_SECONDS=0.05, SAYSO_BEAT_SECONDS=0.03)
    assert sum(idle.values()) < 100 + 5, idle
