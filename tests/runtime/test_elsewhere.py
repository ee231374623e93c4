"""Agents elsewhere: their Runs, their Grants, their silence, and what a credential may not do."""

import pytest

from runtime_app import permissions, transitions
from runtime_app.errors import (
    GrantUnusable,
    IdempotencyConflict,
    LeaseLost,
    NotAuthorized,
    NotFound,
    NotSignedIn,
    RunEnded,
)
from runtime_app.models import Credential, Effect, Evidence, Grant, Now, Registration, Request, Run, Session
from runtime_app.transitions import Ask, Question
from tests.cast import KEY_NAME, Answer, Approve, Deny, Finding, Recover, Resume, elsewhere, uuid7

pytestmark = pytest.mark.django_db(transaction=True)
MAIL = Ask("mail", "mail/send", '{"to":"a@b.c","times":1.0}')


def state(run) -> str:
    return Run.objects.get(pk=getattr(run, "run_id", run.pk)).state


def test_to_a_credential_that_ended_nothing_is_there_any_more(northgate, mailer):
    """R06, R07: what it may see is looked up with it, by `find` as by lists."""
    run = mailer.begins()
    request = mailer.asks(run, MAIL)
    northgate.approves("Ada", request)
    theirs = {Session: run.session_id, Run: run.pk, Request: request.pk, Effect: Effect.objects.get().pk}
    for model, pk in theirs.items():
        assert permissions.find(model, mailer.context, pk).pk == pk
    Credential.objects.filter(kind="instance").update(revoked_at=Now())
    for model, pk in theirs.items():
        with pytest.raises(NotFound):
            permissions.find(model, mailer.context, pk)
        assert not permissions.visible(model, mailer.context).exists()


# ------------------------------------------------------------------ a Run with turns of its own


def test_a_remote_run_asks_is_answered_goes_on_and_ends(northgate, mailer):
    """R04, R10: nobody here runs its loop; it takes its next turn itself."""
    run = mailer.begins()
    asked = mailer.asks(run, Question("q", "Which?", KEY_NAME))
    assert state(run) == "waiting"
    northgate.says("Sam", asked, Answer({"name": "k"}))
    assert state(run) == "queued"
    turn = transitions.take_turn(mailer.context, run_id=run.pk)
    assert (turn.state, turn.lease_number) == ("running", 2)
    transitions.conclude_run(mailer.context, run_id=run.pk, lease=2, state="succeeded", result="done")
    assert state(run) == "succeeded"


def test_only_the_newest_lease_writes(mailer):
    """R29."""
    run = mailer.begins()
    transitions.take_turn(mailer.context, run_id=run.pk)
    with pytest.raises(LeaseLost):
        mailer.asks(run, Question("q", "Which?", KEY_NAME), lease=1)
    with pytest.raises(LeaseLost):
        transitions.conclude_run(mailer.context, run_id=run.pk, lease=1, state="succeeded")


def test_a_granted_action_is_dispatched_once_by_the_agent_that_asked(northgate, mailer):
    """R16, R22: a Grant that nobody used stops nothing; the same key is the same intent, another has come too late."""
    run = mailer.begins()
    asked = mailer.asks(run, MAIL)
    with pytest.raises(GrantUnusable) as refused:
        mailer.dispatches(asked)
    assert refused.value.reason == "not_approved"
    northgate.approves("Ada", asked)
    assert state(run) == "queued"
    sending = mailer.dispatches(asked)
    assert sending.effect.state == "in_flight" and sending.request.parameters == b'{"times":1.0,"to":"a@b.c"}'
    assert mailer.dispatches(asked).effect.pk == sending.effect.pk
    with pytest.raises(GrantUnusable) as refused:
        mailer.dispatches(asked, key="another")
    assert refused.value.reason == "already_consumed"
    mailer.reports(asked, reference="mail-1")
    assert Effect.objects.get().state == "committed"
    assert transitions.intend(uuid7()) is None


def test_our_worker_never_sends_what_a_remote_agent_was_granted(northgate, mailer):
    """R04: also where code of that name is registered here."""
    asked = mailer.asks(mailer.begins(), Ask("d", "deploy", '{"service":"a","version":"1"}'))
    northgate.approves("Ada", asked)
    assert transitions.intend(uuid7()) is None
    assert mailer.dispatches(asked).effect.state == "in_flight"


def test_a_marked_run_dispatches_nothing_and_its_agent_is_told(northgate, mailer):
    """R30, R32: it is told on its next call, and says itself that it has stopped."""
    run = mailer.begins()
    asked = mailer.asks(run, MAIL)
    northgate.approves("Ada", asked)
    transitions.take_turn(mailer.context, run_id=run.pk)
    northgate.cancels("Olga", run)
    for call in (
        lambda: mailer.dispatches(asked),
        lambda: transitions.heartbeat(mailer.context, run_id=run.pk, lease=2),
    ):
        with pytest.raises(RunEnded) as refused:
            call()
        assert refused.value.reason == "cancelling"
    transitions.stand_down(mailer.context, run_id=run.pk, lease=2)
    assert state(run) == "cancelled"
    assert Effect.objects.get().state == "withdrawn"


def test_a_silent_agent_loses_its_turn_and_its_cancelled_run_ends(northgate, mailer, clock):
    """R29, R30: the Lease says since when it is silent."""
    left, cancelled = mailer.begins(), mailer.begins()
    northgate.cancels("Olga", cancelled)
    clock.move(seconds=3600)
    transitions.sweep()
    assert (state(left), state(cancelled)) == ("queued", "cancelled")


def test_a_start_repeated_under_its_key_is_the_same_run(mailer):
    """R09."""
    first = mailer.begins("go", key="one")
    assert mailer.begins("go", key="one").pk == first.pk
    with pytest.raises(IdempotencyConflict):
        mailer.begins("other", key="one")


def test_a_thread_is_one_session_of_its_instance_alone(northgate, mailer):
    first, second = mailer.begins(thread="t"), mailer.begins(thread="t")
    other = elsewhere(northgate, "other")
    assert first.session_id == second.session_id != other.begins(thread="t").session_id
    with pytest.raises(NotFound):
        other.begins(session_id=first.session_id)


# ------------------------------------------------------------------ a Run that is one Request


def test_one_request_is_approved_consumed_and_succeeds(northgate, mailer):
    """AAP: pending is waiting, approved is running, a reported success is succeeded."""
    asked = mailer.proposes()
    assert state(asked) == "waiting"
    northgate.approves("Ada", asked)
    assert state(asked) == "running"
    mailer.dispatches(asked)
    mailer.reports(asked)
    assert (state(asked), Effect.objects.get().state) == ("succeeded", "committed")


@pytest.mark.parametrize("status, expected", [("failed", "not_committed"), ("unknown", "uncertain")])
def test_a_reported_failure_is_a_no_and_an_unknown_is_asked(northgate, mailer, status, expected):
    """R25."""
    asked = mailer.proposes()
    northgate.approves("Ada", asked)
    mailer.dispatches(asked)
    mailer.reports(asked, status)
    assert Effect.objects.get().state == expected
    if expected == "uncertain":
        northgate.says("Olga", Request.objects.get(kind="wait_effect"), Finding("committed", "mail-1"))
        assert state(asked) == "succeeded"
    else:
        assert state(asked) == "failed"


def test_denied_expired_and_unused_are_failed(northgate, mailer, clock):
    """R08: a Run that is one Request ends with it."""
    denied, unused, expired = (mailer.proposes(key=key) for key in "abc")
    northgate.says("Ada", denied, Deny(digest=denied.digest))
    northgate.approves("Ada", unused)
    clock.move(seconds=3700)
    transitions.sweep()
    assert (state(denied), state(unused), state(expired)) == ("failed", "failed", "waiting")
    clock.move(seconds=8 * 86_400)
    transitions.sweep()
    assert state(expired) == "failed"
    assert Grant.objects.get().state == "void"


def test_silence_after_the_intent_asks_a_person(northgate, mailer, clock):
    """R26: past the action's deadline it is uncertain, and a person says."""
    asked = mailer.proposes()
    northgate.approves("Ada", asked)
    mailer.dispatches(asked)
    clock.move(seconds=599)
    transitions.sweep()
    assert Effect.objects.get().state == "in_flight"
    clock.move(seconds=2)
    transitions.sweep()
    assert (Effect.objects.get().state, state(asked)) == ("uncertain", "waiting")
    unknown = Request.objects.get(kind="wait_effect", state="pending")
    northgate.says("Olga", unknown, Recover("accept"), message="We cannot find out.")
    assert state(asked) == "failed"


def test_a_late_report_settles_what_became_uncertain(northgate, mailer, clock):
    """R25: the report of the Run that dispatched it is its Attempt's reply, late or not."""
    asked = mailer.proposes()
    northgate.approves("Ada", asked)
    mailer.dispatches(asked)
    clock.move(seconds=601)
    transitions.sweep()
    mailer.reports(asked)
    assert (Effect.objects.get().state, state(asked)) == ("committed", "succeeded")


def test_a_hold_longer_than_the_grant_voids_nothing_while_it_lasts(northgate, mailer, clock):
    """R16: the approval ends with the release, not under the hold."""
    asked = mailer.proposes()
    northgate.approves("Ada", asked)
    olga = northgate.context("Olga")
    transitions.hold(olga, environment="staging", response_id=uuid7())
    clock.move(hours=2)
    transitions.sweep()
    assert (state(asked), Grant.objects.get().state) == ("running", "unused")
    transitions.release(olga, environment="staging", response_id=uuid7())
    clock.move(minutes=1)
    transitions.sweep()
    assert (state(asked), Grant.objects.get().state) == ("failed", "void")


def test_what_a_provider_got_no_key_of_is_looked_up_by_nobody(northgate, mailer, clock):
    """R24: code here that has an action of that name knows another key, and would prove the wrong thing."""
    asked = mailer.proposes("deploy", '{"service":"a","version":"1"}')
    northgate.approves("Ada", asked)
    mailer.dispatches(asked)
    clock.move(minutes=11)
    transitions.sweep()
    assert Request.objects.get(kind="wait_effect").accepts["recover"] == ["accept"]


def test_drift_fails_it_and_nothing_is_sent(northgate, mailer):
    """R16: an approver who may no longer approve."""
    asked = mailer.proposes()
    northgate.approves("Ada", asked)
    northgate.take("Ada", "approver")
    with pytest.raises(GrantUnusable) as refused:
        mailer.dispatches(asked)
    assert refused.value.reason == "void"
    assert (state(asked), Effect.objects.get().state) == ("failed", "withdrawn")


def test_a_policy_that_allows_or_denies_decides_at_once(northgate, mailer):
    """R17."""
    northgate.policy("mail/*", verdict="allow")
    northgate.policy("rm/*", verdict="deny")
    allowed, denied = mailer.proposes("mail/send"), mailer.proposes("rm/all")
    assert (state(allowed), state(denied)) == ("running", "failed")


def test_what_changes_nothing_outside_makes_no_effect(northgate, mailer):
    Registration.objects.create(tenant=northgate.tenant, pattern="mail/read*", title="Read mail", changes=False)
    asked = mailer.proposes("mail/read")
    northgate.approves("Ada", asked)
    assert mailer.dispatches(asked).effect is None
    mailer.reports(asked)
    assert state(asked) == "succeeded" and not Effect.objects.exists()


def test_a_cancel_after_the_intent_leaves_the_effect_and_its_report(northgate, mailer):
    """R29, R31: the Run is cancelled, what was sent is not undone, and its report is still taken."""
    asked = mailer.proposes()
    northgate.approves("Ada", asked)
    mailer.dispatches(asked)
    northgate.cancels("Olga", Run.objects.get(pk=asked.run_id))
    assert (state(asked), Effect.objects.get().state) == ("cancelled", "in_flight")
    mailer.reports(asked)
    assert (state(asked), Effect.objects.get().state) == ("cancelled", "committed")
    assert Evidence.objects.get().late


# ------------------------------------------------------------------ what a credential may not do


def test_an_agents_credential_never_answers_approves_or_settles(northgate, mailer):
    """R18, T21."""
    run = mailer.begins()
    question = mailer.asks(run, Question("q", "Which?", KEY_NAME))
    approval = mailer.asks(run, MAIL)
    for request, response in ((question, Answer({"name": "k"})), (approval, Approve(digest=approval.digest))):
        with pytest.raises(NotAuthorized):
            transitions.respond(
                mailer.context,
                resume=Resume(
                    session_id=request.session_id, request_id=request.pk, response_id=uuid7(), response=response
                ),
            )


def test_who_made_the_credential_has_a_stake(northgate, mailer):
    """R18."""
    northgate.give(northgate.people["Ann"].memberships.get(), "approver")
    asked = mailer.proposes()
    with pytest.raises(NotAuthorized) as refused:
        northgate.approves("Ann", asked)
    assert "credential" in refused.value.facts["stake"]


def test_an_agent_sees_its_own_and_nothing_else(northgate, harbour, mailer):
    """R07."""
    theirs = [elsewhere(northgate, "other").proposes(), elsewhere(harbour).proposes(), northgate.approval()]
    for request in theirs:
        for model, pk in ((Request, request.pk), (Run, request.run_id), (type(request.session), request.session_id)):
            with pytest.raises(NotFound):
                permissions.find(model, mailer.context, pk)


def test_a_revoked_credential_does_nothing_more(northgate, mailer):
    """R06."""
    asked = mailer.proposes()
    northgate.approves("Ada", asked)
    Credential.objects.update(revoked_at=Now())
    with pytest.raises((NotFound, NotSignedIn)):
        mailer.dispatches(asked)
    with pytest.raises(NotSignedIn):
        mailer.proposes()
    assert Effect.objects.get().state == "prepared"


def test_the_end_of_an_instance_ends_its_runs_and_doubts_what_is_in_flight(northgate, mailer):
    """Nobody can report it any more, so a person is asked at once."""
    flying, waiting = mailer.proposes(key="a"), mailer.proposes(key="b", arguments="{}")
    northgate.approves("Ada", flying)
    mailer.dispatches(flying)
    transitions.end_instance(northgate.context("Ann"), mailer.instance)
    assert (state(flying), state(waiting)) == ("cancelled", "cancelled")
    assert Effect.objects.get(request=flying).state == "uncertain"
    assert Request.objects.get(kind="wait_effect").state == "pending"
