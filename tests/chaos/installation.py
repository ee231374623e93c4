"""A whole installation to break: a PostgreSQL of its own that keeps what it was told, a proxy before it, Harbor with
its own log as the judge, two houses of people, and workers that are forked, so that each costs milliseconds."""

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

from tests.chaos.proxy import Line

ROOT = Path(__file__).parents[2]
SHORT = {"SAYSO_LOOK_SECONDS": "0.2", "SAYSO_LEASE_SECONDS": "4", "SAYSO_BEAT_SECONDS": "0.5"}
QUIET = """
select not exists (select 1 from runtime_app_run where state = 'running' or state = 'queued' and held_at is null)
   and not exists (
       select 1 from runtime_app_effect where state = 'in_flight' or recovering = 'probe' or probe_at <= sayso_now())
   and not exists (select 1 from runtime_app_request where state = 'pending' and expires_at <= sayso_now())
   and not exists (select 1 from runtime_app_grant g
                     join runtime_app_run r on r.id = g.run_id join runtime_app_environment e on e.id = r.environment_id
                    where g.state = 'unused' and r.state = 'waiting' and r.held_at is null and e.held_at is null)
"""


class Harbor:
    """The provider, in a process of its own."""

    def __init__(self, log: Path):
        self.path = log
        command = [sys.executable, "-m", "examples.harbor", "--port", "0", "--log", str(log)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().split()[-1]
        os.environ["HARBOR_URL"] = self.url

    def mode(self, mode: str, **more) -> None:
        from tests.chaos.agents import ask

        assert ask("PUT", "/mode", body={"mode": mode} | more)[0] == 200

    def lines(self) -> list[dict]:
        """What it wrote down on its own disk, whatever anybody was told."""
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(10)
        self.process.stdout.close()


class Installation:
    """Set it up once in a process that has not set up Django. `with Installation(folder) as here:`."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.children: list[int] = []
        self.beside = []  # clusters made of this one

    def __enter__(self):
        from console import postgres

        self.cluster = postgres.Cluster(self.folder / "pg").acquire()
        with psycopg.connect(self.cluster.url(postgres.SUPER), autocommit=True) as server:
            server.execute("alter role sayso_app set idle_in_transaction_session_timeout = '2s'")  # short, as the Lease
        os.environ |= SHORT | {
            "DATABASE_URL": self.cluster.url(postgres.APP), "DATABASE_OWNER_URL": self.cluster.url(postgres.OWNER),
            "SAYSO_DATA": str(self.folder), "SAYSO_MARK": str(self.folder / "mark"),
            "SAYSO_AGENTS": "tests.chaos.agents", "DJANGO_SETTINGS_MODULE": "console.settings", "SAYSO_ORIGIN": "",
        }  # fmt: skip
        migrate = [sys.executable, "manage.py", "migrate", "--verbosity", "0", "--skip-checks"]
        subprocess.run(migrate, cwd=ROOT, env=os.environ | {"SAYSO_ROLE": "owner"}, check=True)
        self.harbor = Harbor(self.folder / "harbor.log")
        self.line = Line(self.cluster.socket / ".s.PGSQL.5432")
        self._set_up()
        return self

    def __exit__(self, *_):
        from django.db import connections

        for pid in self.children:
            end(pid)
        connections.close_all()
        self.owner.close()
        self.line.end()
        self.harbor.end()
        for cluster in (*self.beside, self.cluster):
            cluster.destroy()

    def _set_up(self) -> None:
        import django
        from django.conf import settings

        from console import environ

        settings.DATABASES["default"].clear()
        settings.DATABASES["default"].update(environ.database(os.environ["DATABASE_URL"], pooled=False))
        settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
        django.setup()
        from runtime_app.transitions import epochs
        from tests import cast, database

        self.owner = database.owner()
        database.make_clock_movable(self.owner)
        epochs.watch()
        self.northgate, _ = cast.assemble()

    # -- the clock, the database

    def move(self, **ahead) -> None:
        from tests.database import Clock

        Clock(self.reconnected()).move(**ahead)

    def reconnected(self):
        from tests import database

        try:
            self.owner.execute("select 1")
        except Exception:
            self.owner = database.owner()
        return self.owner

    def stop_postgres(self) -> None:
        """As if its machine lost power: no check point, no goodbye."""
        stop = [self.cluster.bin / "pg_ctl", "-D", self.cluster.data, "-m", "immediate", "-w", "stop"]
        subprocess.run(stop, check=True, capture_output=True, cwd="/", **self.cluster.run_as)

    def start_postgres(self) -> None:
        from django.db import connections

        self.cluster.acquire()
        connections.close_all()
        self.reconnected()

    def rest(self, seconds: float) -> None:
        threading.Event().wait(seconds)

    def quiet(self, within: float = 20) -> bool:
        return until(lambda: self.owner.execute(QUIET).fetchone()[0], within, pause=0.05)

    # -- processes

    def fork(self, work: Callable, failpoint: str = "", *, through_the_proxy: bool = True) -> "Actor":
        """`work()` in a process of its own, which may be told to break at a failpoint."""
        from django.db import connections

        connections.close_all()
        self.owner.close()
        sys.stdout.flush()
        log, go = self.folder / f"actor-{len(self.children)}.log", self.folder / f"go-{len(self.children)}"
        if (pid := os.fork()) == 0:
            try:
                errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                os.dup2(errors, 2)
                self._become(failpoint, go, through_the_proxy)
                work()
                os._exit(0)
            except BaseException:
                import traceback

                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)
        self.children.append(pid)
        self.reconnected()
        return Actor(pid, log, go)

    def _become(self, failpoint: str, go: Path, through_the_proxy: bool) -> None:
        from django.db import connection

        from console.processes import LIBC, PR_SET_PDEATHSIG
        from runtime_app import failpoints

        atexit._clear()  # what the run cleans up at its end is not this process's to clean
        if LIBC:
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # it does not outlive the run
        if failpoint:
            os.environ |= {"SAYSO_FAILPOINTS_ALLOWED": "1", "SAYSO_FAILPOINT": failpoint, "SAYSO_FAILPOINT_GO": str(go)}
        failpoints.arm()
        if through_the_proxy:
            connection.settings_dict.update(HOST="127.0.0.1", PORT=str(self.line.port))

    def worker(self, failpoint: str = "", **more) -> "Actor":
        from runtime_app.worker import main

        return self.fork(main, failpoint, **more)


class Actor:
    """A forked process. `reached`: it is at its failpoint, or was killed there."""

    def __init__(self, pid: int, log: Path, go: Path):
        self.pid, self.log, self._go, self.status = pid, log, go, None

    def reached(self, within: float = 10) -> bool:
        until(lambda: "failpoint " in self.told() or self.ended(), within)
        return "failpoint " in self.told()

    def told(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def go(self) -> None:
        self._go.touch()

    def ended(self) -> bool:
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if pid else None
        return self.status is not None

    def wait(self, within: float = 15) -> bool:
        return until(self.ended, within)

    def end(self) -> None:
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
            until(self.ended, 5)


def end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def until(look: Callable[[], bool], within: float, pause: float = 0.01) -> bool:
    deadline, rest = time.monotonic() + within, threading.Event()
    while not look():
        if time.monotonic() > deadline:
            return False
        rest.wait(pause)
    return True
