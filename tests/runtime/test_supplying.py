"""What several have to approve for a job's next run: votes collect on the Blocker, the last one starts it (R34)."""

from functools import partial

import pytest

from runtime_app import permissions, selectors, transitions
from runtime_app.errors import IdempotencyConflict, InvalidResponse, NotAuthorized, StaleRequest
from runtime_app.ids import uuid7
from runtime_app.models import Blocker, Effect, Event, Grant, Request, Response, Run
from tests.cast import Approve, Deny, claim, deployment, intend, send


@pytest.fixture
def blocker(northgate) -> Blocker:
    """A job that lacked an approval of two."""
    northgate.policy("deploy", approvals=2, denials=2)
    run = northgate.start(interactive=False)
    transitions.suspend(claim(run), waits=[deployment()])
    return Blocker.objects.get()


def votes(northgate, who, blocker, verb=Approve, response_id=None):
    return transitions.supply(
        northgate.context(who), blocker_id=blocker.pk, response=verb(blocker.digest), response_id=response_id or uuid7()
    )


def test_one_of_two_starts_nothing_and_leaves_nobody_waiting(northgate, blocker):
    """R33, R34: no successor, no pending Request; the second queues the Run, which uses what both granted."""
    assert votes(northgate, "Ada", blocker).recorded["state"] == "pending"
    assert Run.objects.count() == 1 and not Request.objects.exists() and not Grant.objects.exists()
    assert votes(northgate, "Bob", blocker).recorded["outcome"] == "approved"
    successor = Run.objects.get(follows_id=blocker.run_id)
    request = Request.objects.get(run=successor)
    assert (successor.state, request.state, request.digest) == ("queued", "resolved", blocker.digest)
    assert set(Response.objects.values_list("name", "request")) == {("Ada", request.pk), ("Bob", request.pk)}
    transitions.suspend(claim(successor), waits=[deployment()])
    send(intend())
    assert Effect.objects.get().state == "committed", "both votes are found again before it is sent (R16)"
    told = Event.objects.filter(kind="blocker.voted").order_by("seq").values_list("data__approvals", flat=True)
    assert list(told) == [1, 2]


def test_one_person_is_one_vote_of_two(northgate, blocker):
    """R18: nobody grants it alone."""
    votes(northgate, "Ada", blocker)
    with pytest.raises(StaleRequest) as late:
        votes(northgate, "Ada", blocker)
    assert late.value.reason == "already_voted"
    with pytest.raises(NotAuthorized):
        votes(northgate, "Olga", blocker)
    assert not Run.objects.filter(follows_id=blocker.run_id).exists()


def test_the_same_vote_again_is_the_recorded_one(northgate, blocker):
    """R09."""
    said = uuid7()
    first, again = (votes(northgate, "Ada", blocker, response_id=said) for _ in range(2))
    assert first.pk == again.pk and Response.objects.count() == 1
    with pytest.raises(IdempotencyConflict):
        votes(northgate, "Ada", blocker, Deny, response_id=said)


def test_a_vote_whose_author_lost_the_right_does_not_count_for_the_next_run(northgate, blocker):
    """R18: it is spent, for good."""
    votes(northgate, "Ada", blocker)
    northgate.take("Ada", "approver")
    assert votes(northgate, "Bob", blocker).recorded["state"] == "pending"
    assert Response.objects.get(name="Ada").spent_at and Event.objects.filter(kind="blocker.vote_spent").exists()
    votes(northgate, "Jo", blocker)
    assert Run.objects.get(follows_id=blocker.run_id).state == "queued"


def test_denials_are_counted_and_start_nothing(northgate, blocker):
    """R17: as many as the policy says; the job blocks anew when it is started again."""
    assert votes(northgate, "Ada", blocker, Deny).recorded["state"] == "pending"
    votes(northgate, "Bob", blocker)
    assert votes(northgate, "Jo", blocker, Deny).recorded["outcome"] == "denied"
    blocker.refresh_from_db()
    assert (blocker.denied_by, blocker.supplied_at) == ("Jo", None)
    assert Run.objects.count() == 1 and not Grant.objects.exists()
    with pytest.raises(StaleRequest, match="Jo already denied this"):
        votes(northgate, "Stan", blocker)
    run = northgate.start(interactive=False)
    transitions.suspend(claim(run), waits=[deployment()])
    assert Blocker.objects.get(run=run).count == 1, "what was denied is not counted as still lacking"


def test_a_suggestion_has_nobody_to_go_to(northgate, blocker):
    with pytest.raises(InvalidResponse, match="No agent is there"):
        transitions.supply(
            northgate.context("Ada"), blocker_id=blocker.pk, response=Deny(blocker.digest, "{}"), response_id=uuid7()
        )


def test_of_many_who_grant_it_at_once_two_are_needed_and_two_count(northgate, blocker, race):
    """R08: with a quorum, exactly those needed."""
    results = race(*(partial(votes, northgate, who, blocker) for who in ("Ada", "Bob", "Jo", "Stan")))
    outcomes = sorted(each.recorded["state"] if isinstance(each, Response) else type(each).__name__ for each in results)
    assert outcomes == ["StaleRequest", "StaleRequest", "pending", "resolved"]
    assert Run.objects.filter(follows_id=blocker.run_id).count() == Grant.objects.count() == 1


def test_what_is_granted_after_a_restore_is_granted_in_that_epoch(northgate, blocker, monkeypatch):
    """R27: an older Blocker, a new Grant."""
    for module in (transitions.supplying, transitions.blocking):
        monkeypatch.setattr(module, "current_epoch", lambda: 2)
    votes(northgate, "Ada", blocker)
    votes(northgate, "Bob", blocker)
    assert (Run.objects.get(follows_id=blocker.run_id).epoch, Grant.objects.get().epoch) == (2, 2)


def test_a_person_is_asked_at_all(northgate, blocker):
    """R18: a credential never grants."""
    with pytest.raises(NotAuthorized):
        transitions.supply(
            permissions.system("worker", northgate.tenant.pk), blocker_id=blocker.pk,
            response=Approve(blocker.digest), response_id=uuid7(),
        )  # fmt: skip


# ---------------------------------------------------------------- equal ones


def two_equal(northgate) -> list[Blocker]:
    found = []
    for _ in range(2):
        run = northgate.start(interactive=False)
        transitions.suspend(claim(run), waits=[deployment()])
        found.append(Blocker.objects.get(run=run))
    return found


@pytest.mark.parametrize("given, late", [(0, 1), (1, 0)])
@pytest.mark.parametrize("verb, word", [(Approve, "supplied"), (Deny, "denied")])
def test_what_was_given_for_one_of_several_equal_ones_was_given_for_all(northgate, given, late, verb, word):
    """R34: also on the page of one that a newer counts by now: that stays open in somebody's browser."""
    equal = two_equal(northgate)
    votes(northgate, "Ada", equal[given], verb)
    with pytest.raises(StaleRequest, match=f"Ada already {word} this"):
        votes(northgate, "Bob", equal[late])
    assert Run.objects.exclude(follows=None).count() == (verb is Approve)
    context = northgate.context("Ada")
    assert selectors.blockers(context)[0] == []
    assert selectors.blocker_page(context, equal[late].pk).newer.pk == equal[given].pk


def test_of_two_who_give_it_on_two_pages_at_once_one_wins(northgate, race):
    """R34, R08."""
    first, second = two_equal(northgate)
    results = race(partial(votes, northgate, "Ada", first), partial(votes, northgate, "Bob", second))
    assert sorted(type(each).__name__ for each in results) == ["Response", "StaleRequest"]
    assert Run.objects.exclude(follows=None).count() == Grant.objects.count() == 1


def test_a_job_that_lacks_the_same_again_later_lacks_it_anew(northgate):
    """R34: what was given was for one run."""
    first, second = two_equal(northgate)
    votes(northgate, "Ada", first)
    run = northgate.start(interactive=False)
    transitions.suspend(claim(run), waits=[deployment()])
    votes(northgate, "Bob", Blocker.objects.get(run=run))
    assert Run.objects.exclude(follows=None).count() == 2
