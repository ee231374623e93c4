"""A backup from before five dispatches, a copy of the data folder, a promoted standby: nothing is sent, five are asked
about, and when people have said what happened, everything ends (R27)."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from django.conf import settings
from django.db import connection, connections

from console import environ, postgres
from runtime_app.models import Effect, Epoch, Grant, Request, Run
from runtime_app.transitions import epochs
from tests.cast import Finding
from tests.chaos import invariants
from tests.chaos.agents import release
from tests.chaos.installation import Installation, until
from tests.chaos.outage import expect, fail, say

FIVE = 5


def main(here: Installation, words: list[str]) -> None:
    parts = {"backup": backup, "copy": copy, "standby": standby}
    for name in words or parts:
        parts[name](here)


def backup(here: Installation) -> None:
    """pg_dump; five dispatches; pg_restore over it."""
    print("a backup from before five dispatches, restored")
    grant_five(here, "backup")
    with open(here.folder / "backup", "wb") as dump:
        tool(here.cluster, "pg_dump", "-Fc", postgres.DATABASE, stdout=dump)
    worker = here.worker(through_the_proxy=False)
    here.quiet()
    worker.end()
    expect("sent after the backup", Effect.objects.filter(state="committed").count(), FIVE)
    let_go(here)
    tool(here.cluster, "dropdb", "--force", postgres.DATABASE)
    tool(here.cluster, "createdb", "-O", postgres.OWNER, postgres.DATABASE)
    with open(here.folder / "backup", "rb") as dump:
        tool(here.cluster, "pg_restore", "-d", postgres.DATABASE, "--exit-on-error", stdin=dump)
    judge(here)


def copy(here: Installation) -> None:
    """The server is stopped, its data and its mark are copied, and both go on."""
    print("a copy of the data folder")
    grant_five(here, "copy")
    before = here.harbor.lines()
    let_go(here)
    here.cluster._stop()
    other = Beside(here, "copied")
    shutil.copytree(here.cluster.data, other.cluster.data, dirs_exist_ok=True)
    shutil.copy(here.folder / "mark", other.mark)
    here.cluster.acquire()
    here.reconnected()
    worker = here.worker(through_the_proxy=False)
    if not until(lambda: not Grant.objects.filter(state="unused").exists(), 20):
        fail("the original does not go on")
    here.quiet()
    worker.end()
    expect("sent by the original", len(here.harbor.lines()) - len(before), FIVE)
    other.judged()


def standby(here: Installation) -> None:
    """A streaming standby; the primary loses its power; the standby is promoted, beside the mark that it had."""
    print("a promoted standby")
    grant_five(here, "standby")
    other = Beside(here, "promoted")
    tool(here.cluster, "pg_basebackup", "-D", other.cluster.data, "-R", "-X", "stream", "-c", "fast")
    shutil.copystat(here.cluster.data, other.cluster.data)
    let_go(here)
    other.mark = here.folder / "mark"
    # it streams until the primary is gone: what is promoted has all that was committed
    other.start()
    here.stop_postgres()
    other.promote()
    other.judged(start=False)
    here.start_postgres()


def grant_five(here: Installation, name: str) -> None:
    for number in range(FIVE):
        run = here.northgate.start(message=f"release {name}{number}")
        [asked] = here.northgate.ask(release(f"{name}{number}"), run=run)
        here.northgate.approves("Ada", asked)


def let_go(here: Installation) -> None:
    connections.close_all()
    here.owner.close()


def judge(here: Installation) -> None:
    """A worker starts: nothing is sent, five are asked about; then people say what happened, and it goes on."""
    before = here.harbor.lines()
    last = Epoch.objects.order_by("-number").values_list("number", flat=True).first()
    worker = here.worker(through_the_proxy=False)
    unsure = Effect.objects.filter(state="uncertain")
    if not until(lambda: unsure.count() == FIVE, 20):
        fail(
            f"a worker did not notice: {list(Effect.objects.values_list('state', flat=True))}\n{worker.told()[-2000:]}"
        )
    here.move(hours=1)
    here.quiet(3)
    epoch = Epoch.objects.order_by("-number").first()
    say("noticed", epoch.why)
    expect("epochs begun", epoch.number - last, 1)
    expect("sent", len(here.harbor.lines()) - len(before), 0)
    asked = Request.objects.filter(kind="wait_effect", state="pending", effect__in=unsure).select_related("effect")
    expect("asked", asked.count(), FIVE)
    expect("Grants that could still be used", Grant.objects.filter(state="unused").count(), 0)
    expect("Runs held", Run.objects.filter(ended_at=None).exclude(held_at=None).count(), FIVE)
    epochs.release_epoch("Root")
    done = {line["key"] for line in before if line["what"] == "committed"}
    for request in asked:
        found = "committed" if request.effect.key in done else "not_committed"
        here.northgate.says("Olga", request, Finding(found, "Harbor's own page"))
    here.quiet()
    worker.end()
    expect("Runs that do not end", Run.objects.filter(ended_at=None).count(), 0)
    expect("sent after the release", len(here.harbor.lines()) - len(before), 0)
    if wrong := invariants.whole(here.harbor.lines()[len(before) :], truth=False):
        fail("\n".join(wrong))


def tool(cluster: postgres.Cluster, name: str, *words, stdin=None, stdout=None) -> None:
    command = [cluster.bin / name, "-h", cluster.socket, "-p", str(postgres.PORT), "-U", postgres.SUPER, *words]
    password = {"PGPASSWORD": cluster._password(postgres.SUPER)}
    done = subprocess.run(
        list(map(str, command)), stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, cwd="/",
        env=os.environ | password, **cluster.run_as,
    )  # fmt: skip
    if done.returncode:
        fail(f"{name}: {done.stderr.decode().strip()[-600:]}")


class Beside:
    """A second server, with the roles and passwords of the first."""

    def __init__(self, here: Installation, name: str):
        self.here, self.folder, self.first = here, here.folder / name, here.cluster
        self.cluster = postgres.Cluster(self.folder / "pg")
        self.cluster._make_folder(self.folder)
        self.cluster._make_folder(self.cluster.folder)
        for word in self.first.folder.glob("*-password"):
            shutil.copy(word, self.cluster.folder)
        self.cluster._settle_in()
        here.beside.append(self.cluster)
        self.cluster.data.mkdir(mode=0o700)
        self.cluster._give(self.cluster.data)
        self.mark = self.folder / "mark"

    def start(self) -> None:
        for path in self.cluster.data.rglob("*"):
            self.cluster._give(path)
        self.cluster._hold()
        self.cluster._start()

    def promote(self) -> None:
        promote = [self.cluster.bin / "pg_ctl", "-D", self.cluster.data, "-w", "promote"]
        subprocess.run(promote, check=True, capture_output=True, cwd="/", **self.cluster.run_as)

    def judged(self, start: bool = True) -> None:
        """What a worker here does; then the first is in its place again."""
        if start:
            (self.cluster.data / "postmaster.pid").unlink(missing_ok=True)
            self.start()
        self.attached(self.cluster, self.mark, lambda: judge(self.here))
        self.cluster.destroy()

    def attached(self, cluster: postgres.Cluster, mark: Path, then: Callable) -> None:
        here = self.here
        before = dict(settings.DATABASES["default"]), settings.SAYSO_MARK, os.environ["DATABASE_OWNER_URL"]
        let_go(here)
        connection.settings_dict.update(environ.database(cluster.url(postgres.APP), pooled=False))
        settings.SAYSO_MARK, os.environ["DATABASE_OWNER_URL"] = mark, cluster.url(postgres.OWNER)
        here.reconnected()
        try:
            then()
        finally:
            let_go(here)
            connection.settings_dict.update(before[0])
            settings.SAYSO_MARK, os.environ["DATABASE_OWNER_URL"] = before[1:]
