"""The same again changes nothing (R09); a no is a fact of its own, and the only one it leaves (R03, R13, R15)."""

from functools import partial

import pytest

from runtime_app import transitions
from runtime_app.errors import (
    DigestMismatch,
    IdempotencyConflict,
    InvalidInput,
    InvalidResponse,
    NotAuthorized,
    NotFound,
    StaleRequest,
)
from runtime_app.ids import uuid7
from runtime_app.models import Effect, Event, Grant, Membership, Refusal, Request, Response, Run
from runtime_app.responses import Resume
from tests.cast import Answer, Approve, Deny, Finding, Recover, claim

NUL, LONE = "a\0b", "a\ud800b"
CI = Answer({"name": "ci"})


@pytest.fixture
def unchanged():
    """`unchanged()`: nothing has happened since, whoever was refused what."""

    def all_of():
        rows = [list(model.objects.order_by("pk").values()) for model in (Request, Run, Effect, Grant, Response)]
        return str(rows), Event.objects.count()

    before = []

    def check():
        if not before:
            before.append(all_of())
        assert before[0] == all_of()

    return check


# ---------------------------------------------------------------- repeats


def test_the_same_again_returns_what_was_recorded(northgate):
    """R09, I24: also when the Request was resolved by it, when its Run has ended, and by another tab."""
    question = northgate.question()
    say = partial(northgate.says, "Sam", question, CI, response_id=uuid7())
    first = say()
    assert say().pk == first.pk
    transitions.finish(claim(), state="succeeded")
    events = Event.objects.count()
    again = say()
    assert (again.pk, again.recorded) == (first.pk, first.recorded)
    assert Event.objects.count() == events and not Refusal.objects.exists()


@pytest.mark.parametrize(
    "other",
    [
        lambda house, one, two, id: house.says("Sam", one, Answer({"name": "cd"}), response_id=id),
        lambda house, one, two, id: house.says("Sam", one, CI, message="!", response_id=id),
        lambda house, one, two, id: house.says("Sam", two, CI, response_id=id),
        lambda house, one, two, id: house.says("Sam", one, Approve("0" * 64), response_id=id),
        lambda house, one, two, id: house.cancels("Sam", Run.objects.get(pk=one.run_id), response_id=id),
    ],
    ids=["content", "message", "request", "kind", "verb"],
)
def test_one_response_id_for_two_things_is_a_conflict(northgate, other):
    """R09: with another Request, kind or content."""
    one, two = northgate.question(), northgate.question()
    same = uuid7()
    northgate.says("Sam", one, CI, response_id=same)
    with pytest.raises(IdempotencyConflict):
        other(northgate, one, two, same)
    assert Response.objects.count() == 1


def test_one_response_id_serves_two_people_and_two_tenants(northgate, harbour):
    """R09, T03: it is unique per actor and tenant, and tells nobody of another's."""
    same = uuid7()
    northgate.join("Sue", "responder")
    northgate.join("Jo", "responder")
    for house, who in ((northgate, "Sam"), (northgate, "Sue"), (northgate, "Jo"), (harbour, "Jo")):
        by = {"by": "Mallory"} if house is harbour else {}
        house.says(who, house.question(**by), CI, response_id=same)
    assert Response.objects.filter(response_id=same).count() == 4


def test_only_what_was_accepted_is_remembered(northgate):
    """R09: a refusal may be tried again under its id, with other content."""
    question, same = northgate.question(), uuid7()
    with pytest.raises(InvalidResponse):
        northgate.says("Sam", question, Answer({"name": 7}), response_id=same)
    northgate.take("Sam", "responder")
    with pytest.raises(NotAuthorized):
        northgate.says("Sam", question, CI, response_id=same)
    northgate.give(Membership.objects.get(user=northgate.people["Sam"]), "responder")
    assert northgate.says("Sam", question, CI, response_id=same).recorded["outcome"] == "answered"


def test_a_repeat_by_somebody_who_left_is_not_found(northgate):
    """R09: "while the actor may still see it"."""
    question = northgate.question()
    say = partial(northgate.says, "Jo", question, CI, response_id=uuid7())
    northgate.join("Jo", "responder")
    say()
    northgate.take("Jo", "responder")
    say()  # a member may see it still
    membership = Membership.objects.get(tenant=northgate.tenant, user=northgate.people["Jo"])
    membership.roles.all().delete()
    membership.delete()
    with pytest.raises(NotFound):
        say()


def test_an_old_answer_answers_no_later_question(northgate):
    """R08, R10, T48: two questions of equal text; the first one's answer again, and a message."""
    first = northgate.question()
    say = partial(northgate.says, "Sam", first, CI, response_id=uuid7())
    say()
    transitions.finish(claim(), state="succeeded")
    later = northgate.question(session_id=first.session_id)
    say()
    with pytest.raises(StaleRequest):
        northgate.says("Sam", first, CI)
    northgate.start(session_id=first.session_id, message="ci")
    assert Request.objects.get(pk=later.pk).state == "pending"


def test_a_message_starts_a_run_and_answers_nothing(northgate):
    """R10: whatever it says."""
    request = northgate.approval()
    run = northgate.start(session_id=request.session_id, message=f"approve {request.pk} {request.digest}, yes")
    assert (run.state, run.session_id) == ("queued", request.session_id)
    assert Request.objects.get().state == "pending" and not Response.objects.exists()


def test_a_start_repeated_is_the_same_run_and_another_start_is_a_conflict(northgate):
    """B86, R09: message, agent, environment, Session and whether somebody is on the line."""
    same = uuid7()
    run = northgate.start(start_id=same)
    assert northgate.start(start_id=same).pk == run.pk
    other = northgate.start()
    for different in (
        {"message": "stop"},
        {"environment": "production"},
        {"interactive": False},
        {"session_id": other.session_id},
    ):
        with pytest.raises(IdempotencyConflict):
            northgate.start(start_id=same, **different)
    with pytest.raises(InvalidInput) as refused:
        northgate.start(start_id="not an id")
    assert "start_id" in refused.value.facts["fields"]


# ---------------------------------------------------------------- refusals


def refusals(northgate):
    """What may be refused, by the error it comes to."""
    question, approval, unknown = northgate.question(), northgate.approval(), northgate.unknown()
    ended = northgate.start()
    northgate.cancels("Olga", ended)
    says, approve = northgate.says, approval.digest
    return [
        (InvalidResponse, lambda: says("Sam", question, Approve("x"))),
        (InvalidResponse, lambda: says("Ada", approval, CI)),
        (InvalidResponse, lambda: says("Olga", unknown, Deny("x"))),
        (InvalidResponse, lambda: says("Olga", unknown, "committed")),
        (InvalidResponse, lambda: says("Sam", question, Answer({"name": "x" * 81}))),
        (InvalidResponse, lambda: says("Sam", question, Answer({"name": "ci", "admin": True}))),
        (InvalidResponse, lambda: says("Sam", question, CI, response_id="not an id")),
        (InvalidResponse, lambda: says("Olga", unknown, Finding("perhaps", "x"))),
        (InvalidResponse, lambda: says("Olga", unknown, Finding("committed", " "))),
        (InvalidResponse, lambda: says("Olga", unknown, Recover("redispatch"))),
        (InvalidResponse, lambda: northgate.cancels("Olga", ended, response_id="x")),
        (InvalidInput, lambda: says("Sam", question, CI, message=NUL)),
        (InvalidInput, lambda: says("Sam", question, CI, message=LONE)),
        (InvalidInput, lambda: says("Sam", question, CI, message="x" * 1_000_000)),
        (InvalidInput, lambda: says("Ada", approval, Deny(approve, '{"version":"1","version":"2"}'))),
        (InvalidInput, lambda: says("Ada", approval, Deny(approve, '{"version":NaN}'))),
        (InvalidInput, lambda: says("Ada", approval, Deny(approve, '{"version":"\\u0000"}'))),
        (InvalidInput, lambda: says("Ada", approval, Deny(approve, "[" * 40 + "]" * 40))),
        (InvalidInput, lambda: says("Ada", approval, Deny(approve, '{"a":"' + "x" * 70_000 + '"}'))),
        (InvalidInput, lambda: says("Ada", approval, Deny(approve, '"text"'))),
        (InvalidInput, lambda: says("Olga", unknown, Finding("committed", NUL))),
        (InvalidInput, lambda: says("Olga", unknown, Finding("committed", LONE))),
        (InvalidInput, lambda: says("Olga", unknown, Finding("committed", "x" * 1_000_000))),
        (InvalidInput, lambda: northgate.start(message=" ")),
        (InvalidInput, lambda: northgate.start(message=NUL)),
        (InvalidInput, lambda: northgate.start(message=LONE)),
        (InvalidInput, lambda: northgate.start(message="x" * 1_000_000)),
        (InvalidInput, lambda: northgate.start(title=NUL)),
        (InvalidInput, lambda: northgate.start(environment=NUL)),
        (InvalidInput, lambda: northgate.start(environment="nowhere")),
        (InvalidInput, lambda: transitions.start(
            northgate.context("Olga"), agent=LONE, environment="staging", message="go"
        )),
        (InvalidInput, lambda: northgate.cancels("Olga", Run.objects.get(pk=question.run_id), reason=NUL)),
        (DigestMismatch, lambda: says("Ada", approval, Approve("0" * 64))),
        (DigestMismatch, lambda: says("Ada", approval, Deny(""))),
        (DigestMismatch, lambda: says("Ada", approval, Approve(LONE))),
    ]  # fmt: skip


def test_a_refusal_changes_nothing_but_the_record_of_itself(northgate, unchanged):
    """R02, R03, R13, R14, R15, I32: with the right code, counted once, without the content."""
    attempts = refusals(northgate)
    unchanged()
    for error, attempt in attempts:
        before = sum(Refusal.objects.values_list("count", flat=True))
        with pytest.raises(error):
            attempt()
        unchanged()
        assert sum(Refusal.objects.values_list("count", flat=True)) == before + 1
    assert set(Refusal.objects.values_list("tenant_id", flat=True)) == {northgate.tenant.pk}
    assert "xxxx" not in str(list(Refusal.objects.values()))


def test_equal_refusals_are_counted_and_unequal_ones_are_not_merged(northgate):
    """R13."""
    one, two = northgate.question(), northgate.question()
    for request in (one, one, two, one):
        with pytest.raises(NotAuthorized):
            northgate.says("Rita", request, CI)
    counted = dict(Refusal.objects.values_list("target", "count"))
    assert counted == {str(one.pk): 3, str(two.pk): 1}


def test_what_is_not_found_is_counted_per_actor_and_names_no_tenant_for_an_outsider(northgate, harbour):
    """R07, R13: unknown and foreign are the same row."""
    theirs, mine = harbour.question(by="Mallory"), northgate.question()
    for id in (theirs.pk, uuid7(), "no id", NUL, LONE):
        with pytest.raises(NotFound):
            transitions.respond(northgate.context("Sam"), resume=Resume(mine.session_id, id, CI))
    inside = Refusal.objects.get()
    assert (inside.count, inside.tenant_id, inside.actor_name) == (5, northgate.tenant.pk, "Sam")
    northgate.people["Mallory"] = harbour.people["Mallory"]
    with pytest.raises(NotFound):
        northgate.says("Mallory", mine, CI)
    outside = Refusal.objects.exclude(pk=inside.pk).get()
    assert (outside.tenant_id, outside.actor_name) == (None, "Mallory")


def test_who_may_not_start_learns_nothing_about_what_is_wrong_with_it(northgate, harbour):
    """R05: authority before content; a Session that is not there before both, and counted as one row."""
    with pytest.raises(NotAuthorized):
        northgate.start("Rita", message=NUL)
    for session_id in (harbour.start("Mallory").session_id, uuid7(), "x"):
        with pytest.raises(NotFound):
            northgate.start(session_id=session_id, message=NUL)
    assert sorted(Refusal.objects.values_list("code", "count")) == [("not_authorized", 1), ("not_found", 3)]


def test_a_refusal_is_never_among_a_sessions_events(northgate):
    """R13."""
    question = northgate.question()
    before = list(Event.objects.values_list("kind", flat=True))
    with pytest.raises(NotAuthorized):
        northgate.says("Rita", question, CI)
    assert list(Event.objects.values_list("kind", flat=True)) == before
    assert {field.name for field in Refusal._meta.fields if field.is_relation} == {"tenant"}


def test_every_conflict_says_what_stands_when_and_by_whom(northgate, clock):
    """R08, I33."""
    answered, cancelled, expired = northgate.question(), northgate.question(), northgate.question()
    northgate.says("Sam", answered, CI)
    northgate.cancels("Olga", Run.objects.get(pk=cancelled.run_id))
    clock.move(days=8)
    transitions.sweep()
    told = {}
    for request in (answered, cancelled, expired):
        with pytest.raises(StaleRequest) as late:
            northgate.says("Sam", request, CI)
        told[late.value.reason] = late.value
        request.refresh_from_db()
        assert late.value.facts["at"] == request.resolved_at.isoformat()
    assert {reason: error.facts["by"] for reason, error in told.items()} == {
        "already_resolved": "Sam", "cancelled": "Olga", "expired": "",
    }  # fmt: skip
    assert expired.resolved_at == expired.expires_at
