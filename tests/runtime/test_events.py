"""Events: the history is the rows (I18), without gap or repeat for any reader (I16, I17; R36, R37, R40)."""

import asyncio
import base64
import json
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from asgiref.sync import async_to_sync
from django.db import close_old_connections, connections

from runtime_app import agent, events, transitions
from runtime_app.errors import CursorInvalid, NotFound
from runtime_app.hub import hub
from runtime_app.models import Effect, Epoch, Event, Grant, Membership, Request, Run, Session
from tests.cast import KEY_NAME, Answer, Committed, Deny, Finding, Recover, claim, deployment, intend

QUESTION = transitions.Question("q", "Which key?", KEY_NAME)


# ---------------------------------------------------------------- the fold


def folded(session_id) -> dict:
    """The states of a Session's rows, from its Events alone."""
    state = {}
    for event in Event.objects.filter(session_id=session_id).order_by("seq"):
        what, _, became = event.kind.partition(".")
        about = event.run_id if what == "run" else event.subject
        match event.kind:
            case "run.started":
                state[about] = "queued"
            case "run.cancelling" | "request.voted" | "request.vote_spent" | "effect.recovering" | "effect.accepted":
                continue
            case "effect.disputed" | "evidence.added" | "blocker.voted" | "blocker.vote_spent":
                continue
            case "request.raised":
                state[about] = "pending"
            case "request.resolved":
                state[about] = event.data["outcome"]
            case "grant.made":
                state[about] = "unused"
            case _:
                state[about] = became
    return state


def stored(session_id) -> dict:
    runs = Run.objects.filter(session_id=session_id)
    requests = Request.objects.filter(session_id=session_id)
    return {
        **dict(runs.values_list("pk", "state")),
        **{pk: outcome or state for pk, state, outcome in requests.values_list("pk", "state", "outcome")},
        **dict(Effect.objects.filter(session_id=session_id).values_list("pk", "state")),
        **dict(Grant.objects.filter(run__in=runs).values_list("pk", "state")),
    }


def test_folding_a_sessions_events_gives_the_states_of_its_rows(northgate, clock):
    """R36, I18: after each of the many things that happen to one Session."""
    session = northgate.start().session_id
    northgate.cancels("Olga", Run.objects.get())

    def check():
        assert folded(session) == stored(session)

    run = northgate.start(session_id=session)
    requests = {request.key: request for request in northgate.ask(
        QUESTION, *({"key": key, "version": key} for key in "abcdefg"), run=run
    )}  # fmt: skip
    check()
    northgate.says("Sam", requests["q"], Answer({"name": "ci"}))
    northgate.says("Bob", requests["a"], Deny(requests["a"].digest, '{"version":"2"}'))
    for key, reply in (("b", TimeoutError()), ("c", Committed("build 7")), ("d", TimeoutError())):
        northgate.approves("Ada", requests[key])
        transitions.record(intend(), reply)
        check()
    doubts = list(Request.objects.filter(kind="wait_effect", state="pending").order_by("created_at"))
    northgate.says("Olga", doubts[0], Recover("accept"))
    northgate.says("Olga", doubts[1], Recover("probe"))
    transitions.recovered(transitions.recovering(session), Committed("found"))
    check()
    northgate.approves("Ada", requests["e"])
    clock.move(hours=2)
    assert intend() is None, "the Grant expired: void, and asked anew"
    check()
    northgate.approves("Ada", requests["f"])
    northgate.cancels("Olga", run)
    check()
    other = northgate.start(session_id=session)
    northgate.ask(QUESTION, run=other)
    clock.move(days=8)
    transitions.sweep()
    turn = claim(other)
    clock.move(minutes=5)
    transitions.sweep()
    turn = claim(other)
    transitions.finish(turn, state="failed", reason="no")
    check()
    northgate.policy(verdict="deny")
    alone = northgate.start(session_id=session, interactive=False)
    [denied] = transitions.suspend(claim(alone), waits=[deployment()])
    assert denied.outcome == "denied"
    check()
    assert {"void", "withdrawn", "expired", "accepted", "cancelled", "settled"} <= set(folded(session).values())


def test_every_event_names_its_actor(northgate):
    """R36: person, agent or system, by id and name."""
    request = northgate.unknown()
    northgate.says("Olga", request, Finding("committed", "build 7"))
    who = defaultdict(set)
    for event in Event.objects.all():
        who[event.actor_kind].add(event.actor_name)
        assert event.actor_id and event.actor_name
    assert who == {"person": {"Olga", "Ada"}, "agent": {"deployer"}, "system": {"worker", "provider"}}


# ---------------------------------------------------------------- no gap, no repeat


def test_eight_writers_leave_no_gap_for_a_reader_at_any_moment(northgate, race):
    """R36, I16: fifty Events each; what the reader sees always is 1..n."""
    session = Session.objects.get(pk=northgate.start().session_id)
    done = threading.Event()
    seen = []

    def read():
        while not done.is_set():
            seqs = list(Event.objects.filter(session=session).order_by("seq").values_list("seq", flat=True))
            seen.append(seqs == list(range(1, len(seqs) + 1)))

    def write():
        for _ in range(50):
            northgate.start(session_id=session.pk)
        return True

    with ThreadPoolExecutor(1) as reader:
        reading = reader.submit(lambda: (read(), close_old_connections(), connections.close_all()))
        assert race(*[write] * 8) == [True] * 8
        done.set()
        reading.result()
    assert all(seen) and len(seen) > 3
    assert Event.objects.filter(session=session).count() == 401
    session.refresh_from_db()
    assert session.last_seq == 401


def test_a_reader_that_only_moves_forward_misses_nothing_that_commits_late(northgate, race):
    """R37, I17: by cursor, while eight write; a serial id would skip what committed late."""
    session = northgate.start().session_id
    context = northgate.context("Rita")

    def write():
        for _ in range(20):
            northgate.start(session_id=session)

    def follow():
        seen, cursor = [], None
        while len(seen) < 161:
            page = events.after(context, session, cursor, limit=7)
            seen += [event.seq for event in page.events]
            cursor = page.cursor
        return seen

    *_, seen = race(*[write] * 8, follow)
    assert seen == list(range(1, 162))


# ---------------------------------------------------------------- cursors


def test_a_cursor_goes_on_where_it_was(northgate):
    """R37: in pages, each Event once, in order; nothing new is an empty page and the same place."""
    northgate.start()  # another Session's Events are numbered for themselves
    session = northgate.start().session_id
    for _ in range(24):
        northgate.start(session_id=session)
    context, cursor, seen = northgate.context("Rita"), None, []
    for expected in ([True] * 2) + [False]:
        page = events.after(context, session, cursor, limit=10)
        assert (page.more, page.gap) == (expected, False)
        seen += [event.seq for event in page.events]
        cursor = page.cursor
    assert seen == list(range(1, 26))
    empty = events.after(context, session, cursor)
    assert (empty.events, empty.cursor, empty.more) == ([], cursor, False)


def cursor(*parts) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


def test_a_cursor_of_elsewhere_or_of_the_future_is_refused(northgate, harbour):
    """R37: and whatever is no cursor."""
    session, other = northgate.start().session_id, northgate.start().session_id
    theirs = harbour.start("Mallory").session_id
    of = str(session)
    context = northgate.context("Rita")
    wrong = [
        events.cursor_of(other, 1, 1), events.cursor_of(theirs, 1, 1), events.cursor_of(session, 2, 1),
        events.cursor_of(session, 2**70, 1), cursor(of, 1, -1), cursor(of, 1, 1.0), cursor(of, 1, True),
        cursor(of, 1, "1"), cursor(of, 1), cursor(of, 1, 1, 1), cursor(), cursor(None, 1, 1), cursor([of], 1, 1),
        "x", "1", "=", "====", "é", "\0", "\ud800", "x" * 10_000, "A" * 10_000, "[" * 199,
        base64.urlsafe_b64encode(b"[" * 120).decode(), base64.urlsafe_b64encode(b"\xff\xfe").decode(),
        base64.urlsafe_b64encode(b"[" + b"9" * 140 + b"]").decode(), " ",
    ]  # fmt: skip
    for text in wrong:
        with pytest.raises(CursorInvalid):
            events.after(context, session, text)
    assert events.after(context, session, events.cursor_of(session, 1, 1)).events == []


def test_a_cursor_of_another_epoch_gets_an_explicit_gap(northgate):
    """R37: never silence."""
    session = northgate.start().session_id
    old = events.after(northgate.context("Rita"), session).cursor
    Epoch.objects.create(number=2, why="restored")
    try:
        page = events.after(northgate.context("Rita"), session, old)
        assert page.gap and [event.seq for event in page.events] == [1]
        assert not events.after(northgate.context("Rita"), session, page.cursor).gap
    finally:
        Epoch.objects.filter(number=2).delete()


def test_events_of_a_session_one_may_not_see_are_not_found(northgate, harbour):
    """R07."""
    theirs = harbour.start("Mallory").session_id
    for cursor_text in (None, events.cursor_of(theirs, 1, 1), "x"):
        with pytest.raises(NotFound):
            events.after(northgate.context("Rita"), theirs, cursor_text)


# ---------------------------------------------------------------- subscriptions


async def _following(northgate, session, count, *, after=None, who="Rita", act=None):
    """The next `count` of a subscription; `act` runs once it waits for live ones."""
    seen = []
    following = agent.subscribe(session, context=northgate.context(who), after=after)
    try:
        async with asyncio.timeout(10):
            async for event in following:
                seen.append(event)
                if act and len(seen) == count[0]:
                    await asyncio.to_thread(_elsewhere, act)
                    act = None
                if len(seen) == sum(count):
                    return seen
    finally:
        await following.aclose()
        await _end_listening()
    return seen


def _elsewhere(act):
    """Another process would do this."""
    try:
        act()
    finally:
        connections.close_all()


async def _end_listening():
    if hub._task and hub._task.get_loop() is asyncio.get_running_loop():
        hub._task.cancel()
        await asyncio.gather(hub._task, return_exceptions=True)


def test_a_subscriber_gets_what_it_missed_and_then_what_is_live(northgate):
    """R37, T47: with no gap or repeat at the seam."""
    session = northgate.start().session_id
    for _ in range(4):
        northgate.start(session_id=session)
    start = partial(northgate.start, session_id=session)
    seen = async_to_sync(_following)(northgate, session, (5, 2), act=lambda: (start(), start()))
    assert [event.seq for event in seen] == [1, 2, 3, 4, 5, 6, 7]
    missed = async_to_sync(_following)(northgate, session, (4, 0), after=seen[2].cursor)
    assert [event.seq for event in missed] == [4, 5, 6, 7]


def test_a_subscriber_that_loses_the_right_to_watch_is_told_and_gets_nothing_more(northgate, monkeypatch):
    """R40, T18: at the next look, whether or not there was news."""
    session = northgate.start().session_id

    def leaves_and_something_happens():
        Membership.objects.filter(tenant=northgate.tenant, user=northgate.people["Rita"]).delete()
        northgate.start(session_id=session)

    with pytest.raises(NotFound):
        async_to_sync(_following)(northgate, session, (1, 5), act=leaves_and_something_happens)
    assert Event.objects.count() == 2


def test_a_lost_push_costs_time_and_no_event(northgate, monkeypatch):
    """R39: with nobody listening to the database at all."""
    monkeypatch.setattr(agent, "LOOK_AGAIN", 0.05)
    monkeypatch.setattr(type(hub), "_listen", lambda self: asyncio.Event().wait())
    session = northgate.start().session_id
    seen = async_to_sync(_following)(northgate, session, (1, 1), act=partial(northgate.start, session_id=session))
    assert [event.seq for event in seen] == [1, 2]


def test_a_subscription_to_what_is_not_ones_own_is_not_found(northgate, harbour):
    """R07, T09."""
    theirs = harbour.start("Mallory").session_id
    with pytest.raises(NotFound):
        async_to_sync(_following)(northgate, theirs, (1, 0))


def test_the_python_face_says_what_the_pages_say(northgate):
    """Section 3: start, resume, cancel; one transition each."""

    async def story():
        olga, sam = northgate.context("Olga"), northgate.context("Sam")
        run = await agent.start(olga, agent="deployer", environment="staging", message="go")
        [question] = await asyncio.to_thread(_asks, run)
        resume = agent.Resume(session_id=run.session_id, request_id=question.pk, response=Answer({"name": "ci"}))
        said = await agent.resume(resume, sam)
        assert said.recorded["outcome"] == "answered"
        assert (await agent.resume(resume, sam)).pk == said.pk
        assert (await agent.cancel(run.pk, olga)).recorded["state"] == "cancelled"

    def _asks(run):
        try:
            return northgate.ask(QUESTION, run=run)
        finally:
            connections.close_all()

    async_to_sync(story)()
