"""A page's socket, without the page: what the server says to it."""

from contextlib import contextmanager

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.browser.fixtures import session_of
from tests.browser.installation import Web

SOON = 8  # seconds


@contextmanager
def socket(web: Web, path: str, user=None, *, origin: str | None = "", session: str | None = None):
    """Open, as the browser of this person. `origin`: "" is ours, None sends none."""
    session = session or (session_of(user) if user else None)
    headers = {"Cookie": f"session={session}"} if session else {}
    with connect(
        web.url.replace("http", "ws", 1) + path,
        additional_headers=headers,
        origin=web.url if origin == "" else origin,
        compression=None,
        max_size=None,
    ) as line:
        yield line


def refused(web: Web, path: str, user, origin: str | None) -> int | None:
    """The status of a handshake that was refused; None if the socket opened."""
    try:
        with socket(web, path, user, origin=origin):
            return None
    except InvalidStatus as refusal:
        return refusal.response.status_code


def closed(line) -> int:
    """The code with which the server closes it, soon."""
    try:
        while True:
            line.recv(timeout=SOON)
    except ConnectionClosed as end:
        return end.rcvd.code


def says(line) -> str:
    return line.recv(timeout=SOON)


def newest(line, seq: int) -> None:
    """The server tells of this seq, soon."""
    while says(line) != f"news {seq}":
        pass
