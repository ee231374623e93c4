"""Named places at which a test may stop, break or cut off this process. Nothing happens unless both variables are set.

SAYSO_FAILPOINTS_ALLOWED=1 and SAYSO_FAILPOINT="<name>:<deed>", once, at the first time the place is reached:
`kill` (SIGKILL, nothing is cleaned up), `hold` (this thread stops until the file SAYSO_FAILPOINT_GO exists; without one
for good), `raise` (FailpointReached), `cut` (this thread's database connection is dropped without a word). The name is
written to standard error first.

Every transition has four: `<verb>.locked` (its Session is locked), `<verb>.written` (all but its Events),
`<verb>.events` (all, not committed), `<verb>.committed`.
"""

import os
import signal
import socket
import sys
import threading
from pathlib import Path


class FailpointReached(Exception):
    """A test asked for this."""


_armed: list[tuple[str, str]] = []


def arm() -> None:
    """Read the two variables. At import, and again in a process that was forked."""
    allowed = os.environ.get("SAYSO_FAILPOINTS_ALLOWED") == "1"
    name, _, deed = os.environ.get("SAYSO_FAILPOINT", "").partition(":") if allowed else ("", "", "")
    _armed[:] = [(name, deed)] if name else []


def failpoint(name: str) -> None:
    if not _armed or _armed[0][0] != name:
        return
    try:
        _, deed = _armed.pop()
    except IndexError:  # another thread was here first
        return
    print(f"failpoint {name} {deed}", file=sys.stderr, flush=True)
    if deed == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if deed == "hold":
        _hold()
    elif deed == "cut":
        _cut()
    else:
        raise FailpointReached(name)


def _hold() -> None:
    go, pause = os.environ.get("SAYSO_FAILPOINT_GO"), threading.Event()
    while not (go and Path(go).exists()):
        pause.wait(0.01 if go else None)


def _cut() -> None:
    from django.db import connection

    if connection.connection:
        with socket.socket(fileno=os.dup(connection.connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)


arm()
