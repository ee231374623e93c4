"""Sockets say only that there is news, to whoever may still watch (R39, R40)."""

import contextlib

import pytest
from asgiref.sync import async_to_sync
from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.contrib.sessions.models import Session as Login
from django.test import Client

from console.asgi import application
from console.live import FRAMES, NOWHERE, SIGNED_OUT, TALKS
from runtime_app.hub import hub
from runtime_app.ids import uuid7
from runtime_app.models import Session
from runtime_app.responses import Answer

ORIGIN = b"http://localhost:8000"


@pytest.fixture
def sockets(houses, settings):
    """Runs a coroutine function with a way to open sockets; ends them all, and the hub, in the same loop."""

    def run(scene):
        async def staged():
            async with contextlib.AsyncExitStack() as open_sockets:

                async def opened(user, path, origin=ORIGIN):
                    socket = WebsocketCommunicator(application, path, headers=await _headers(user, origin))
                    open_sockets.push_async_callback(socket.disconnect)
                    return socket, await socket.connect(timeout=5)

                try:
                    await scene(opened)
                finally:
                    await open_sockets.aclose()
                    await hub.close()

        async_to_sync(staged)()

    return run


@database_sync_to_async
def _headers(user, origin):
    client = Client()
    if user:
        client.force_login(user)
    cookies = "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items())
    return [(b"origin", origin), (b"cookie", cookies.encode())]


async def closed_with(socket) -> int:
    """The code a socket is closed with, whatever was said before."""
    while True:
        event = await socket.receive_output(timeout=5)
        if event["type"] == "websocket.close":
            return event["code"]


def test_a_page_is_told_the_newest_number_at_once_and_each_later_one(sockets, northgate):
    """R39: on every connect, so that nothing that happened before it is missed."""
    question = northgate.question()
    path = f"/ws/t/northgate/s/{question.session_id}/"

    async def scene(opened):
        socket, (ok, _) = await opened(northgate.people["Rita"], path)
        before = await database_sync_to_async(Session.objects.get)(pk=question.session_id)
        assert ok and await socket.receive_from(timeout=5) == f"news {before.last_seq}"
        await database_sync_to_async(northgate.says)("Sam", question, Answer({"name": "k"}))
        after = await database_sync_to_async(Session.objects.get)(pk=question.session_id)
        assert await socket.receive_from(timeout=5) == f"news {after.last_seq}"
        assert await socket.receive_nothing(timeout=0.2)

    sockets(scene)


def test_an_inbox_that_hears_no_push_looks_at_the_feed_by_itself(sockets, northgate, monkeypatch):
    """R38, R39: losing every push costs seconds."""
    monkeypatch.setattr("console.live.AGAIN", 0.2)
    monkeypatch.setattr(hub, "wake", lambda topic: None)

    async def scene(opened):
        socket, _ = await opened(northgate.people["Rita"], "/ws/t/northgate/inbox/")
        assert await socket.receive_from(timeout=5) == "news"
        assert await socket.receive_nothing(timeout=0.5)
        await database_sync_to_async(northgate.start)()
        assert await socket.receive_from(timeout=5) == "news"
        assert await socket.receive_nothing(timeout=0.5)

    sockets(scene)


def test_the_inbox_hears_of_its_own_tenant_alone_and_learns_nothing_else(sockets, northgate, harbour):
    async def scene(opened):
        mine, _ = await opened(northgate.people["Ada"], "/ws/t/northgate/inbox/")
        theirs, _ = await opened(harbour.people["Max"], "/ws/t/harbour/inbox/")
        for socket in (mine, theirs):
            assert await socket.receive_from(timeout=5) == "news"
        await database_sync_to_async(northgate.question)()
        assert await mine.receive_from(timeout=5) == "news"
        assert await theirs.receive_nothing(timeout=0.3)

    sockets(scene)


def test_foreign_and_missing_close_alike(sockets, northgate, harbour):
    """R07."""
    question = northgate.question()
    paths = [
        f"/ws/t/northgate/s/{question.session_id}/", f"/ws/t/harbour/s/{question.session_id}/",
        f"/ws/t/harbour/s/{uuid7()}/", "/ws/t/harbour/s/no-id/", "/ws/t/nobody/inbox/", "/ws/t/northgate/inbox/",
        "/ws/elsewhere/",
    ]  # fmt: skip

    async def scene(opened):
        for path in paths:
            socket, (ok, _) = await opened(harbour.people["Mallory"], path)
            assert ok and await closed_with(socket) == NOWHERE, path

    sockets(scene)


def test_a_stranger_is_told_to_sign_in_and_a_page_of_elsewhere_gets_no_socket(sockets, northgate):
    async def scene(opened):
        socket, _ = await opened(None, "/ws/t/northgate/inbox/")
        assert await closed_with(socket) == SIGNED_OUT
        for origin in (b"http://localhost:8001", b"https://localhost:8000", b"http://evil.example", b"null"):
            _, (ok, _) = await opened(northgate.people["Ada"], "/ws/t/northgate/inbox/", origin)
            assert not ok, origin

    sockets(scene)


def _dismiss(northgate):
    northgate.people["Rita"].memberships.get().delete()


def _deactivate(northgate):
    type(northgate.people["Rita"]).objects.filter(pk=northgate.people["Rita"].pk).update(is_active=False)


def _sign_out(northgate):
    Login.objects.all().delete()


def _change_password(northgate):
    northgate.people["Rita"].set_password("another one")
    northgate.people["Rita"].save()


@pytest.mark.parametrize(
    ("change", "code"),
    [(_dismiss, NOWHERE), (_deactivate, NOWHERE), (_sign_out, SIGNED_OUT), (_change_password, SIGNED_OUT)],
    ids=["dismissed", "deactivated", "signed out", "password changed"],
)
@pytest.mark.parametrize("by", ["the next news", "the clock"])
def test_who_may_watch_no_longer_is_cut_off(sockets, northgate, monkeypatch, change, code, by):
    """R40: at the next push, and without one within half a minute."""
    monkeypatch.setattr("console.live.AGAIN", 0.2 if by == "the clock" else 30)

    async def scene(opened):
        socket, _ = await opened(northgate.people["Rita"], "/ws/t/northgate/inbox/")
        assert await socket.receive_from(timeout=5) == "news"
        await database_sync_to_async(change)(northgate)
        if by == "the next news":
            hub.wake(str(northgate.tenant.pk))
        assert await closed_with(socket) == code

    sockets(scene)


def test_whoever_talks_on_is_cut_off_and_nonsense_changes_nothing(sockets, northgate):
    async def scene(opened):
        socket, _ = await opened(northgate.people["Rita"], "/ws/t/northgate/inbox/")
        for each in range(FRAMES + 1):
            await (socket.send_to(bytes_data=b"\xff") if each % 2 else socket.send_to(text_data="{not json"))
        assert await closed_with(socket) == TALKS

    sockets(scene)


def test_a_hundred_sockets_of_a_tenant_are_checked_by_one_query(sockets, northgate):
    """Goal 10: what decides whether they may watch does not grow with their number."""
    from console import live

    asked = []
    real = live._query

    async def counted(tenant_id, watchers):
        asked.append(len(watchers))
        return await real(tenant_id, watchers)

    async def scene(opened):
        opened_sockets = [(await opened(northgate.people["Rita"], "/ws/t/northgate/inbox/"))[0] for _ in range(12)]
        for socket in opened_sockets:
            assert await socket.receive_from(timeout=5) == "news"
        live._query = counted
        try:
            hub.wake(str(northgate.tenant.pk))
            for socket in opened_sockets:
                assert await socket.receive_from(timeout=5) == "news"
        finally:
            live._query = real
        assert asked == [12]

    sockets(scene)
