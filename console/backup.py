"""A backup is one file of pg_dump's; what else an installation keeps is in SAYSO_DATA: its secret key, evidence files.

The mark (SAYSO_MARK) is in no backup: by it a restored database is told from the one that was (R27).
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from console import postgres

VARIABLES = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE",
             "sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT"}  # fmt: skip


class CannotCopy(Exception):
    """The message is for people: what is wrong and what to do."""


def dump(url: str, file: Path) -> int:
    """Write the whole database to `file`, for its owner's eyes only, whole or not at all. Returns its size in bytes."""
    half = file.with_name(file.name + ".new")
    half.unlink(missing_ok=True)
    try:
        os.close(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        _run(url, "pg_dump", "--format=custom", f"--file={half}")
        half.replace(file)
    except OSError as failed:
        raise CannotCopy(f"{file} cannot be written: {failed.strerror}.") from None
    finally:
        half.unlink(missing_ok=True)
    return file.stat().st_size


def check(url: str, file: Path) -> list[str]:
    """What is in a backup, as pg_restore lists it, without what only a superuser could put back. Raises CannotCopy."""
    listed = _run(url, "pg_restore", "--list", str(file)).splitlines()
    if not any(" runtime_app_session " in line for line in listed):
        raise CannotCopy(f"{file} is no backup of a Sayso database.")
    return [line for line in listed if " EXTENSION " not in line]


def restore(url: str, file: Path, listed: list[str]) -> None:
    """Put what is listed in the place of what is there: all of it or nothing."""
    with tempfile.NamedTemporaryFile("w") as wanted:
        wanted.write("\n".join(listed))
        wanted.flush()
        whole = ("--clean", "--if-exists", "--single-transaction", "--exit-on-error", f"--use-list={wanted.name}")
        _run(url, "pg_restore", *whole, "--dbname=", str(file))


def _run(url: str, name: str, *arguments: str) -> str:
    where = {VARIABLES[key]: str(value) for key, value in conninfo_to_dict(url).items() if key in VARIABLES}
    environment = {"PATH": os.defpath, "LC_ALL": "C"} | where  # no password in a list of processes
    ended = subprocess.run([_program(url, name), *arguments], env=environment, capture_output=True, text=True)
    if ended.returncode:
        raise CannotCopy(f"{name} failed: {ended.stderr.strip()[-600:]}")
    return ended.stdout


def _program(url: str, name: str) -> str:
    """The one that came along, if it is the server's version; else the one on PATH."""
    with psycopg.connect(url) as connection:
        major = connection.info.server_version // 10_000
    if ours := postgres.program(name, major):
        return str(ours)
    if theirs := shutil.which(name):
        return theirs
    raise CannotCopy(
        f"{name} is not on PATH. Install PostgreSQL's client programs, version {major} or newer (on Debian and Ubuntu: "
        f"apt-get install postgresql-client)."
    )
