"""Agents elsewhere that are careless: late, twice at once, silent, gone in the middle of things."""

from dataclasses import replace

import pytest

from runtime_app import permissions, selectors, transitions
from runtime_app.errors import IdempotencyConflict, InvalidInput, InvalidResponse, LeaseLost, NotFound
from runtime_app.models import Blocker, Effect, Evidence, Grant, Registration, Request, Run
from runtime_app.transitions import Ask, Question
from tests.cast import KEY_NAME, Answer, Approve, Deny, Recover, intend, uuid7
from tests.runtime.test_reality import Recall, Ship, nothing_sent  # noqa: F401

pytestmark = pytest.mark.django_db(transaction=True)
MAIL = Ask("mail", "mail/send", '{"to":"a@b.c"}')


def stands(run) -> Run:
    return Run.objects.get(pk=getattr(run, "run_id", run.pk))


def test_a_used_approval_is_not_said_to_be_unused(northgate, mailer, clock):
    """R31: what changes nothing outside has no Effect; its agent used the approval, and reported nothing."""
    Registration.objects.create(tenant=northgate.tenant, pattern="mail/read*", title="Read mail", changes=False)
    asked = mailer.proposes("mail/read")
    northgate.approves("Ada", asked)
    mailer.dispatches(asked)
    clock.move(seconds=3600)
    transitions.sweep()
    assert stands(asked).state == "failed"
    assert stands(asked).reason == "The approval was used; its agent reported nothing."


def test_the_inbox_offers_nobody_what_the_maker_of_a_credential_may_not_decide(northgate, mailer):
    """R18, R21: page and transition give one answer."""
    northgate.give(northgate.people["Ann"].memberships.get(), "approver")
    asked = mailer.proposes()
    ann = northgate.context("Ann")
    assert permissions.why_not(ann, asked)
    assert asked not in selectors.inbox(ann, permissions.roles(ann)).for_you


def test_a_turn_asked_for_twice_is_not_the_turn_that_another_process_took_since(northgate, mailer):
    """R29: whoever lost the answer to its turn does not write under the Lease of its successor."""
    run = mailer.begins()
    taken = transitions.take_turn(mailer.context, run_id=run.pk, key="first")
    assert transitions.take_turn(mailer.context, run_id=run.pk, key="first").lease_number == taken.lease_number == 2
    transitions.take_turn(mailer.context, run_id=run.pk, key="second")
    with pytest.raises(LeaseLost):
        transitions.take_turn(mailer.context, run_id=run.pk, key="first")


@pytest.mark.parametrize("says", ["heartbeat", "complete"])
def test_a_lapsed_lease_that_nobody_followed_is_the_newest_still(mailer, clock, says):
    """R29: its agent slept for a while; no other took the Run up, so it may go on, and end it."""
    run = mailer.begins()
    clock.move(seconds=3600)
    transitions.sweep()
    assert stands(run).state == "queued"
    if says == "heartbeat":
        assert transitions.heartbeat(mailer.context, run_id=run.pk, lease=1).state == "running"
    else:
        transitions.conclude_run(mailer.context, run_id=run.pk, lease=1, state="succeeded", result="done")
        assert stands(run).state == "succeeded"


def test_an_answered_run_is_not_taken_up_by_a_heartbeat(northgate, mailer):
    run = mailer.begins()
    asked = mailer.asks(run, Question("q", "Which?", KEY_NAME))
    northgate.says("Sam", asked, Answer({"name": "k"}))
    assert transitions.heartbeat(mailer.context, run_id=run.pk, lease=1).state == "queued"


def test_what_replaces_no_id_is_not_taken_for_a_first_ask(mailer):
    """R04."""
    with pytest.raises(InvalidInput) as refused:
        mailer.asks(mailer.begins(), replace(MAIL, replaces="nonsense"))
    assert refused.value.facts["fields"] == {"replaces": "not a UUID"}


def test_a_start_under_a_key_has_one_title(mailer):
    """R09."""
    mailer.begins("go", key="one", title="A")
    with pytest.raises(IdempotencyConflict):
        mailer.begins("go", key="one", title="B")


def test_nobody_on_the_line_and_nobody_knows(northgate, mailer):
    """R35: a job elsewhere ends blocked on what became uncertain, as a hosted one does."""
    northgate.policy("mail/*", verdict="allow")
    run = mailer.begins(interactive=False)
    asked = mailer.asks(run, MAIL)
    mailer.dispatches(asked)
    mailer.reports(asked, "unknown")
    assert stands(run).state == "blocked"
    assert Blocker.objects.get().kind == "wait_effect"
    assert Request.objects.get(kind="wait_effect").state == "pending"


def test_a_silent_job_is_blocked_too(northgate, mailer, clock):
    """R26, R35: whether or not its Lease ran out first."""
    northgate.policy("mail/*", verdict="allow")
    run = mailer.begins(interactive=False)
    mailer.dispatches(mailer.asks(run, MAIL))
    clock.move(seconds=601)
    transitions.sweep()
    transitions.sweep()
    assert stands(run).state == "blocked"


def test_what_a_job_elsewhere_lacked_is_given_to_its_successor(northgate, mailer):
    """R33, R34: its agent takes that up, and uses what was granted."""
    run = mailer.begins(interactive=False)
    assert mailer.asks(run, MAIL) is None
    blocker = Blocker.objects.get()
    given = Approve(digest=blocker.digest)
    transitions.supply(northgate.context("Ada"), blocker_id=blocker.pk, response=given, response_id=uuid7())
    after = Run.objects.get(follows=run)
    assert after.state == "queued"
    turn = transitions.take_turn(mailer.context, run_id=after.pk, key="t")
    asked = mailer.asks(after, MAIL, lease=turn.lease_number)
    assert asked.state == "resolved"
    mailer.dispatches(asked)
    mailer.reports(asked)
    transitions.conclude_run(mailer.context, run_id=after.pk, lease=turn.lease_number, state="succeeded")
    assert stands(after).state == "succeeded"


def test_nothing_is_given_to_a_job_whose_agent_was_deleted(northgate, mailer):
    """R34: its successor would wait for nobody."""
    run = mailer.begins(interactive=False)
    mailer.asks(run, MAIL)
    transitions.delete_instance(northgate.context("Ann"), instance_id=mailer.instance.pk)
    blocker = Blocker.objects.get()

    def says(response):
        verb = {"response": response, "response_id": uuid7(), "message": "No."}
        return transitions.supply(northgate.context("Ada"), blocker_id=blocker.pk, **verb)

    with pytest.raises(InvalidResponse, match="deleted"):
        says(Approve(digest=blocker.digest))
    assert not Run.objects.filter(follows=run).exists()
    says(Deny(digest=blocker.digest))


def test_an_approval_taken_back_ends_the_run_that_is_one_request(northgate, mailer):
    """R16."""
    asked = mailer.proposes()
    northgate.approves("Ada", asked)
    transitions.void(northgate.context("Olga"), request_id=asked.pk, response_id=uuid7())
    assert stands(asked).state == "failed"


def test_who_sweeps_late_asks_all_the_same(northgate, mailer, clock):
    """R26: the Run that is one Request waits for what a person finds, however long no worker was there."""
    asked = mailer.proposes()
    northgate.approves("Ada", asked)
    mailer.dispatches(asked)
    clock.move(hours=5)
    transitions.sweep()
    assert stands(asked).state == "waiting"
    assert Request.objects.get(kind="wait_effect").stops


def recovering(northgate, mailer, clock, name) -> tuple[Request, Request]:
    """What an agent sent and said nothing of; and what Ada granted the Run that Olga started to recover it."""
    asked = mailer.asks(mailer.begins(), Ask("s", "ship", '{"parcel":"p1"}'))
    northgate.approves("Ada", asked)
    mailer.dispatches(asked)
    clock.move(hours=1)
    transitions.sweep()
    northgate.says("Olga", Request.objects.get(kind="wait_effect"), Recover(name))
    request = Request.objects.get(run__recovery=name)
    northgate.approves("Ada", request)
    return asked, request


@pytest.mark.parametrize("name", ["redispatch", "compensate"])
def test_what_an_operator_recovers_is_not_the_agents_to_send(northgate, mailer, clock, name):
    """R24, R25: it is done as its Instance, and is none of its Runs: it neither uses that Grant nor cancels."""
    _, request = recovering(northgate, mailer, clock, name)
    for call in (
        lambda: mailer.dispatches(request),
        lambda: mailer.reports(request),
        lambda: transitions.cancel_own(mailer.context, run_id=request.run_id, key="c"),
        lambda: transitions.take_turn(mailer.context, run_id=request.run_id),
    ):
        with pytest.raises(NotFound):
            call()
    assert Grant.objects.get(request=request).state == "unused"


def test_an_agent_deleted_meanwhile_takes_back_no_recovery(northgate, mailer, clock):
    """R24: the Run is the operator's."""
    _, request = recovering(northgate, mailer, clock, "redispatch")
    transitions.end_instance(northgate.context("Ann"), mailer.instance)
    assert stands(request).state == "waiting"


def test_a_late_report_is_of_the_attempt_that_the_agent_made(northgate, mailer, clock):
    """R25: not of the one that an operator had sent since."""
    asked, _ = recovering(northgate, mailer, clock, "redispatch")
    again = intend()
    mailer.reports(asked, "unknown")
    assert Effect.objects.get(pk=again.effect_id).state == "in_flight"
    assert Evidence.objects.get(source="reply").attempt_id != again.attempt_id
