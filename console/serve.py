"""The web server: daphne, ending cleanly."""

import asyncio

from daphne import http_protocol
from daphne.endpoints import build_endpoint_description_strings
from daphne.server import Server, twisted_loop

UNREAD = 64 * 1024  # bytes that wait to be read before more is sent
STUCK = 30  # seconds in which nothing of them was read
BODY = 52 * 1024 * 1024  # bytes of any request: the files of one statement, and its fields
TOO_LARGE = (
    b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: 60\r\n\r\nThis is larger than anything accepted here. Nothing is kept."
)


def serve(port: int, bind: str = "127.0.0.1") -> None:
    """Serve until SIGTERM or SIGINT, then return within half a second, streams and sockets open or not."""
    from console.asgi import application

    http_protocol.WebRequest = Bounded
    # daphne leaves 50 places in the listen queue: a page of sockets reconnecting at once would be reset
    endpoints = [f"{each}:backlog=1024" for each in build_endpoint_description_strings(host=bind, port=port)]
    Patient(
        application=application, endpoints=endpoints, signal_handlers=True, application_close_timeout=0.3, verbosity=0
    ).run()
    end_what_is_left(twisted_loop)


class Patient(Server):
    """Streams and sockets go out no faster than they are read, and who reads nothing is cut off: nobody's unread pile
    grows here, or stays."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.unread: dict = {}  # transport to who looks whether it is read

    async def _send_on(self, protocol, message):
        transport = _transport(protocol)
        await super().handle_reply(protocol, message)
        if transport is None or _unread(transport) <= UNREAD:
            return
        if transport not in self.unread:
            self.unread[transport] = asyncio.ensure_future(_read_or_cut_off(transport))
            self.unread[transport].add_done_callback(lambda _: self.unread.pop(transport))
        if message["type"] == "websocket.send" or message.get("more_body") and _follows(protocol):
            await asyncio.shield(self.unread[transport])  # a page's answer holds a database connection: it never waits

    handle_reply = _send_on  # daphne's name for it


def _transport(protocol):
    channel = getattr(protocol, "channel", None)  # of a request; a socket has its transport itself
    return channel.transport if channel else getattr(protocol, "transport", None)


def _follows(protocol) -> bool:
    return b"text/event-stream" in protocol.responseHeaders.getRawHeaders(b"content-type", [])


def _unread(transport) -> int:
    """Bytes that wait in this process."""
    return len(transport.dataBuffer) - transport.offset + transport._tempDataLen


async def _read_or_cut_off(transport) -> None:
    left, since, pause = None, 0.0, 0.001
    while transport.connected and (unread := _unread(transport)) > UNREAD:
        now = asyncio.get_running_loop().time()
        if left is None or unread < left:
            left, since = unread, now
        elif now - since > STUCK:
            return transport.abortConnection()
        await asyncio.sleep(pause := min(pause * 2, 0.2))


class Bounded(http_protocol.WebRequest):
    """Its body is cut at the limit while it comes: daphne would write all of it to disk before anybody is asked."""

    too_large = False

    def gotLength(self, length):
        super().gotLength(length)
        self.room = BODY
        if length and length > BODY:
            self._cut()

    def handleContentChunk(self, data):
        self.room -= len(data)
        if self.room < 0:
            self._cut()
        elif not self.too_large:
            super().handleContentChunk(data)

    def _cut(self):
        if not self.too_large:
            self.too_large = True
            self.content.truncate(0)
            self.channel.transport.write(TOO_LARGE)
            self.channel.loseConnection()


def end_what_is_left(loop) -> None:
    """CPython 3.11 ends in a segmentation fault if tasks of open sockets are collected at exit."""
    left = [] if loop.is_closed() else [task for task in asyncio.all_tasks(loop) if not task.done()]
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=0.3))
