"""Real worker processes: killed anywhere, several at once, told to stop, asked to hurry."""

import asyncio
import signal
import threading
import time
from types import SimpleNamespace

import pytest
from django.db import DataError, OperationalError, connections

from runtime_app import transitions, worker
from runtime_app.actions import NotSent
from runtime_app.models import Effect, Evidence, Request, Run, Worker
from tests.cast import Answer, Recover, intend
from tests.hosted.loops import runs
from tests.hosted.processes import beside_a_worker, soon


def start(northgate, message, agent="deployer", **more) -> Run:
    return transitions.start(northgate.context("Olga"), agent=agent, environment="staging", message=message, **more)


def state(run: Run) -> str:
    return Run.objects.values_list("state", flat=True).get(pk=run.pk)


def reaches(run: Run, wanted: str, within: float = 20) -> None:
    soon(lambda: state(run) == wanted, within)


def asked(run: Run) -> Request:
    return soon(lambda: Request.objects.filter(run=run).first())


def deliveries(harbor) -> int:
    return sum(line["what"] in ("committed", "repeat") for line in harbor.log.lines)


def test_a_question_and_a_deployment_reach_their_ends(northgate, workers, harbor):
    """The text's first two Runs, by a real worker, against a real provider."""
    workers.start()
    soon(Worker.objects.exists, within=30)
    question, deployment = start(northgate, "ask for the key"), start(northgate, "deploy card-api 0.8.8")
    northgate.says("Sam", asked(question), Answer({"name": "ci-october"}))
    northgate.approves("Ada", asked(deployment))
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
    """B74, T105, R22, R23: what is not known is asked, a look-up settles it, and nothing is sent again."""
    run = worked(start(northgate, "deploy card-api 0.8.8"))
    northgate.approves("Ada", Request.objects.get())
    only_dispatches = workers.start(f"{point}:kill", SAYSO_AGENTS="examples.harbor.actions")
    assert only_dispatches.wait(30) == -signal.SIGKILL
    expected, sent = SENT[point]
    assert (Effect.objects.get().state, deliveries(harbor)) == (expected, sent)
    clock.move(seconds=60)  # the dead worker is missed
    transitions.sweep()
    if expected == "in_flight":
        assert Effect.objects.get().state == "uncertain"
        northgate.says("Olga", Request.objects.get(kind="wait_effect"), Recover("probe"))
    beside_a_worker(lambda: reaches(run, "succeeded"))
    committed = sent or expected == "prepared"
    assert Effect.objects.get().state == ("committed" if committed else "not_committed")
    assert deliveries(harbor) == committed
    if expected == "in_flight":
        assert Evidence.objects.filter(source="probe", grade="observed").exists()


@pytest.mark.parametrize(
    "point", ["turn.claimed", "turn.reply_journaled", "turn.tool_returned", "turn.suspended"]
)
def test_a_worker_killed_at_any_point_of_a_turn_repeats_no_finished_tool(northgate, workers, worked, clock, point):
    """B98, R22, R29: another takes the Run up where the journal ends."""
    run = start(northgate, "tool and wait", agent="scripted")
    assert workers.start(f"{point}:kill").wait(30) == -signal.SIGKILL
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
    soon(lambda: "hanging" in runs(), within=30)
    northgate.cancels("Olga", run)
    began = time.monotonic()
    reaches(run, "cancelled", within=1)
    assert time.monotonic() - began < 1


def test_a_worker_told_to_end_gives_its_runs_back(northgate, workers):
    """Within five seconds, also when a thread hangs; the Run is another's at once."""
    leaving = workers.start(SAYSO_LEASE_SECONDS="60", SAYSO_BEAT_SECONDS="8", SAYSO_AGENTS="tests.hosted.loops")
    run = start(northgate, "hang", agent="stubborn")
    soon(lambda: "hanging" in runs(), within=30)
    leaving.send_signal(signal.SIGTERM)
    assert leaving.wait(5) == 0
    assert state(run) == "queued"
    assert not Worker.objects.exists()


def test_many_workers_side_by_side_take_each_run_once(northgate, workers):
    for _ in range(3):
        workers.start(SAYSO_AGENTS="tests.hosted.loops")
    soon(lambda: Worker.objects.count() == 3, within=60)
    for run in [start(northgate, "go", agent="twice") for _ in range(30)]:
        reaches(run, "succeeded")
    assert runs().count("one") == runs().count("two") == 30


def test_no_wake_up_is_lost(northgate):
    """B96, T108: a worker that looks by itself only once a minute is told of everything in time."""

    def people():
        for number in range(100):
            run = start(northgate, "go", agent="asks")
            northgate.says("Sam", asked(run), Answer({"name": str(number)}))
            reaches(run, "succeeded")

    began = time.monotonic()
    beside_a_worker(people, SAYSO_LOOK_SECONDS=60)
    assert time.monotonic() - began < 55, "nothing waited for the worker's own look"


def test_a_run_whose_session_was_busy_is_not_forgotten(northgate, owner):
    """A wake-up that comes while somebody else changes the Session is not lost either."""
    busy, free = start(northgate, "go", agent="asks"), start(northgate, "go", agent="asks")

    def people():
        with owner.transaction():
            owner.execute("select 1 from runtime_app_session where id = %s for no key update", [busy.session_id])
            reaches(free, "waiting")
        reaches(busy, "waiting", within=10)

    beside_a_worker(people, SAYSO_LOOK_SECONDS=60)


# ---------------------------------------------------------------- what it costs, counted


def test_a_run_with_one_question_costs_six_commits(northgate):
    """The worker's four: claim, suspend, claim, finish. The start and the answer are two."""

    def people():
        for _ in range(10):
            run = start(northgate, "go", agent="asks")
            northgate.says("Sam", asked(run), Answer({"name": "x"}))
            reaches(run, "succeeded")

    calls = beside_a_worker(people)
    assert calls.pop("beat") >= 1  # as many as the machine is slow
    for seldom in ("sweep", "claimable", "leave", "due"):
        assert calls.pop(seldom) <= 2
    assert calls == {"claim": 20, "suspend": 10, "finish": 10}


def test_a_run_with_a_deployment_costs_nine_commits(northgate, harbor):
    def people():
        for _ in range(5):
            run = start(northgate, "deploy card-api 0.8.8")
            northgate.approves("Ada", asked(run))
            reaches(run, "succeeded")

    calls = beside_a_worker(people)
    assert {name: calls[name] for name in ("claim", "suspend", "intend", "record", "finish")} == {
        "claim": 10, "suspend": 5, "intend": 10, "record": 5, "finish": 5,
    }  # fmt: skip


def test_an_idle_worker_commits_less_than_once_a_second(northgate):
    """R39: with the ratio of intervals it has by default (5 s, 3 s), a hundred times as fast.

    By the time that the worker itself had, which on a busy machine is more than the second asked for.
    """
    began = time.monotonic()
    a_second = lambda: soon(lambda: time.monotonic() - began > 1)  # noqa: E731
    idle = beside_a_worker(a_second, SAYSO_LOOK_SECONDS=0.05, SAYSO_BEAT_SECONDS=0.03)
    assert sum(idle.values()) < 100 * (time.monotonic() - began) + 5, idle


# ---------------------------------------------------------------- what goes wrong around it


def test_nothing_is_sent_after_its_time(northgate, harbor):
    """R23: checked just before the call, by a clock that nobody sets. A worker that was frozen sends nothing."""
    answered = worker.send_in_time(_dispatch(northgate), send_by=time.monotonic() - 0.001)
    assert isinstance(answered, NotSent)
    assert not harbor.log.lines


def test_a_worker_told_to_end_lets_a_dispatch_end(northgate, harbor, workers):
    harbor.set_mode({"mode": "late", "seconds": 1})
    leaving = workers.start(SAYSO_AGENTS="examples.harbor.actions")
    _granted(northgate)
    soon(lambda: harbor.log.lines, within=30)
    leaving.send_signal(signal.SIGTERM)
    assert leaving.wait(5) == 0
    assert Effect.objects.get().state == "committed"


def test_a_provider_that_keeps_silent_does_not_hold_the_end(northgate, harbor, workers):
    """What came of it is asked: nobody knows (R23)."""
    harbor.set_mode({"mode": "late", "seconds": 60})
    leaving = workers.start(SAYSO_AGENTS="examples.harbor.actions")
    _granted(northgate)
    soon(lambda: harbor.log.lines, within=30)
    leaving.send_signal(signal.SIGTERM)
    assert leaving.wait(5) == 0
    assert Effect.objects.get().state == "in_flight"


def test_a_worker_survives_the_loss_of_all_its_connections(northgate, owner):
    """It listens again, looks again, and the Run goes on."""

    def people():
        first = start(northgate, "go", agent="asks")
        asked(first)
        cut = "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()"
        owner.execute(f"{cut} and usename = 'sayso_app' and application_name = ''")
        connections.close_all()
        northgate.says("Sam", asked(first), Answer({"name": "x"}))
        reaches(first, "succeeded")

    beside_a_worker(people, SAYSO_LOOK_SECONDS=2)


class Away:
    """A database that is away for so many calls; `calls` are those that reached it."""

    def __init__(self, times: int, error=OperationalError):
        self.times, self.error, self.calls = times, error, []

    async def __call__(self, function, *arguments, **named):
        if self.times > 0:
            self.times -= 1
            raise self.error("the server closed the connection")
        self.calls.append(getattr(function, "__name__", function))


@pytest.fixture
def naps(monkeypatch) -> list:
    """How long the worker would have slept."""
    taken, sleep = [], asyncio.sleep

    async def nap(seconds):
        taken.append(seconds)
        await sleep(0)

    monkeypatch.setattr(worker.asyncio, "sleep", nap)
    return taken


def recording(away: Away) -> None:
    lives = worker.Worker()
    lives.call = away
    asyncio.run(lives._record("record", SimpleNamespace(effect_id=1), "reply"))


def test_a_reply_is_kept_until_the_database_is_back(naps):
    """R23, R29: a restart of half a minute turns no known reply into an unknown one."""
    recording(away := Away(40))
    assert away.calls == ["record"] and 20 < sum(naps) < 60 and max(naps) == 1


def test_a_probe_that_hangs_is_given_up_and_holds_up_no_dispatch(monkeypatch):
    """R24: it proves nothing; its threads are not those that dispatch."""
    lives, told, hanging = worker.Worker(), [], threading.Event()
    monkeypatch.setattr(worker, "PROBE_WITHIN", 0.01)
    probe = SimpleNamespace(probe=lambda *arguments: hanging.wait(30))
    asked = SimpleNamespace(effect_id=1, action=probe, key="k", parameters=None, environment="staging")

    async def call(verb, what, found):
        told.append((verb.__name__, what.effect_id, type(found)))

    async def hang():
        lives.call = call
        await lives._recovering(asked)
        assert await lives._outside(lives.providers, str, 7) == "7"

    try:
        asyncio.run(hang())
    finally:
        hanging.set()
        lives.probes.shutdown()
        lives.providers.shutdown()
    assert told == [("recovered", 1, TimeoutError)]


def test_providers_that_hang_past_their_deadline_hold_up_nobody(settings):
    """R23: as many as a worker sends at once; what they say in the end is recorded still. Probes go on beside them."""
    lives, told, hanging = worker.Worker(), [], threading.Event()
    silent = SimpleNamespace(dispatch=lambda *arguments: hanging.wait(30))
    quick = SimpleNamespace(dispatch=lambda *arguments: "done")

    def dispatch(number, action, deadline=0.05):
        facts = {"key": "k", "parameters": None, "environment": "staging", "seconds": 30, "deadline": deadline}
        return SimpleNamespace(effect_id=number, action=action, **facts)

    async def call(verb, what, reply):
        told.append(what.effect_id)

    async def work():
        lives.call = call
        for number in range(settings.SAYSO_WORKER_TURNS):
            lives._dispatch(dispatch(number, silent), time.monotonic())
        assert not lives._has_room_to_send() and lives._has_room_to_ask()
        async with asyncio.timeout(10):
            while not lives._has_room_to_send():
                await asyncio.sleep(0.01)
            lives._dispatch(dispatch(99, quick), time.monotonic())
            while 99 not in told:
                await asyncio.sleep(0.01)
            assert told == [99]
            hanging.set()
            while len(told) <= settings.SAYSO_WORKER_TURNS:
                await asyncio.sleep(0.01)
        assert not lives.leaving

    try:
        asyncio.run(work())
    finally:
        hanging.set()
        lives.providers.shutdown()
    assert sorted(told) == [*range(settings.SAYSO_WORKER_TURNS), 99]


def test_what_no_database_takes_is_not_tried_for_ever(naps):
    recording(away := Away(40, DataError))
    assert (away.calls, len(naps)) == ([], worker.TRIES)


def test_a_worker_that_was_cut_off_says_that_it_lives_before_it_takes_anybody_for_dead(naps):
    """R23: what it sent is not given up by its own sweep."""
    lives, said = worker.Worker(), Away(1)

    async def until_it_sweeps():
        sweeping = asyncio.create_task(lives._sweeps())
        while len(said.calls) < 2:
            await asyncio.sleep(0)
        sweeping.cancel()

    lives.call, lives.beat = said, lambda: said(transitions.beat)
    asyncio.run(until_it_sweeps())
    assert said.calls[:2] == ["beat", "sweep"]


def _granted(northgate) -> Effect:
    """An Effect for Harbor that Ada approved."""
    request = northgate.ask(transitions.Ask("d", "deploy_release", '{"service":"card-api","version":"0.8.8"}'))[0]
    northgate.approves("Ada", request)
    return Effect.objects.get(request_id=request.pk)


def _dispatch(northgate) -> transitions.Dispatch:
    _granted(northgate)
    return intend()
