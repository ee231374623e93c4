"""Workers against the tests' database: as real processes with short intervals, or one in this process."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from django.db import connections
from django.test import override_settings

from runtime_app import worker
from runtime_app.selectors.claimable import claimable

WORK = "import django; django.setup(); from runtime_app.worker import main; main()"
AGENTS = "examples.harbor.agents,tests.hosted.agents"
SHORT = {"SAYSO_LOOK_SECONDS": "1", "SAYSO_LEASE_SECONDS": "3", "SAYSO_BEAT_SECONDS": "0.5", "SAYSO_WORKER_TURNS": "8",
         "SAYSO_WEBHOOK_LOOPBACK": "yes"}  # fmt: skip


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
            started = subprocess.Popen(
                [sys.executable, "-c", WORK], env=os.environ | SHORT | agents | points | environment, stderr=log
            )
        self.started.append(started)
        return started

    def log(self, number: int = 0) -> str:
        return (self.folder / f"worker-{number}.log").read_text()

    def end(self) -> None:
        for each in self.started:
            if each.poll() is None:
                each.send_signal(signal.SIGTERM)
        for each in self.started:
            try:
                each.wait(6)
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()
                raise


def beside_a_worker(people: Callable, **intervals) -> Counter:
    """Run `people` in a thread while a worker works in this process; it looks by itself only once a minute, unless
    `intervals` say otherwise. Returns the worker's transactions, counted by name."""
    calls, looks = Counter(), Counter()
    settled = asyncio.Event()

    class Counting(worker.Worker):
        async def _in(self, threads, function, *arguments, **named):
            calls[function.__name__] += 1
            found = await super()._in(threads, function, *arguments, **named)
            if function is claimable:
                looks["ended"] += 1
                if looks["ended"] == 2:
                    settled.set()
            return found

    async def work():
        counting = Counting()
        working = asyncio.create_task(counting.run())
        # It looks at its start and once it listens. What began during a look would be found by it and be told as well,
        # and cost a claim of nothing.
        await settled.wait()
        try:
            await asyncio.to_thread(_with_own_connection, people)
        finally:
            counting.stop()
            await working
            _close(counting.domain, worker.DOMAIN_THREADS)
            _close(counting.pulse, 1)
            counting.providers.shutdown()
            counting.probes.shutdown()

    with override_settings(**{"SAYSO_LOOK_SECONDS": 60, "SAYSO_BEAT_SECONDS": 2} | intervals):
        asyncio.run(work())
    return calls


def _with_own_connection(people: Callable) -> None:
    try:
        people()
    finally:
        connections.close_all()


def _close(threads: ThreadPoolExecutor, number: int) -> None:
    """Close each thread's connection: at a barrier, so that no thread comes twice."""
    line = threading.Barrier(number)
    list(threads.map(lambda _: (line.wait(5), connections.close_all()), range(number)))
    threads.shutdown()
