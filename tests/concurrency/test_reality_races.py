"""Holds, voids, recoveries, children, jobs and epochs at the same moment: one wins, and nothing is sent that should not
be (R16, R24, R27, R28, R34)."""

from collections import Counter
from functools import partial

from runtime_app import transitions
from runtime_app.errors import GrantUnusable, RunEnded, StaleRequest
from runtime_app.ids import uuid7
from runtime_app.models import Attempt, Blocker, Effect, Environment, Epoch, Event, Grant, Request, Run
from runtime_app.transitions import Child, epochs
from tests import database
from tests.cast import Approve, Finding, Recover, claim, deployment, intend
from tests.runtime.test_remedies import asked_about, epoch, nothing_sent, sent_again, shipped  # noqa: F401

ROUNDS = range(4)


def kinds(results) -> Counter:
    return Counter(type(each).__name__ if isinstance(each, Exception) else "ok" for each in results)


def hold(northgate):
    return transitions.hold(northgate.context("Olga"), environment="staging", response_id=uuid7())


def test_a_hold_that_has_returned_is_complete(northgate, race):
    """R16: twenty connections; no intent is younger than the hold."""
    granted = [northgate.granted(version=str(number)) for number in range(12)]
    results = race(partial(hold, northgate), *[intend] * 19)
    held_at = Environment.objects.get(name="staging", tenant=northgate.tenant).held_at
    sent = [each for each in results[1:] if each]
    assert kinds(results) == {"ok": 20} and intend() is None
    assert all(each.intent_at < held_at for each in Attempt.objects.all())
    assert Attempt.objects.count() == len(sent) == len({each.effect_id for each in sent})
    assert Grant.objects.filter(state="unused").count() == len(granted) - len(sent), "a hold voids nothing"
    transitions.release(northgate.context("Olga"), environment="staging", response_id=uuid7())
    while intend():
        pass
    assert Attempt.objects.count() == len(granted)


def test_a_dispatch_waits_for_whoever_has_the_environments_row(northgate, while_held, owner):
    """R16: its row is locked last, so that a hold cannot slip in between the look and the intent."""
    effect = northgate.granted()

    def hold_by_hand():
        with database.owner() as other:
            other.execute(
                "update runtime_app_environment set held_at = sayso_now() where id = %s", [effect.environment_id]
            )

    assert while_held(effect.session_id, intend, hold_by_hand) is None
    assert not Attempt.objects.exists()


def test_void_against_dispatch_has_one_winner(northgate, race):
    """R16."""
    for _ in ROUNDS:
        effect = northgate.granted()
        void = partial(transitions.void, northgate.context("Ada"), request_id=effect.request_id, response_id=uuid7())
        results = race(void, *[intend] * 9)
        effect.refresh_from_db()
        if isinstance(results[0], GrantUnusable):
            assert results[0].reason == "already_consumed" and effect.state == "in_flight"
            assert Attempt.objects.filter(effect=effect).count() == 1
        else:
            assert effect.state == "withdrawn" and not Attempt.objects.filter(effect=effect).exists()
            assert Run.objects.get(pk=effect.run_id).state == "queued"
        assert intend() is None


def test_of_twenty_who_grant_a_jobs_action_one_wins(northgate, crowd, race):
    """R34: one successor, and nineteen are told by whom."""
    run = northgate.start(interactive=False)
    transitions.suspend(claim(run), waits=[deployment()])
    blocker = Blocker.objects.get()

    def supply(name):
        return transitions.supply(
            northgate.context(name), blocker_id=blocker.pk, response=Approve(blocker.digest), response_id=uuid7()
        )

    results = race(*(partial(supply, name) for name in crowd("approver", 20)))
    assert kinds(results) == {"ok": 1, "StaleRequest": 19}
    assert Run.objects.filter(follows_id=run.pk).count() == Grant.objects.count() == 1
    winner = Blocker.objects.get().supplied_by
    assert all(winner in late.message for late in results if isinstance(late, StaleRequest))


def test_of_ten_compensations_one_is_started(northgate, crowd, race):
    """R24."""
    effect = shipped(northgate)
    start = [
        partial(transitions.compensate, northgate.context(name), effect_id=effect.pk, response_id=uuid7())
        for name in crowd("operator", 10)
    ]
    assert kinds(race(*start)) == {"ok": 1, "StaleRequest": 9}
    assert Run.objects.filter(recovers_id=effect.pk).count() == 1


def test_sending_again_against_evidence_never_sends_what_is_known(northgate, race):
    """R24: whichever comes first, an Effect that was established has no Attempt after that."""
    for _ in ROUNDS:
        effect, again = sent_again(northgate)
        find = partial(northgate.says, "Olga", asked_about(effect), Finding("committed", "it is there"))
        race(find, *[intend] * 5)
        effect.refresh_from_db()
        seqs = dict(Event.objects.filter(subject=effect.pk).order_by("seq").values_list("kind", "seq"))
        assert effect.state == "committed" and seqs["effect.in_flight"] < seqs["effect.committed"]
        assert intend() is None
        assert Run.objects.get(pk=again.pk).state == "queued", "nothing is left that it waits for"
        for run in Run.objects.exclude(ended_at__isnull=False):
            northgate.cancels("Olga", run)


def test_of_twenty_recoveries_one_is_started(northgate, crowd, race):
    """R24: one at a time for each Effect."""
    request = asked_about(shipped(northgate, TimeoutError()))
    start = [partial(northgate.says, name, request, Recover("redispatch")) for name in crowd("operator", 20)]
    results = race(*start)
    assert kinds(results) == {"ok": 1, "StaleRequest": 19}
    assert {late.reason for late in results if isinstance(late, StaleRequest)} == {"recovering"}


def test_a_childs_end_against_its_parents_cancel(northgate, race, deadlocks):
    """R28, R32: no deadlock, and both end."""
    before = deadlocks()
    for _ in ROUNDS:
        run = northgate.start()
        transitions.suspend(claim(run), waits=[Child("c", "deployer", "go")])
        child = Run.objects.get(parent_id=run.pk)
        turn = claim(child)
        results = race(partial(transitions.finish, turn, state="succeeded"), partial(northgate.cancels, "Olga", run))
        if isinstance(results[0], RunEnded):
            transitions.stopped(turn)
        run.refresh_from_db()
        child.refresh_from_db()
        assert run.state == "cancelled" and child.state in ("succeeded", "cancelled")
    assert deadlocks() == before


def test_an_epoch_begins_once_and_nothing_is_sent_beside_it(northgate, race, epoch):  # noqa: F811
    """R27, I26."""
    effects = [northgate.granted(version=str(number)) for number in range(4)]
    epochs.mark(epochs._facts()[3] + 50)
    results = race(*[intend] * 6, *[epochs.watch] * 6)
    assert kinds(results) == {"ok": 12} and not any(results[:6])
    assert Epoch.objects.filter(number__gt=epoch.number).count() == 1
    assert not Attempt.objects.exists()
    assert set(Effect.objects.values_list("state", flat=True)) == {"uncertain"}
    assert Request.objects.filter(kind="wait_effect", state="pending").count() == len(effects)


def test_a_reply_a_callback_and_a_finding_settle_it_once(northgate, race):
    """R23-R25."""
    for _ in ROUNDS:
        request = northgate.unknown()
        effect = Effect.objects.get(pk=request.effect_id)
        northgate.says("Olga", request, Recover("probe"))
        recovery = transitions.recovering(uuid7())
        found = recovery.action.probe(recovery.key, recovery.parameters, "staging")
        race(
            partial(transitions.recovered, recovery, found),
            partial(northgate.says, "Stan", request, Finding("committed", "it is there")),
        )
        assert Event.objects.filter(subject=effect.pk, kind="effect.committed").count() == 1
        assert not Request.objects.filter(effect_id=effect.pk, state="pending", kind="wait_effect").exists() or (
            Effect.objects.get(pk=effect.pk).disputed
        )
