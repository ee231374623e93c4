"""Recoveries, late evidence, what is given to a successor, epochs: what may not happen (R16, R24-R28, R34)."""

import fcntl

import pytest
from django.conf import settings

from runtime_app import failpoints, permissions, transitions
from runtime_app.actions import Committed, NotCommitted, Working
from runtime_app.errors import GrantUnusable, InvalidInput, InvalidResponse, NotAuthorized, NotFound, StaleRequest
from runtime_app.ids import uuid7
from runtime_app.models import Attempt, Blocker, Effect, Epoch, Evidence, Grant, Now, Request, Run
from runtime_app.permissions import Actor
from runtime_app.selectors.claimable import claimable
from runtime_app.transitions import Ask, Child, Question, epochs, evidence
from tests.cast import KEY_NAME, Approve, Finding, Recover, claim, intend, send
from tests.runtime.test_reality import Recall, Ship, nothing_sent, shipped  # noqa: F401


def asked_about(effect):
    return Request.objects.get(effect_id=effect.pk, state="pending", kind="wait_effect")


def sent_again(northgate):
    """An uncertain Effect whose second Attempt Ada has granted."""
    effect = shipped(northgate, TimeoutError())
    northgate.says("Olga", asked_about(effect), Recover("redispatch"))
    again = Run.objects.get(recovers_id=effect.pk)
    northgate.approves("Ada", Request.objects.get(run_id=again.pk))
    return effect, again


def provider(house):
    return permissions.Context(house.tenant.pk, Actor("system", "provider", "parcels"))


@pytest.fixture
def epoch():
    """The installation's epoch; what a test makes of it is undone."""
    before = Epoch.objects.order_by("-number").first()
    facts = dict(vars(before))
    yield before
    Epoch.objects.filter(number__gt=before.number).delete()
    for name in ("timeline", "system_identifier", "mark", "database_oid"):
        setattr(before, name, facts[name])
    epochs._tell_mark(epochs._remember(before))


# ---------------------------------------------------------------- recoveries that send


def test_a_worker_that_was_told_nothing_finds_what_is_to_be_sent_again(northgate):
    """R24: its Grant prepares no Effect, and is looked for all the same."""
    sent_again(northgate)
    assert claimable()["effect"] == 1


def test_what_was_established_is_not_asked_for_again(northgate):
    """R24: nobody is asked to allow what would be refused; the Run that was to send it ends and says why."""
    effect = shipped(northgate, TimeoutError())
    northgate.says("Olga", asked_about(effect), Recover("redispatch"))
    northgate.says("Stan", asked_about(effect), Finding("committed", "the parcel is there"))
    again = Run.objects.get(recovers_id=effect.pk)
    request = Request.objects.get(run=again)
    assert (request.state, request.resolved_by, again.state) == ("cancelled", "Stan", "queued")
    with pytest.raises(StaleRequest):
        northgate.approves("Ada", request)


def test_what_a_person_established_is_not_sent_again(northgate):
    """R24: what was allowed is taken back at once."""
    effect, again = sent_again(northgate)
    northgate.says("Olga", asked_about(effect), Finding("committed", "the parcel is there"))
    assert Grant.objects.get(run=again).state == "void"
    assert intend() is None and Attempt.objects.count() == 1
    assert Run.objects.get(pk=again.pk).state == "queued"


def test_the_dispatch_looks_once_more_whether_it_was_established(northgate, monkeypatch):
    """R16, R24: whatever left its Grant unused."""
    monkeypatch.setattr(evidence, "take_back", lambda *_: None)
    effect, again = sent_again(northgate)
    northgate.says("Olga", asked_about(effect), Finding("committed", "the parcel is there"))
    assert Grant.objects.get(run=again).state == "unused"
    assert intend() is None and Attempt.objects.count() == 1
    assert Grant.objects.get(run=again).state == "void"


def test_whoever_establishes_it_the_run_that_sent_it_again_goes_on(northgate):
    """R24: also a person, while the second Attempt is in flight and its worker is gone."""
    effect, again = sent_again(northgate)
    assert intend().effect_id == effect.pk
    northgate.says("Olga", asked_about(effect), Finding("committed", "the parcel is there"))
    assert Run.objects.get(pk=again.pk).state == "queued"


def test_only_what_is_uncertain_is_sent_again(northgate):
    """R24: the provider is still working at it."""
    effect = shipped(northgate, Working())
    with pytest.raises(InvalidResponse):
        northgate.says("Olga", asked_about(effect), Recover("redispatch"))
    assert not Run.objects.filter(recovers_id=effect.pk).exists()


def test_what_happened_is_compensated_once_whichever_way_it_is_asked(northgate):
    """R24: when the first compensation has ended, too, and from the Request as from the page."""
    effect = shipped(northgate, TimeoutError())
    request = asked_about(effect)
    northgate.says("Olga", request, Recover("compensate"))
    again = Run.objects.get(recovers_id=effect.pk)
    northgate.approves("Ada", Request.objects.get(run_id=again.pk))
    send(intend())
    transitions.finish(claim(again), state="succeeded")
    with pytest.raises(StaleRequest) as second:
        northgate.says("Olga", request, Recover("compensate"))
    assert second.value.reason == "recovering" and Recall.sent and not Ship.sent


def test_what_did_not_happen_and_a_compensation_have_no_compensation(northgate):
    """R24."""
    effect = shipped(northgate, NotCommitted())
    undone = shipped(northgate)
    Effect.objects.filter(pk=undone.pk).update(compensates_id=effect.pk)
    for each in (effect, undone):
        with pytest.raises(InvalidResponse):
            transitions.compensate(northgate.context("Olga"), effect_id=each.pk, response_id=uuid7())


# ---------------------------------------------------------------- evidence


def test_a_person_does_not_dispute_what_the_provider_said(northgate):
    """R25: attested is less than observed; it is kept."""
    effect = shipped(northgate)
    transitions.add_evidence(
        northgate.context("Stan"), effect_id=effect.pk, finding="not_committed", reference="mail", response_id=uuid7()
    )
    assert not Effect.objects.get().disputed and Evidence.objects.get(finding="not_committed").late


def test_a_callback_that_comes_twice_is_one_piece_of_evidence(northgate):
    """R25, T88."""
    effect = shipped(northgate, TimeoutError())
    told = {"action": "ship", "key": effect.key, "message_id": "m1", "reply": Committed("p")}
    kept = {transitions.provider_says(provider(northgate), **told).pk for _ in range(2)}
    assert len(kept) == 1 and Effect.objects.get().state == "committed"


def test_a_callback_for_another_tenants_key_is_not_found(northgate, harbour):
    """R07."""
    effect = shipped(northgate, TimeoutError())
    for context, action in ((provider(harbour), "ship"), (provider(northgate), "recall")):
        with pytest.raises(NotFound):
            transitions.provider_says(context, action=action, key=effect.key, message_id="m", reply=Committed())
    assert Effect.objects.get().state == "uncertain"


# ---------------------------------------------------------------- holds and voids


def test_what_was_sent_is_no_longer_voided(northgate):
    """R16."""
    effect = northgate.granted()
    intend()
    with pytest.raises(GrantUnusable) as late:
        transitions.void(northgate.context("Ada"), request_id=effect.request_id, response_id=uuid7())
    assert late.value.reason == "already_consumed"


# ---------------------------------------------------------------- jobs


def blocked(northgate, **more):
    run = northgate.start(interactive=False)
    transitions.suspend(claim(run), waits=[Ask("d", "deploy", '{"service":"a","version":"1"}')])
    return Blocker.objects.get(run_id=run.pk)


def supplied(northgate, blocker, who="Ada"):
    transitions.supply(
        northgate.context(who), blocker_id=blocker.pk, response=Approve(blocker.digest), response_id=uuid7()
    )
    return Run.objects.get(pk=blocker.successor_run)


def test_whoever_may_not_approve_it_grants_no_job_anything(northgate):
    """R18, R34: Sam has no role for it, Omar owns the agent, Olga started the job."""
    blocker = blocked(northgate)
    for who in ("Sam", "Omar", "Olga"):
        with pytest.raises(NotAuthorized):
            supplied(northgate, blocker, who)
    assert not Run.objects.filter(follows_id=blocker.run_id).exists()


def test_what_was_given_is_not_sent_while_the_successor_waits_for_something_else(northgate):
    """R34: it serves what the successor asks for, not whatever makes it wait."""
    successor = supplied(northgate, blocked(northgate))
    transitions.suspend(claim(successor), waits=[Child("c", "deployer", "look first")])
    assert Run.objects.get(pk=successor.pk).state == "waiting" and intend() is None


@pytest.mark.parametrize("key", ["given", "effect:1"])
def test_an_agent_cannot_take_a_name_of_ours_for_its_wait(key):
    """R34."""
    assert isinstance(transitions.check(Question(key, "Which?", KEY_NAME)), InvalidInput)


# ---------------------------------------------------------------- children


def test_a_childs_blocker_is_its_parents(northgate):
    """R28, R33."""
    run = northgate.start(interactive=False)
    transitions.suspend(claim(run), waits=[Child("c", "deployer", "deploy it")])
    child = Run.objects.get(parent_id=run.pk)
    transitions.suspend(claim(child), waits=[Question("q", "Which?", KEY_NAME)])
    assert set(Run.objects.values_list("state", flat=True)) == {"blocked"}
    assert Blocker.objects.get(run_id=run.pk).child == child.pk


# ---------------------------------------------------------------- epochs


@pytest.mark.parametrize(
    "fact, value", [("timeline", 7), ("system_identifier", "1"), ("database_oid", 7), ("mark", 7)]
)  # fmt: skip
def test_each_difference_alone_is_a_new_epoch(northgate, epoch, fact, value):
    """R27."""
    effect = northgate.granted()
    Epoch.objects.filter(pk=epoch.pk).update(**{fact: value})
    assert intend() is None and not Attempt.objects.exists()
    assert Effect.objects.get(pk=effect.pk).state == "uncertain"
    assert Epoch.objects.order_by("-number").first().number == epoch.number + 1


def test_an_installation_without_its_mark_sends_nothing(northgate, epoch, settings):
    """R27."""
    northgate.granted()
    with epochs._marked() as file:
        epochs._write(file, {})
    assert intend() is None and Effect.objects.get().state == "uncertain"


def test_an_intent_is_marked_outside_the_database_before_it_is_sent(northgate, epoch):
    """R27."""
    northgate.granted()
    dispatch = intend()
    with epochs._marked() as file:
        assert epochs._read(file)["intents"] == dispatch.intent == epochs._facts()[3]


def test_what_cannot_be_marked_is_not_sent(northgate, epoch, monkeypatch):
    """R27."""
    northgate.granted()

    def full(intent, attempt):
        raise OSError("no space left on device")

    monkeypatch.setattr(epochs, "mark", full)
    assert intend() is None
    assert Effect.objects.get().state == "not_committed"


def test_a_process_killed_while_an_epoch_begins_hides_no_restore(northgate, epoch, monkeypatch):
    """R27: the mark is told after the commit, so whoever comes next finds the difference still."""
    northgate.granted()
    epochs.mark(epochs._facts()[3] + 5)
    monkeypatch.setenv("SAYSO_FAILPOINTS_ALLOWED", "1")
    monkeypatch.setenv("SAYSO_FAILPOINT", "watch.events:raise")
    failpoints.arm()
    with pytest.raises(failpoints.FailpointReached):
        epochs.watch()
    assert epochs.differences()
    assert epochs.watch().number == epoch.number + 1 and not epochs.differences()


def test_nobody_waits_for_the_mark_while_the_database_is_asked(northgate, epoch, monkeypatch):
    """R27: a line that swallows what is said would stop every process beside the one that has it."""
    asked, facts = [], epochs._facts

    def with_the_mark_free():
        with open(settings.SAYSO_MARK) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            asked.append("free")
        return facts()

    epochs.mark(facts()[3] + 5)
    monkeypatch.setattr(epochs, "_facts", with_the_mark_free)
    assert epochs.watch().number == epoch.number + 1 and asked


def test_what_an_older_epoch_granted_is_not_sent(northgate, epoch):
    """R16, I26: the epoch is released, and what was granted before it is asked for anew all the same."""
    northgate.granted()
    fresh = Epoch(number=epoch.number + 1, released_at=Now())
    epochs._tell_mark(epochs._remember(fresh))
    assert intend() is None and not Attempt.objects.exists()
    assert Grant.objects.get().state == "void" and Request.objects.filter(state="pending").exists()


def test_after_a_restore_what_may_have_been_sent_is_settled_by_evidence(northgate, epoch):
    """R27: here it was only prepared."""
    effect = northgate.granted()
    epochs.mark(epochs._facts()[3] + 5)
    epochs.watch()
    northgate.says("Olga", asked_about(effect), Finding("committed", "build 7"))
    assert Effect.objects.get().state == "committed"
    epochs.release_epoch("Root")
    assert Run.objects.get().state == "queued"


def test_after_a_restore_everything_a_job_was_granted_is_asked_about(northgate, epoch):
    """R27, R35: the job ends on the first that nobody knows of, and the second may have been sent as well."""
    northgate.policy("deploy", verdict="allow")
    northgate.ask({"version": "1", "key": "a"}, {"version": "2", "key": "b"}, interactive=False)
    epochs.mark(epochs._facts()[3] + 5)
    epochs.watch()
    assert Run.objects.get().state == "blocked" and not Grant.objects.filter(state="unused").exists()
    assert [asked_about(effect).state for effect in Effect.objects.filter(state="uncertain")] == ["pending"] * 2


def test_what_happened_before_a_restore_is_compensated_after_it(northgate, epoch):
    """R24, R27: its Run had ended, and what is granted now is granted in this epoch."""
    effect = shipped(northgate)
    transitions.finish(claim(), state="succeeded")
    epochs.mark(epochs._facts()[3] + 5)
    epochs.watch()
    epochs.release_epoch("Root")
    transitions.compensate(northgate.context("Olga"), effect_id=effect.pk, response_id=uuid7())
    northgate.approves("Ada", Request.objects.get(action_name="recall"))
    assert intend() is not None


def test_a_run_whose_second_grant_an_epoch_took_goes_on(northgate, epoch):
    """R24, R27: nothing else would wake it."""
    _, again = sent_again(northgate)
    epochs.mark(epochs._facts()[3] + 5)
    epochs.watch()
    epochs.release_epoch("Root")
    assert Run.objects.get(pk=again.pk).state == "queued"


def test_a_database_without_the_last_attempt_that_was_marked_is_older(northgate, epoch):
    """R27: its count of intents may be ahead all the same, since a crash moves a sequence on by up to 32."""
    northgate.granted()
    assert not epochs.differences()
    with epochs._marked() as file:
        epochs._write(file, epochs._read(file) | {"attempt": str(uuid7())})
    assert intend() is None and Effect.objects.get().state == "uncertain"
