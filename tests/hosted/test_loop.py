"""The loop of a hosted Run: what is journaled when, what a person's words become, what never runs twice."""

import asyncio

import pytest
from django.db import connection

from runtime_app import transitions
from runtime_app.errors import LeaseLost, RunEnded
from runtime_app.models import Effect, Entry, Instance, Request, Run
from tests.cast import Answer, Deny, Recover, claim, intend, send
from tests.hosted import agents
from tests.hosted.loops import runs


def start(northgate, message, agent="scripted", **more) -> Run:
    return transitions.start(
        northgate.context("Olga"), agent=agent, environment="staging", message=message, **more
    )


def test_plain_tools_run_at_once_and_the_run_succeeds(northgate, worked, told):
    run = worked(start(northgate, "two tools"))
    assert (run.state, told(run)) == ("succeeded", ["3 letters", "TWO"])


def test_an_approved_action_is_dispatched_by_the_worker_and_the_loop_gets_its_result(northgate, worked, told):
    """R04: the library never runs an Action."""
    run = worked(start(northgate, "tool and wait"))
    assert run.state == "waiting"
    request = Request.objects.get()
    assert request.claim == "I have a reason."
    northgate.approves("Ada", request)
    send(intend())
    run = worked(run)
    assert told(run) == ["3 letters", {"outcome": "committed", "reference": "build-1"}]
    assert runs().count("count one") == 1


def request_for(run: Run, service: str) -> Request:
    return next(each for each in Request.objects.filter(run=run) if f'"{service}"' in bytes(each.parameters).decode())


def test_two_approvals_answered_crosswise_reach_the_calls_they_belong_to(northgate, worked, told):
    """R04: one reply, two waits, answered by their own ids in the other order."""
    run = worked(start(northgate, "two deployments"))
    northgate.says("Ada", request_for(run, "b"), Deny(request_for(run, "b").digest), message="b is not ready")
    assert Run.objects.get(pk=run.pk).state == "waiting"
    northgate.approves("Ada", request_for(run, "a"))
    send(intend())
    run = worked(run)
    assert told(run) == [
        {"outcome": "committed", "reference": "build-1"},
        {"outcome": "denied", "by": "Ada", "message": "b is not ready"},
    ]


def test_an_approved_action_is_sent_while_its_sibling_still_waits(northgate, worked, told):
    """R04: dispatched at once; the loop goes on once, with all results."""
    run = worked(start(northgate, "a deployment and a question"))
    northgate.approves("Ada", Request.objects.get(kind="wait_approval"))
    send(intend())
    assert Run.objects.get(pk=run.pk).state == "waiting"
    northgate.says("Sam", Request.objects.get(kind="wait_user"), Answer({"name": "ci-october"}))
    run = worked(run)
    assert told(run)[1] == {"outcome": "answered", "values": {"name": "ci-october"}}
    assert runs() == ["model", "model"]


def test_a_suggestion_reaches_the_agent_as_parameters(northgate, worked, told):
    """R19."""
    run = worked(start(northgate, "tool and wait"))
    request = Request.objects.get()
    northgate.says("Ada", request, Deny(request.digest, '{"service":"a","version":"0.9"}'))
    assert told(worked(run))[1] == {"outcome": "denied", "by": "Ada", "suggestion": {"service": "a", "version": "0.9"}}


def test_an_expired_request_is_not_a_denied_one(northgate, worked, told, clock):
    """R08: the agent is told which, distinctly."""
    run = worked(start(northgate, "tool and wait"))
    clock.move(days=8)
    transitions.sweep()
    assert told(worked(run))[1] == {"outcome": "expired"}


def test_an_accepted_uncertainty_is_told_as_unknown(northgate, worked, told):
    """R24: never as a yes or a no."""
    run = worked(start(northgate, "tool and wait"))
    northgate.approves("Ada", Request.objects.get())
    transitions.record(intend(), TimeoutError())
    northgate.says("Olga", Request.objects.get(kind="wait_effect"), Recover("accept"))
    assert told(worked(run))[1] == {"outcome": "unknown"}


@pytest.mark.parametrize("verdict", ["allow", "deny"])
def test_a_policy_that_decides_needs_nobody(northgate, worked, told, verdict):
    """R17: one path for Grant and ledger; a denial goes back within the same turn."""
    northgate.policy("deploy", verdict=verdict)
    run = worked(start(northgate, "tool and wait"))
    if verdict == "allow":
        send(intend())
        assert told(worked(run))[1]["outcome"] == "committed"
    else:
        assert told(run)[1]["outcome"] == "denied"


def test_with_nobody_on_the_line_the_run_ends_blocked(northgate, worked):
    """R33."""
    run = worked(start(northgate, "tool and wait", interactive=False))
    assert (run.state, Request.objects.count()) == ("blocked", 0)


# ---------------------------------------------------------------- what the model wrote is read by us, strictly


@pytest.mark.parametrize(
    "message, word",
    [
        ("twice the same key", "twice"),
        ("no JSON", "not JSON"),
        ("a number for a text", "version"),
        ("a secret in clear", "secret"),
    ],
)
def test_a_call_we_cannot_read_goes_back_as_its_result(northgate, worked, told, message, word):
    """R15: made from the model's raw text; refused, nothing raised, the Run goes on."""
    run = worked(start(northgate, message))
    (came,) = told(run)
    assert came["outcome"] == "refused" and word in came["message"]
    assert not Request.objects.exists()


def test_a_refused_call_does_not_keep_its_sibling_from_being_asked(northgate, worked, told):
    run = worked(start(northgate, "one refused, one not"))
    northgate.approves("Ada", Request.objects.get())
    send(intend())
    assert [came["outcome"] for came in told(worked(run))] == ["refused", "committed"]


def test_calls_that_share_an_id_keep_their_own_results(northgate, worked, told):
    assert told(worked(start(northgate, "same ids"))) == ["3 letters", "4 letters"]


# ---------------------------------------------------------------- the journal


def test_a_reply_that_starts_nothing_is_journaled_with_what_follows_from_it(northgate, worked):
    """R22: before anything in it starts, and without a commit of its own."""
    run = worked(start(northgate, "two deployments"))
    assert _transactions("runtime_app_entry") == _transactions("runtime_app_request")
    for request in Request.objects.all():
        northgate.says("Ada", request, Deny(request.digest))
    assert worked(run).state == "succeeded"
    assert len(_transactions("runtime_app_entry")) == 2
    assert len(_transactions("runtime_app_entry") | _transactions("runtime_app_run")) == 2, "the end came with it"


def _transactions(table: str) -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(f"select distinct xmin::text from {table}")
        return {xmin for (xmin,) in cursor.fetchall()}


def test_a_finished_tool_never_runs_again(northgate, worked, told):
    """R22: the worker is gone after the first tool's result; another takes the Run up."""
    agents.gate.clear()
    run = start(northgate, "a tool that is held")
    with pytest.raises(asyncio.CancelledError):
        worked(run, until=lambda: Entry.objects.filter(kind="result").exists())
    transitions.give_back(worked.turn)
    agents.gate.set()
    assert told(worked(run)) == ["3 letters", "TWO"]
    assert runs().count("count one") == 1
    assert runs().count("model") == 2, "the journaled reply was not asked for again"


def test_a_loop_of_ones_own_gets_the_same_journal_and_waits(northgate, worked, told):
    run = worked(start(northgate, "go", agent="plain"))
    northgate.approves("Ada", Request.objects.get(kind="wait_approval"))
    northgate.says("Sam", Request.objects.get(kind="wait_user"), Answer({"name": "x"}))
    send(intend())
    run = worked(run)
    assert [came["outcome"] for came in told(run)] == ["committed", "answered"]
    assert runs() == ["first"]


def test_a_worker_that_lost_its_lease_writes_nothing_more(northgate, worked, clock):
    """R29: the newest Lease alone may write."""
    run = start(northgate, "two tools")
    turn = claim(run)
    clock.move(seconds=60)
    transitions.sweep()
    assert worked(run).state == "succeeded"
    with pytest.raises(LeaseLost):
        worked(turn=turn)
    assert Run.objects.get(pk=run.pk).state == "succeeded"


def test_a_cancelled_run_takes_no_further_step(northgate, worked):
    """R30: a marked Run can end no other way."""
    run = start(northgate, "two tools")
    turn = claim(run)
    northgate.cancels("Olga", run)
    with pytest.raises(RunEnded):
        worked(turn=turn)
    transitions.stopped(turn)
    assert Run.objects.get(pk=run.pk).state == "cancelled"


# ---------------------------------------------------------------- how it can fail


def test_a_tool_that_breaks_fails_the_run_without_telling_secrets(northgate, worked):
    run = worked(start(northgate, "a broken tool"))
    assert run.state == "failed"
    assert "ValueError" in run.reason and "hunter2" not in run.reason


def test_a_tool_that_is_not_there_goes_back_to_the_model(northgate, worked):
    assert worked(start(northgate, "no such tool")).state == "succeeded"


def test_a_model_that_never_ends_is_stopped(northgate, worked):
    run = worked(start(northgate, "never ends"))
    assert (run.state, run.reason) == ("failed", "The model gave 20 replies without coming to an end.")


def test_an_agent_nobody_registered_fails_its_run_by_name(northgate, worked):
    Instance.objects.filter(agent="asks").update(agent="gone")
    run = worked(start(northgate, "go", agent="gone"))
    assert run.state == "failed" and "gone" in run.reason
    assert not Effect.objects.exists()
