"""Jobs with nobody on the line: from the command line, and by the clock (R33, R34, B108)."""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from runtime_app import clock, jobs, permissions, selectors, transitions
from runtime_app.errors import Busy
from runtime_app.ids import uuid7
from runtime_app.management.commands.start_run import EXIT
from runtime_app.models import Blocker, Epoch, Refusal, Request, Run, Schedule, Tenant
from runtime_app.transitions import epochs
from tests.cast import Answer, Approve, Finding, intend, send
from tests.hosted.processes import AGENTS, beside_a_worker, soon

SIX = datetime(2030, 1, 7, 6, 0, tzinfo=UTC)  # a Monday


def command(*words: str) -> subprocess.Popen:
    """`./run manage start_run …`, as a cron or a pipeline would call it: no terminal, its standard input closed."""
    return subprocess.Popen(
        [sys.executable, "-m", "console.cli", "manage", "start_run", *words],
        env=os.environ | {"SAYSO_AGENTS": AGENTS}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def job(agent: str, message: str, *more: str) -> list[str]:
    return [agent, "--tenant", "northgate", "--environment", "staging", "--message", message, "--noninteractive", *more]


def ended(started: subprocess.Popen) -> tuple[int, dict]:
    out, said = started.communicate(timeout=60)
    assert out.count("\n") == 1, (out, said)
    return started.returncode, json.loads(out)


def test_the_exit_status_says_how_it_ended(northgate):
    """0 succeeded, 1 failed, 2 cancelled, 3 blocked; one JSON object on standard output."""
    told = []

    def people():
        started = [
            command(*job("scripted", message, "--wait", "--as", "olga")) for message in ("hang", "tool and wait")
        ]
        hanging = soon(lambda: Run.objects.filter(message="hang", state="running").first(), within=60)
        northgate.cancels("Olga", hanging, reason="too slow")
        told.extend(map(ended, started))

    beside_a_worker(people)
    (code, cancelled), (other, blocked) = told
    assert (code, other, EXIT) == (2, 3, {"succeeded": 0, "failed": 1, "cancelled": 2, "blocked": 3})
    assert (cancelled["state"], cancelled["cancelled"]["by"]) == ("cancelled", "Olga")
    assert (blocked["state"], blocked["blocker"]["kind"]) == ("blocked", "wait_approval")
    assert set(Run.objects.values_list("initiator_name", "interactive")) == {("Olga", False)}


@pytest.mark.parametrize(
    "words, told",
    [
        (job("scripted", "go", "--as", "ada"), "operator"),
        (job("scripted", "go", "--as", "mallory"), "no tenant northgate of which mallory"),
        (job("nobody", "go"), "No agent nobody is set up"),
        (job("scripted", "go", "--start-id", "7"), "not a UUID"),
    ],
)
def test_a_call_that_is_refused_starts_nothing_and_is_no_ended_run(northgate, words, told):
    with pytest.raises(CommandError, match=told) as refused:
        call_command("start_run", *words)
    assert refused.value.returncode == 64 and not Run.objects.exists()


def test_two_pipelines_that_start_the_same_at_once_start_one_run(northgate, race):
    """R09: with nobody's name, too."""
    nobody, said = permissions.system("command", northgate.tenant.pk), uuid7()
    started = {"agent": "scripted", "environment": "staging", "message": "go", "start_id": said}
    found = race(*[lambda: transitions.start(nobody, **started)] * 6)
    assert Run.objects.count() == 1 and {each.pk for each in found} == {Run.objects.get().pk}


@pytest.mark.parametrize("when", ["start", "Tenant.objects.filter"])
def test_a_database_that_is_away_is_no_failed_run(northgate, monkeypatch, when):
    def away(*arguments, **named):
        raise OperationalError("the server closed the connection")

    target = transitions if when == "start" else Tenant.objects
    monkeypatch.setattr(target, when.rpartition(".")[2], away)
    with pytest.raises(CommandError, match="same --start-id") as unsure:
        call_command("start_run", *job("scripted", "go"))
    assert unsure.value.returncode == 69


def test_a_database_that_goes_away_at_the_end_changes_no_exit_status(northgate, monkeypatch, capsys):
    """What ended well is not told as failed because it could not be read at once."""
    real, tried = selectors.terminal_result, []

    def away(run):
        tried.append(run)
        if len(tried) == 1:
            raise OperationalError("the server closed the connection")
        return real(run)

    monkeypatch.setattr(selectors, "terminal_result", away)
    start = transitions.start

    def cancelled(context, **asked):
        run = start(context, **asked)
        northgate.cancels("Olga", run)
        return run

    monkeypatch.setattr(transitions, "start", cancelled)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        call_command("start_run", *job("scripted", "go", "--wait", "--as", "olga"))
    assert ended.value.code == 2 and json.loads(capsys.readouterr().out)["state"] == "cancelled"


def test_a_word_it_does_not_know_is_no_cancelled_run(northgate):
    with pytest.raises(SystemExit) as refused:
        call_command("start_run", *job("scripted", "go", "--loud"))
    assert refused.value.code == 64


def test_sigterm_ends_the_waiting_and_not_the_run(northgate):
    """B108: with no worker, no terminal, nobody to answer, it ends when it is told to."""
    with command(*job("asks", "go", "--wait", "--start-id", str(uuid7()))) as waiting:
        run = soon(Run.objects.first, within=60)
        assert "No worker is running" in waiting.stderr.readline()
        waiting.send_signal(signal.SIGTERM)
        out, said = waiting.communicate(timeout=5)
    assert (waiting.returncode, out) == (143, "") and str(run.pk) in said
    assert Run.objects.get().state == "queued"


@pytest.mark.parametrize("agent, kind", [("asks", "wait_user"), ("scripted", "wait_approval")])
def test_a_job_ends_at_what_it_would_wait_for(northgate, worked, agent, kind):
    """R33, B108: it ends with the Blocker."""
    run = worked(northgate_job(northgate, agent))
    assert (run.state, Blocker.objects.get(run=run).kind) == ("blocked", kind)


def test_a_job_whose_effect_stays_unknown_ends_when_its_probes_have_had_their_time(northgate, worked, clock):
    """R35: the wait_effect stays answerable."""
    northgate.policy("deploy", verdict="allow")
    run = worked(northgate_job(northgate, "scripted"))
    transitions.record(intend(), TimeoutError())
    clock.move(minutes=1)
    transitions.sweep()
    run.refresh_from_db()
    assert (run.state, Blocker.objects.get(run=run).kind) == ("blocked", "wait_effect")
    northgate.says("Olga", Request.objects.get(kind="wait_effect"), Finding("committed", "ticket 1"))


def northgate_job(northgate, agent: str) -> Run:
    return transitions.start(
        northgate.context("Olga"), agent=agent, environment="staging", message="tool and wait", interactive=False
    )


def test_a_granted_job_runs_again_and_succeeds(northgate, worked):
    """R34: by a real loop; the exact action is granted for the next run, which uses it; both link."""
    run = worked(northgate_job(northgate, "scripted"))
    blocker = Blocker.objects.get()
    given = Approve(blocker.digest)
    transitions.supply(northgate.context("Ada"), blocker_id=blocker.pk, response=given, response_id=uuid7())
    successor = worked(Run.objects.get(follows=run))
    send(intend())
    successor = worked(successor)
    assert (run.state, successor.state, successor.pk) == ("blocked", "succeeded", blocker.successor_run)
    assert successor.initiator_name == "Olga"


def test_an_answered_job_runs_again_and_succeeds(northgate, worked):
    run = worked(northgate_job(northgate, "asks"))
    given = Answer({"name": "ci-october"})
    lacked = Blocker.objects.get().pk
    transitions.supply(northgate.context("Sam"), blocker_id=lacked, response=given, response_id=uuid7())
    successor = worked(Run.objects.get(follows=run))
    assert (successor.state, successor.result) == ("succeeded", "ci-october")


# ---------------------------------------------------------------- by the clock


def schedule(northgate, who="Olga", cron="0 6 * * 1", **more) -> Schedule:
    return Schedule.objects.create(
        **{"agent": "asks", "message": "weekly"} | more, tenant=northgate.tenant, environment=northgate.staging,
        cron=cron, set_by=northgate.people[who],
    )  # fmt: skip


def minute(at: datetime) -> None:
    jobs.start_due(timestamp=int(at.timestamp()))


def test_a_due_job_starts_once_as_the_person_who_set_it(northgate):
    """R09: a minute told twice, or by two workers, is one Run."""
    weekly = schedule(northgate)
    for _ in range(2):
        minute(SIX)
        minute(SIX.replace(minute=1))
        minute(SIX.replace(day=8))
    run = Run.objects.get()
    assert (run.schedule, run.initiator, run.interactive) == (weekly, northgate.people["Olga"], False)
    minute(SIX.replace(day=14))
    assert Run.objects.count() == 2


def test_two_workers_at_one_minute_start_one_run(northgate, race):
    schedule(northgate)
    race(*[lambda: minute(SIX)] * 5)
    assert Run.objects.count() == 1


def test_whoever_lost_the_right_starts_nothing_and_the_schedule_says_so(northgate):
    """R06: authority is read when the job starts."""
    weekly = schedule(northgate)
    northgate.take("Olga", "operator")
    minute(SIX)
    weekly.refresh_from_db()
    assert not Run.objects.exists() and "operator" in weekly.refused
    assert Refusal.objects.get(verb="start").actor_name == "Olga"
    northgate.give(northgate.people["Olga"].memberships.get(tenant=northgate.tenant), "operator")
    minute(SIX.replace(day=14))
    weekly.refresh_from_db()
    assert Run.objects.count() == 1 and weekly.refused == ""


def test_a_person_who_left_starts_nothing(northgate):
    weekly = schedule(northgate)
    northgate.people["Olga"].is_active = False
    northgate.people["Olga"].save()
    minute(SIX)
    weekly.refresh_from_db()
    assert not Run.objects.exists() and "no active member" in weekly.refused


def test_one_schedule_that_breaks_does_not_stop_the_others(northgate):
    schedule(northgate, agent="gone")
    schedule(northgate, cron="every day")
    schedule(northgate, active=False)
    schedule(northgate)
    minute(SIX)
    assert Run.objects.get().agent == "asks"


def test_a_minute_in_which_the_database_was_away_is_made_up_for(northgate, monkeypatch):
    """R09: the job says that it failed, is done again, and nothing starts twice."""
    for message in ("one", "two"):
        schedule(northgate, message=message)
    real, tried = transitions.start_scheduled, []

    def away(schedule_id, at):
        tried.append(schedule_id)
        if len(tried) == 1:
            raise Busy(retry_after=1)
        return real(schedule_id, at)

    monkeypatch.setattr(transitions, "start_scheduled", away)
    with pytest.raises(Busy):
        minute(SIX)
    assert Run.objects.get().message == "two"
    minute(SIX)
    assert sorted(Run.objects.values_list("message", flat=True)) == ["one", "two"]


def test_a_minute_long_past_starts_nothing(northgate):
    """R27: no worker was there for an hour, or a backup remembers what was done long ago."""
    schedule(northgate, cron="* * * * *")
    now = clock.now()
    minute(now - timedelta(minutes=12))
    assert not Run.objects.exists()
    minute(now - timedelta(minutes=9))
    assert Run.objects.count() == 1


def test_whoever_set_the_schedule_cannot_approve_what_its_job_asks(northgate):
    """R18."""
    schedule(northgate)
    minute(SIX)
    request = Request(
        run=Run.objects.get(), environment=northgate.staging, kind="wait_approval", policy={"allow_stake": False}
    )
    assert northgate.people["Olga"].pk in permissions.stakes(request)


def test_nothing_starts_by_the_clock_on_a_copy_that_nobody_released(northgate, monkeypatch):
    """R27."""
    schedule(northgate)
    with monkeypatch.context() as copied:
        copied.setattr(epochs, "current", lambda: Epoch(number=2))
        minute(SIX)
    assert not Run.objects.exists()
    minute(SIX)
    assert Run.objects.count() == 1


LEGAL = ["0 6 * * 1", "*/5 * * * *"]
ILLEGAL = ["@daily", "0 6 * *", "61 * * * *", "* * * * * *", "", "at six"]


@pytest.mark.parametrize("cron", [*LEGAL, *ILLEGAL])
def test_a_cron_names_minutes(cron):
    assert jobs.legal(cron) is (cron in LEGAL)


def test_a_real_worker_starts_what_is_due_this_minute(northgate, workers):
    """procrastinate says that a minute has come; the minute before the worker's start is made up for."""
    schedule(northgate, cron="* * * * *")
    workers.start()
    run = soon(Run.objects.first, within=90)
    assert run.schedule_id and run.initiator_name == "Olga"
