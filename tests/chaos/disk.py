"""The disk is full: first only the tables cannot grow, then the server itself goes down. Nobody is told that something
was recorded that was not, nothing is half there, and with room again everything goes on.

The data is on a small file system of its own, which takes the right to mount one."""

import secrets
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from django.db import connection

from console import postgres
from runtime_app.errors import Busy
from runtime_app.ids import uuid7
from runtime_app.models import Attempt, Request, Run
from tests.cast import Answer
from tests.chaos import invariants
from tests.chaos.agents import PATIENCE, question, release
from tests.chaos.installation import Installation, until
from tests.chaos.matrix import settle
from tests.chaos.outage import expect, fail, say
from tests.chaos.restore import let_go

ROOM = 40  # MiB more than the data takes
COUNT, SLOW = 30, 5
LOG_AWAY = "select pg_logical_emit_message(false, 'chaos', repeat('x', 1000000))"


def main(here: Installation, words: list[str]) -> None:
    try:
        with small(here) as ballast:
            judge(here, ballast)
    except subprocess.CalledProcessError as failed:
        print(f"not shown: a small file system cannot be mounted here ({failed.stderr.decode().strip()})")


@contextmanager
def small(here: Installation) -> Iterator[Path]:
    """The data moves to a file system with little room; gives the path of what fills it."""
    data = here.cluster.data
    away = data.with_name("away")
    let_go(here)
    here.cluster._stop()
    data.rename(away)
    data.mkdir(mode=0o700)
    here.cluster._give(data)
    size = sum(each.stat().st_size for each in away.rglob("*") if each.is_file()) // 1024**2 + ROOM
    owner = data.stat()
    options = f"size={size}m,mode=700,uid={owner.st_uid},gid={owner.st_gid}"
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "sayso", data], check=True, capture_output=True)
    except subprocess.CalledProcessError:
        data.rmdir()
        away.rename(data)
        here.start_postgres()
        raise
    try:
        subprocess.run(["cp", "-a", f"{away}/.", data], check=True)
        here.start_postgres()
        yield data / "ballast"
    finally:
        let_go(here)
        here.cluster._stop()
        subprocess.run(["umount", data], check=True)
        shutil.rmtree(away)


def judge(here: Installation, ballast: Path) -> None:
    said = [Answered(here, number) for number in range(COUNT)]
    for number in range(SLOW):
        released(here, f"slow{number}")
    worker = here.worker(through_the_proxy=False)
    if not until(lambda: len(here.harbor.lines()) == SLOW, 20):
        fail("nothing was sent")
    fill(ballast)
    print("no room for tables to grow")
    told = [heard(each) for each in said]
    more = [heard(lambda: here.northgate.start(message="ask " + secrets.token_hex(2000))) for _ in range(COUNT)]
    counted(told + more)
    expect("told something else", sum(each not in ("accepted", "no room") for each in told + more), 0)
    print("no room for the server's own log")
    with psycopg.connect(here.cluster.url(postgres.SUPER), autocommit=True) as server:
        down = until(lambda: not goes(lambda: server.execute(LOG_AWAY)), 60)
    say("the server goes down", "yes" if down else "no")
    after = [heard(each) for each in said]
    counted(after)
    ballast.unlink()
    here.start_postgres()
    print("room again")
    expect("said again and accepted", sum(heard(each) == "accepted" for each in said), COUNT)
    for request, how in zip((each.request for each in said), told, strict=False):
        if how == "accepted" and Request.objects.get(pk=request.pk).state != "resolved":
            fail(f"an answer that was accepted is lost: {request.pk}")
    here.move(minutes=1)
    here.quiet(60)
    if wrong := settle(here):
        fail("\n".join(wrong))
    here.quiet(60)
    worker.end()
    expect("Runs that do not end", Run.objects.filter(ended_at=None).count(), 0)
    expect("deliveries", len(here.harbor.lines()), SLOW)
    expect("intents", Attempt.objects.count(), SLOW)
    if wrong := invariants.whole(here.harbor.lines()):
        fail("\n".join(wrong))
    print("every invariant holds")


class Answered:
    """A question, and its answer under one id, however often it is said (R09)."""

    def __init__(self, here: Installation, number: int):
        self.house, self.said = here.northgate, uuid7()
        [self.request] = self.house.ask(question(), run=self.house.start(message=f"ask {number}"))
        self.answer = Answer({"name": secrets.token_hex(1000)})

    def __call__(self) -> None:
        self.house.says("Sam", self.request, self.answer, response_id=self.said)


def released(here: Installation, service: str) -> None:
    """Sent, and its reply comes when there is no room any more."""
    here.harbor.mode("late", service=service, seconds=PATIENCE - 0.2)
    [asked] = here.northgate.ask(release(service), run=here.northgate.start(message=f"release {service}"))
    here.northgate.approves("Ada", asked)


def fill(ballast: Path) -> None:
    with open(ballast, "wb", buffering=0) as file:
        while goes(lambda: file.write(b"\0" * 4096)):
            pass


def goes(what: Callable) -> bool:
    try:
        what()
    except (OSError, psycopg.Error):
        return False
    return True


def heard(what: Callable) -> str:
    try:
        what()
    except Busy as refused:
        return "no room" if refused.reason == "no_room" else "busy"
    except Exception as failed:
        connection.close()
        return type(failed).__name__
    return "accepted"


def counted(told: list[str]) -> None:
    say("told", ", ".join(f"{number} {what}" for what, number in Counter(told).most_common()))
