"""The one use of an approval, and what became of it: AAP's consume and outcome, over HTTP (R16, R22, R25, R26)."""

import pytest

from runtime_app import transitions
from runtime_app.ids import uuid7
from runtime_app.models import Effect, Evidence, Grant, Registration, Request
from runtime_app.transitions import epochs
from tests.aap.conftest import Agent, refused, run, stored
from tests.cast import Finding

pytestmark = pytest.mark.django_db(transaction=True)


# ---------------------------------------------------------------- consume


def test_the_one_use_is_taken_once(northgate, mailer, approved):
    """R16: the same key is the same use, another has come too late."""
    first = mailer.consumes(approved["id"])
    assert mailer.consumes(approved["id"]) == first and first[0] == 200
    refused(mailer.consumes(approved["id"], key="another"), 409, "already_consumed")
    assert mailer.asks()[1]["consumption"] == first[1]["consumption"]


def test_twenty_at_once_take_it_once(northgate, mailer, approved, race):
    answers = race(*[lambda n=n: Agent(mailer.token).consumes(approved["id"], key=f"k{n}") for n in range(12)])
    assert sorted(status for status, _ in answers) == [200] + [409] * 11
    assert Grant.objects.get().state == "consumed" and Effect.objects.count() == 1


def test_a_repeat_that_comes_too_late_sends_nobody_on(northgate, mailer, approved, clock):
    """R23: the agent that has not reported is past its send-by time, swept or not; Olga says that it did not happen,
    and the same key again, which a client may take for leave to act, is told that the use is over."""
    assert mailer.consumes(approved["id"])[0] == mailer.consumes(approved["id"])[0] == 200
    clock.move(seconds=601)
    refused(mailer.consumes(approved["id"]), 409, "already_consumed")
    transitions.sweep()
    refused(mailer.consumes(approved["id"]), 409, "already_consumed")
    northgate.says("Olga", Request.objects.get(kind="wait_effect"), Finding("not_committed", "looked in the outbox"))
    refused(mailer.consumes(approved["id"]), 409, "already_consumed")
    assert mailer.reports(approved["id"])[0] == 200  # what it did all the same is heard
    assert mailer.consumes(approved["id"])[0] == 200  # and then it is known that it acted


def test_pending_is_not_approved(mailer, asked):
    refused(mailer.consumes(asked["id"]), 409, "not_approved")


def test_an_approval_has_its_time(northgate, mailer, approved, clock):
    """The request stays approved, its use is over; swept or not, the same word."""
    clock.move(seconds=3601)
    for _ in range(2):
        refused(mailer.consumes(approved["id"]), 409, "approval_expired")
        transitions.sweep()
        assert mailer.reads(approved["id"])[1]["status"] == "approved"
    assert run(approved).state == "failed" and Effect.objects.get().state == "withdrawn"


def voided(house, request):
    transitions.void(house.context("Ada"), request_id=request.pk, response_id=uuid7(), reason="Wait.")


def drifted(house, request):
    house.take("Ada", "approver")


def cancelled(house, request):
    house.cancels("Olga", request.run)


@pytest.mark.parametrize("spoil", [voided, drifted, cancelled])
def test_what_aap_has_no_word_for_is_an_expired_approval(northgate, mailer, approved, spoil):
    """R16, R32: the client reads a code it does not know as no decision at all."""
    spoil(northgate, stored(approved))
    refused(mailer.consumes(approved["id"]), 409, "approval_expired")
    status, told = mailer.reads(approved["id"])
    assert told["status"] == "approved" and "consumption" not in told
    assert run(approved).state in ("failed", "cancelled") and Effect.objects.get().state == "withdrawn"


def test_a_held_environment_is_asked_again_later(northgate, mailer, approved):
    """R16: nothing is voided; after the release the same call goes through."""
    where = {"environment": "staging"}
    transitions.hold(northgate.context("Olga"), **where, response_id=uuid7(), reason="Incident.")
    status, told = mailer.consumes(approved["id"])
    assert (status, told["error"]["type"], mailer.answer.headers["Retry-After"]) == (503, "dependency", "5")
    transitions.release(northgate.context("Olga"), **where, response_id=uuid7())
    assert mailer.consumes(approved["id"])[0] == 200


def test_a_mark_that_cannot_be_written_sends_nobody_on(northgate, mailer, approved, settings, tmp_path):
    """R27: the intent is committed; its repeat is answered only once it is marked outside the database."""
    real, calls = epochs.mark, []

    def full(*_):
        calls.append(1)
        raise OSError("disk full")

    epochs.mark = full
    try:
        assert mailer.consumes(approved["id"])[0] == 503 and mailer.consumes(approved["id"])[0] == 503
    finally:
        epochs.mark = real
    assert len(calls) == 2 and Effect.objects.get().state == "in_flight"
    assert mailer.consumes(approved["id"])[0] == 200


# ---------------------------------------------------------------- outcome


def test_an_outcome_is_reported_once_and_for_good(northgate, mailer, approved):
    """R25: the same again is calm, another conflicts."""
    refused(mailer.reports(approved["id"]), 409, "not_consumed")
    mailer.consumes(approved["id"])
    first = mailer.reports(approved["id"], "failed", note="Bounced.")
    assert first[0] == 200 and mailer.reports(approved["id"], "failed", note="Bounced.") == first
    for status, more in (("succeeded", {}), ("failed", {}), ("failed", {"note": "Other."})):
        refused(mailer.reports(approved["id"], status, **more), 409, "outcome_conflict")
    assert (run(approved).state, Effect.objects.get().state) == ("failed", "not_committed")


def test_a_failure_that_proves_nothing_is_asked(northgate, mailer):
    """R25: as the registration of the action says."""
    Registration.objects.create(tenant=northgate.tenant, pattern="send", title="Send", failure_conclusive=False)
    _, told = mailer.asks()
    northgate.approves("Ada", stored(told))
    mailer.consumes(told["id"])
    assert mailer.reports(told["id"], "failed")[0] == 200
    assert Effect.objects.get().state == "uncertain"
    northgate.says("Olga", Request.objects.get(kind="wait_effect"), Finding("committed", "mail-1"))
    assert run(told).state == "succeeded"


def test_silence_after_consume_asks_a_person_and_a_late_outcome_settles_it(northgate, mailer, approved, clock):
    """R26, K7."""
    mailer.consumes(approved["id"])
    clock.move(minutes=10, seconds=1)
    transitions.sweep()
    assert (run(approved).state, Request.objects.get(kind="wait_effect").state) == ("waiting", "pending")
    assert mailer.reports(approved["id"])[0] == 200
    assert (run(approved).state, Effect.objects.get().state) == ("succeeded", "committed")
    assert Request.objects.get(kind="wait_effect").outcome == "settled"


def test_an_outcome_against_what_a_person_found_disputes_nothing_and_stands(northgate, mailer, approved, clock):
    """R25, T89: an agent's claim never disputes attested evidence."""
    mailer.consumes(approved["id"])
    clock.move(minutes=11)
    transitions.sweep()
    northgate.says("Olga", Request.objects.get(kind="wait_effect"), Finding("not_committed", "log 7"))
    mailer.reports(approved["id"], "succeeded")
    effect = Effect.objects.get()
    assert (effect.state, effect.disputed) == ("not_committed", False) and Evidence.objects.count() == 3


def test_a_tool_that_changes_nothing_makes_no_effect(northgate, mailer):
    Registration.objects.create(tenant=northgate.tenant, pattern="read*", title="Read", changes=False)
    _, told = mailer.asks("read_mail")
    northgate.approves("Ada", stored(told))
    mailer.consumes(told["id"])
    assert mailer.reports(told["id"], "failed")[0] == 200
    assert not Effect.objects.exists() and run(told).state == "failed"
