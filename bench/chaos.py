"""`./run chaos mutants`: breaks a copy of the code one line at a time and shows that the tests notice.

    ./run chaos mutants            every fault in `mutants` and `reality`, then a thousand double answers
    ./run chaos mutants digest     the faults whose name has this word

A fault is caught if the one test named for it passes on the code as it is and fails on the code with the fault.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from urllib.parse import urlsplit

import psycopg

from .mutants import MUTANTS, Mutant
from .reality import REALITY

EVERY = MUTANTS + REALITY
ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "var", "__pycache__", ".pytest_cache", ".ruff_cache", ".hypothesis")
DOUBLES = "tests/concurrency/test_races.py::test_of_many_double_answers_none_continues_twice"
URLS = ("DATABASE_URL", "DATABASE_OWNER_URL")
AT_ONCE = 2 * (os.cpu_count() or 1)
PASSED, FAILED = 0, 1  # what pytest exits with


def main(words: list[str]) -> None:
    chosen = [mutant for mutant in EVERY if all(word in mutant.name for word in words)]
    if not chosen:
        sys.exit(f"No fault is called {' '.join(words)}. There are: {', '.join(mutant.name for mutant in EVERY)}.")
    _find_server()
    with tempfile.TemporaryDirectory(prefix="sayso-chaos-") as folder, _migrated() as template:
        copies = Queue()
        for number in range(AT_ONCE):
            copies.put(copy := Path(folder) / f"sayso-{number}")
            shutil.copytree(ROOT, copy, ignore=LEFT_OUT, symlinks=True)
        print("The tests named, on the code as it is ...", flush=True)
        if (code := _run(copy, *(mutant.test for mutant in chosen), quiet=False)) != PASSED:
            sys.exit(f"They do not pass there (pytest: {code}), so they can show nothing.")

        def unnoticed(mutant: Mutant) -> bool:
            mine = copies.get()
            try:
                return not _caught(mine, mutant, template)
            finally:
                copies.put(mine)

        with ThreadPoolExecutor(AT_ONCE) as threads:
            missed = [mutant for mutant, so in zip(chosen, threads.map(unnoticed, chosen), strict=True) if so]
        if not words and _run(copy, DOUBLES, quiet=False, SAYSO_DOUBLE_ANSWERS="1000") != PASSED:
            sys.exit("Of a thousand double answers one was taken twice, or lost.")
    if missed:
        sys.exit(
            f"{len(missed)} of {len(chosen)} faults went unnoticed: {', '.join(mutant.name for mutant in missed)}."
        )
    print(f"{len(chosen)} of {len(chosen)} faults were noticed.")


def _find_server() -> None:
    """One PostgreSQL for all of them; each has a database of its own."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    from tests import database

    database.find_server()


@contextmanager
def _migrated() -> Iterator[str]:
    """A database that is migrated once for all of them, but for those whose fault is in a migration."""
    from tests import database

    name = f"{database.PREFIX}{os.getpid()}"
    owner = os.environ["DATABASE_OWNER_URL"]
    urls = {each: urlsplit(os.environ[each])._replace(path=f"/{name}").geturl() for each in URLS}
    with psycopg.connect(owner, autocommit=True) as server:
        server.execute(f"create database {name}")
        migrate = [sys.executable, "manage.py", "migrate", "--verbosity", "0", "--skip-checks"]
        try:
            subprocess.run(migrate, cwd=ROOT, env=os.environ | urls | {"SAYSO_ROLE": "owner"}, check=True)
            yield name
        finally:
            server.execute(f"drop database {name} with (force)")


def _caught(copy: Path, mutant: Mutant, template: str) -> bool:
    file = copy / mutant.file
    text = file.read_text()
    began = time.monotonic()
    file.write_text(text.replace(mutant.old, mutant.new))
    code = _run(copy, mutant.test, SAYSO_TEST_TEMPLATE="" if "/migrations/" in mutant.file else template)
    file.write_text(text)
    verdict = {PASSED: "NOT CAUGHT", FAILED: "caught"}.get(code, f"BROKEN (pytest: {code})")
    test = mutant.test.rpartition("::")[2]
    print(f"{verdict:12} {mutant.rule:4} {mutant.name:32} {time.monotonic() - began:5.1f} s  {test}", flush=True)
    return code == FAILED


def _run(copy: Path, *tests: str, quiet: bool = True, **environment: str) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    output = subprocess.DEVNULL if quiet else None
    kept = {"PYTHONDONTWRITEBYTECODE": "1", **environment}
    return subprocess.run(command, cwd=copy, env=os.environ | kept, stdout=output, stderr=output).returncode
