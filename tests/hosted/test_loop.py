"""The loop of a hosted Run: what is journaled when, what a person's words become, what never runs twice."""

from runtime_app import transitions
from runtime_app.models import Effect, Entry, Request, Run
from tests.cast import Answer, Deny, intend, send
from tests.hosted.agents import runs


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
