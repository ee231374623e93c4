"""Workers as real processes, against the tests' database, with short intervals."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

WORK = "import django; django.setup(); from runtime_app.worker import main; main()"
AGENTS = "examples.harbor.agents,tests.hosted.agents"
SHORT = {"SAYSO_LOOK_SECONDS": "1", "SAYSO_LEASE_SECONDS": "3", "SAYSO_BEAT_SECONDS": "0.5", "SAYSO_WORKER_TURNS": "8"}


def soon(look: Callable, within: float = 20):
    """What `look` finds, as soon as it finds something. AssertionError after `within` seconds."""
    deadline = time.monotonic() + within
    pause = threading.Event()
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {within} s"
        pause.wait(0.02)
    return found


class Workers:
    def __init__(self, folder):
        self.folder = folder
        self.started: list[subprocess.Popen] = []

    def start(self, failpoint: str = "", **environment: str) -> subprocess.Popen:
        points = {"SAYSO_FAILPOINTS_ALLOWED": "1", "SAYSO_FAILPOINT": failpoint} if failpoint else {}
        agents = {"SAYSO_AGENTS": AGENTS, "DJANGO_SETTINGS_MODULE": "console.settings"}
        with open(self.folder / f"worker-{len(self.started)}.log", "wb") as log:
            worker = subprocess.Popen(
                [sys.executable, "-c", WORK], env=os.environ | SHORT | agents | points | environment, stderr=log
            )
        self.started.append(worker)
        return worker

    def log(self, number: int = 0) -> str:
        return (self.folder / f"worker-{number}.log").read_text()

    def end(self) -> None:
        for worker in self.started:
            if worker.poll() is None:
                worker.send_signal(signal.SIGTERM)
        for worker in self.started:
            try:
                worker.wait(6)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
                raise
