"""Child Runs (R28): their waits are their own, their ends go to the parent, what nobody could give rises to it."""

from itertools import pairwise

import pytest

from runtime_app import permissions, selectors, transitions
from runtime_app.errors import NotFound
from runtime_app.models import Blocker, Effect, Grant, Request, Run
from runtime_app.transitions import Child, suspend
from tests.cast import Answer, Approve, Deny, Resume, claim, deployment, intend, send
from tests.hosted.test_loop import start


def child_of(run: Run) -> Run:
    return Run.objects.get(parent_id=run.pk)


def pending(northgate) -> list[Request]:
    context = northgate.context("Ada")
    inbox = selectors.inbox(context, permissions.roles(context))
    return [*inbox.for_you, *inbox.rest]


def test_a_childs_wait_is_shown_once_and_its_end_reaches_the_parents_call(northgate, worked, told):
    """R28, B07: one decision, one Request, whoever looks."""
    run = worked(start(northgate, "a child that deploys"))
    child = worked(child_of(run))
    assert (run.state, child.state) == ("waiting", "waiting")
    assert (child.session_id, child.environment_id, child.initiator_id) == (
        run.session_id, run.environment_id, run.initiator_id,
    )  # fmt: skip
    requests = pending(northgate)
    assert len(requests) == 2 and {request.run_id for request in requests} == {child.pk}
    for request in requests:
        northgate.says("Ada", request, Deny(request.digest))
    assert pending(northgate) == []
    child = worked(child)
    (came,) = told(worked(run))
    assert came == {"outcome": "succeeded", "result": child.result}


def test_an_answer_to_the_first_question_is_none_to_the_second(northgate, worked, told):
    """B03: the same words twice are two Requests."""
    run = worked(start(northgate, "a child and a question"))
    child = worked(child_of(run))
    first = Request.objects.get(run=child)
    northgate.says("Sam", first, Answer({"name": "alpha"}))
    worked(child)
    second = Request.objects.get(run=child, state="pending")
    assert second.pk != first.pk and second.prompt == first.prompt
    northgate.says("Sam", second, Answer({"name": "beta"}))
    assert [came["values"]["name"] for came in told(worked(child))] == ["alpha", "beta"]


def test_a_childs_question_is_not_answered_under_its_parent(northgate, worked):
    """B09: an answer names its Request, in its Session, and answers nothing else."""
    run = worked(start(northgate, "a child and a question"))
    elsewhere = start(northgate, "two questions")
    worked(child_of(run))
    asked = Request.objects.get(run=child_of(run))
    with pytest.raises(NotFound):
        northgate.says("Sam", Request(session_id=elsewhere.session_id, pk=asked.pk), Answer({"name": "x"}))
    northgate.says("Sam", Request.objects.get(run=run), Answer({"name": "x"}))
    assert Request.objects.get(pk=asked.pk).state == "pending"
    assert Run.objects.get(pk=run.pk).state == "waiting", "its child has not ended"


def test_the_child_of_a_job_is_a_job_and_its_blocker_rises(northgate, worked):
    """B110, R28: nobody is on the line for either; the parent names the child."""
    run = worked(start(northgate, "a child that deploys", interactive=False))
    child = worked(child_of(run))
    run.refresh_from_db()
    assert (child.interactive, child.state, run.state) == (False, "blocked", "blocked")
    risen = Blocker.objects.get(run=run)
    assert (risen.child, risen.kind, risen.action_name) == (child.pk, "wait_approval", "deploy")
    assert not Request.objects.exists()


def test_what_a_childs_job_lacked_is_given_to_the_child(northgate, worked):
    """R28, R34: on the parent's Blocker the answer says where to go; given there, it is the parent's successor that
    starts, and the child's waits until that asks for it."""
    run = worked(start(northgate, "a child that deploys", interactive=False))
    worked(child_of(run))
    ada = northgate.context("Ada")
    risen, own = Blocker.objects.get(run=run), Blocker.objects.get(run=child_of(run))
    with pytest.raises(transitions.supplying.InvalidResponse, match="child"):
        transitions.supply(ada, blocker_id=risen.pk, response=Approve(own.digest), response_id=_id())
    transitions.supply(ada, blocker_id=own.pk, response=Approve(own.digest), response_id=_id())
    successor, below = Run.objects.get(follows_id=run.pk), Run.objects.get(follows_id=child_of(run).pk)
    assert (successor.state, below.state, below.parent_id) == ("queued", "waiting", successor.pk)
    assert intend() is None, "nothing is sent before it is asked for"


def test_a_job_goes_on_when_what_its_child_lacked_is_given(northgate, worked, told):
    """R28, R34: by real loops. The parent's successor asks for its child again, that asks for its deployments, and one
    of them is granted; the other blocks both anew, and is granted in its turn."""
    run = worked(start(northgate, "a child that deploys once", interactive=False))
    worked(child_of(run))
    own = Blocker.objects.get(run=child_of(run))
    transitions.supply(northgate.context("Ada"), blocker_id=own.pk, response=Approve(own.digest), response_id=_id())
    successor = worked(Run.objects.get(follows_id=run.pk))
    below = Run.objects.get(follows_id=child_of(run).pk)
    assert (successor.state, below.state, below.key) == ("waiting", "queued", "0.0")
    worked(below)
    send(intend())
    below = worked(below)
    successor = worked(successor)
    assert (below.state, successor.state) == ("succeeded", "succeeded")
    assert told(successor) == [{"outcome": "succeeded", "result": below.result}]
    assert successor.initiator_name == "Olga" and child_of(successor).pk == below.pk == own.successor_run
    assert Blocker.objects.get(run=run).successor_run == successor.pk
    assert not Blocker.objects.filter(run_id__in=[successor.pk, below.pk]).exists()


def test_what_a_grandchild_lacked_starts_all_above_it(northgate, worked):
    """R28, R34: from the top, each when the one above has asked for it."""
    run = worked(start(northgate, "a child with a child that deploys", interactive=False))
    middle = worked(child_of(run))
    worked(child_of(middle))
    own = Blocker.objects.get(run=child_of(middle))
    transitions.supply(northgate.context("Ada"), blocker_id=own.pk, response=Approve(own.digest), response_id=_id())
    following = [Run.objects.get(follows_id=each.pk) for each in (run, middle, child_of(middle))]
    for above, below in pairwise(following):
        assert Run.objects.get(pk=below.pk).state == "waiting" and below.parent_id == above.pk
        worked(above)
        assert Run.objects.get(pk=below.pk).state == "queued"
    worked(following[-1])
    send(intend())
    for each in reversed(following):
        assert worked(each).state == "succeeded"


def test_a_child_that_is_not_asked_for_again_uses_nothing_that_was_given(northgate):
    """R34: the parent's successor asks another thing of its child. What was given is taken back, and it says so."""
    run = northgate.start(interactive=False)
    suspend(claim(run), waits=[Child("c", "deployer", "deploy it")])
    suspend(claim(child_of(run)), waits=[deployment()])
    own = Blocker.objects.get(run=child_of(run))
    transitions.supply(northgate.context("Ada"), blocker_id=own.pk, response=Approve(own.digest), response_id=_id())
    successor = Run.objects.get(follows_id=run.pk)
    suspend(claim(successor), waits=[Child("c", "deployer", "deploy something else")])
    below, other = Run.objects.get(pk=own.successor_run), Run.objects.get(message="deploy something else")
    assert (below.key, below.state, intend()) == ("given", "waiting", None)
    suspend(claim(other), waits=[deployment()])
    below.refresh_from_db()
    successor.refresh_from_db()
    assert (successor.state, below.state) == ("blocked", "cancelled")
    assert "was not asked for" in successor.reason and "was not asked for" in below.cancel_reason
    assert Effect.objects.get(run=below).state == "withdrawn" and Grant.objects.get(run=below).state == "void"


def test_a_parent_does_not_wait_for_what_it_has_not_asked_for(northgate):
    """R34."""
    run = northgate.start(interactive=False)
    suspend(claim(run), waits=[Child("c", "deployer", "deploy it")])
    suspend(claim(child_of(run)), waits=[deployment()])
    own = Blocker.objects.get(run=child_of(run))
    transitions.supply(northgate.context("Ada"), blocker_id=own.pk, response=Approve(own.digest), response_id=_id())
    below = Run.objects.get(pk=own.successor_run)
    transitions.void(
        northgate.context("Ada"), request_id=Request.objects.get(run=below).pk, response_id=_id()
    )  # fmt: skip
    assert Run.objects.get(pk=below.pk).state == "waiting", "nothing starts it but its parent"
    northgate.policy("deploy", verdict="allow")
    successor = Run.objects.get(follows_id=run.pk)
    suspend(claim(successor), waits=[deployment("3.0.0")])
    send(intend())
    transitions.finish(claim(successor), state="succeeded")
    assert Run.objects.get(pk=below.pk).state == "cancelled"


def test_equal_blockers_of_a_parent_are_counted_too(northgate):
    """R34."""
    for _ in range(3):
        run = northgate.start(interactive=False)
        suspend(claim(run), waits=[Child("c", "deployer", "deploy it")])
        suspend(claim(child_of(run)), waits=[deployment()])
    counted = Blocker.objects.filter(replaced_at=None)
    assert sorted((each.count, each.child is None) for each in counted) == [(3, False), (3, True)]
    assert [each.child for each in selectors.blockers(northgate.context("Ada"))[0]] == [None]


def _id():
    return Resume(None, None, None).response_id


def test_a_failed_child_is_told_with_its_reason(northgate, worked, told):
    run = worked(start(northgate, "a child that deploys"))
    northgate.cancels("Olga", child_of(run), reason="not today")
    assert told(worked(run)) == [{"outcome": "cancelled", "reason": "not today"}]


def test_cancelling_the_parent_cancels_the_child(northgate, worked):
    run = worked(start(northgate, "a child that deploys"))
    child = worked(child_of(run))
    assert northgate.cancels("Olga", run).recorded["children"] == [str(child.pk)]
    assert {each.state for each in Run.objects.all()} == {"cancelled"}
    assert {each.state for each in Request.objects.all()} == {"cancelled"}


@pytest.mark.parametrize(
    "message, word", [("a stranger", "may not run deployer"), ("a child nobody set up", "no agent orphan is set up")]
)
def test_a_child_it_may_not_have_goes_back_as_the_calls_result(northgate, worked, told, message, word):
    run = worked(start(northgate, message))
    (came,) = told(run)
    assert came["outcome"] == "refused" and word in came["message"]
    assert not Run.objects.filter(parent_id=run.pk).exists()


def test_children_of_children_come_to_an_end(northgate, worked, told):
    run = worked(start(northgate, "itself"))
    below = [run]
    while child := Run.objects.filter(parent_id=below[-1].pk).first():
        below.append(worked(child))
    assert len(below) == 5 and told(below[-1])[0]["outcome"] == "refused"
    for each in reversed(below[:-1]):
        assert worked(each).state == "succeeded"
