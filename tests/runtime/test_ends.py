"""How Runs end, what an end takes back, and what it leaves as it is (R28, R30-R33)."""

import pytest

from runtime_app import transitions
from runtime_app.actions import Committed, Working
from runtime_app.errors import NotFound, RunEnded, StaleRequest
from runtime_app.ids import uuid7
from runtime_app.models import Blocker, Effect, Event, Evidence, Grant, Request, Response, Run
from runtime_app.selectors import terminal_result
from tests.cast import KEY_NAME, Answer, Approve, Finding, claim, deployment, intend

QUESTION = transitions.Question("q", "Which key?", KEY_NAME)


def full(northgate):
    """A waiting Run with one of everything: a question, an approval, a prepared, an uncertain, a committed Effect."""
    requests = northgate.ask(QUESTION, *({"key": key, "version": key} for key in "abcd"))
    by_key = {request.key: request for request in requests}
    for key, reply in (("a", TimeoutError()), ("b", Committed("build 7"))):
        northgate.approves("Ada", by_key[key])
        transitions.record(intend(), reply)
    northgate.approves("Ada", by_key["c"])
    return Run.objects.get(pk=requests[0].run_id), by_key


def test_a_cancelled_run_takes_back_what_was_not_sent_and_nothing_that_was(northgate):
    """R30, R31, I11, I12."""
    run, requests = full(northgate)
    said = northgate.cancels("Olga", run, reason="enough")
    states = dict(Request.objects.exclude(kind="wait_effect").values_list("key", "state"))
    assert states == {"q": "cancelled", "a": "resolved", "b": "resolved", "c": "resolved", "d": "cancelled"}
    effects = {effect.request.key: effect.state for effect in Effect.objects.select_related("request")}
    assert effects == {"a": "uncertain", "b": "committed", "c": "withdrawn"}
    grants = {grant.request.key: grant.state for grant in Grant.objects.select_related("request")}
    assert grants == {"a": "consumed", "b": "consumed", "c": "void"}
    left = Request.objects.get(state="pending")
    assert left.kind == "wait_effect"
    assert said.recorded["uncertain"] == [str(left.effect_id)]
    assert Event.objects.get(kind="run.cancelled").data["uncertain"] == [str(left.effect_id)]
    run.refresh_from_db()
    assert (run.state, run.cancelled_by, run.cancel_reason) == ("cancelled", "Olga", "enough")


def test_the_terminal_result_lists_each_effect_and_claims_no_rollback(northgate):
    """R31: status, evidence, what remains uncertain; by whom, when, why; later evidence as later evidence."""
    run, _ = full(northgate)
    northgate.cancels("Olga", run, reason="enough")
    left = Request.objects.get(state="pending")
    northgate.says("Olga", left, Finding("committed", "build 9"))
    run.refresh_from_db()
    result = terminal_result(run)
    assert result["cancelled"]["by"] == "Olga" and result["cancelled"]["why"] == "enough"
    listed = {effect["id"]: effect for effect in result["effects"]}
    assert len(listed) == 3
    told = listed[str(left.effect_id)]
    assert [each["finding"] for each in told["evidence"]] == ["unknown"]
    assert [(each["finding"], each["late"]) for each in told["later_evidence"]] == [("committed", True)]
    assert "roll" not in str(result).lower()


def test_answering_about_an_ended_run_settles_the_ledger_and_resumes_nothing(northgate):
    """R30."""
    run, _ = full(northgate)
    northgate.cancels("Olga", run)
    northgate.says("Olga", Request.objects.get(state="pending"), Finding("committed", "build 9"))
    assert Run.objects.get().state == "cancelled" and transitions.claim(uuid7()) is None
    assert not Effect.objects.filter(state="uncertain").exists()


@pytest.mark.parametrize("how", ["succeeded", "failed", "cancelled"])
def test_every_end_of_a_running_run_takes_the_same_back(northgate, how):
    """R30, T52: also what a Run left behind while it went on."""
    turn = claim(northgate.start())
    transitions.suspend(turn, waits=[QUESTION])
    request = Request.objects.get()
    Run.objects.update(state="queued", waiting_since=None)  # as a remote Run may go on while it asks
    turn = claim()
    if how == "cancelled":
        northgate.cancels("Olga", turn.run)
        transitions.stopped(turn)
    else:
        transitions.finish(turn, state=how, reason="because" if how == "failed" else "")
    request.refresh_from_db()
    assert (Run.objects.get().state, request.state) == (how, "cancelled")
    with pytest.raises(StaleRequest) as late:
        northgate.says("Sam", request, Answer({"name": "ci"}))
    assert late.value.reason == "cancelled"


@pytest.mark.parametrize("state", ["queued", "waiting", "running"])
def test_cancel_by_state(northgate, state):
    """B94, R30, R32: queued or waiting at once; running it is marked, and a second cancel is told `cancelling`."""
    run = northgate.start()
    turn = claim(run) if state != "queued" else None
    if state == "waiting":
        transitions.suspend(turn, waits=[QUESTION])
    said = northgate.cancels("Olga", run)
    run.refresh_from_db()
    assert said.recorded["state"] == run.state == ("running" if state == "running" else "cancelled")
    with pytest.raises(RunEnded) as late:
        northgate.cancels("Stan", run)
    assert late.value.reason == ("cancelling" if state == "running" else "cancelled")
    assert late.value.facts["by"] == "Olga"
    if state == "running":
        transitions.give_back(turn)
        assert Run.objects.get().state == "cancelled"


@pytest.mark.parametrize("state", ["succeeded", "failed", "blocked"])
def test_cancelling_an_ended_run_says_how_it_ended(northgate, state):
    """R32."""
    turn = claim(northgate.start(interactive=state != "blocked"))
    if state == "blocked":
        transitions.suspend(turn, waits=[QUESTION])
    else:
        transitions.finish(turn, state=state)
    with pytest.raises(RunEnded) as late:
        northgate.cancels("Olga", turn.run)
    assert late.value.reason == state


def test_other_runs_of_the_session_go_on(northgate):
    """R28."""
    one = northgate.question()
    other = northgate.question(session_id=one.session_id)
    northgate.cancels("Olga", Run.objects.get(pk=one.run_id))
    other.refresh_from_db()
    assert other.state == "pending"
    northgate.says("Sam", other, Answer({"name": "ci"}))
    assert Run.objects.get(pk=other.run_id).state == "queued"


def test_a_reply_beside_an_ended_run_is_evidence(northgate):
    """R29, R31: a call already sent is left to its deadline."""
    effect = northgate.granted()
    dispatch = intend()
    run = Run.objects.get()
    northgate.cancels("Olga", run)
    transitions.record(dispatch, Committed("build 7"))
    effect.refresh_from_db()
    assert effect.state == "committed" and Evidence.objects.get().late
    assert Run.objects.get().state == "cancelled"


@pytest.mark.parametrize("reply", [TimeoutError(), Working("job 3")])
def test_doubt_beside_an_ended_run_asks_and_continues_nothing(northgate, reply):
    """R23, R30: the only Request an ended Run may have."""
    northgate.granted()
    dispatch = intend()
    northgate.cancels("Olga", Run.objects.get())
    transitions.record(dispatch, reply)
    asked = Request.objects.get(state="pending")
    assert (asked.kind, asked.stops, asked.expires_at) == ("wait_effect", False, None)
    northgate.says("Olga", asked, Finding("committed", "build 7"))
    assert Run.objects.get().state == "cancelled"


def test_a_deadline_that_passed_before_the_cancel_had_passed(northgate, clock):
    """R08: expired is read from the clock everywhere; no sweep had written it down."""
    question = northgate.question()
    clock.move(days=8)
    northgate.cancels("Olga", Run.objects.get())
    question.refresh_from_db()
    assert (question.state, question.resolved_at) == ("expired", question.expires_at)


# ---------------------------------------------------------------- Leases that ran out


def lapse(clock):
    clock.move(minutes=5)
    transitions.sweep()


def test_five_lapses_running_fail_a_run(northgate, clock):
    """R30: the fifth, with what was the matter."""
    run = northgate.start()
    for number in range(1, 5):
        assert claim(run).lease_number == number
        lapse(clock)
        assert Run.objects.get().state == "queued"
    claim(run)
    lapse(clock)
    run.refresh_from_db()
    assert run.state == "failed" and "five" in run.reason or "5" in run.reason


def test_lapses_that_are_not_in_a_row_do_not_add_up(northgate, clock):
    """R30: "five times running"."""
    run = northgate.start()
    for key in "abc":
        for _ in range(4):
            claim(run)
            lapse(clock)
        [request] = [
            each for each in northgate.ask(transitions.Question(key, "?", KEY_NAME), run=run) if each.key == key
        ]
        northgate.says("Sam", request, Answer({"name": "ci"}))
    assert Run.objects.get().state == "queued"


def test_a_marked_run_whose_worker_is_lost_is_cancelled(northgate, clock):
    """R30."""
    run = northgate.start()
    claim(run)
    northgate.cancels("Olga", run)
    lapse(clock)
    run.refresh_from_db()
    assert (run.state, run.cancelled_by) == ("cancelled", "Olga")


def test_a_live_lease_is_left_alone(northgate, clock):
    """R29, R30."""
    run = northgate.start()
    claim(run)
    transitions.sweep()
    assert Run.objects.get().state == "running"


# ---------------------------------------------------------------- nobody on the line (R33)


@pytest.mark.parametrize("wait", [QUESTION, deployment(claim="please")], ids=["question", "approval"])
def test_a_run_with_nobody_on_the_line_ends_blocked_on_something_concrete(northgate, wait):
    """B106, R33, I29, T117: kind, prompt or exact action and digest, schema or policy, and what would unblock it."""
    turn = claim(northgate.start(interactive=False))
    assert transitions.suspend(turn, waits=[wait]) is None
    run, blocker = Run.objects.get(), Blocker.objects.get()
    assert run.state == "blocked" and not Request.objects.filter(state="pending").exists()
    assert blocker.run_id == run.pk and blocker.unblocks
    if wait is QUESTION:
        assert (blocker.kind, blocker.prompt) == ("wait_user", QUESTION.prompt)
        assert blocker.schema["properties"].keys() == KEY_NAME["properties"].keys()
    else:
        assert (blocker.kind, blocker.action_name, blocker.claim) == ("wait_approval", "deploy", "please")
        assert blocker.parameters and blocker.digest and blocker.policy["verdict"] == "ask"
    assert transitions.claim(uuid7()) is None
    assert Event.objects.get(kind="run.blocked").data["blocker"] == blocker.kind


def test_of_several_waits_none_is_left_behind_by_a_blocked_run(northgate):
    """R33: an allowed action beside a question is not sent either."""
    northgate.policy(verdict="allow")
    turn = claim(northgate.start(interactive=False))
    transitions.suspend(turn, waits=[deployment(), QUESTION])
    assert Run.objects.get().state == "blocked"
    assert intend() is None
    assert not Grant.objects.filter(state="unused").exists()
    assert not Effect.objects.filter(state="prepared").exists()


def test_what_a_policy_decides_needs_nobody_on_the_line(northgate):
    """R17, R33."""
    northgate.policy(verdict="allow")
    turn = claim(northgate.start(interactive=False))
    transitions.suspend(turn, waits=[deployment()])
    transitions.record(intend(), Committed("build 7"))
    transitions.finish(claim(), state="succeeded")
    assert Run.objects.get().state == "succeeded"


def test_an_unknown_outcome_with_nobody_on_the_line_blocks_and_stays_answerable(northgate, clock):
    """R33, R35: looked up until the deadline, then it ends."""
    northgate.policy(verdict="allow")
    turn = claim(northgate.start(interactive=False))
    transitions.suspend(turn, waits=[deployment()])
    transitions.record(intend(), TimeoutError())
    assert Run.objects.get().state == "waiting" and Effect.objects.get().probe_at
    clock.move(minutes=1)
    transitions.sweep()
    assert Run.objects.get().state == "blocked"
    blocker, asked = Blocker.objects.get(), Request.objects.get(state="pending")
    assert (blocker.kind, blocker.effect) == ("wait_effect", asked.effect_id)
    northgate.says("Olga", asked, Finding("committed", "build 7"))
    assert (Run.objects.get().state, Effect.objects.get().state) == ("blocked", "committed")


def test_nobody_answers_a_blocked_runs_request(northgate):
    """R33: there is none to answer."""
    turn = claim(northgate.start(interactive=False))
    transitions.suspend(turn, waits=[deployment()])
    blocker = Blocker.objects.get()
    with pytest.raises(NotFound):
        northgate.says("Ada", Request(pk=uuid7(), session_id=blocker.session_id), Approve(blocker.digest))
    assert not Response.objects.exists()
