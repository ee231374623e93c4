"""Named places at which a test may kill or hold this process. Nothing happens unless both variables are set.

SAYSO_FAILPOINTS_ALLOWED=1 and SAYSO_FAILPOINT="<name>:kill" (SIGKILL, nothing is cleaned up) or "<name>:hold" (this
thread stops for good; the name is written to standard error first).
"""

import os
import signal
import sys
import threading

_ARMED = os.environ.get("SAYSO_FAILPOINT", "") if os.environ.get("SAYSO_FAILPOINTS_ALLOWED") == "1" else ""
_NAME, _, _DEED = _ARMED.partition(":")


def failpoint(name: str) -> None:
    if name != _NAME:
        return
    print(f"failpoint {name} {_DEED}", file=sys.stderr, flush=True)
    if _DEED == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()
