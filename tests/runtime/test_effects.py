"""Effects: what became of what was sent. Never a guess, never a replay (R23-R25)."""

from datetime import timedelta

import pytest

from runtime_app import transitions
from runtime_app.actions import Committed, NotCommitted, NotSent, Unknown, Working
from runtime_app.errors import InvalidResponse, NotAuthorized, StaleRequest
from runtime_app.ids import uuid7
from runtime_app.models import Attempt, Effect, Event, Evidence, Request, Run
from tests.cast import WORKER, Deploy, Finding, Recover, claim, intend

LONG = timedelta(minutes=10)


def asked(effect) -> list[Request]:
    return list(Request.objects.filter(effect=effect, state="pending", kind="wait_effect"))


def stands(effect) -> str:
    return Effect.objects.get(pk=effect.pk).state


@pytest.fixture
def sent(northgate):
    """An Effect whose intent is written, and its dispatch."""
    effect = northgate.granted()
    return effect, intend()


# ---------------------------------------------------------------- replies


@pytest.mark.parametrize(
    "reply, state, finding",
    [
        (Committed("build 7", "done"), "committed", "committed"),
        (NotCommitted("", "no such version"), "not_committed", "not_committed"),
        (Working("job 3"), "in_flight", "working"),
        (Unknown("", "ask later"), "uncertain", "unknown"),
        (TimeoutError(), "uncertain", "unknown"),
        (ConnectionResetError(), "uncertain", "unknown"),
        (ConnectionRefusedError(), "not_committed", "not_committed"),
        (NotSent("too late"), "not_committed", "not_committed"),
        (ValueError("unreadable"), "uncertain", "unknown"),
        (KeyboardInterrupt(), "uncertain", "unknown"),
        ("200 OK", "uncertain", "unknown"),
        (None, "uncertain", "unknown"),
        (True, "uncertain", "unknown"),
        (Committed("a\0b", "\ud800"), "committed", "committed"),
        (Committed(7, None), "committed", "committed"),
    ],
    ids=lambda value: repr(value)[:30].encode("ascii", "replace").decode() if not isinstance(value, str) else value,
)
def test_what_a_reply_comes_to(sent, reply, state, finding):
    """B84, R23: a clear yes, a clear no, still working; anything else is uncertain, and a person is asked."""
    effect, dispatch = sent
    transitions.record(dispatch, reply)
    assert stands(effect) == state
    evidence = Evidence.objects.get()
    unsent = isinstance(reply, (ConnectionRefusedError, NotSent))
    said_by = "worker" if unsent else "reply"  # a provider that was not reached said nothing
    assert (evidence.grade, evidence.finding, evidence.source) == ("observed", finding, said_by)
    assert evidence.attempt == Attempt.objects.get()
    waits = state in ("in_flight", "uncertain")
    assert len(asked(effect)) == waits
    assert Run.objects.get().state == ("waiting" if waits else "queued")


def test_what_is_still_working_is_answered_by_what_comes_later(northgate, sent, clock):
    """R23: in flight, the Run in a wait_effect; past its deadline uncertain, still the same one question."""
    effect, dispatch = sent
    transitions.record(dispatch, Working("job 3"))
    [question] = asked(effect)
    assert question.expires_at is None and question.stops
    with pytest.raises(InvalidResponse, match="in flight"):
        northgate.says("Olga", question, Recover("accept"))
    clock.move(seconds=31)
    transitions.sweep()
    assert stands(effect) == "uncertain" and asked(effect) == [question]
    northgate.says("Olga", question, Finding("committed", "build 7"))
    assert stands(effect) == "committed" and Run.objects.get().state == "queued"


def test_silence_past_the_deadline_is_uncertain_and_nothing_is_sent_again(sent, clock):
    """R23, I10: never a guess, never a replay; the evidence says why."""
    effect, _ = sent
    clock.move(seconds=29)
    transitions.beat(WORKER, "worker", [])
    transitions.sweep()
    assert stands(effect) == "in_flight"
    clock.move(seconds=2)
    transitions.beat(WORKER, "worker", [])
    transitions.sweep()
    assert stands(effect) == "uncertain" and len(asked(effect)) == 1
    assert "deadline" in Evidence.objects.get().statement
    assert intend() is None and Attempt.objects.count() == 1


def test_a_dead_workers_dispatch_is_uncertain_before_its_deadline(northgate, sent, clock, monkeypatch):
    """R23: nobody will report what it did, or whether it did."""
    monkeypatch.setattr(Deploy, "deadline", LONG)
    transitions.record(sent[1], Committed())
    effect = northgate.granted()
    assert intend()
    transitions.sweep()
    assert stands(effect) == "in_flight"
    clock.move(minutes=1)
    transitions.sweep()
    assert stands(effect) == "uncertain"
    assert "gone" in Evidence.objects.latest("at").statement


def test_a_worker_that_left_cleanly_is_not_waited_for(sent):
    """R23."""
    effect, _ = sent
    transitions.leave(WORKER)
    transitions.sweep()
    assert stands(effect) == "uncertain"


@pytest.mark.parametrize("reply", [Committed("build 7"), NotCommitted()])
def test_the_attempts_own_reply_settles_it_however_late(sent, clock, reply):
    """R23, R24: after the sweep gave up; the question is answered with it, and the Run goes on."""
    effect, dispatch = sent
    clock.move(minutes=5)
    transitions.sweep()
    [question] = asked(effect)
    transitions.record(dispatch, reply)
    assert stands(effect) == reply.finding
    question.refresh_from_db()
    assert (question.outcome, question.resolved_by) == ("settled", "provider")
    assert Run.objects.get().state == "queued"


def test_time_alone_settles_nothing(northgate, clock):
    """R23, I10: a year later it still asks."""
    request = northgate.unknown()
    clock.move(days=365)
    for _ in range(3):
        transitions.sweep()
    request.refresh_from_db()
    assert (request.state, Effect.objects.get().state) == ("pending", "uncertain")


# ---------------------------------------------------------------- findings


def test_not_yet_sent_is_no_not_sent(northgate, clock, monkeypatch):
    """R23: until the time to send has passed, and the provider's stated lag with it, a person's no proves nothing."""
    monkeypatch.setattr(Deploy, "lag", timedelta(seconds=60))
    request = northgate.unknown()
    for seconds in (0, 4, 60):
        clock.move(seconds=seconds)
        with pytest.raises(InvalidResponse) as early:
            northgate.says("Olga", request, Finding("not_committed", "looked"))
        assert "look again after" in early.value.facts["fields"]["finding"]
    clock.move(seconds=2)
    northgate.says("Olga", request, Finding("not_committed", "looked"))
    assert Effect.objects.get().state == "not_committed"


def test_a_yes_may_come_at_once(northgate):
    """R23, R24: that it happened is never too early."""
    request = northgate.unknown()
    northgate.says("Olga", request, Finding("committed", "build 7"), message="I saw it")
    evidence = Evidence.objects.get(grade="attested")
    assert (evidence.name, evidence.reference, evidence.statement) == ("Olga", "build 7", "I saw it")
    assert evidence.user == northgate.people["Olga"]


def test_an_unknown_finding_is_kept_and_leaves_the_request_pending(northgate):
    """R25: "I looked, and cannot tell", without a reference, as often as one likes."""
    request = northgate.unknown()
    for who in ("Olga", "Olga"):
        assert northgate.says(who, request, Finding("unknown")).recorded["state"] == "pending"
    request.refresh_from_db()
    assert request.state == "pending"
    assert Evidence.objects.filter(grade="attested", finding="unknown").count() == 2


def test_a_finding_on_a_settled_effect_is_stale(northgate):
    """R25."""
    request = northgate.unknown()
    northgate.says("Olga", request, Finding("committed", "build 7"))
    with pytest.raises(StaleRequest) as late:
        northgate.says("Stan", request, Finding("committed", "build 7"))
    assert (late.value.reason, late.value.facts["by"]) == ("already_resolved", "Olga")


def test_an_approver_settles_nothing(northgate):
    """R06: evidence is an operator's."""
    with pytest.raises(NotAuthorized):
        northgate.says("Ada", northgate.unknown(), Finding("committed", "x"))


# ---------------------------------------------------------------- late and contradicting evidence


def test_agreeing_late_evidence_changes_nothing(northgate, sent):
    """R25: it is kept, and marked late."""
    effect, dispatch = sent
    transitions.record(dispatch, Committed("build 7"))
    events = Event.objects.count()
    transitions.record(dispatch, Committed("build 7"))
    assert stands(effect) == "committed" and not Effect.objects.get().disputed
    assert list(Evidence.objects.order_by("at").values_list("late", flat=True)) == [False, True]
    assert Event.objects.count() == events + 1


def test_observed_against_attested_is_a_dispute(northgate, sent, clock):
    """B82, R25: contradicting evidence of a higher grade; both stand, one question asks, and a person settles it."""
    effect, dispatch = sent
    transitions.record(dispatch, TimeoutError())
    clock.move(seconds=6)
    northgate.says("Olga", asked(effect)[0], Finding("not_committed", "looked"))
    turn = claim()
    transitions.record(dispatch, Committed("build 7"))
    found = Effect.objects.get()
    assert (found.state, found.disputed) == ("not_committed", True)
    [question] = asked(effect)
    assert question.stops is False and Run.objects.get().state == "running"
    transitions.finish(turn, state="succeeded")
    northgate.says("Stan", question, Finding("committed", "build 7"))  # Olga attested one side
    found.refresh_from_db()
    assert (found.state, found.disputed) == ("committed", False)
    assert Evidence.objects.count() == 4 and Run.objects.get().state == "succeeded"


def test_a_dispute_settled_as_it_stood(northgate, sent, clock):
    """R25: the person finds that the first was right."""
    effect, dispatch = sent
    transitions.record(dispatch, Committed("build 7"))
    transitions.record(dispatch, NotCommitted("", "rolled back?"))
    assert Effect.objects.get().disputed
    northgate.says("Olga", asked(effect)[0], Finding("committed", "build 7"))
    found = Effect.objects.get()
    assert (found.state, found.disputed, asked(effect)) == ("committed", False, [])


def test_a_dispute_is_not_settled_as_not_happened_while_it_may_still_be_sent(northgate, sent, clock):
    """R23, R24: a slow worker may yet send it; who is told `not_committed` asks anew, and that is a second."""
    effect, dispatch = sent
    transitions.record(dispatch, Committed("build 7"))
    transitions.record(dispatch, NotCommitted("", "rolled back?"))
    with pytest.raises(InvalidResponse, match="still be sent"):
        northgate.says("Olga", asked(effect)[0], Finding("not_committed", "looked"))
    clock.move(seconds=6)
    northgate.says("Olga", asked(effect)[0], Finding("not_committed", "looked"))
    assert (stands(effect), asked(effect)) == ("not_committed", [])


def test_a_dispute_ends_no_run_that_goes_on(northgate):
    """R23, R33: raised after its Run went on, it stops nothing, with nobody on the line either."""
    northgate.policy(verdict="allow")
    turn = claim(northgate.start(interactive=False))
    from tests.cast import deployment

    transitions.suspend(turn, waits=[deployment()])
    dispatch = intend()
    transitions.record(dispatch, Committed("build 7"))
    turn = claim()
    transitions.record(dispatch, NotCommitted())
    assert Effect.objects.get().disputed and Run.objects.get().state == "running"
    transitions.finish(turn, state="succeeded")


# ---------------------------------------------------------------- recovery


def test_one_recovery_at_a_time(northgate):
    """R24: a second is `recovering`, by whom; the Request stays pending."""
    request = northgate.unknown()
    assert northgate.says("Olga", request, Recover("probe")).recorded["state"] == "pending"
    for second in ("probe", "accept"):
        with pytest.raises(StaleRequest) as late:
            northgate.says("Stan", request, Recover(second))
        assert (late.value.reason, late.value.facts["by"]) == ("recovering", "Olga")
    request.refresh_from_db()
    assert request.state == "pending"


def test_a_finding_may_come_while_a_probe_is_under_way(northgate):
    """R24: it settles the Effect; what the probe then finds is late evidence."""
    request = northgate.unknown()
    northgate.says("Olga", request, Recover("probe"))
    recovery = transitions.recovering(WORKER)
    northgate.says("Olga", request, Finding("committed", "build 7"))
    transitions.recovered(recovery, Committed("found"))
    effect = Effect.objects.get()
    assert (effect.state, effect.recovering, effect.disputed) == ("committed", "", False)
    assert Evidence.objects.get(source="probe").late


def test_a_probe_is_taken_once_and_again_when_it_says_nothing(northgate, clock):
    """R24: by another worker, after a minute."""
    northgate.says("Olga", northgate.unknown(), Recover("probe"))
    first = transitions.recovering(WORKER)
    assert first and transitions.recovering(uuid7()) is None
    clock.move(seconds=61)
    assert transitions.recovering(uuid7()).effect_id == first.effect_id
    assert Deploy.sent == []


@pytest.mark.parametrize("found", [TimeoutError(), ConnectionRefusedError(), Unknown(), "?", None])
def test_a_probe_that_cannot_tell_leaves_the_question_open(northgate, found):
    """R23, R24: a probe that failed proves nothing about what was sent."""
    request = northgate.unknown()
    northgate.says("Olga", request, Recover("probe"))
    transitions.recovered(transitions.recovering(WORKER), found)
    effect = Effect.objects.get()
    assert (effect.state, effect.recovering) == ("uncertain", "")
    northgate.says("Olga", request, Recover("probe"))


def test_a_look_up_that_may_lag_proves_nothing(northgate, clock, monkeypatch):
    """B78, R23: nothing found before the send-by time and the lag: uncertain still; the statement says until when."""
    monkeypatch.setattr(Deploy, "lag", timedelta(seconds=60))
    request = northgate.unknown()
    for seconds, state in ((6, "uncertain"), (60, "not_committed")):
        clock.move(seconds=seconds)
        northgate.says("Olga", request, Recover("probe"))
        recovery = transitions.recovering(WORKER)
        transitions.recovered(recovery, recovery.action.probe(recovery.key, recovery.parameters, ""))
        assert Effect.objects.get().state == state
    assert "proves nothing before" in Evidence.objects.filter(source="probe").earliest("at").statement


def test_accepting_the_uncertainty_lets_the_run_go_on_and_settles_nothing(northgate):
    """R24: marked by whom and why; later evidence still settles it; no second question is raised."""
    request = northgate.unknown()
    northgate.says("Olga", request, Recover("accept"), message="we shall see")
    effect = Effect.objects.get()
    assert (effect.state, effect.accepted_by, effect.accepted_why) == ("uncertain", "Olga", "we shall see")
    request.refresh_from_db()
    assert (request.state, request.outcome) == ("resolved", "accepted")
    assert Run.objects.get().state == "queued" and asked(effect) == []


def test_later_evidence_settles_what_was_accepted(northgate, sent):
    """R24, R31: as late evidence, after the Run's end."""
    effect, dispatch = sent
    transitions.record(dispatch, TimeoutError())
    northgate.says("Olga", asked(effect)[0], Recover("accept"))
    transitions.finish(claim(), state="succeeded")
    transitions.record(dispatch, Committed("build 7"))
    assert stands(effect) == "committed"
    assert Evidence.objects.get(finding="committed").late
    assert Run.objects.get().state == "succeeded"


def test_only_what_is_registered_can_be_started(northgate, monkeypatch):
    """R24, T90: nothing that sends; without a probe there is none to start."""
    request = northgate.unknown()
    for name in ("redispatch", "compensate", "", "x" * 1_000):
        with pytest.raises(InvalidResponse):
            northgate.says("Olga", request, Recover(name))
    monkeypatch.setattr(Deploy, "probe", None)
    assert northgate.unknown(version="0.9").accepts["recover"] == ["accept"]
