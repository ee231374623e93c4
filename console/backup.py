"""A backup is one file, a tar: what pg_dump wrote of the database, and the files beside people's statements.

The secret key is in no backup: it opens what is encrypted there. The mark (SAYSO_MARK) is in none either: by it a
restored database is told from the one that was (R27).
"""

import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from console import postgres
from runtime_app import evidence_files

VARIABLES = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE",
             "sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT"}  # fmt: skip
DUMP = "database.dump"
STORED = re.compile(r"evidence/([0-9a-f]{32})")  # nothing else of a backup becomes a file


class CannotCopy(Exception):
    """The message is for people: what is wrong and what to do."""


def write(url: str, file: Path) -> tuple[int, int]:
    """Write the whole database, then the files beside statements, to `file`, for its owner's eyes only, whole or not at
    all. Returns its size in bytes, and how many files of statements are in it."""
    half, dumped = file.with_name(file.name + ".new"), file.with_name(file.name + ".dump")
    try:
        for path in (half, dumped):
            path.unlink(missing_ok=True)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        _run(url, "pg_dump", "--format=custom", f"--file={dumped}")
        with tarfile.open(half, "w") as tar:
            tar.add(dumped, DUMP)
            count = sum(_add(tar, path) for path in sorted(evidence_files.folder().iterdir()))
        half.replace(file)
    except OSError as failed:
        raise CannotCopy(f"{file} cannot be written: {failed.strerror}.") from None
    finally:
        half.unlink(missing_ok=True)
        dumped.unlink(missing_ok=True)
    return file.stat().st_size, count


def _add(tar: tarfile.TarFile, path: Path) -> bool:
    """A file that a statement names was there before the statement, and stays: what is gone now belongs to none."""
    name = f"evidence/{path.name}"
    if not STORED.fullmatch(name):
        return False
    try:
        tar.add(path, name)
    except FileNotFoundError:
        return False
    return True


@contextmanager
def opened(file: Path) -> Iterator[Path]:
    """What pg_dump wrote, out of this backup. A file of pg_dump's own is taken as it is. Raises CannotCopy."""
    if not file.is_file() or not tarfile.is_tarfile(file):
        yield file
        return
    with tempfile.NamedTemporaryFile(dir=evidence_files.folder(), prefix="coming-") as dumped:
        with tarfile.open(file) as tar:
            try:
                shutil.copyfileobj(tar.extractfile(DUMP), dumped)
                _is_whole(file, tar)
            except (KeyError, AttributeError):
                raise CannotCopy(f"{file} is no backup of a Sayso database.") from None
            except tarfile.TarError:
                raise CannotCopy(f"{file} is cut off: it is not a whole backup. Nothing was changed.") from None
            except OSError as failed:
                raise CannotCopy(f"{file} cannot be unpacked: {failed.strerror}. Nothing was changed.") from None
        dumped.flush()
        yield Path(dumped.name)


def _is_whole(file: Path, tar: tarfile.TarFile) -> None:
    """A copy that broke off is noticed before anything is lost."""
    last = tar.getmembers()[-1]
    if last.offset_data + last.size > file.stat().st_size:
        raise tarfile.ReadError


def put_back(file: Path) -> int:
    """The files beside statements, out of this backup, each under its own name; those that are there stay as they are.
    Returns how many were missing."""
    if not tarfile.is_tarfile(file):
        return 0
    missing, folder = 0, evidence_files.folder()
    with tarfile.open(file) as tar:
        for member in tar:
            name = STORED.fullmatch(member.name)
            if not name or not member.isfile() or (folder / name[1]).exists():
                continue
            try:
                with tempfile.NamedTemporaryFile(dir=folder, prefix="coming-") as coming:
                    shutil.copyfileobj(tar.extractfile(member), coming)
                    coming.flush()
                    os.link(coming.name, folder / name[1])
            except OSError as failed:
                raise CannotCopy(f"{folder} cannot be written: {failed.strerror}. Nothing was restored.") from None
            missing += 1
    return missing


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
