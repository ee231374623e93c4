"""Events as they come, to who follows: Server-Sent Events and WebSockets at one path, by the same cursor (R37, R38).

A stream says `id:`, which is the cursor; `Last-Event-ID` or `?after=` goes on there. What a cursor of another epoch
cannot give is said as an event of its own, `gap`. A stream ends when its credential does (R40).
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from ..errors import SaysoError
from ..hub import hub
from .waiting import QUIET, Answer, Call, encoded, heard, send_answer, until_gone, watched

BEAT = 15  # seconds of silence after which a stream says that it lives
HELD = 0.2  # seconds until what an open transaction holds back is looked at again
MOST = 64 * 1024 * 1024  # bytes after which a stream ends, to be taken up by its cursor: nobody's unread pile grows on
FRAMES = 20  # a follower says nothing; whoever talks on is cut off
DONE, TALKS, BROKEN, STATUS = 1000, 4008, 1011, 4000  # close codes; 4401 is 401
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Batch:
    """Some Events, each its cursor and its JSON; the cursor after them; the topic that tells of more."""

    events: list[tuple[str, str]]
    cursor: str
    gap: bool
    more: bool
    held: bool
    topic: str


@dataclass(frozen=True)
class Feed:
    """A path whose Events can be followed. `read(context, match, query, cursor) -> Batch`; `refuse` as for a Wait."""

    path: str
    scope: str
    read: Callable
    refuse: Callable

    def answering(self, scope) -> Callable | None:
        if scope["type"] == "websocket":
            return socket
        accepted = [value for name, value in scope["headers"] if name == b"accept"]
        return stream if any(b"text/event-stream" in each for each in accepted) else None


async def follow(call: Call, cursor: str | None) -> AsyncIterator[Batch | None]:
    """What is new after the cursor, as long as the caller may see it; None after each silence. The first comes before
    anything is listened for: an error of the call itself."""
    batch = await call.begin(call.wait.read, cursor)
    yield batch
    with watched(call.context), hub.listening(batch.topic, *call.credential()) as ear:
        await hub.stands()
        while True:
            ear.clear()  # what follows is read after listening began: nothing falls between
            batch = await call.look(call.wait.read, batch.cursor)
            if batch.events or batch.gap:
                yield batch
            if batch.more:
                continue
            if not await heard(ear, HELD if batch.held else BEAT) and not batch.held:
                yield None


def cursor_of(call: Call) -> str | None:
    return call.headers.get("last-event-id") or call.query.get("after") or None


# ---------------------------------------------------------------- Server-Sent Events


async def stream(call: Call, receive, send) -> None:
    telling = asyncio.ensure_future(_tell(call, send))
    gone = asyncio.ensure_future(until_gone(receive))
    try:
        await asyncio.wait({telling, gone}, return_when=asyncio.FIRST_COMPLETED)
        if telling.done():
            await telling
    finally:
        telling.cancel()
        gone.cancel()
        await asyncio.gather(telling, gone, return_exceptions=True)


async def _tell(call: Call, send) -> None:
    begun, sent = False, 0
    try:
        async with aclosing(follow(call, cursor_of(call))) as batches:
            async for batch in batches:
                text = _framed(batch)
                if not begun:
                    await send({"type": "http.response.start", "status": 200, "headers": encoded(_headers(call))})
                    begun, text = True, f"retry: 1000\n\n{text}"
                await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
                sent += len(text)
                if sent > MOST:
                    break
    except SaysoError as error:
        if not begun:
            return await send_answer(send, Answer(*call.wait.refuse(error, call.exchange)), call.exchange)
        said = f"event: error\ndata: {json.dumps(error.as_data(), default=str)}\n\n"
        await send({"type": "http.response.body", "body": said.encode(), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _headers(call: Call) -> list[tuple[str, str]]:
    return [("Content-Type", "text/event-stream"), *QUIET, ("X-Accel-Buffering", "no"), ("X-Request-ID", call.exchange)]


def _framed(batch: Batch | None) -> str:
    if batch is None:
        return ": still here\n\n"
    gap = "event: gap\ndata: {}\n\n" if batch.gap else ""
    frames = [f"id: {cursor}\ndata: {text}\n\n" for cursor, text in batch.events]
    return gap + "".join(frames)


# ---------------------------------------------------------------- WebSockets


async def socket(call: Call, receive, send) -> None:
    """The credential comes in the `Authorization` header of the handshake, never in the address."""
    await receive()  # websocket.connect
    await send({"type": "websocket.accept"})
    telling = asyncio.ensure_future(_push(call, send))
    hearing = asyncio.ensure_future(_overhear(receive))
    try:
        await asyncio.wait({telling, hearing}, return_when=asyncio.FIRST_COMPLETED)
        if telling.done():
            await send({"type": "websocket.close", "code": telling.result()})
        elif hearing.result():
            await send({"type": "websocket.close", "code": TALKS})
    finally:
        telling.cancel()
        hearing.cancel()
        await asyncio.gather(telling, hearing, return_exceptions=True)


async def _push(call: Call, send) -> int:
    """Why it ended, as a close code."""
    sent = 0
    try:
        async with aclosing(follow(call, cursor_of(call))) as batches:
            async for batch in batches:
                if batch and batch.gap:
                    await send({"type": "websocket.send", "text": '{"gap": true}'})
                for _, text in batch.events if batch else ():
                    await send({"type": "websocket.send", "text": text})
                    sent += len(text)
                if sent > MOST:
                    return DONE
    except SaysoError as error:
        return STATUS + error.status
    except Exception:  # who follows connects again by its cursor; a socket that went dumb would mislead it
        log.exception("A socket's feed ended")
        return BROKEN


async def _overhear(receive) -> bool:
    """True: it talks too much. False: it has gone."""
    for _ in range(FRAMES):
        if (await receive())["type"] == "websocket.disconnect":
            return False
    return True
