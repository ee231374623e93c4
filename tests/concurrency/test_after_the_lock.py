"""Authority and the clock are read after the last lock: what changed while somebody waited counts (R05, R06, R08)."""

from functools import partial

import pytest
from django.contrib.auth import get_user_model

from runtime_app import transitions
from runtime_app.errors import Busy, NotAuthorized, NotFound, RunEnded, StaleRequest
from runtime_app.ids import uuid7
from runtime_app.models import Effect, Event, Grant, Membership, Refusal, Request, Response, Role, Run
from tests import database
from tests.cast import Answer, Approve, Deny, Finding, Recover, claim, intend


def dismissed(house, name):
    Membership.objects.filter(tenant=house.tenant, user=house.people[name]).delete()


def loses_every_role(house, name):
    Role.objects.filter(tenant=house.tenant, membership__user=house.people[name]).delete()


def leaves(house, name):
    loses_every_role(house, name)
    dismissed(house, name)


def is_deactivated(house, name):
    get_user_model().objects.filter(pk=house.people[name].pk).update(is_active=False)


WAYS = [(loses_every_role, NotAuthorized), (leaves, NotFound), (is_deactivated, NotFound)]


@pytest.mark.parametrize("way, error", WAYS, ids=[way.__name__ for way, _ in WAYS])
@pytest.mark.parametrize("verb", ["answer", "approve", "deny", "finding", "probe", "accept"])
def test_who_lost_the_right_while_waiting_is_refused(northgate, while_held, verb, way, error):
    """R06, T17: the page was loaded in time; the Session's lock came after the dismissal."""
    who, request, response = {
        "answer": lambda: ("Sam", northgate.question(), lambda r: Answer({"name": "ci"})),
        "approve": lambda: ("Ada", northgate.approval(), lambda r: Approve(r.digest)),
        "deny": lambda: ("Ada", northgate.approval(), lambda r: Deny(r.digest)),
        "finding": lambda: ("Olga", northgate.unknown(), lambda r: Finding("committed", "build 7")),
        "probe": lambda: ("Olga", northgate.unknown(), lambda r: Recover("probe")),
        "accept": lambda: ("Olga", northgate.unknown(), lambda r: Recover("accept")),
    }[verb]()
    says = partial(northgate.says, who, request, response(request))
    before = Response.objects.count(), Event.objects.count()
    refused = while_held(request.session_id, says, partial(way, northgate, who))
    assert isinstance(refused, error), refused
    assert Request.objects.get(pk=request.pk).state == "pending"
    assert (Response.objects.count(), Event.objects.count()) == before
    assert Refusal.objects.get().code == error.code


@pytest.mark.parametrize("way, error", WAYS, ids=[way.__name__ for way, _ in WAYS])
@pytest.mark.parametrize("verb", ["cancel", "start"])
def test_who_lost_the_right_while_waiting_neither_starts_nor_cancels(northgate, while_held, verb, way, error):
    """R06, R28."""
    run = northgate.start()
    call = {
        "cancel": partial(northgate.cancels, "Olga", run),
        "start": partial(northgate.start, session_id=run.session_id),
    }[verb]
    refused = while_held(run.session_id, call, partial(way, northgate, "Olga"))
    assert isinstance(refused, error), refused
    assert Run.objects.get().state == "queued"


def test_who_was_given_the_right_while_waiting_is_let_in(northgate, while_held):
    """R06: it is the authority of that moment, in both directions."""
    request = northgate.approval()
    membership = Membership.objects.get(user=northgate.people["Rita"])
    said = while_held(
        request.session_id,
        partial(northgate.approves, "Rita", request),
        lambda: Role.objects.create(tenant=northgate.tenant, membership=membership, name="approver"),
    )
    assert said.recorded["outcome"] == "approved"


def test_a_repeat_is_answered_only_to_who_may_still_see_it(northgate, while_held):
    """R09: dismissed while the repeat waited for the lock."""
    question = northgate.question()
    say = partial(northgate.says, "Sam", question, Answer({"name": "ci"}), response_id=uuid7())
    say()
    assert isinstance(while_held(question.session_id, say, partial(leaves, northgate, "Sam")), NotFound)


@pytest.mark.parametrize("kind", ["question", "approval"])
def test_a_deadline_that_passed_while_waiting_has_passed(northgate, while_held, clock, kind):
    """R08, T41: `now()` of the transaction would still be before it."""
    if kind == "question":
        request = northgate.question()
        say = partial(northgate.says, "Sam", request, Answer({"name": "ci"}))
    else:
        request = northgate.approval()
        say = partial(northgate.approves, "Ada", request)
    late = while_held(request.session_id, say, lambda: clock.move(days=7, seconds=1))
    assert isinstance(late, StaleRequest) and late.reason == "expired"
    assert Request.objects.get(pk=request.pk).state == "pending"
    transitions.sweep()
    assert Request.objects.get(pk=request.pk).state == "expired"


def test_a_real_clock_passes_a_real_deadline_while_a_response_waits(northgate, while_held, owner):
    """R05: with the clock nobody moved. The transaction began before the deadline and got its lock after it."""
    northgate.policy(request_for="2 seconds")  # long enough that her transaction has begun, also on a busy machine
    request = northgate.approval()
    passed = "SELECT pg_sleep_until(%s)"
    late = while_held(
        request.session_id,
        partial(northgate.approves, "Ada", request),
        lambda: owner.execute(passed, [request.expires_at]),
    )
    assert isinstance(late, StaleRequest) and late.reason == "expired"


def test_a_grant_that_expired_while_the_dispatch_waited_is_not_used(northgate, while_held, clock):
    """R16: what the worker chose to send was allowed when it chose."""
    effect = northgate.granted()
    assert while_held(effect.session_id, intend, lambda: clock.move(hours=2)) is None
    effect.refresh_from_db()
    assert effect.state == "withdrawn"
    assert Grant.objects.get().state == "void"


def test_an_approver_dismissed_while_the_dispatch_waited_does_not_count(northgate, while_held):
    """R16, T24."""
    effect = northgate.granted()
    assert while_held(effect.session_id, intend, partial(loses_every_role, northgate, "Ada")) is None
    effect.refresh_from_db()
    assert effect.state == "withdrawn"


def test_an_environment_held_while_the_dispatch_waited_sends_nothing_and_voids_nothing(northgate, while_held, owner):
    """R16: a hold that has returned is complete."""
    effect = northgate.granted()
    hold = "UPDATE runtime_app_environment SET held_at = sayso_now() WHERE id = %s"
    assert while_held(effect.session_id, intend, lambda: owner.execute(hold, [effect.environment_id])) is None
    effect.refresh_from_db()
    assert (effect.state, Grant.objects.get().state) == ("prepared", "unused")


def test_a_hold_waits_for_the_dispatch_that_came_first(northgate, owner):
    """R16: the Environment's row is locked FOR SHARE by a dispatch, so the hold returns after it."""
    effect = northgate.granted()
    with database.owner() as other, other.transaction():
        other.execute("SELECT FROM runtime_app_environment WHERE id = %s FOR SHARE", [effect.environment_id])
        with pytest.raises(Exception, match="lock timeout"), owner.transaction():
            owner.execute("SET LOCAL lock_timeout = '20ms'")
            owner.execute(
                "UPDATE runtime_app_environment SET held_at = sayso_now() WHERE id = %s", [effect.environment_id]
            )


def test_a_cancel_waits_for_whoever_has_the_runs_row(northgate, while_held):
    """R32: the Run ended while the cancel waited for its row; the cancel is told, and writes nothing over it."""
    run = northgate.start()
    claim(run)

    def ends(holder):
        holder.execute(
            "UPDATE runtime_app_run SET state = 'succeeded', ended_at = sayso_now(), lease_until = NULL WHERE id = %s",
            [run.pk],
        )

    refused = while_held(run.pk, partial(northgate.cancels, "Olga", run), by_holder=ends, table="run")
    assert isinstance(refused, RunEnded) and refused.reason == "succeeded"
    run.refresh_from_db()
    assert (run.state, run.cancel_requested_at) == ("succeeded", None)


def test_a_lock_that_does_not_come_is_busy_and_nothing_happened(northgate, owner, django_db_blocker):
    """Section 9: `Busy`, with when to try again. Nothing was refused, so nothing is written down either."""
    from django.db import connection

    request = northgate.approval()
    before = Event.objects.count()
    with database.owner() as holder, holder.transaction():
        holder.execute("SELECT FROM runtime_app_session WHERE id = %s FOR NO KEY UPDATE", [request.session_id])
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '20ms'")
        for call in (
            partial(northgate.approves, "Ada", request),
            partial(northgate.cancels, "Olga", Run.objects.get()),
            partial(northgate.start, session_id=request.session_id),
        ):
            with pytest.raises(Busy) as busy:
                call()
            assert (busy.value.status, busy.value.facts) == (503, {"retry_after": 1})
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '5s'")
    assert not Response.objects.exists() and not Effect.objects.exists() and not Refusal.objects.exists()
    assert Event.objects.count() == before
    northgate.approves("Ada", request)


def test_a_row_the_sweep_cannot_have_now_keeps_no_other_from_it(northgate, clock):
    """R08, R30: it is looked at again by the next sweep."""
    from django.db import connection

    requests = [northgate.question() for _ in range(3)]
    clock.move(days=8)
    with database.owner() as holder, holder.transaction():
        holder.execute("SELECT FROM runtime_app_session WHERE id = %s FOR NO KEY UPDATE", [requests[0].session_id])
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '20ms'")
        with pytest.raises(Busy):
            transitions.sweep()
    assert sorted(Request.objects.values_list("state", flat=True)) == ["expired", "expired", "pending"]
    transitions.sweep()
    assert set(Request.objects.values_list("state", flat=True)) == {"expired"}
