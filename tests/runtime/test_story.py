"""The text's story on the transitions alone: three Runs stop moving, for three reasons, and go on exactly once each."""

import pytest

from runtime_app import transitions
from runtime_app.errors import RunEnded, StaleRequest
from runtime_app.models import Effect, Event, Evidence, Request, Run
from tests.cast import Answer, Deny, Deploy, Finding, Recover, claim, intend, send


def test_a_question_is_answered_and_its_run_goes_on_once(northgate):
    """R01, R02, R08: the name of an API key."""
    question = northgate.question()
    assert Run.objects.get(pk=question.run_id).state == "waiting"
    northgate.says("Sam", question, Answer({"name": "ci-october"}))
    with pytest.raises(StaleRequest) as late:
        northgate.says("Sam", question, Answer({"name": "other"}))
    assert late.value.reason == "already_resolved" and "Sam" in late.value.message
    turn = claim()
    transitions.finish(turn, state="succeeded", result="done")
    assert Run.objects.get(pk=question.run_id).state == "succeeded"


def test_an_approval_makes_one_grant_and_one_dispatch(northgate):
    """R16, R22, R23: version 0.8.8 to production."""
    request = northgate.approval(environment="production")
    northgate.approves("Ada", request)
    effect = Effect.objects.get()
    assert (effect.state, effect.key) == ("prepared", str(request.pk))
    dispatch = intend()
    assert Effect.objects.get().state == "in_flight"
    assert intend() is None
    send(dispatch)
    assert Effect.objects.get().state == "committed"
    assert Deploy.sent == [(str(request.pk), "0.8.8", "production")]
    assert Run.objects.get(pk=request.run_id).state == "queued"


def test_an_unknown_outcome_asks_and_is_settled_by_evidence(northgate, clock):
    """R23, R24: dispatched, and nobody has learned whether it happened."""
    request = northgate.unknown()
    assert Effect.objects.get().state == "uncertain"
    northgate.says("Olga", request, Finding("unknown"))
    assert Request.objects.get(pk=request.pk).state == "pending"
    northgate.says("Olga", request, Finding("committed", "build 6120"))
    assert Effect.objects.get().state == "committed"
    assert Request.objects.get(pk=request.pk).outcome == "settled"
    assert set(Evidence.objects.values_list("grade", flat=True)) == {"observed", "attested"}
    assert Run.objects.get(pk=request.run_id).state == "queued"


def test_a_probe_looks_and_sends_nothing(northgate, clock):
    request = northgate.unknown()
    northgate.says("Olga", request, Recover("probe"))
    recovery = transitions.recovering(request.pk)
    found = recovery.action.probe(recovery.key, recovery.parameters, recovery.environment)
    transitions.recovered(recovery, found)
    assert Effect.objects.get().state == "uncertain", "a look-up before the send-by time proves nothing"
    clock.move(seconds=6)
    northgate.says("Olga", request, Recover("probe"))
    recovery = transitions.recovering(request.pk)
    transitions.recovered(recovery, recovery.action.probe(recovery.key, recovery.parameters, recovery.environment))
    assert Effect.objects.get().state == "not_committed"
    assert Deploy.sent == []


def test_a_cancelled_run_keeps_its_uncertain_effect(northgate):
    """R30, R31, R32."""
    request = northgate.unknown()
    run = Run.objects.get(pk=request.run_id)
    northgate.cancels("Olga", run, reason="enough")
    assert Run.objects.get(pk=run.pk).state == "cancelled"
    assert Request.objects.get(pk=request.pk).state == "pending"
    with pytest.raises(RunEnded):
        northgate.cancels("Olga", run)
    northgate.says("Olga", request, Finding("committed", "build 7"))
    assert Run.objects.get(pk=run.pk).state == "cancelled"
    assert Evidence.objects.get(grade="attested").late


def test_a_denial_goes_back_to_the_agent(northgate):
    """R08, R19."""
    request = northgate.approval()
    northgate.says("Ada", request, Deny(request.digest, '{"version": "0.8.7"}'), message="not today")
    assert Run.objects.get(pk=request.run_id).state == "queued"
    assert not Effect.objects.exists()


def test_events_of_a_session_count_without_gaps(northgate):
    """R36."""
    request = northgate.approval()
    northgate.approves("Ada", request)
    send(intend())
    transitions.finish(claim(), state="succeeded")
    seqs = list(Event.objects.filter(session_id=request.session_id).order_by("seq").values_list("seq", flat=True))
    assert seqs == list(range(1, len(seqs) + 1))
