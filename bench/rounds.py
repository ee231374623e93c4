"""All contenders by turns, A B C A B C, and what their medians come to."""

import argparse
import json
import math
import os
import subprocess
import sys
import time

import psycopg
from psycopg import sql

from bench import report
from console import environ, postgres

FLOORS = ("floor_psycopg", "floor_django")
WHOLE = {"warm": 10, "settled": 20, "seconds": 4}
QUICK = {"warm": 3, "settled": 8, "seconds": 1.5}
CYCLES = {"floor_psycopg": ["bench.floor_psycopg", "drive"], "floor_django": ["bench.floor_django", "drive"],
          "plain": ["bench.ours", "drive", "plain"], "conversing": ["bench.ours", "drive", "conversing"]}  # fmt: skip
SOCKETS = (1, 100)
POLLS = 1000
LIMIT = 300  # seconds for one measurement


def run(words: list[str]) -> None:
    options = argparse.ArgumentParser(prog="./run bench", description="Speed, as ratios against floors.")
    options.add_argument("--rounds", type=int, default=3, help="how often each is measured (3; about 90 s each)")
    options.add_argument("--quick", action="store_true", help="one short round: to see that it works, not to quote")
    options.add_argument("--cancel", type=int, nargs="?", const=100, help="only cancels, so many (100)")
    options.add_argument("--stalls", type=int, nargs="?", const=10_000, help="only stalls, in so many Runs (10,000)")
    chosen = options.parse_args(words)
    rounds = 1 if chosen.quick else max(1, chosen.rounds)
    cluster = postgres.Cluster(environ.read()["SAYSO_DATA"] / "bench-pg").acquire()
    try:
        if chosen.cancel:
            sys.exit(cancels(cluster, chosen.cancel))
        if chosen.stalls:
            return print(stalls(cluster, chosen.stalls))
        where = prepare(cluster)
        found = [one_round(number, rounds, cluster, where, quick=chosen.quick) for number in range(rounds)]
    finally:
        cluster.release()
    print(report.table(found))


def cancels(cluster, times: int) -> int:
    where = ours(cluster)
    return subprocess.run([sys.executable, "-m", "bench.cancel", str(times)], env=os.environ | where).returncode


def stalls(cluster, times: int) -> str:
    """Closed loops of 16 drivers. A worker looks by itself only every 30 s, so a lost wake-up shows as a slow Run."""
    sizes = {"BENCH_SIZES": json.dumps({"warm": 3, "runs": times})}
    found = measured(CYCLES["plain"], ours(cluster) | sizes, limit=max(LIMIT, times))
    return f"Runs that took over 1 s: {found['slow']} of {found['runs']}. The slowest took {found['worst']:.2f} s."


def one_round(number: int, rounds: int, cluster, where: dict[str, dict], *, quick: bool) -> dict:
    sizes, events = (QUICK, 10) if quick else (WHOLE, 30)
    found = {"limit": pgbench(cluster, where["floor_psycopg"], math.ceil(sizes["seconds"]))}
    for name, command in CYCLES.items():
        say(f"round {number + 1} of {rounds}: {name}")
        found[name] = measured(command, where[name] | {"BENCH_SIZES": json.dumps(sizes)})
    for count in SOCKETS:
        for which, environment in (("raw", where["floor_psycopg"]), ("ours", where["plain"])):
            say(f"round {number + 1} of {rounds}: {count} sockets, {which}")
            found[which, count] = measured(["bench.live", which, str(count), str(events)], environment)
    say(f"round {number + 1} of {rounds}: agents elsewhere")
    found["elsewhere"] = measured(["bench.elsewhere", "cycle"], where["plain"] | {"BENCH_SIZES": json.dumps(sizes)})
    say(f"round {number + 1} of {rounds}: {POLLS} open long polls")
    found["idle"] = measured(["bench.elsewhere", "idle", str(POLLS)], where["plain"])
    return found


def measured(command: list[str], environment: dict[str, str], limit: int = LIMIT) -> dict:
    """What the last line of its output says, from JSON."""
    ended = subprocess.run(
        [sys.executable, "-m", *command], env=os.environ | environment, stdout=subprocess.PIPE, text=True, timeout=limit
    )
    if ended.returncode or not ended.stdout:
        sys.exit(f"{' '.join(command)} ended with {ended.returncode}; the reason is above.")
    return json.loads(ended.stdout.splitlines()[-1])


# ---------------------------------------------------------------- databases


def prepare(cluster: postgres.Cluster) -> dict[str, dict[str, str]]:
    """A fresh database for each floor and for Sayso; the environment in which each is measured."""
    where = {}
    for floor in FLOORS:
        say(f"making the database of {floor}")
        where[floor] = fresh(cluster, f"bench_{floor}")
        subprocess.run([sys.executable, "-m", f"bench.{floor}", "prepare"], env=os.environ | where[floor], check=True)
    sayso = ours(cluster)
    return where | {"plain": sayso, "conversing": sayso}


def ours(cluster: postgres.Cluster) -> dict[str, str]:
    """Sayso's own."""
    say("making the database of ours")
    where = fresh(cluster, "bench_ours")
    for command in (["console.cli", "manage", "migrate", "--verbosity", "0"], ["bench.ours", "prepare"]):
        subprocess.run([sys.executable, "-m", *command], env=os.environ | where, check=True)
    return where


def fresh(cluster: postgres.Cluster, database: str) -> dict[str, str]:
    with psycopg.connect(cluster.url(postgres.SUPER, "postgres"), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        name = sql.Identifier(database)
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
        connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(name, sql.Identifier(postgres.OWNER)))
    mark = cluster.folder / f"mark-{database}"
    mark.unlink(missing_ok=True)
    return {
        "SAYSO_MARK": str(mark),
        "BENCH_DATABASE": database,
        "BENCH_URL": cluster.url(postgres.OWNER, database),
        "BENCH_WATCH_URL": cluster.url(postgres.SUPER, "postgres"),
        "DATABASE_URL": cluster.url(postgres.APP, database),
        "DATABASE_OWNER_URL": cluster.url(postgres.OWNER, database),
        "DJANGO_SETTINGS_MODULE": "console.settings",
        "SAYSO_AGENTS": "bench.agents",
        "SAYSO_LOOK_SECONDS": "30",  # a lost wake-up is not made good by the next look: it shows
    }


LEAST = """
\\set name random(1, 1000000000)
WITH r AS (INSERT INTO run (id, state) VALUES (gen_random_uuid(), 'queued') RETURNING id),
     j AS (INSERT INTO job (run_id, kind, payload) SELECT id, 'start', '{}' FROM r RETURNING id, run_id)
SELECT id AS job, run_id AS run FROM j \\gset
WITH d AS (DELETE FROM job WHERE id = (SELECT id FROM job WHERE id = :job FOR UPDATE SKIP LOCKED) RETURNING run_id),
     r AS (INSERT INTO request (run_id, kind, payload) SELECT run_id, 'question', '{"n": :name}' FROM d RETURNING id),
     e AS (INSERT INTO event (run_id, kind, payload) SELECT run_id, 'request.opened', '{}' FROM d),
     u AS (UPDATE run SET state = 'waiting', seq = seq + 1 WHERE id = (SELECT run_id FROM d))
SELECT id AS request FROM r \\gset
WITH q AS (UPDATE request SET state = 'answered', answer = '{"name": "ci"}', answered_at = now()
           WHERE id = ':request' AND state = 'pending' RETURNING run_id),
     e AS (INSERT INTO event (run_id, kind, payload) SELECT run_id, 'request.answered', '{}' FROM q),
     j AS (INSERT INTO job (run_id, kind, payload) SELECT run_id, 'resume', '{}' FROM q RETURNING id)
SELECT id AS job FROM j \\gset
WITH d AS (DELETE FROM job WHERE id = (SELECT id FROM job WHERE id = :job FOR UPDATE SKIP LOCKED) RETURNING run_id),
     u AS (UPDATE run SET state = 'done', seq = seq + 1 WHERE id = (SELECT run_id FROM d))
INSERT INTO event (run_id, kind, payload) SELECT run_id, 'run.resumed', '{}' FROM d;
"""


def pgbench(cluster: postgres.Cluster, environment: dict[str, str], seconds: int) -> float:
    """Runs a second that PostgreSQL itself can do, one statement a commit, four commits a Run, sixteen clients."""
    command = [cluster.bin / "pgbench", "-n", "-c", "16", "-j", "2", "-T", str(seconds), "-f", "-"]
    said = subprocess.run(
        [*command, environment["BENCH_URL"]], input=LEAST, capture_output=True, text=True, timeout=LIMIT
    )
    if said.returncode:
        sys.exit(f"pgbench: {said.stderr}")
    return float(next(line.split()[2] for line in said.stdout.splitlines() if line.startswith("tps")))


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)
