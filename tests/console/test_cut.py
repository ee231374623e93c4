"""A body larger than anything accepted is cut while it comes, by the server that people use (T70)."""

import subprocess
import sys
import textwrap

import pytest

from console.environ import ROOT
from tests.ground.test_serve import SERVE, connected, free_port

MIB = 1024 * 1024
LENGTH = {"told": b"Content-Length: %d\r\n" % (2048 * MIB), "not told": b"Transfer-Encoding: chunked\r\n"}


@pytest.mark.parametrize("length", LENGTH)
def test_two_gigabytes_are_cut_at_the_cap(length):
    """The answer is 413 whether the length was told or not; nobody reads on."""
    port = free_port()
    server = subprocess.Popen([sys.executable, "-c", textwrap.dedent(SERVE), str(port)], cwd=ROOT)
    try:
        with connected(port, server) as sending:
            sending.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n" + LENGTH[length] + b"\r\n")
            if length == "not told":
                assert send_on(sending, 60) < 60
            said = answer(sending)
            assert said.startswith(b"HTTP/1.1 413 ") or length == "not told" and not said
        with connected(port, server) as after:
            after.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert after.recv(4096).startswith(b"HTTP/1.1 200")
    finally:
        server.kill()
        server.wait()


def answer(sending) -> bytes:
    """What the server said; nothing if what was still under way made the connection end before it was read."""
    try:
        return sending.recv(4096)
    except ConnectionError:
        return b""


def send_on(sending, most: int) -> int:
    """Chunks of 1 MiB until the server has said something, or stops listening. Returns how many."""
    chunk = b"%x\r\n" % MIB + b"x" * MIB + b"\r\n"
    for count in range(most):
        sending.setblocking(False)
        try:
            if sending.recv(1, 2):  # MSG_PEEK
                return count
        except BlockingIOError:
            pass
        finally:
            sending.settimeout(10)
        try:
            sending.sendall(chunk)
        except ConnectionError:
            return count
    return most
