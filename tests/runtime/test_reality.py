"""Holds, voids, recoveries that send, children, what a job is given, disputes, restores: the first proof of each."""

import pytest
from pydantic import BaseModel

from runtime_app import transitions
from runtime_app.actions import Action, Committed, register
from runtime_app.errors import GrantUnusable, NotAuthorized, StaleRequest
from runtime_app.ids import uuid7
from runtime_app.models import Blocker, Effect, Environment, Epoch, Evidence, Grant, Request, Run
from runtime_app.transitions import Ask, Child, Question, epochs
from tests.cast import KEY_NAME, WORKER, Answer, Approve, Finding, Recover, claim, intend, send


@register
class Ship(Action):
    """Its provider does a key at most once, and what it did can be undone."""

    name, title = "ship", "Ship a parcel"
    idempotent = redispatch = True
    compensation = "recall"
    sent: list[str] = []

    class Parameters(BaseModel):
        parcel: str

    def dispatch(self, key, parameters, environment):
        self.sent.append(key)
        return Committed(reference="shipped")


@register
class Recall(Action):
    name, title = "recall", "Recall a parcel"
    sent: list[str] = []

    class Parameters(BaseModel):
        parcel: str

    def dispatch(self, key, parameters, environment):
        self.sent.append(key)
        return Committed(reference="recalled")


@pytest.fixture(autouse=True)
def nothing_sent():
    Ship.sent.clear()
    Recall.sent.clear()


def shipped(northgate, reply=None):
    request = northgate.ask(Ask("s", "ship", '{"parcel":"p1"}'))[0]
    northgate.approves("Ada", request)
    dispatch = intend()
    if reply is None:
        send(dispatch)
    else:
        transitions.record(dispatch, reply)
    return Effect.objects.get(request_id=request.pk)


def test_nothing_is_dispatched_in_an_environment_that_is_held(northgate):
    """R16."""
    effect = northgate.granted()
    transitions.hold(northgate.context("Olga"), environment="staging", response_id=uuid7(), reason="freeze")
    assert intend() is None
    assert Effect.objects.get(pk=effect.pk).state == "prepared" and Grant.objects.get().state == "unused"
    with pytest.raises(NotAuthorized):
        transitions.release(northgate.context("Ada"), environment="staging", response_id=uuid7())
    transitions.release(northgate.context("Olga"), environment="staging", response_id=uuid7())
    assert intend().effect_id == effect.pk
    assert Environment.objects.get(name="staging", tenant=northgate.tenant).held_at is None


def test_its_approver_voids_an_unused_grant_and_the_agent_goes_on(northgate):
    """R16, B55."""
    effect = northgate.granted()
    with pytest.raises(NotAuthorized):
        transitions.void(northgate.context("Bob"), request_id=effect.request_id, response_id=uuid7())
    transitions.void(northgate.context("Ada"), request_id=effect.request_id, response_id=uuid7(), reason="wrong one")
    assert Effect.objects.get().state == "withdrawn"
    assert Run.objects.get().state == "queued"
    with pytest.raises(GrantUnusable) as late:
        transitions.void(northgate.context("Ada"), request_id=effect.request_id, response_id=uuid7())
    assert late.value.reason == "void"


def test_an_uncertain_effect_is_sent_again_under_its_key_and_a_grant_of_its_own(northgate):
    """R24."""
    effect = shipped(northgate, TimeoutError())
    asked = Request.objects.get(effect_id=effect.pk, kind="wait_effect")
    northgate.says("Olga", asked, Recover("redispatch"))
    again = Run.objects.get(recovers_id=effect.pk)
    assert (again.state, again.recovery, again.session_id) == ("waiting", "redispatch", effect.session_id)
    with pytest.raises(StaleRequest) as second:
        northgate.says("Olga", asked, Recover("redispatch"))
    assert second.value.reason == "recovering"
    approval = Request.objects.get(run_id=again.pk)
    with pytest.raises(NotAuthorized):  # Olga started it
        northgate.approves("Olga", approval)
    northgate.approves("Ada", approval)
    dispatch = intend()
    assert (dispatch.effect_id, dispatch.key) == (effect.pk, effect.key)
    send(dispatch)
    assert Ship.sent == [effect.key]
    effect.refresh_from_db()
    assert effect.state == "committed" and Effect.objects.count() == 1
    assert Request.objects.get(pk=asked.pk).outcome == "settled"
    assert {Run.objects.get(pk=pk).state for pk in (again.pk, effect.run_id)} == {"queued"}


def test_what_happened_is_compensated_by_an_effect_of_its_own(northgate):
    """R24."""
    effect = shipped(northgate)
    transitions.compensate(northgate.context("Olga"), effect_id=effect.pk, response_id=uuid7())
    approval = Request.objects.get(action_name="recall")
    northgate.approves("Ada", approval)
    undone = Effect.objects.get(compensates_id=effect.pk)
    send(intend())
    undone.refresh_from_db()
    assert undone.state == "committed" and Effect.objects.get(pk=effect.pk).state == "committed"
    assert Recall.sent == [undone.key]
    with pytest.raises(StaleRequest):
        transitions.compensate(northgate.context("Olga"), effect_id=effect.pk, response_id=uuid7())


def test_a_parent_waits_for_its_child_and_cancels_it(northgate):
    """R28."""
    run = northgate.start()
    transitions.suspend(claim(run), waits=[Child("c", "deployer", "deploy it"), Question("q", "Confirm?", KEY_NAME)])
    child = Run.objects.get(parent_id=run.pk)
    question = Request.objects.get(run_id=run.pk)
    northgate.says("Sam", question, Answer({"name": "x"}))
    assert Run.objects.get(pk=run.pk).state == "waiting", "its child has not ended"
    transitions.finish(claim(child), state="succeeded", result="done")
    assert Run.objects.get(pk=run.pk).state == "queued"
    turn = claim(run)
    assert [each.result for each in turn.children] == ["done"]


def test_cancelling_a_parent_names_and_cancels_its_children(northgate):
    """R28."""
    run = northgate.start()
    transitions.suspend(claim(run), waits=[Child("c", "deployer", "deploy it")])
    child = Run.objects.get(parent_id=run.pk)
    said = northgate.cancels("Olga", run)
    assert said.recorded["children"] == [str(child.pk)]
    assert {each.state for each in Run.objects.all()} == {"cancelled"}


def test_a_blocked_job_is_granted_its_exact_action_and_the_successor_uses_it(northgate):
    """R34: the digest shown is the digest granted."""
    run = northgate.start(interactive=False)
    transitions.suspend(claim(run), waits=[Ask("d", "deploy", '{"service":"a","version":"1"}')])
    blocker = Blocker.objects.get()
    assert Run.objects.get(pk=run.pk).state == "blocked" and not Request.objects.exists()
    transitions.supply(
        northgate.context("Ada"), blocker_id=blocker.pk, response=Approve(blocker.digest), response_id=uuid7()
    )
    successor = Run.objects.get(follows_id=run.pk)
    assert (successor.state, successor.pk) == ("queued", blocker.successor_run)
    with pytest.raises(StaleRequest) as late:
        transitions.supply(
            northgate.context("Bob"), blocker_id=blocker.pk, response=Approve(blocker.digest), response_id=uuid7()
        )
    assert "Ada" in late.value.message
    assert intend() is None, "nothing is sent before the successor asks for it"
    transitions.suspend(claim(successor), waits=[Ask("other", "deploy", '{"version":"1","service":"a"}')])
    assert Request.objects.get().digest == blocker.digest
    send(intend())
    assert Effect.objects.get().state == "committed"
    assert Run.objects.get(pk=successor.pk).state == "queued"


def test_what_was_given_and_does_not_fit_is_said_and_the_job_blocks_anew(northgate):
    """R34."""
    run = northgate.start(interactive=False)
    transitions.suspend(claim(run), waits=[Ask("d", "deploy", '{"service":"a","version":"1"}')])
    blocker = Blocker.objects.get()
    transitions.supply(
        northgate.context("Ada"), blocker_id=blocker.pk, response=Approve(blocker.digest), response_id=uuid7()
    )
    successor = Run.objects.get(follows_id=run.pk)
    transitions.suspend(claim(successor), waits=[Ask("d", "deploy", '{"service":"a","version":"2"}')])
    assert "did not fit" in Blocker.objects.get(run_id=successor.pk).unblocks
    assert Effect.objects.get().state == "withdrawn" and Grant.objects.get().state == "void"


def test_equal_blockers_of_one_job_are_counted(northgate):
    for _ in range(3):
        run = northgate.start(interactive=False)
        transitions.suspend(claim(run), waits=[Question("q", "Which?", KEY_NAME)])
    assert Blocker.objects.get(replaced_at=None).count == 3


def test_a_dispute_is_settled_by_an_operator_who_attested_neither_side(northgate):
    """R25."""
    request = northgate.unknown()
    northgate.says("Olga", request, Finding("committed", "build 1"))
    effect = Effect.objects.get()
    context = northgate.context("Stan")
    transitions.add_evidence(
        context, effect_id=effect.pk, finding="not_committed", reference="ticket 2", response_id=uuid7()
    )
    effect.refresh_from_db()
    assert effect.disputed and Evidence.objects.get(finding="not_committed").late
    asked = Request.objects.get(effect_id=effect.pk, state="pending")
    for party in ("Olga", "Stan"):
        with pytest.raises(NotAuthorized):
            northgate.says(party, asked, Finding("committed", "again"))


def test_a_database_behind_its_mark_begins_a_new_epoch_and_sends_nothing(northgate, monkeypatch, tmp_path):
    """T103, R27."""
    effect = northgate.granted()
    real = epochs._facts()
    epochs.mark(real[3] + 5)  # five intents were sent that this database does not know
    before = Epoch.objects.order_by("-number").first()
    try:
        assert intend() is None
        effect.refresh_from_db()
        assert (effect.state, Grant.objects.get().state) == ("uncertain", "void")
        run = Run.objects.get()
        assert run.held_at and Request.objects.filter(effect_id=effect.pk, state="pending").count() == 1
        assert "older than what was sent" in Epoch.objects.order_by("-number").first().why
        assert transitions.claim(WORKER) is None
        epochs.release_epoch("Root")
        assert Run.objects.get().held_at is None
    finally:
        Epoch.objects.filter(number__gt=before.number).delete()
        epochs._tell_mark(epochs._remember(before))
