"""Through the real server: a socket, a stream over its restart, and bodies that are refused in flat memory."""

import gzip
import json
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from django.db import connection
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from runtime_app import transitions
from tests import cast
from tests.browser.fixtures import BUSY, console  # noqa: F401
from tests.browser.installation import Web
from tests.hosted.processes import soon
from tests.runtime.test_feed import late

DEEP = b"[" * 20_000
ROUNDS = 20
MIB = 1024 * 1024


@pytest.fixture
def houses(transactional_db, console, owner):  # noqa: F811
    yield cast.assemble()
    connection.close()
    soon(lambda: owner.execute(BUSY).fetchone() == (0,))


def memory(web: Web) -> int:
    status = Path(f"/proc/{web.running.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024


def test_bodies_that_cannot_be_taken_leave_the_memory_as_it_was(mailer, console):  # noqa: F811
    """Bad input: 2 MB, 20,000 levels, a compressed bomb, one that lies about its length; each a 4xx, twenty times."""
    headers = {"Authorization": f"Bearer {mailer.token}", "Idempotency-Key": "k", "Content-Type": "application/json"}
    bomb = gzip.compress(b"0" * 20_000_000)
    sent = [
        (b'{"message":"' + b"x" * 2_000_000 + b'"}', {}, 413), (DEEP, {}, 422), (b'{"a":' * 20_000, {}, 422),
        (bomb, {"Content-Encoding": "gzip"}, 415), (iter([b"x" * MIB] * 2), {}, 413),
    ]  # fmt: skip
    with httpx.Client(base_url=console.url, headers=headers, timeout=30) as client:
        for body, more, status in sent:
            assert client.post("/api/v1/runs", content=body, headers=more).status_code == status
        before = memory(console)
        for _ in range(ROUNDS):
            for body, more, status in sent[:4]:
                assert client.post("/api/v1/runs", content=body, headers=more).status_code == status
    assert memory(console) < before + 16 * MIB


def test_who_reads_nothing_fills_no_memory(mailer, console):  # noqa: F811
    """T94: forty streams and sockets that nobody reads hold next to nothing; who reads gets all, in order."""
    thread = [mailer.begins(thread="long") for _ in range(100)]
    for run in thread:
        transitions.conclude_run(mailer.context, run_id=run.pk, lease=1, state="failed", reason="x" * 19_000)
    path, bearer = f"/api/v1/sessions/{thread[0].session_id}/events", f"Bearer {mailer.token}"
    shakes = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
    shakes += "MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
    deaf, before = [], memory(console)
    for n in range(40):
        asks = shakes if n % 2 else "Accept: text/event-stream\r\n"
        to = urlsplit(console.url)
        deaf.append(socket.create_connection((to.hostname, to.port)))
        deaf[-1].sendall(f"GET {path} HTTP/1.1\r\nHost: {to.netloc}\r\n{asks}Authorization: {bearer}\r\n\r\n".encode())
    url = console.url.replace("http", "ws") + path
    with connect(url, additional_headers={"Authorization": bearer}) as reader:
        assert [json.loads(reader.recv(10))["seq"] for _ in range(300)] == list(range(1, 301))
    assert memory(console) < before + 40 * MIB, "of 80 MB that they could have been sent"
    for each in deaf:
        each.close()


def test_a_socket_and_a_stream_of_the_real_server(northgate, mailer, console):  # noqa: F811
    """R37, R40: the bearer in the handshake's header; closed when it is revoked."""
    run = mailer.begins()
    bearer = {"Authorization": f"Bearer {mailer.token}"}
    path = f"/api/v1/sessions/{run.session_id}/events"
    with connect(console.url.replace("http", "ws") + path, additional_headers=bearer) as socket:
        assert [json.loads(socket.recv(10))["seq"] for _ in range(2)] == [1, 2]
        late(run)()
        assert json.loads(socket.recv(10))["seq"] == 3
        cast.credentials.live().filter(instance=mailer.instance).update(revoked_at=cast.Now())
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(5)
        assert closed.value.rcvd.code == 4401


def test_a_stream_goes_on_where_it_was_after_a_restart(mailer, tmp_path):
    """R37: no gap, no repeat; Events that happened meanwhile are in it."""
    run, web = mailer.begins(), Web(tmp_path)
    headers = {"Authorization": f"Bearer {mailer.token}", "Accept": "text/event-stream"}
    told, last = [], {}

    def follow(count: int) -> None:
        with httpx.stream("GET", f"{web.url}/api/v1/events", headers=headers | last, timeout=30) as stream:
            lines = stream.iter_lines()
            for _ in range(count):
                last["Last-Event-ID"] = next(line for line in lines if line.startswith("id: "))[4:]
                told.append(json.loads(next(lines).removeprefix("data: "))["seq"])

    web.start()
    follow(2)
    late(run)()
    web.end()
    late(run)()
    web.start()
    try:
        follow(2)
        late(run)()
        follow(1)
    finally:
        web.end()
    assert told == [1, 2, 3, 4, 5]
