"""Reality, looked at twice: what was asked too early, said of an older Attempt, started beside something (R23, R24)."""

import pytest

from runtime_app import permissions, selectors, transitions
from runtime_app.actions import NotCommitted, NotSent
from runtime_app.errors import InvalidResponse, StaleRequest
from runtime_app.ids import uuid7
from runtime_app.models import Effect, Evidence, Grant, Request, Run
from tests.cast import WORKER, Deploy, Finding, Recover, intend, send
from tests.runtime.test_reality import Ship, nothing_sent, shipped  # noqa: F401
from tests.runtime.test_remedies import asked_about


def test_a_probe_that_was_asked_before_the_time_to_send_had_passed_proves_nothing(northgate, clock):
    """R23: it hung, and tells of a time when it might still have been sent."""
    request = northgate.unknown()
    northgate.says("Olga", request, Recover("probe"))
    asked = transitions.recovering(WORKER)
    clock.move(seconds=40)
    transitions.recovered(asked, NotCommitted(statement="no such key"))
    assert Effect.objects.get().state == "uncertain"
    assert "proves nothing before" in Evidence.objects.get(source="probe").statement
    northgate.says("Olga", request, Recover("probe"))
    transitions.recovered(transitions.recovering(WORKER), NotCommitted(statement="no such key"))
    assert Effect.objects.get().state == "not_committed"


def test_what_an_older_attempt_did_not_do_says_nothing_of_the_newer(northgate, clock):
    """R23: a worker that was stopped before it sent comes back after another has sent it again."""
    request = northgate.ask(transitions.Ask("s", "ship", '{"parcel":"p1"}'))[0]
    northgate.approves("Ada", request)
    first = intend()
    clock.move(minutes=1)
    transitions.sweep()
    effect = Effect.objects.get()
    northgate.says("Olga", asked_about(effect), Recover("redispatch"))
    again = Run.objects.get(recovers_id=effect.pk)
    northgate.approves("Ada", Request.objects.get(run_id=again.pk))
    second = intend()
    transitions.record(first, NotSent("the time to send had passed"))
    assert Effect.objects.get().state == "in_flight"
    send(second)
    transitions.record(first, NotSent("the time to send had passed"))
    effect.refresh_from_db()
    assert (effect.state, effect.disputed) == ("committed", False)


def compensating(northgate):
    """An Effect that Olga says happened, that she has begun to undo, and that Stan then says did not happen."""
    effect = shipped(northgate, TimeoutError())
    northgate.says("Olga", asked_about(effect), Finding("committed", "the parcel is there"))
    transitions.compensate(northgate.context("Olga"), effect_id=effect.pk, response_id=uuid7())
    transitions.add_evidence(
        northgate.context("Stan"), effect_id=effect.pk, finding="not_committed", reference="t 2", response_id=uuid7()
    )
    northgate.join("Otto", "operator")
    return effect, Request.objects.get(action_name="recall")


def test_what_was_disputed_meanwhile_is_compensated_once(northgate):
    """R24: the first compensation still waits for its approval."""
    effect, approval = compensating(northgate)
    northgate.says("Otto", asked_about(effect), Finding("committed", "seen"))
    with pytest.raises(StaleRequest) as second:
        transitions.compensate(northgate.context("Olga"), effect_id=effect.pk, response_id=uuid7())
    assert second.value.reason == "recovering"
    page = selectors.effect_page(northgate.context("Olga"), effect.pk, permissions.roles(northgate.context("Olga")))
    assert page.compensation is None
    northgate.approves("Ada", approval)
    assert intend().action.name == "recall"


def test_what_did_not_happen_after_all_is_not_undone(northgate, clock):
    """R24: nor is it asked for again."""
    effect, approval = compensating(northgate)
    clock.move(seconds=60)  # it can no more be sent
    northgate.says("Otto", asked_about(effect), Finding("not_committed", "never came"))
    northgate.approves("Ada", approval)
    assert intend() is None
    assert Grant.objects.get(request=approval).void_why == "what it would undo did not happen"
    assert Run.objects.get(recovers_id=effect.pk).state == "queued"


def test_a_look_up_that_no_worker_would_make_is_not_begun(northgate, monkeypatch):
    """R24: it would keep every other recovery from starting, for good."""
    request = northgate.unknown()
    monkeypatch.setattr(Deploy, "version", "2")
    with pytest.raises(InvalidResponse, match="deploy 1 is no longer registered"):
        northgate.says("Olga", request, Recover("probe"))
    northgate.says("Olga", request, Recover("accept"))
    assert Run.objects.get().state == "queued"


def test_what_is_sent_again_by_newer_code_is_still_what_it_was(northgate, monkeypatch):
    """R24: a version that continues it sends it, once; one that does not begins nothing."""
    effect = shipped(northgate, TimeoutError())
    monkeypatch.setattr(Ship, "version", "2")
    with pytest.raises(InvalidResponse, match="no longer registered"):
        northgate.says("Olga", asked_about(effect), Recover("redispatch"))
    monkeypatch.setattr(Ship, "continues", ("1",))
    northgate.says("Olga", asked_about(effect), Recover("redispatch"))
    northgate.approves("Ada", Request.objects.get(run__recovers=effect))
    assert intend().effect_id == effect.pk


def test_a_compensation_that_cannot_be_made_is_refused_in_words(northgate, monkeypatch):
    """R24: by the action's own code."""
    effect = shipped(northgate)
    monkeypatch.setattr(Ship, "compensating", lambda self, parameters: 1 / 0)
    with pytest.raises(InvalidResponse, match="ZeroDivisionError"):
        transitions.compensate(northgate.context("Olga"), effect_id=effect.pk, response_id=uuid7())
    assert not Run.objects.filter(recovers_id=effect.pk).exists()


@pytest.fixture
def unreadable(monkeypatch):
    """Deploy, in its newest version, does not read what was approved of version 1."""
    real = Deploy.parsed.__func__

    def parsed(cls, parameters):
        if b'"version":"1"' in parameters:
            raise KeyError("gone")
        return real(cls, parameters)

    return lambda: monkeypatch.setattr(Deploy, "parsed", classmethod(parsed))


def test_a_grant_that_cannot_be_read_keeps_no_other_from_being_sent(northgate, unreadable):
    """R16: it is void, and its agent is told."""
    broken, other = northgate.granted(version="1"), northgate.granted(version="2")
    unreadable()
    assert intend().effect_id == other.pk
    broken.refresh_from_db()
    assert (broken.state, Run.objects.get(pk=broken.run_id).state) == ("withdrawn", "queued")


def test_an_effect_that_cannot_be_asked_about_keeps_no_other_from_it(northgate, unreadable):
    """R24: what it came to is kept, and the next recovery may start."""
    broken, other = northgate.unknown(version="1"), northgate.unknown(version="2")
    for each in (broken, other):
        northgate.says("Olga", each, Recover("probe"))
    unreadable()
    assert transitions.recovering(WORKER).effect_id == other.effect_id
    assert "KeyError" in Evidence.objects.get(source="probe").statement
    assert Effect.objects.get(pk=broken.effect_id).recovering == ""
