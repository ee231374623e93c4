"""What the environment may say, and the sentence for what it may not."""

import json
import logging
import os
import subprocess
import sys

import pytest

from console import environ
from console.cli import COMMANDS
from console.environ import ROOT, BadEnvironment
from console.logging import Line


@pytest.mark.parametrize(
    "variable, value, accepted",
    [
        ("SAYSO_PORT", "http", "a number from 1 to 65535"),
        ("SAYSO_PORT", "0", "a number from 1 to 65535"),
        ("SAYSO_DEBUG", "maybe", "yes or no"),
        ("SAYSO_ORIGIN", "sayso.example.com", "https://name"),
        ("SAYSO_ORIGIN", "https://sayso.example.com/console", "no path"),
        ("SAYSO_ORIGIN", "https://*.example.com", r"no \*"),
        ("SAYSO_ORIGIN", "https://ada@example.com", "https://name"),
        ("SAYSO_AGENTS", "agents.py, other-agents", "names of Python modules"),
        ("SAYSO_AGENTS", "no.such.agents", "names of Python modules on the path"),
        ("SAYSO_TIME_ZONE", "Lisbon", "a name like Europe/Lisbon"),
        ("SAYSO_TIME_ZONE", "../../etc/passwd", "a name like Europe/Lisbon"),
        ("SAYSO_LEASE_SECONDS", "nan", "seconds, 0.5 to 600"),
        ("SAYSO_LEASE_SECONDS", "10s", "seconds, 0.5 to 600"),
        ("SAYSO_WORKER_TURNS", "-1", "a number from 1 to 200"),
        ("SAYSO_ROLE", "superuser", "app or owner"),
    ],
)
def test_a_bad_value_is_refused_by_name_with_what_is_accepted(variable, value, accepted):
    with pytest.raises(BadEnvironment, match=f"^{variable} is {value!r}".replace("*", r"\*") + f".*{accepted}"):
        environ.read({variable: value})


@pytest.mark.parametrize(
    "variable, value", [("DATABASE_URL", "mysql://ada:hunter2@db"), ("SAYSO_SECRET_KEY", "hunter2")]
)
def test_a_refused_secret_is_not_printed(variable, value):
    with pytest.raises(BadEnvironment, match=f"^{variable} is .not shown.") as error:
        environ.read({variable: value})
    assert "hunter2" not in str(error.value)


def test_a_beat_slower_than_half_a_lease_is_refused():
    with pytest.raises(BadEnvironment, match="SAYSO_BEAT_SECONDS is 5. It accepts less than half"):
        environ.read({"SAYSO_BEAT_SECONDS": "5"})


def test_without_any_the_console_is_reached_on_this_machine_only(tmp_path):
    values = environ.read({"SAYSO_DATA": str(tmp_path), "SAYSO_PORT": "8123"})
    assert values["SAYSO_ORIGIN"] == ["http://localhost:8123", "http://127.0.0.1:8123"]
    assert not values["SAYSO_DEBUG"]


def test_on_this_machine_a_secret_key_is_made_once_and_kept(tmp_path):
    first, second = (environ.read({"SAYSO_DATA": str(tmp_path)})["SAYSO_SECRET_KEY"] for _ in range(2))
    assert first == second and len(first) >= 50
    assert [path.name for path in tmp_path.iterdir()] == ["secret-key"]
    assert (tmp_path / "secret-key").stat().st_mode & 0o777 == 0o600


def test_where_others_reach_it_the_secret_key_must_be_given(tmp_path):
    with pytest.raises(BadEnvironment, match="SAYSO_SECRET_KEY is missing"):
        environ.read({"SAYSO_DATA": str(tmp_path), "SAYSO_ORIGIN": "https://sayso.example.com"})
    assert not list(tmp_path.iterdir())


def test_the_owner_defaults_to_the_one_database_url():
    assert (
        environ.read({"DATABASE_URL": "postgresql://ada@db/sayso"})["DATABASE_OWNER_URL"] == "postgresql://ada@db/sayso"
    )


def run(*words: str, **variables: str) -> subprocess.CompletedProcess:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SAYSO_")}
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "console.cli", *words],
        cwd=ROOT, env=kept | variables, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_a_bad_value_ends_the_program_with_one_sentence():
    ended = run("manage", "check", SAYSO_PORT="http")
    assert ended.returncode == 1
    assert ended.stderr == "SAYSO_PORT is 'http'. It accepts a number from 1 to 65535.\n"


def test_production_settings_pass_djangos_own_check_for_deployment():
    ended = run("manage", "check", "--deploy", "--fail-level", "WARNING",
                SAYSO_ORIGIN="https://sayso.example.com", SAYSO_SECRET_KEY="k7" + "abcdefghij" * 5)  # fmt: skip
    assert (ended.returncode, "no issues" in ended.stdout) == (0, True), ended.stderr


def test_debug_where_others_reach_it_is_an_error_of_its_own():
    ended = run("manage", "check", SAYSO_DEBUG="yes",
                SAYSO_ORIGIN="https://sayso.example.com", SAYSO_SECRET_KEY="k7" + "abcdefghij" * 5)  # fmt: skip
    assert ended.returncode == 1
    assert "sayso.E004" in ended.stderr and "HINT: Unset SAYSO_DEBUG" in ended.stderr


def test_run_knows_the_commands_and_says_so_without_installing_anything():
    shown = subprocess.run([sys.executable, ROOT / "run", "help"], capture_output=True, text=True)
    assert all(f"./run {command}" in shown.stdout for command in COMMANDS)
    wrong = subprocess.run([sys.executable, ROOT / "run", "dmeo"], capture_output=True, text=True)
    assert (wrong.returncode, wrong.stderr) == (1, "./run dmeo: there is no such command. ./run help lists them.\n")


def test_one_event_is_one_line_whatever_it_holds_T62():
    forged = 'x"\r\n{"level": "info"}\x1b[2J\x7f\x9b31m\u202e'
    record = logging.LogRecord("sayso", logging.WARNING, "f.py", 1, "Mallory sent %s", (forged,), None)
    record.facts = {"target": forged}
    line = Line().format(record)
    assert all(" " <= character <= "~" for character in line)
    assert json.loads(line)["message"] == f"Mallory sent {forged}" and json.loads(line)["target"] == forged
