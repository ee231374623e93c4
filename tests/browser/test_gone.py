"""A browser that goes away while its decision is being saved: all of it is there, or nothing (K9)."""

import select
import socket
import struct
from urllib.parse import urlencode, urlsplit

from django.db import connection

from runtime_app.ids import uuid7
from runtime_app.models import Event, Grant, Request, Response
from tests.browser.fixtures import BUSY, session_of
from tests.console.stage import visitor
from tests.hosted.processes import soon

TOKEN = "a" * 32
COUNT = 16
GONE = struct.pack("ii", 1, 0)  # closed without a word


def post_and_go(url: str, path: str, session: str, fields: dict, seconds: float) -> None:
    """The form is sent whole; its answer is waited for this long, and the line is cut whatever has come."""
    where, body = urlsplit(url), urlencode(fields | {"csrfmiddlewaretoken": TOKEN})
    head = [
        f"POST {path} HTTP/1.1", f"Host: {where.netloc}", f"Origin: {url}", f"Cookie: session={session}; csrf={TOKEN}",
        "Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(body)}", "", body,
    ]  # fmt: skip
    with socket.create_connection((where.hostname, where.port)) as line:
        line.sendall("\r\n".join(head).encode())
        select.select([line], [], [], seconds)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, GONE)


def test_a_decision_is_saved_whole_or_not_at_all_when_its_browser_goes_away(northgate, console, owner):
    """B104, R05: cut at once, or while the server is at it; nothing is left open, and a later look says which."""
    ada = northgate.people["Ada"]
    session, asked = session_of(ada), [northgate.approval(f"1.0.{number}") for number in range(COUNT)]
    for number, request in enumerate(asked):
        said = {"response_id": uuid7(), "session": request.session_id, "message": "", "confirm": ""}
        said |= {"decision": "approve", "digest": request.digest}
        path = f"/t/northgate/requests/{request.pk}/decision/"
        last = number == COUNT - 1
        post_and_go(console.url, path, session, said, seconds=10 if last else number * 0.006)
    connection.close()
    soon(lambda: owner.execute(BUSY).fetchone() == (0,))
    for request in asked:
        request = Request.objects.get(pk=request.pk)
        whole = int(request.state == "resolved")
        assert request.state in ("pending", "resolved")
        assert [rows.objects.filter(request=request).count() for rows in (Response, Grant)] == [whole, whole]
        assert Event.objects.filter(kind="request.resolved", subject=request.pk).count() == whole
        page = visitor(ada).get(f"/t/northgate/requests/{request.pk}/").content.decode()
        assert ("Approved" in page) is bool(whole)
    assert Request.objects.filter(state="resolved").exists(), "the last one waited for its answer"
