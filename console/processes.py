"""Processes that live and die together: `./run demo` is one of them and starts the others."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
PR_SET_PDEATHSIG = 1


class Children:
    """`start` some, `wait` until one ends, `end` them all. Use it in a `with`. Call it from the main thread only."""

    def __init__(self):
        self.running: dict[str, subprocess.Popen] = {}

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.end()

    def start(
        self, name: str, command: Sequence[str], *, env: dict[str, str] | None = None, **options
    ) -> subprocess.Popen:
        """In a process group of its own, ended by SIGTERM should we be killed."""
        parent = os.getpid()

        def follow():
            os.setpgid(0, 0)
            if LIBC:
                LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
                if os.getppid() != parent:  # killed between fork and prctl
                    os._exit(1)

        child = subprocess.Popen(command, env={**os.environ, **(env or {})}, preexec_fn=follow, **options)
        self.running[name] = child
        return child

    def ended(self) -> list[str]:
        """Names of those that have ended by themselves."""
        return [name for name, child in self.running.items() if child.poll() is not None]

    def end(self, within: float = 4.0) -> None:
        """SIGTERM to every group; SIGKILL to what is left after `within` seconds."""
        for child in self.running.values():
            signal_group(child, signal.SIGTERM)
        deadline = time.monotonic() + within
        for child in self.running.values():
            try:
                child.wait(max(0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass
            signal_group(child, signal.SIGKILL)  # also grandchildren whose parent has gone
            child.wait()
        self.running.clear()


def signal_group(child: subprocess.Popen, number: int) -> None:
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        pass


def exit_on_sigterm() -> None:
    """SIGTERM becomes SystemExit, so that `with` and atexit do their part."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
