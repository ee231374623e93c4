"""Long polls, streams and sockets: told as it happens, ended with the right to watch, and costing next to nothing while
nothing happens (R37-R40, T82, T83, T94)."""

import asyncio
import json
import threading

import pytest
from asgiref.sync import sync_to_async
from django.db import connection

from runtime_app import credentials, events, transitions
from runtime_app.api import streaming, waiting
from runtime_app.hub import hub
from runtime_app.models import Credential, Event, Now, Request
from runtime_app.transitions import Ask, Question
from tests.api.asgi import staged
from tests.cast import KEY_NAME, Answer, elsewhere
from tests.runtime.test_feed import Open, late

MAIL = Ask("mail", "mail/send", '{"to":"a@b.c"}')
AT_ONCE = 1_000
do = sync_to_async


@pytest.fixture
def request_(mailer):
    """What `mailer` has asked and waits for."""
    return mailer.asks(mailer.begins(), MAIL)


async def stand(call, task_of=None) -> None:
    """Until this call waits: it is listened for."""
    for _ in range(2_000):
        if hub._ears and waiting._watched.total() >= 1 and not waiting.reads._coming:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it does not wait")


def revoke(northgate):
    """As an administrator does it."""
    transitions.revoke_credential(northgate.context("Ann"), credential_id=Credential.objects.get(kind="instance").pk)


# ---------------------------------------------------------------- long polls


def test_a_poll_ends_as_soon_as_the_request_is_decided(northgate, mailer, request_):
    """R08, R39."""

    async def scene(call):
        poll = call(f"/requests/{request_.pk}?wait=30s", mailer.token)
        await stand(poll)
        await do(northgate.approves)("Ada", request_)
        status, headers, body = await poll.answer()
        assert (status, body["outcome"]) == (200, "approved") and headers["x-request-id"] and headers["etag"]
        assert (await call(f"/requests/{request_.pk}?wait=30s", mailer.token).answer())[2] == body, "at once"

    staged(scene)


def test_a_poll_that_heard_nothing_tells_what_stands(mailer, request_):
    async def scene(call):
        status, _, body = await call(f"/requests/{request_.pk}?wait=1s", mailer.token).answer()
        assert (status, body["state"]) == (200, "pending")

    staged(scene)


@pytest.mark.parametrize("wait", ["", "30", "0s", "-1s", "1d", "s", "1.5s", "30s "])
def test_a_wait_is_a_duration(mailer, request_, wait):
    async def scene(call):
        status, _, body = await call(f"/requests/{request_.pk}?wait={wait}", mailer.token).answer()
        assert (status, body["code"]) == (422, "invalid_input")

    staged(scene)


@pytest.mark.parametrize("how", ["revoked", "revoked by hand", "expired", "deleted"])
def test_a_credential_that_ends_ends_its_poll(northgate, mailer, request_, how):
    """R40, T83, Must show 5: 401 within 2 s, also where nobody was notified."""
    ends = {
        "revoked": lambda: revoke(northgate),
        "revoked by hand": lambda: Credential.objects.update(revoked_at=Now()),
        "expired": lambda: Credential.objects.update(expires_at=Now()),
        "deleted": lambda: type(mailer.instance).objects.filter(pk=mailer.instance.pk).update(deleted_at=Now()),
    }[how]

    async def scene(call):
        poll = call(f"/requests/{request_.pk}?wait=30s", mailer.token)
        await stand(poll)
        await do(ends)()
        loop = asyncio.get_running_loop()
        since = loop.time()
        status, headers, body = await poll.answer()
        assert (status, body["code"], headers["www-authenticate"]) == (401, "not_signed_in", "Bearer")
        assert loop.time() - since < 2

    staged(scene)


def test_what_one_may_not_see_is_not_waited_for(northgate, harbour, mailer, request_):
    """R07: the same answer as without waiting."""
    other, foreign = elsewhere(northgate, "other"), elsewhere(harbour)

    async def scene(call):
        for token in (other.token, foreign.token):
            status, _, body = await call(f"/requests/{request_.pk}?wait=30s", token).answer()
            assert (status, body["code"]) == (404, "not_found")
        assert (await call("/requests/nothing?wait=30s", mailer.token).answer())[0] == 404
        assert (await call(f"/requests/{request_.pk}?wait=30s", "sayso_i_x").answer())[0] == 401
        assert (await call(f"/requests/{request_.pk}?wait=30s&token={mailer.token}").answer())[0] == 401

    staged(scene)


def test_who_goes_away_leaves_nothing(mailer, request_):
    """K9 (B104): no ear, no watch, no connection."""

    async def scene(call):
        poll = call(f"/requests/{request_.pk}?wait=30s", mailer.token)
        await stand(poll)
        poll.leaves()
        await asyncio.wait_for(poll.task, 5)
        assert not hub._ears and not waiting._watched

    staged(scene)


def test_a_page_of_events_is_waited_for(northgate, mailer):
    """R37: empty until there is one; of another credential's Session nothing is heard."""
    run = mailer.begins()
    cursor = events.after(mailer.context, run.session_id).cursor

    async def scene(call):
        poll = call(f"/sessions/{run.session_id}/events?after={cursor}&wait=30s", mailer.token)
        await stand(poll)
        await do(mailer.asks)(run, MAIL)
        status, _, page = await poll.answer()
        assert status == 200 and [each["kind"] for each in page["events"]][:1] == ["request.raised"]
        status, _, page = await call(f"/events?after={page['cursor']}&wait=1s", mailer.token).answer()
        assert (status, page["code"]) == (400, "cursor_invalid")
        assert (await call("/events?wait=1s&limit=0", mailer.token).answer())[0] == 422

    staged(scene)


def connections_of_this_process() -> int:
    with connection.cursor() as cursor:
        cursor.execute("select count(*) from pg_stat_activity where datname = current_database()")
        return cursor.fetchone()[0]


def test_a_thousand_polls_hold_no_thread_and_no_connection(mailer, monkeypatch):
    """Goal 4: by count; and when something happens, one reading tells them all, and each hears of it."""
    looks, real = [], waiting.reads._read
    monkeypatch.setattr(waiting.reads, "_read", lambda same, read: looks.append(same) or real(same, read))
    monkeypatch.setattr(waiting, "LONGEST", 300)
    run = mailer.begins()
    path = f"/sessions/{run.session_id}/events?after={events.after(mailer.context, run.session_id).cursor}&wait=5m"

    async def scene(call):
        polls = [call(path, mailer.token)]
        await waits(1)
        connections, threads = await do(connections_of_this_process)(), threading.active_count()
        polls += [call(path, mailer.token) for _ in range(AT_ONCE)]
        await waits(1 + AT_ONCE)
        assert threading.active_count() <= threads + waiting.THREADS
        assert await do(connections_of_this_process)() <= connections + waiting.THREADS
        assert not any(poll.task.done() for poll in polls)
        looks.clear()
        await do(late(run))()
        answers = await asyncio.gather(*(poll.answer(60) for poll in polls))
        assert {(status, len(page["events"])) for status, _, page in answers} == {(200, 1)}
        assert len(looks) < AT_ONCE / 20, "who asks the same at once shares a reading"

    async def waits(count):
        for _ in range(10_000):
            if waiting._watched.total() == count and not waiting.reads._coming:
                return
            await asyncio.sleep(0.02)
        raise AssertionError(waiting._watched)

    staged(scene)


def test_who_waits_with_many_calls_delays_their_own(mailer):
    """R40, T92: callers take turns at the few threads, so nobody's poll, and no look at who still lives, comes last."""
    go, began = threading.Event(), []

    def reading(name):
        return lambda: (go.wait(10), began.append(name))

    async def scene(call):
        many = [asyncio.ensure_future(waiting.reads.own(reading("many"), "Mallory")) for _ in range(50)]
        await asyncio.sleep(0)
        one = asyncio.ensure_future(waiting.reads.own(reading("one"), "Ada"))
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(one, *many)
        assert began.index("one") <= 2 * waiting.THREADS and len(began) == 51

    staged(scene)


def test_too_many_waiting_calls_are_refused(mailer, request_, monkeypatch):
    """T92."""
    monkeypatch.setattr(waiting, "MOST_OF_ONE", 1)

    async def scene(call):
        await stand(call(f"/requests/{request_.pk}?wait=30s", mailer.token))
        status, headers, body = await call(f"/requests/{request_.pk}?wait=30s", mailer.token).answer()
        assert (status, body["code"], headers["retry-after"]) == (429, "too_many", "5")

    staged(scene)


# ---------------------------------------------------------------- streams


class Stream:
    """What an EventSource makes of it: ids, data, and events with names of their own."""

    def __init__(self, call):
        self.call, self.text = call, ""

    async def begun(self) -> dict:
        start = await self.call.message()
        assert start["status"] == 200
        return {name.decode(): value.decode() for name, value in start["headers"]}

    async def frame(self) -> dict:
        while True:
            while "\n\n" not in self.text:
                self.text += (await self.call.message(60))["body"].decode()
            frame, self.text = self.text.split("\n\n", 1)
            if not frame.startswith("retry:"):
                return dict(line.split(": ", 1) for line in frame.splitlines())

    async def frames(self, count: int) -> list[dict]:
        return [await self.frame() for _ in range(count)]


SSE = {"Accept": "text/event-stream"}


@pytest.mark.parametrize("path", ["/sessions/{}/events", "/events"])
def test_a_stream_tells_what_was_and_what_comes_and_goes_on_by_its_id(northgate, mailer, path):
    """R37, R38: no gap and no repeat, however often the line drops."""
    run = mailer.begins()
    mailer.asks(run, Question("q", "Which?", KEY_NAME))
    path = path.format(run.session_id)

    async def scene(call):
        known = await do(lambda: list(Event.objects.order_by("seq").values_list("seq", "kind")))()
        stream = Stream(call(path, mailer.token, **SSE))
        assert (await stream.begun())["content-type"] == "text/event-stream"
        told = await stream.frames(len(known))
        assert [(each["seq"], each["kind"]) for each in map(data, told)] == known
        await do(northgate.says)("Sam", await do(Request.objects.get)(), Answer({"name": "k"}))
        more = await stream.frames(2)
        assert [data(each)["seq"] for each in more] == [len(known) + 1, len(known) + 2]
        await stream.call.end()
        for last in (told[0], told[-1], more[0]):
            again = Stream(call(path, mailer.token, **SSE, **{"Last-Event-ID": last["id"]}))
            await again.begun()
            seen = data(last)["seq"]
            rest = await again.frames(len(known) + 2 - seen)
            assert [data(each)["seq"] for each in rest] == list(range(seen + 1, len(known) + 3))
            await again.call.end()

    staged(scene)


def data(frame: dict) -> dict:
    return json.loads(frame["data"])


def test_a_cursor_of_another_epoch_is_told_as_a_gap(mailer):
    """R37: never silence."""
    run = mailer.begins()
    old = events.cursor_of(run.session_id, 1, 7)

    async def scene(call):
        stream = Stream(call(f"/sessions/{run.session_id}/events?after={old}", mailer.token, **SSE))
        await stream.begun()
        assert (await stream.frame())["event"] == "gap" and data(await stream.frame())["seq"] == 1
        refused = call(f"/sessions/{run.session_id}/events?after=x", mailer.token, **SSE)
        assert (await refused.answer())[::2] == (400, {"code": "cursor_invalid", "message": MESSAGE})

    staged(scene)


MESSAGE = "This is not a cursor. Start again without one."


def test_a_silent_stream_says_that_it_lives_and_ends_with_its_credential(northgate, mailer, monkeypatch):
    """R40, T83."""
    monkeypatch.setattr(streaming, "BEAT", 0.05)
    mailer.begins()

    async def scene(call):
        stream = Stream(call("/events", mailer.token, **SSE))
        await stream.begun()
        while "still here" not in stream.text:
            stream.text += (await stream.call.message())["body"].decode()
        stream.text = ""
        await do(revoke)(northgate)
        while "event: error" not in stream.text:
            stream.text += (await stream.call.message(2))["body"].decode()
        assert '"not_signed_in"' in stream.text
        await asyncio.wait_for(stream.call.task, 2)
        assert not waiting._watched and not hub._ears

    staged(scene)


def test_a_stream_of_the_tenant_waits_for_what_commits_late(northgate, mailer):
    """R38: through the door as well, without another notification."""
    first, second = mailer.begins(), mailer.begins()

    async def scene(call):
        stream = Stream(call("/events", mailer.token, **SSE))
        await stream.begun()
        count = await do(Event.objects.count)()
        await stream.frames(count)
        older = await do(Open)(late(first))
        await do(late(second))()
        await do(older.commits)()
        found = [data(each)["session"] for each in await stream.frames(2)]
        assert found == [str(first.session_id), str(second.session_id)]

    staged(scene)


def test_a_reader_that_never_reads_is_cut_off_and_goes_on_by_its_cursor(mailer, monkeypatch):
    """T94: a stream ends after so many bytes."""
    monkeypatch.setattr(streaming, "MOST", 500)
    run = mailer.begins()

    async def scene(call):
        stream = Stream(call(f"/sessions/{run.session_id}/events", mailer.token, **SSE))
        await asyncio.wait_for(stream.call.task, 10)
        await stream.begun()
        last = (await stream.frames(2))[-1]
        await do(late(run))()
        again = Stream(call(f"/sessions/{run.session_id}/events", mailer.token, **SSE, **{"Last-Event-ID": last["id"]}))
        await again.begun()
        assert data(await again.frame())["seq"] == 3

    staged(scene)


# ---------------------------------------------------------------- sockets


async def closed(socket) -> int:
    while True:
        told = await socket.message()
        if told["type"] == "websocket.close":
            return told["code"]


def test_a_socket_at_the_same_path_tells_the_same(northgate, mailer):
    """R37, R40: by the same cursor; the credential is in the handshake's header."""
    run = mailer.begins()
    path = f"/sessions/{run.session_id}/events"

    async def scene(call):
        socket = call(path, mailer.token, "websocket")
        assert (await socket.message())["type"] == "websocket.accept"
        first = [json.loads((await socket.message())["text"]) for _ in range(2)]
        assert [each["seq"] for each in first] == [1, 2]
        again = call(f"{path}?after={first[0]['id']}", mailer.token, "websocket")
        assert (await again.message())["type"] == "websocket.accept"
        assert json.loads((await again.message())["text"]) == first[1]
        await do(late(run))()
        for each in (socket, again):
            assert json.loads((await each.message())["text"])["seq"] == 3
        await stand(socket)
        await do(revoke)(northgate)
        assert [await closed(each) for each in (socket, again)] == [4401, 4401]

    staged(scene)


def test_a_socket_without_a_credential_or_for_what_is_anothers_is_closed(northgate, mailer):
    """R07, T82, T94, T96."""
    other = elsewhere(northgate, "other").begins()

    async def scene(call):
        for path, token, code in (
            (f"/sessions/{other.session_id}/events", mailer.token, 4404),
            ("/sessions/nothing/events", mailer.token, 4404),
            ("/events", "sayso_i_x", 4401),
            ("/events?after=x", mailer.token, 4400),
        ):
            socket = call(path, token, "websocket")
            assert (await socket.message())["type"] == "websocket.accept"
            assert await closed(socket) == code
        nobody = call(f"/events?token={mailer.token}", "", "websocket")
        assert (await nobody.message())["type"] == "websocket.close"
        talks = call("/events", mailer.token, "websocket")
        for _ in range(streaming.FRAMES):
            talks.given.put_nowait({"type": "websocket.receive", "text": "x"})
        assert await closed(talks) == streaming.TALKS

    staged(scene)


def test_who_lives_is_asked_for_all_at_once(northgate, mailer, django_assert_num_queries):
    """Goal 4: one statement a second, however many wait."""
    ids = {each.pk for each in Credential.objects.all()} | {elsewhere(northgate, "other").context.credential_id}
    Credential.objects.filter(instance=mailer.instance).update(revoked_at=Now())
    with django_assert_num_queries(1):
        assert credentials.those_alive(ids) == ids - {mailer.context.credential_id}
