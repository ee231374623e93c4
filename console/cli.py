"""`./run <command>`, inside .venv. `run` holds the help text."""

import argparse
import os
import shutil
import sys
from pathlib import Path

from console import environ, postgres
from console.processes import exit_on_sigterm

# The commands of `manage` that change tables; all others are the app role.
OWNERS = {"migrate", "makemigrations", "squashmigrations", "sqlmigrate", "flush", "pgtrigger", "createcachetable"}


def main(words: list[str]) -> None:
    command, *rest = words or ["help"]
    if command not in COMMANDS:
        sys.exit(f"./run {command}: there is no such command. ./run help lists them.")
    exit_on_sigterm()
    try:
        COMMANDS[command](rest)
    except (environ.BadEnvironment, postgres.CannotStart) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def demo(words: list[str]) -> None:
    options = argparse.ArgumentParser(prog="./run demo")
    options.add_argument("--port", type=int, help="where the console listens (8000)")
    options.add_argument("--data", help="the folder of everything it keeps (var)")
    chosen = options.parse_args(words)
    if chosen.port:
        os.environ["SAYSO_PORT"] = str(chosen.port)
    if chosen.data:
        os.environ["SAYSO_DATA"] = os.path.abspath(chosen.data)
    os.environ.setdefault("SAYSO_AGENTS", "examples.harbor.agents")
    os.environ.setdefault("SAYSO_WEBHOOK_LOOPBACK", "yes")  # what tries it runs on this machine
    cluster = start_postgres()
    settings = environ.read()
    from console.demo import main

    # `cluster.is_up()`, and `cluster.acquire()` starts it again; None where DATABASE_URL names a server
    main(argparse.Namespace(port=settings["SAYSO_PORT"], data=settings["SAYSO_DATA"], cluster=cluster))


def test(words: list[str]) -> None:
    from console import chromium, debian

    chromium.find_or_install()
    debian.find_or_install("bubblewrap", lambda: shutil.which("bwrap"), ["bubblewrap"], "bubblewrap")
    use_settings()
    import pytest

    sys.exit(pytest.main(_side_by_side(words) + words))  # tests/conftest.py starts the tests' PostgreSQL


def _side_by_side(words: list[str]) -> list[str]:
    """The whole suite takes every processor, up to four: each process has a database and servers of its own. The order
    is kept, since browser tests come last."""
    chosen = any(Path(word.partition("::")[0]).exists() for word in words) or "-n" in words
    return [] if chosen else ["-n", str(min(os.cpu_count() or 1, 4)), "--dist", "loadfile", "--no-loadscope-reorder"]


def serve(words: list[str]) -> None:
    options = argparse.ArgumentParser(prog="./run serve")
    options.add_argument("--port", type=int, help="where the console listens (SAYSO_PORT)")
    options.add_argument("--bind", default="127.0.0.1", help="the address it listens at (127.0.0.1)")
    chosen = options.parse_args(words)
    if chosen.port:
        os.environ["SAYSO_PORT"] = str(chosen.port)
    start_postgres()
    set_up()
    from console.serve import serve
    from runtime_app.transitions import epochs

    epochs.watch_at_start()
    serve(environ.read()["SAYSO_PORT"], chosen.bind)


def worker(words: list[str]) -> None:
    argparse.ArgumentParser(prog="./run worker").parse_args(words)
    start_postgres()
    set_up()
    from runtime_app.worker import main

    main()


def manage(words: list[str]) -> None:
    if words and words[0] in OWNERS:
        os.environ["SAYSO_ROLE"] = "owner"
    start_postgres()
    use_settings()
    from django.core.management import execute_from_command_line

    execute_from_command_line(["./run manage", *words])


def bench(words: list[str]) -> None:
    from bench import main  # starts a PostgreSQL of its own, always

    main(words)


def chaos(words: list[str]) -> None:
    from tests.chaos.cli import main

    main(words)


COMMANDS = {each.__name__: each for each in (demo, test, serve, worker, manage, bench, chaos)}


def start_postgres(folder: str = "pg") -> postgres.Cluster | None:
    """Read the environment, start PostgreSQL unless DATABASE_URL names one, and say where it is to all that follows."""
    settings = environ.read()
    if settings["DATABASE_URL"]:
        return None
    cluster = postgres.Cluster(settings["SAYSO_DATA"] / folder).acquire()
    os.environ["DATABASE_URL"] = cluster.url(postgres.APP)
    os.environ["DATABASE_OWNER_URL"] = cluster.url(postgres.OWNER)
    return cluster


def use_settings() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")


def set_up() -> None:
    """Django, after the system checks: an error ends the program, and so does a database that is not migrated."""
    use_settings()
    import django
    from django.core import checks

    django.setup()
    found = checks.run_checks(databases=["default"])
    stops = [each for each in found if each.is_serious() or each.id == "sayso.W001"]
    for each in stops:
        print(f"{each.msg} {each.hint or ''} ({each.id})", file=sys.stderr)
    if stops:
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
