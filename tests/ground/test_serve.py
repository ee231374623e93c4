"""Processes end when they should, and take nothing and nobody with them."""

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest

from console import serve
from console.environ import ROOT
from console.processes import Children

SERVE = """
    import sys, asyncio, types
    module = types.ModuleType("console.asgi")
    async def application(scope, receive, send):
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            while (await receive())["type"] != "websocket.disconnect":
                pass
        else:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while True:
                await send({"type": "http.response.body", "body": b"more", "more_body": True})
                await asyncio.sleep(0.01)
    module.application = application
    sys.modules["console.asgi"] = module
    from console.serve import serve
    serve(int(sys.argv[1]))
"""


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def connected(port: int, process: subprocess.Popen) -> socket.socket:
    while process.poll() is None:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=10)
        except ConnectionRefusedError:
            continue
    raise AssertionError("the server ended")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_server_ends_cleanly_with_a_socket_and_a_stream_open(number):
    port = free_port()
    server = subprocess.Popen([sys.executable, "-c", textwrap.dedent(SERVE), str(port)], cwd=ROOT)
    with connected(port, server) as stream, connected(port, server) as live:
        stream.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"more" in stream.recv(4096) + stream.recv(4096)
        live.sendall(
            b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        assert b"101" in live.recv(4096)
        began = time.monotonic()
        server.send_signal(number)
        assert server.wait(10) == 0
    assert time.monotonic() - began < 2, "0.4 s on an idle machine"


STUBBORN = """
    import signal, sys
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("up", flush=True)
    signal.pause()
"""


def test_a_child_that_will_not_end_is_ended():
    with Children() as children:
        child = children.start("stubborn", [sys.executable, "-c", textwrap.dedent(STUBBORN)], stdout=subprocess.PIPE)
        assert child.stdout.readline() == b"up\n"
        children.end(within=0.1)
        child.stdout.close()
    assert child.returncode == -signal.SIGKILL


PARENT = """
    import signal, subprocess, sys
    from console.processes import Children
    child = Children().start("child", ["/bin/sleep", "600"])
    print(child.pid, flush=True)
    signal.pause()
"""


def test_children_of_a_killed_parent_end_too():
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(PARENT)], cwd=ROOT, stdout=subprocess.PIPE)
    child = os.pidfd_open(int(parent.stdout.readline()))
    parent.kill()
    parent.communicate()
    ended = select.select([child], [], [], 10)[0]
    os.close(child)
    assert ended


class Line:
    """A connection with so many bytes that wait to be read."""

    connected, offset, _tempDataLen = True, 0, 0

    def __init__(self, waiting: int, reads: int = 0):
        self.dataBuffer, self.reads, self.cut = b"x" * waiting, reads, False

    def abortConnection(self):
        self.cut, self.connected = True, False

    def read(self):
        self.dataBuffer = self.dataBuffer[self.reads :]


@pytest.mark.parametrize("reads, cut", [(0, True), (50_000, False)])
def test_who_reads_nothing_of_an_answer_is_cut_off_and_who_reads_slowly_is_not(monkeypatch, reads, cut):
    """T94: what nobody reads would stay in memory for as long as its connection does."""
    monkeypatch.setattr(serve, "STUCK", 0)
    line = Line(1_000_000, reads)

    async def scene():
        watched = asyncio.ensure_future(serve._read_or_cut_off(line))
        while not watched.done():
            line.read()
            await asyncio.sleep(0)
        await watched

    asyncio.run(scene())
    assert (line.cut, line.connected) == (cut, not cut)
