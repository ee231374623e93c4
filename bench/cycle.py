"""Start a Run, let it stop, answer it, see it go on: how long that takes, how often a second it can be done.

A contender gives `start()`, which returns a Run's id, and `answer(id)`. Its worker, another process, says
`mark(id, "waiting")` once the wait is committed and `mark(id, "resumed")` as the first thing after it. Marks are
datagrams with the machine's monotonic clock, which all its processes share.
"""

import json
import os
import random
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import chain

import psycopg

PATIENCE = 60  # seconds for a mark; the first waits for the worker's start too
PAUSE = (0.05, 0.3)  # seconds between a wait and its answer, at rest: random, so as not to beat with somebody's poll
SLOW = 1.0  # seconds: a Run that took longer, of very many, is counted
STALL = 5.0  # seconds: longer than a busy machine makes anything here, shorter than a worker waits for news


@cache
def _out() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def mark(run_id, stage: str) -> None:
    """From a worker: this Run got here, now."""
    _out().sendto(f"{run_id} {stage} {time.monotonic()}".encode(), ("127.0.0.1", int(os.environ["BENCH_MARKS"])))


class Marks:
    """What workers say. Its port is in BENCH_MARKS for the processes started after it."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.socket.bind(("127.0.0.1", 0))
        os.environ["BENCH_MARKS"] = str(self.socket.getsockname()[1])
        self.seen: dict[str, float] = {}
        self.events: dict[str, threading.Event] = {}
        self.lock = threading.Lock()
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self) -> None:
        while True:
            run_id, stage, at = self.socket.recv(500).decode().split()
            self.seen.setdefault(f"{run_id} {stage}", float(at))
            self._event(f"{run_id} {stage}").set()

    def _event(self, name: str) -> threading.Event:
        with self.lock:
            return self.events.setdefault(name, threading.Event())

    def wait(self, run_id, stage: str) -> float:
        name = f"{run_id} {stage}"
        if not self._event(name).wait(PATIENCE):
            raise TimeoutError(f"{name}: not within {PATIENCE} s")
        return self.seen[name]


def measure(
    marks: Marks, worker: int, start: Callable, answer: Callable, find: Callable = lambda run_id: run_id
) -> None:
    """Measure, and print one line of JSON. How much is measured comes in BENCH_SIZES; `worker` is its process id.

    `find` turns a waiting Run's id into what `answer` takes: whoever answers has that before them already.
    """
    sizes = json.loads(os.environ["BENCH_SIZES"])

    def one(pause=(0, 0)) -> tuple[float, float]:
        began = time.monotonic()
        run_id = start()
        marks.wait(run_id, "waiting")
        asked = find(run_id)
        time.sleep(random.uniform(*pause))
        answered = time.monotonic()
        answer(asked)
        resumed = marks.wait(run_id, "resumed")
        return resumed - answered, time.monotonic() - began - (answered - began if pause[1] else 0)

    for _ in range(sizes["warm"]):
        one()
    if count := sizes.get("runs"):
        with ThreadPoolExecutor(16) as threads:
            took = sorted(whole for _, whole in threads.map(lambda _: one(), range(count)))
        return print(json.dumps({"runs": count, "slow": sum(each > SLOW for each in took), "worst": took[-1]}))
    found = {"settled": spread([one(PAUSE)[0] for _ in range(sizes["settled"])])}
    stalls = total = 0
    for drivers in (1, 16):
        before, began = spent(worker), time.monotonic()
        until = began + sizes["seconds"]
        with ThreadPoolExecutor(drivers) as threads:
            took = list(chain.from_iterable(threads.map(loop, [one] * drivers, [until] * drivers)))
        found[f"loop{drivers}"] = len(took) / (time.monotonic() - began)
        if drivers == 1:
            found["cost"] = {name: (value - before[name]) / len(took) for name, value in spent(worker).items()}
        stalls, total = stalls + sum(each > STALL for each in took), total + len(took)
    print(json.dumps(found | {"stalls": stalls, "runs": total}), flush=True)


def loop(one: Callable, until: float) -> list[float]:
    """One driver: Run after Run, as long as there is time. How long each took."""
    took = []
    while time.monotonic() < until:
        took.append(one()[1])
    return took


def spread(seconds: list[float]) -> dict[str, float]:
    """In milliseconds."""
    ordered = sorted(seconds)
    return {f"p{part}": ordered[min(len(ordered) - 1, len(ordered) * part // 100)] * 1000 for part in (50, 95)}


# What PostgreSQL itself counts: it does not depend on how busy the machine is. `written` are transactions that wrote.
SPENT = """
    SELECT (SELECT coalesce(sum(calls), 0) FROM pg_stat_statements JOIN pg_database d ON d.oid = dbid
             WHERE datname = %s AND query !~* '^(begin|commit|rollback|savepoint|release)')::bigint AS statements,
           pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS written,
           pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint AS wal
"""


def spent(worker: int) -> dict[str, float]:
    """So far. `cpu`: milliseconds of this process and of the worker."""
    with psycopg.connect(os.environ["BENCH_WATCH_URL"], row_factory=psycopg.rows.dict_row) as connection:
        found = connection.execute(SPENT, [os.environ["BENCH_DATABASE"]]).fetchone()
    with open(f"/proc/{worker}/stat") as file:
        ticks = sum(map(int, file.read().rpartition(") ")[2].split()[11:13]))  # user and system
    return found | {"cpu": (time.process_time() + ticks / os.sysconf("SC_CLK_TCK")) * 1000}
