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
    """What is sent on goes out no faster than it is read: nobody's unread pile grows. Who reads nothing is cut off."""

    async def _send_on(self, protocol, message):
        await super().handle_reply(protocol, message)
        goes_on = message["type"] == "websocket.send" or message.get("more_body")
        left, since, pause = None, 0.0, 0.001
        while goes_on and protocol in self.connections and (unread := _unread(protocol)) > UNREAD:
            now = asyncio.get_running_loop().time()
            if left is None or unread < left:
                left, since = unread, now
            elif now - since > STUCK:
                return _transport(protocol).abortConnection()
            await asyncio.sleep(pause := min(pause * 2, 0.2))

    handle_reply = _send_on  # daphne's name for it


def _transport(protocol):
    channel = getattr(protocol, "channel", None)  # of a request; a socket has its transport itself
    return channel.transport if channel else getattr(protocol, "transport", None)


def _unread(protocol) -> int:
    """Bytes that wait in this process."""
    found = _transport(protocol)
    return len(found.dataBuffer) - found.offset + found._tempDataLen if found else 0


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
