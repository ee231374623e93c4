"""Twenty at the same moment, each on a connection of its own: one wins, and the others are told who (R08, R09, R32)."""

import os
from collections import Counter
from functools import partial

import pytest

from runtime_app import transitions
from runtime_app.errors import IdempotencyConflict, LeaseLost, RunEnded, StaleRequest
from runtime_app.ids import uuid7
from runtime_app.models import Attempt, Effect, Event, Grant, Request, Response, Run, Worker
from tests.cast import Answer, Approve, Deny, Finding, Recover, claim, deployment, intend, send

ROUNDS = range(5)
DOUBLE_ANSWERS = int(os.environ.get("SAYSO_DOUBLE_ANSWERS", "200"))  # `./run chaos` gives a thousand


def kinds(results) -> Counter:
    """How many came to what: the name of the error, or `ok`."""
    return Counter(type(each).__name__ if isinstance(each, Exception) else "ok" for each in results)


def only(results, error):
    return [each for each in results if isinstance(each, error)]


def test_of_twenty_approvals_one_wins_and_nineteen_are_told_by_whom(northgate, crowd, race):
    """R08, I1, T43: one Response, one Grant, one Effect."""
    request = northgate.approval()
    results = race(*(partial(northgate.approves, name, request) for name in crowd("approver", 20)))
    assert kinds(results) == {"ok": 1, "StaleRequest": 19}
    winner = Response.objects.get()
    for late in only(results, StaleRequest):
        assert (late.reason, late.facts["by"]) == ("already_resolved", winner.name)
        assert winner.name in late.message
    assert Grant.objects.count() == Effect.objects.count() == 1
    assert Event.objects.filter(kind="request.resolved").count() == 1


@pytest.mark.parametrize("needed", [2, 3])
def test_with_a_quorum_exactly_those_needed_are_counted(northgate, crowd, race, needed):
    """R08, I5: twenty vote at once, two or three are needed."""
    northgate.policy(approvals=needed)
    request = northgate.approval()
    results = race(*(partial(northgate.approves, name, request) for name in crowd("approver", 20)))
    assert kinds(results) == {"ok": needed, "StaleRequest": 20 - needed}
    assert Response.objects.count() == needed
    assert Grant.objects.count() == 1


def test_one_person_voting_twenty_times_at_once_is_one_vote(northgate, race):
    """R09, R18, T22: a quorum of two is not filled by one person."""
    northgate.policy(approvals=2)
    request = northgate.approval()
    results = race(*[partial(northgate.approves, "Ada", request)] * 20)
    assert kinds(results) == {"ok": 1, "StaleRequest": 19}
    assert {late.reason for late in only(results, StaleRequest)} == {"already_voted"}
    assert Request.objects.get(pk=request.pk).state == "pending"
    assert not Grant.objects.exists()


def test_approve_against_deny_has_one_outcome(northgate, crowd, race):
    """R08, T44: ten approve, ten deny."""
    people = crowd("approver", 20)
    for _ in ROUNDS:
        request = northgate.approval()
        says = [Approve(request.digest), Deny(request.digest)] * 10
        results = race(*(partial(northgate.says, *each) for each in zip(people, [request] * 20, says, strict=True)))
        assert kinds(results) == {"ok": 1, "StaleRequest": 19}
        [won] = Response.objects.filter(request=request)
        outcome = Request.objects.get(pk=request.pk).outcome
        assert outcome == {"approve": "approved", "deny": "denied"}[won.kind]
        assert {late.facts["outcome"] for late in only(results, StaleRequest)} == {outcome}
        assert Grant.objects.filter(request=request).count() == (outcome == "approved")
        northgate.cancels("Olga", Run.objects.get(pk=request.run_id))


def test_approve_against_cancel_leaves_nothing_that_could_be_sent(northgate, crowd, race):
    """B88, R30, R32, T45: cancel first, and the approvals are stale; approve first, and what it gave is withdrawn."""
    people = crowd("approver", 10)
    for _ in ROUNDS:
        request = northgate.approval()
        run = Run.objects.get(pk=request.run_id)
        approve = [partial(northgate.approves, name, request) for name in people]
        results = race(*approve, *[partial(northgate.cancels, "Olga", run)] * 10)
        assert kinds(results[10:]) == {"ok": 1, "RunEnded": 9}
        assert Run.objects.get(pk=run.pk).state == "cancelled"
        if only(results[:10], Response):
            assert Request.objects.get(pk=request.pk).outcome == "approved"
            assert Effect.objects.get(request=request).state == "withdrawn"
            assert Grant.objects.get(request=request).state == "void"
        else:
            assert {late.reason for late in results[:10]} == {"cancelled"}
            assert Request.objects.get(pk=request.pk).state == "cancelled"
            assert not Effect.objects.filter(request=request).exists()
        assert intend() is None


def test_answer_against_expiry_has_one_winner(northgate, crowd, race, clock):
    """R08, I25: no answer is taken at or after the deadline, whoever writes the expiry down."""
    people = crowd("responder", 10)
    for _ in ROUNDS:
        question = northgate.question()
        answer = [partial(northgate.says, name, question, Answer({"name": name})) for name in people]
        results = race(lambda: clock.move(days=8), *answer, *[transitions.sweep] * 9)
        transitions.sweep()
        request = Request.objects.get(pk=question.pk)
        given = list(Response.objects.filter(request=request))
        if request.state == "expired":
            assert (given, request.resolved_at) == ([], request.expires_at)
            assert {late.reason for late in only(results, StaleRequest)} == {"expired"}
        else:
            assert request.outcome == "answered" and request.resolved_at < request.expires_at
            assert len(given) == 1 and given[0].at < request.expires_at
        assert Run.objects.get(pk=request.run_id).state == "queued"
        transitions.finish(claim(), state="succeeded")


def test_cancel_against_dispatch_never_has_an_intent_after_the_cancel(northgate, race):
    """R32, I11, T46."""
    for _ in ROUNDS:
        effect = northgate.granted()
        run = Run.objects.get(pk=effect.run_id)
        cancel = [partial(northgate.cancels, "Olga", run)] * 10
        race(*cancel, *[intend] * 10)
        effect.refresh_from_db()
        assert Run.objects.get(pk=run.pk).state == "cancelled"
        sent = Attempt.objects.filter(effect=effect).count()
        assert effect.state == ("in_flight" if sent else "withdrawn")
        assert Grant.objects.get(request_id=effect.request_id).state == ("consumed" if sent else "void")
        seqs = dict(Event.objects.filter(run=run).values_list("kind", "seq"))
        assert not sent or seqs["effect.in_flight"] < seqs["run.cancelled"]
        assert intend() is None


def test_cancel_against_completion_has_one_winner(northgate, race):
    """R30, R32: marked first, and it ends no other way; completed first, and the cancel is told how it ended."""
    for _ in ROUNDS:
        run = northgate.start()
        turn = claim(run)
        finish = partial(transitions.finish, turn, state="succeeded", result="done")
        results = race(finish, *[partial(northgate.cancels, "Olga", run)] * 10)
        run.refresh_from_db()
        if isinstance(results[0], RunEnded):
            assert results[0].reason == "cancelling" and run.cancel_requested_at
            assert kinds(results[1:]) == {"ok": 1, "RunEnded": 9}
            transitions.stopped(turn)
            assert Run.objects.get(pk=run.pk).state == "cancelled"
        else:
            assert run.state == "succeeded" and not run.cancel_requested_at
            assert {late.reason for late in results[1:]} == {"succeeded"}


def test_of_twenty_cancels_one_wins(northgate, crowd, race):
    """R32: nineteen are told that it is cancelled, and by whom."""
    question = northgate.question()
    run = Run.objects.get(pk=question.run_id)
    results = race(*(partial(northgate.cancels, name, run) for name in crowd("operator", 20)))
    assert kinds(results) == {"ok": 1, "RunEnded": 19}
    winner = Response.objects.get()
    assert {(late.reason, late.facts["by"]) for late in only(results, RunEnded)} == {("cancelled", winner.name)}


def test_ten_copies_of_one_answer_are_one_answer(northgate, race):
    """R09, T42: ten equal answers back, one row, one Event."""
    question = northgate.question()
    say = partial(northgate.says, "Sam", question, Answer({"name": "ci"}), response_id=uuid7())
    results = race(*[say] * 10)
    assert kinds(results) == {"ok": 10}
    assert len({each.pk for each in results}) == 1
    assert all(each.recorded == Response.objects.get().recorded for each in results)
    assert Event.objects.filter(kind="request.resolved").count() == 1


def test_ten_copies_of_one_cancel_are_one_cancel(northgate, race):
    """R09: a cancel carries a response_id too."""
    run = northgate.start()
    cancel = partial(northgate.cancels, "Olga", run, response_id=uuid7())
    assert len({each.pk for each in race(*[cancel] * 10)}) == 1


def test_one_response_id_on_two_requests_serves_one_of_them(northgate, race):
    """R09, I24: in two Sessions, so that no lock orders them."""
    pairs = [(northgate.question(), northgate.question()) for _ in ROUNDS]
    for first, second in pairs:
        same = uuid7()
        answers = [
            partial(northgate.says, "Sam", each, Answer({"name": "ci"}), response_id=same) for each in (first, second)
        ]
        results = race(*answers * 5)
        assert len({each.pk for each in only(results, Response)}) == 1
        assert kinds(results) == {"ok": 5, "IdempotencyConflict": 5}
        states = Request.objects.filter(pk__in=[first.pk, second.pk]).values_list("state", flat=True)
        assert sorted(states) == ["pending", "resolved"]


def test_ten_starts_under_one_start_id_are_one_run(northgate, race):
    """R09, B23: also when none of them names a Session."""
    start = partial(northgate.start, start_id=uuid7())
    results = race(*[start] * 10)
    assert kinds(results) == {"ok": 10}
    assert {each.pk for each in results} == {Run.objects.get().pk}
    assert Event.objects.filter(kind="run.started").count() == 1


def test_two_starts_of_different_content_under_one_start_id_are_one_run(northgate, race):
    """R09, I24."""
    same = uuid7()
    results = race(*(partial(northgate.start, message=text, start_id=same) for text in ("this", "that")))
    assert kinds(results) == {"ok": 1, "IdempotencyConflict": 1}
    assert only(results, IdempotencyConflict) and Run.objects.count() == 1


def test_workers_claiming_at_once_take_each_run_once(northgate, race):
    """R05, R29: twenty Runs, in ten Sessions, eight workers."""
    for _ in range(10):
        run = northgate.start()
        northgate.start(session_id=run.session_id)

    def work():
        worker = uuid7()
        return [turn.run.pk for turn in iter(partial(transitions.claim, worker), None)]

    taken = [pk for each in race(*[work] * 8) for pk in each]
    assert len(taken) == len(set(taken)) == 20
    assert set(Run.objects.values_list("state", "lease_number")) == {("running", 1)}


def test_eight_workers_write_one_intent(northgate, race):
    """R16, R22, I6, T40."""
    effect = northgate.granted()
    results = race(*[intend] * 8)
    assert [each.effect_id for each in results if each] == [effect.pk]
    assert Attempt.objects.get().number == 1
    assert Grant.objects.get().state == "consumed"


def test_eight_workers_dispatch_twelve_effects_once_each(northgate, race):
    """R16: of one Session and of several."""
    keys = [f"d{number}" for number in range(4)]
    for _ in range(3):
        for request in northgate.ask(*({"version": key, "key": key} for key in keys)):
            northgate.approves("Ada", request)
    Worker.objects.all().delete()

    def work():
        worker = uuid7()
        transitions.beat(worker, "worker", [])
        return [dispatch.effect_id for dispatch in iter(partial(transitions.intend, worker), None)]

    taken = [pk for each in race(*[work] * 8) for pk in each]
    assert sorted(taken) == sorted(Effect.objects.values_list("pk", flat=True))
    assert Attempt.objects.count() == len(taken) == 12


def test_sweeps_at_once_write_each_thing_down_once(northgate, race, clock):
    """R08, R23, R30: expiries, lapsed Leases and silent dispatches."""
    northgate.granted(environment="staging")
    assert intend()
    for _ in range(6):
        northgate.question()
    running = [northgate.start() for _ in range(6)]
    for run in running:
        claim(run)
    clock.move(days=8)
    results = race(*[transitions.sweep] * 8)
    assert "ok" in kinds(results) and len(kinds(results)) == 1, results
    assert Event.objects.filter(kind="request.expired").count() == 6
    assert Event.objects.filter(kind="effect.uncertain").count() == 1
    assert Request.objects.filter(kind="wait_effect", state="pending").count() == 1
    assert set(Run.objects.filter(pk__in=[run.pk for run in running]).values_list("lapses", flat=True)) == {1}


def test_reply_against_sweep_settles_or_asks_and_never_both_ways(northgate, race, clock):
    """R23: the deadline passes while the reply is being written."""
    for _ in ROUNDS:
        effect = northgate.granted()
        dispatch = intend()
        clock.move(minutes=5)
        race(partial(send, dispatch), *[transitions.sweep] * 4)
        effect.refresh_from_db()
        assert effect.state == "committed"
        assert not Request.objects.filter(effect=effect, state="pending").exists()
        assert Run.objects.get(pk=effect.run_id).state == "queued"
        transitions.finish(claim(), state="succeeded")


def test_findings_at_once_settle_an_effect_once(northgate, crowd, race):
    """R08, R24: one finding settles, the others are stale."""
    request = northgate.unknown()
    finding = Finding("committed", "build 7")
    results = race(*(partial(northgate.says, name, request, finding) for name in crowd("operator", 20)))
    assert kinds(results) == {"ok": 1, "StaleRequest": 19}
    assert Event.objects.filter(kind="effect.committed").count() == 1


def test_workers_at_once_take_every_probe_once(northgate, race):
    """R24: of four that were asked for, none is left behind and none is made twice."""
    for _ in range(4):
        northgate.says("Olga", northgate.unknown(), Recover("probe"))
    results = race(*[lambda: transitions.recovering(uuid7())] * 4)
    assert {each.effect_id for each in results} == set(Effect.objects.values_list("pk", flat=True))
    assert set(Effect.objects.values_list("probes", flat=True)) == {1}


def test_a_lapsed_lease_and_its_worker_race_and_one_wins(northgate, race, clock):
    """R29: the worker parks its Run, or the sweep hands it on; never both."""
    for _ in ROUNDS:
        run = northgate.start()
        turn = claim(run)
        clock.move(minutes=5)
        results = race(partial(transitions.suspend, turn, waits=[deployment()]), *[transitions.sweep] * 3)
        run.refresh_from_db()
        parked = run.state == "waiting"
        assert parked or run.state == "queued" and isinstance(results[0], LeaseLost)
        assert Request.objects.filter(run=run).count() == parked
        northgate.cancels("Olga", run)


def test_of_many_double_answers_none_continues_twice(northgate, crowd, race):
    """R08: two people, the same moment, different answers; the second is told the winner's name (goal 5)."""
    people = crowd("responder", 2)
    for _ in range(DOUBLE_ANSWERS // 20):
        questions = [northgate.question() for _ in range(20)]

        def answer(name, questions=questions):
            results = []
            for question in questions:
                try:
                    results.append(northgate.says(name, question, Answer({"name": name})))
                except StaleRequest as stale:
                    results.append(stale)
            return results

        for first, second in zip(*race(*(partial(answer, name) for name in people)), strict=True):
            [won], [late] = (only((first, second), kind) for kind in (Response, StaleRequest))
            assert late.facts["by"] == won.name
        turns = [claim() for _ in questions]
        assert transitions.claim(uuid7()) is None
        assert {turn.run.pk for turn in turns} == {question.run_id for question in questions}
        for turn in turns:
            transitions.finish(turn, state="succeeded")
