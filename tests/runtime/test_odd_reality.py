"""Reality at its oddest: each has a clear answer, and nothing is lost (K7, K8)."""

import time
from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from runtime_app import actions, selectors, transitions
from runtime_app.actions import Committed, NotCommitted
from runtime_app.errors import InvalidResponse, NotFound, RunEnded
from runtime_app.ids import uuid7
from runtime_app.models import Effect, Event, Evidence, Grant, Request, Run
from tests.cast import WORKER, Deploy, Finding, Recover, claim, deployment, intend, send
from tests.runtime.test_reality import shipped


def test_a_recovery_action_that_is_no_longer_registered_is_refused_in_words(northgate, monkeypatch):
    """R24, T90: the question offered it when it was raised. Nothing is marked; a person can still say what happened."""
    request = northgate.unknown()
    assert "probe" in request.accepts["recover"]
    monkeypatch.setattr(Deploy, "probe", None)
    with pytest.raises(InvalidResponse, match="no longer registered"):
        northgate.says("Olga", request, Recover("probe"))
    assert Effect.objects.get().recovering == ""
    northgate.says("Olga", request, Finding("committed", "build 7"))
    assert Effect.objects.get().state == "committed"


@pytest.mark.parametrize("name", ["redispatch", "compensate"])
def test_where_the_whole_action_is_gone_only_people_can_tell(northgate, monkeypatch, name):
    """R24, B80: of an action without a registration nothing is looked up, sent again or undone: a person is asked."""
    effect = shipped(northgate, TimeoutError())
    request = Request.objects.get(effect_id=effect.pk, kind="wait_effect")
    assert name in request.accepts["recover"]
    monkeypatch.setattr(actions, "registered", lambda of: None)
    monkeypatch.setattr(actions, "names", list)
    with pytest.raises(InvalidResponse, match="no longer registered"):
        northgate.says("Olga", request, Recover(name))
    assert (Effect.objects.get().recovering, Run.objects.count()) == ("", 1)
    northgate.says("Olga", request, Recover("accept"), message="it was retired")
    assert Run.objects.get().state == "queued"


def test_a_probe_that_lies_makes_a_dispute_for_a_person(northgate, clock):
    """R25: the provider's reply said yes; its look-up says no. Both stand."""
    effect = northgate.granted()
    dispatch = intend()
    transitions.record(dispatch, TimeoutError())
    clock.move(minutes=2)  # past the time to send: from now on a "no" of the provider's is one (R23)
    northgate.says("Olga", Request.objects.get(effect_id=effect.pk, state="pending"), Recover("probe"))
    recovery = transitions.recovering(WORKER)
    transitions.record(dispatch, Committed("build 7"))
    transitions.recovered(recovery, NotCommitted(statement="no such key"))
    effect.refresh_from_db()
    assert effect.disputed and effect.state == "committed"
    assert set(Evidence.objects.values_list("finding", flat=True)) == {"unknown", "committed", "not_committed"}
    assert Request.objects.filter(effect_id=effect.pk, kind="wait_effect", state="pending").count() == 1


def test_cancelling_what_is_unknown_foreign_ended_or_never_started(northgate, harbour):
    """R07, R30, R32: the same words for the first two; how it ended; one that nobody took ends at once."""
    foreign, ended, queued = harbour.start("Max"), northgate.start(), northgate.start()
    transitions.finish(claim(ended), state="succeeded")
    refused = []
    for run in (Run(pk=uuid7()), foreign):
        with pytest.raises(NotFound) as error:
            northgate.cancels("Olga", run)
        refused.append(error.value.as_data())
    assert refused[0] == refused[1]
    with pytest.raises(RunEnded) as late:
        northgate.cancels("Olga", ended)
    assert late.value.reason == "succeeded"
    assert northgate.cancels("Olga", queued, reason="not needed").recorded["state"] == "cancelled"
    left = selectors.terminal_result(Run.objects.get(pk=queued.pk))
    assert (left["cancelled"]["by"], left["cancelled"]["why"], left["effects"]) == ("Olga", "not needed", [])
    assert Run.objects.get(pk=foreign.pk).state == "queued"


def test_a_cancelled_run_keeps_what_it_had_done(northgate):
    """R31, B90, B92: its own end, with the first step's evidence; never success, never "nothing happened"."""
    first = northgate.granted()
    send(intend())
    run = Run.objects.get(pk=first.run_id)
    transitions.suspend(claim(run), waits=[deployment("2", key="second")])
    northgate.approves("Ada", Request.objects.get(key="second"))
    dispatch = intend()
    northgate.cancels("Olga", run)
    left = selectors.terminal_result(Run.objects.get(pk=run.pk))
    assert left["state"] == "cancelled"
    assert [(each["state"], bool(each["evidence"]), bool(each["remains"])) for each in left["effects"]] == [
        ("committed", True, False), ("in_flight", False, True),
    ]  # fmt: skip
    transitions.record(dispatch, Committed("build 9"))
    left = selectors.terminal_result(Run.objects.get(pk=run.pk))
    assert [each["finding"] for each in left["effects"][1]["later_evidence"]] == ["committed"]


def test_one_operation_has_one_key_whoever_sends_it_again(northgate):
    """R22, B76: the key is the Request's id, made before the first Attempt."""
    effect = shipped(northgate, TimeoutError())
    northgate.says("Olga", Request.objects.get(effect_id=effect.pk, kind="wait_effect"), Recover("redispatch"))
    northgate.approves("Ada", Request.objects.get(effect_id=effect.pk, kind="wait_approval"))
    assert intend().key == effect.key == str(effect.request_id)


def test_an_effects_key_never_expires(northgate):
    """R22, T86: long after its Run ended, one Request has one Effect and one Grant, and running the step again finds
    them."""
    effect = northgate.granted()
    send(intend())
    turn = claim(Run.objects.get(pk=effect.run_id))
    raised = transitions.suspend(turn, waits=[deployment()])
    assert [each.pk for each in raised] == [effect.request_id] and intend() is None
    transitions.finish(turn, state="succeeded")
    row = {name: getattr(effect, name) for name in ("tenant_id", "session_id", "run_id", "environment_id")}
    with pytest.raises(IntegrityError), transaction.atomic():
        Effect.objects.create(**row, request_id=effect.request_id, action_name="deploy", action_version="1")
    with pytest.raises(IntegrityError), transaction.atomic():
        Grant.objects.create(
            tenant_id=effect.tenant_id, run_id=effect.run_id, request_id=effect.request_id, digest="",
            expires_at=timezone.now(),
        )  # fmt: skip
    assert len(Deploy.sent) == 1


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_machine_whose_clock_is_an_hour_off_decides_the_same(northgate, clock, monkeypatch, hours):
    """R05, T109: time is the database's alone."""
    now, ns, local = time.time, time.time_ns, timezone.now
    monkeypatch.setattr(time, "time", lambda: now() + hours * 3600)
    monkeypatch.setattr(time, "time_ns", lambda: ns() + hours * 3600 * 10**9)
    monkeypatch.setattr(timezone, "now", lambda: local() + timedelta(hours=hours))
    effect = northgate.granted()
    assert Grant.objects.get().expires_at > Event.objects.latest("id").at
    send(intend())
    assert Effect.objects.get(pk=effect.pk).state == "committed"
    request = northgate.approval("9")
    clock.move(days=6, hours=23)
    transitions.sweep()
    assert Request.objects.get(pk=request.pk).state == "pending"
    clock.move(hours=2)
    transitions.sweep()
    assert Request.objects.get(pk=request.pk).state == "expired"
