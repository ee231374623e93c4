"""From a cancel's commit to the last process gone, over and over: a command that forks, ignores SIGTERM and detaches.

`./run bench --cancel [N]` prints the median and the maximum of N (100). Which processes are left is read from /proc.
"""

import os
import statistics
import sys
import time
from pathlib import Path

import django

django.setup()

from django.contrib.auth import get_user_model  # noqa: E402

from console.processes import Children  # noqa: E402
from runtime_app import permissions, transitions  # noqa: E402
from runtime_app.hosted import contained  # noqa: E402
from runtime_app.ids import uuid7  # noqa: E402
from runtime_app.models import Run  # noqa: E402

LIMIT = 1.0  # seconds (R29)
PATIENCE = 30
SLEEP = b"86413"


def measure(times: int) -> list[float]:
    if why := contained.refusal():
        sys.exit(why)
    _, ada = permissions.member(get_user_model().objects.get(username="ada"), "bench")
    took = []
    with Children() as children:
        children.start("worker", [sys.executable, "-m", "console.cli", "worker"])
        for _ in range(times):
            run = transitions.start(ada, agent="stubborn", environment="staging", message="Go.")
            until(lambda: living() == 2)
            transitions.cancel(ada, run_id=run.pk, response_id=uuid7())
            began = time.monotonic()
            until(lambda: living() == 0)
            took.append(time.monotonic() - began)
            until(lambda run=run: Run.objects.filter(pk=run.pk, state="cancelled").exists())
    return took


def living() -> int:
    """The processes of the command that are there, and no zombies."""
    found = 0
    for process in os.scandir("/proc"):
        if process.name.isdigit():
            try:
                found += Path(process.path, "cmdline").read_bytes() == b"sleep\0" + SLEEP + b"\0"
            except OSError:
                pass
    return found


def until(look) -> None:
    deadline = time.monotonic() + PATIENCE
    while not look():
        if time.monotonic() > deadline:
            sys.exit(f"Not within {PATIENCE} s. Is the machine very busy?")
        time.sleep(0.002)


if __name__ == "__main__":
    took = measure(int(sys.argv[1]))
    slow = sum(each > LIMIT for each in took)
    print(
        f"cancel to the last process gone, {len(took)} times: median {statistics.median(took) * 1000:.0f} ms, "
        f"maximum {max(took) * 1000:.0f} ms, {slow} over {LIMIT:g} s"
    )
    sys.exit(bool(slow))
