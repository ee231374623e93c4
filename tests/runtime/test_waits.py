"""What a Run stops at: durable first, several at once, each by its own key (R01-R04)."""

import json

import pytest

from runtime_app import transitions
from runtime_app.errors import IdempotencyConflict, InvalidInput, LeaseLost, RunEnded, StaleRequest
from runtime_app.ids import uuid7
from runtime_app.models import Effect, Entry, Event, Request, Run
from tests.cast import KEY_NAME, Answer, Deny, Deploy, claim, deployment, intend, send


def question(key="q", prompt="Which key?", schema=KEY_NAME):
    return transitions.Question(key, prompt, schema)


def test_a_request_is_durable_before_anybody_hears_of_it(northgate, owner):
    """R01: row, Event and `waiting` commit together; the hint is delivered with them, or never."""
    owner.execute("LISTEN sayso_news")
    turn = claim(northgate.start())
    list(owner.notifies(timeout=0.05))
    with pytest.raises(IdempotencyConflict):
        transitions.suspend(turn, waits=[question(), question(prompt="Another?")])
    assert not Request.objects.exists() and Run.objects.get().state == "running"
    assert list(owner.notifies(timeout=0.05)) == []
    transitions.suspend(turn, waits=[question()], entries=[transitions.NewEntry("reply", 0, "{}")])
    [hint] = owner.notifies(timeout=2, stop_after=1)
    session = Run.objects.get().session
    assert hint.payload == f"{northgate.tenant.pk} {session.pk} {session.last_seq}"
    kinds = list(Event.objects.order_by("seq").values_list("kind", flat=True))
    assert kinds[-2:] == ["request.raised", "run.waiting"]
    assert Run.objects.get().state == "waiting" and Entry.objects.count() == 1


def test_each_request_says_in_data_what_it_accepts(northgate):
    """R02."""
    asked, approval, unknown = northgate.question(), northgate.approval(), northgate.unknown()
    assert set(asked.accepts) == {"answer"} and asked.accepts["answer"]["schema"] == asked.schema
    assert approval.accepts == {"approve": {"digest": approval.digest}, "deny": {"digest": approval.digest}}
    assert unknown.accepts == {
        "finding": ["committed", "not_committed", "unknown"], "recover": ["probe", "accept"],
    }  # fmt: skip


def test_types_arrive_as_they_are(northgate):
    """R02: `true` is not "true"."""
    schema = {
        "type": "object",
        "properties": {"sure": {"type": "boolean"}, "count": {"type": "integer"}, "why": {"type": "string"}},
        "required": ["sure", "count"],
    }
    asked = northgate.ask(question(schema=schema))[0]
    said = northgate.says("Sam", asked, Answer({"sure": True, "count": 3, "why": "true"}))
    assert said.content["values"] == {"sure": True, "count": 3, "why": "true"}


# ---------------------------------------------------------------- several at once


def test_two_questions_answered_crosswise_reach_their_own_keys(northgate):
    """R04, B01, B05, T49: the second first; the Run goes on once, when both are answered."""
    one, two = northgate.ask(question("a"), question("b"))
    northgate.says("Sam", two, Answer({"name": "second"}))
    one.refresh_from_db()
    assert (one.state, Run.objects.get().state) == ("pending", "waiting")
    northgate.says("Sam", one, Answer({"name": "first"}))
    assert Run.objects.get().state == "queued"
    turn = claim()
    assert {request.key: request.pk for request in turn.requests} == {"a": one.pk, "b": two.pk}
    assert Event.objects.filter(kind="run.queued").count() == 1


def test_two_approvals_of_like_actions_are_two(northgate):
    """R04, B01: only the one that was approved is sent."""
    one, two = northgate.ask({"service": "a", "key": "x"}, {"service": "b", "key": "y"})
    northgate.approves("Ada", two)
    send(intend())
    assert [key for key, _, _ in Deploy.sent] == [str(two.pk)]
    one.refresh_from_db()
    assert (one.state, Run.objects.get().state, intend()) == ("pending", "waiting", None)
    northgate.says("Ada", one, Deny(one.digest))
    assert Run.objects.get().state == "queued"


def test_an_approved_action_is_sent_whatever_its_siblings_wait_for(northgate):
    """R04, B05: the loop goes on with all results, when nothing is pending or in flight."""
    asked, approval = sorted(northgate.ask(question("q"), deployment()), key=lambda r: r.kind, reverse=True)
    northgate.approves("Ada", approval)
    dispatch = intend()
    northgate.says("Sam", asked, Answer({"name": "ci"}))
    assert Run.objects.get().state == "waiting", "something is in flight"
    send(dispatch)
    assert Run.objects.get().state == "queued"


def test_an_expired_question_and_a_denial_are_told_apart(northgate, clock):
    """R08: neither ends the Run."""
    asked, approval = sorted(northgate.ask(question("q"), deployment()), key=lambda r: r.kind, reverse=True)
    northgate.says("Ada", approval, Deny(approval.digest))
    clock.move(days=8)
    transitions.sweep()
    assert Run.objects.get().state == "queued"
    ended = {request.kind: request.outcome or request.state for request in claim().requests}
    assert ended == {"wait_user": "expired", "wait_approval": "denied"}


# ---------------------------------------------------------------- keys


def again(run):
    """The Run's next turn."""
    return claim(Run.objects.get(pk=run.pk))


def test_the_same_key_and_content_is_the_same_request(northgate):
    """B102, R04: asked again in a later turn, or twice in one step; the claim is no content."""
    run = northgate.start()
    [first] = northgate.ask(deployment(claim="because"), run=run)
    northgate.says("Ada", first, Deny(first.digest))
    turn = again(run)
    [same, twice] = transitions.suspend(turn, waits=[deployment(claim="please"), deployment()])
    assert same.pk == twice.pk == first.pk
    assert Run.objects.get().state == "running" and Request.objects.count() == 1


def test_a_new_key_given_twice_in_one_step_is_one_request(northgate):
    """R04."""
    northgate.ask(question(), question())
    assert Request.objects.count() == 1


@pytest.mark.parametrize(
    "other",
    [
        lambda: question("d"),
        lambda: deployment("0.8.9"),
        lambda: deployment(service="other"),
        lambda: deployment("0.8.9", replaces=uuid7()),
        lambda: deployment(replaces=uuid7()),
    ],
    ids=["kind", "version", "service", "replaces another", "same, replaces another"],
)
def test_the_same_key_with_other_content_is_a_conflict(northgate, other):
    """R04."""
    run = northgate.start()
    [first] = northgate.ask(deployment(), run=run)
    northgate.says("Ada", first, Deny(first.digest))
    turn = again(run)
    with pytest.raises(IdempotencyConflict):
        transitions.suspend(turn, waits=[other()])
    assert Request.objects.count() == 1 and Run.objects.get().state == "running"


def test_replaces_names_a_request_that_is_there(northgate):
    """R04."""
    turn = claim(northgate.start())
    with pytest.raises(IdempotencyConflict):
        transitions.suspend(turn, waits=[deployment(replaces=uuid7())])


def test_asked_anew_it_keeps_the_key_and_takes_the_next_number(northgate):
    """R04: linked back; what was resolved stays resolved; the same asking again is the same Request."""
    run = northgate.start()
    [first] = northgate.ask(deployment(), run=run)
    northgate.says("Ada", first, Deny(first.digest))
    transitions.suspend(again(run), waits=[deployment("0.8.7", replaces=first.pk)])
    second = Request.objects.get(number=2)
    assert (second.key, second.replaces_id, second.state) == (first.key, first.pk, "pending")
    first.refresh_from_db()
    assert (first.state, first.outcome) == ("resolved", "denied")
    northgate.says("Ada", second, Deny(second.digest))
    [same] = transitions.suspend(again(run), waits=[deployment("0.8.7", replaces=first.pk)])
    assert same.pk == second.pk
    assert [request.pk for request in transitions.waits_of(run)] == [second.pk]


def test_what_is_still_pending_is_superseded_by_what_replaces_it(northgate):
    """R04, T27, T50: the old form is refused, and says so."""
    run = northgate.start()
    [asked] = northgate.ask(deployment(), run=run)
    Run.objects.filter(pk=run.pk).update(state="queued", waiting_since=None)  # as a remote Run may go on meanwhile
    transitions.suspend(claim(run), waits=[deployment("0.8.9", replaces=asked.pk)])
    asked.refresh_from_db()
    assert asked.state == "superseded"
    with pytest.raises(StaleRequest) as late:
        northgate.approves("Ada", asked)
    assert late.value.reason == "superseded"
    newest = Request.objects.get(state="pending")
    northgate.approves("Ada", newest)
    assert Effect.objects.get().request_id == newest.pk


def test_another_key_with_an_equal_action_is_another_request(northgate):
    """R04."""
    one, two = northgate.ask(deployment(key="a"), deployment(key="b"))
    assert one.action_hash == two.action_hash and one.digest != two.digest


# ---------------------------------------------------------------- what cannot be asked


@pytest.mark.parametrize(
    "arguments, word",
    [
        ('{"service":"a","version":"1","version":"2"}', "version"),
        ('{"service":"a","\\u0076ersion":"1","version":"2"}', "version"),
        ('{"service":"a","version":NaN}', "NaN"),
        ('{"service":"a","version":1}', "string"),
        ('{"service":"a","version":"1","replicas":"2"}', "integer"),
        ('{"service":"a","version":"1","replicas":1.0}', "integer"),
        ('{"service":"a","version":"1","force":true}', "force"),
        ('{"service":"a"}', "version"),
        ('{"service":"\\ud800","version":"1"}', "surrogate"),
        ('{"service":"a\\u0000","version":"1"}', "NUL"),
        ("[" * 40 + "]" * 40, "level"),
        ('{"service":"' + "x" * 70_000 + '"}', "bytes"),
        ("not json", "JSON"),
        ("", "JSON"),
        ("[]", ""),
        ("null", ""),
    ],
    ids=range(16),
)
def test_what_cannot_be_bound_is_refused_with_the_reason(northgate, arguments, word):
    """R15, T63-T67: to the model, as that call's result; nothing is raised."""
    wrong = transitions.check(transitions.Ask("d", "deploy", arguments))
    assert isinstance(wrong, InvalidInput)
    assert word.lower() in wrong.message.lower()
    turn = claim(northgate.start())
    with pytest.raises(InvalidInput):
        transitions.suspend(turn, waits=[transitions.Ask("d", "deploy", arguments)])
    assert not Request.objects.exists()


@pytest.mark.parametrize(
    "wait",
    [
        transitions.Ask("d", "unheard_of", "{}"),
        transitions.Ask("d\0", "deploy", '{"service":"a","version":"1"}'),
        transitions.Ask("d", "deploy", '{"service":"a","version":"1"}', claim="\ud800"),
        transitions.Ask("d", "deploy", '{"service":"a","version":"1"}', claim="x" * 1_000_000),
        transitions.Question("q", " ", KEY_NAME),
        transitions.Question("q", "x" * 1_000_000, KEY_NAME),
        transitions.Question("q", "Which?\0", KEY_NAME),
        transitions.Question("q", "Which?", {"type": "string"}),
    ],
    ids=lambda wait: f"{type(wait).__name__} {str(wait)[:0]}",
)
def test_waits_that_cannot_be_asked_are_refused(wait):
    """R03, R15, T30."""
    assert isinstance(transitions.check(wait), InvalidInput)


def test_what_is_bound_is_what_was_sent_with_defaults_filled_in(northgate):
    """R15, T66: made once; integers keep every digit."""
    [request] = northgate.ask(
        transitions.Ask("d", "deploy", '{ "version":"1", "replicas":9007199254740993, "service":"\\u00e9" }')
    )
    assert request.parameters.decode() == '{"replicas":9007199254740993,"service":"é","version":"1"}'
    assert json.loads(northgate.approval(version="2").parameters)["replicas"] == 1


# ---------------------------------------------------------------- the fence


def test_a_lost_lease_writes_nothing(northgate, clock):
    """R29, T107, I28: not a step, not a wait, not an end, not even giving back."""
    run = northgate.start()
    old = claim(run)
    clock.move(minutes=5)
    transitions.sweep()
    new = claim(run)
    assert new.lease_number == old.lease_number + 1
    before = Event.objects.count()
    for write in (
        lambda: transitions.journal(old, transitions.NewEntry("reply", 0, "{}")),
        lambda: transitions.suspend(old, waits=[question()]),
        lambda: transitions.finish(old, state="succeeded"),
        lambda: transitions.give_back(old),
        lambda: transitions.stopped(old),
    ):
        with pytest.raises(LeaseLost):
            write()
    assert Event.objects.count() == before and not Entry.objects.exists()
    transitions.finish(new, state="succeeded")


def test_a_marked_run_takes_no_further_step(northgate):
    """R29, R30."""
    turn = claim(northgate.start())
    northgate.cancels("Olga", turn.run)
    for write in (
        lambda: transitions.journal(turn, transitions.NewEntry("reply", 0, "{}")),
        lambda: transitions.suspend(turn, waits=[question()]),
        lambda: transitions.finish(turn, state="succeeded"),
    ):
        with pytest.raises(RunEnded) as refused:
            write()
        assert refused.value.reason == "cancelling"
    assert transitions.beat(turn.worker_id, "w", [turn]) == {turn.run.pk}
    transitions.stopped(turn)
    assert Run.objects.get().state == "cancelled"


def test_a_finished_step_is_journaled_once_and_found_again(northgate):
    """R22: in order, as the text it was."""
    run = northgate.start()
    turn = claim(run)
    entries = [transitions.NewEntry("reply", 0, '{"a": 1.0}'), transitions.NewEntry("result", 0, "null", "0.0")]
    transitions.journal(turn, *entries)
    transitions.give_back(turn)
    found = claim(run).journal
    assert [(entry.kind, entry.position, entry.call, entry.content) for entry in found] == [
        ("reply", 0, "", '{"a": 1.0}'), ("result", 0, "0.0", "null"),
    ]  # fmt: skip


def test_a_beat_keeps_a_lease_and_tells_what_was_lost(northgate, clock):
    """R29, R30."""
    run, other = northgate.start(), northgate.start()
    turn, lost = claim(run), claim(other)
    clock.move(seconds=10)
    until = Run.objects.get(pk=run.pk).lease_until
    assert transitions.beat(turn.worker_id, "w", [turn]) == set()
    assert Run.objects.get(pk=run.pk).lease_until > until
    clock.move(minutes=5)
    transitions.sweep()
    assert transitions.beat(turn.worker_id, "w", [turn, lost]) == {run.pk, other.pk}
