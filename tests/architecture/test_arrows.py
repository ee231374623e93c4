"""Which module may know which: arrows point down only."""

import sys

from tests.architecture.source import imports, python

# The rooms of the runtime, lowest first. A module imports from floors below its own, never from beside or above it.
FLOORS = [
    {"states", "errors", "ids", "visible", "failpoints", "clock"},
    {"canonical", "responses", "calling"},
    {"fields", "actions", "evidence_files", "sealed", "client", "webhooks"},
    {"questions", "models"},
    {"statements"},
    {"permissions", "policies", "registrations"},
    {"events", "credentials"},
    {"hub", "selectors", "transitions"},
    {"agent", "hosted"},
    {"jobs", "deliveries"},
    {"worker", "api"},
    {"admin", "apps", "management"},
]
WITHOUT_DJANGO = {
    "states", "errors", "ids", "visible", "canonical", "responses", "fields", "actions", "questions",
    "calling", "client",
}  # fmt: skip
# What the runtime may stand on, and which room alone.
STANDS_ON = {
    "django": None,
    "psycopg": None,
    "pydantic": None,
    "pydantic_core": None,
    "asgiref": None,
    "pgtrigger": {"models"},
    "procrastinate": {"jobs"},
    "croniter": {"jobs"},
    "cryptography": {"sealed"},
    "standardwebhooks": {"api", "webhooks"},
    "httpx": {"calling", "client", "webhooks"},
    "ninja": {"api"},
    "pydantic_ai": {"hosted"},
}


def room(path) -> str:
    return path.with_suffix("").parts[1]  # `__init__` for the package itself, which imports nothing


def floor(name: str) -> int:
    return next(number for number, floor in enumerate(FLOORS) if name in floor)


def known(path) -> set[str]:
    """The packages a module knows."""
    return {name.split(".")[0] for name in imports(path)}


def test_the_runtime_knows_nothing_of_the_console():
    """console → runtime_app, and never back."""
    for path in python("runtime_app"):
        assert not known(path) & {"console", "examples", "tests", "bench"}, path


def test_the_product_does_not_know_its_tests():
    for path in python("console", "examples"):
        assert not known(path) & {"tests", "bench"} or path.name == "cli.py", path


def test_the_example_uses_what_a_user_of_sayso_would_use():
    for path in python("examples"):
        assert "console" not in known(path), path


def test_arrows_point_down():
    """states, errors ← models ← events, permissions ← transitions ← agent, hosted, worker."""
    for path in python("runtime_app"):
        here = room(path)
        for name in imports(path):
            parts = name.split(".")
            if parts[0] == "runtime_app" and len(parts) > 1 and parts[1] != here:
                assert floor(parts[1]) < floor(here), f"{path} imports {name}"


def test_the_runtime_stands_on_few_libraries():
    for path in python("runtime_app"):
        for library in known(path) - sys.stdlib_module_names - {"runtime_app"}:
            assert library in STANDS_ON, f"{path} imports {library}"
            assert STANDS_ON[library] is None or room(path) in STANDS_ON[library], f"{path} imports {library}"


def test_parsers_and_forms_know_no_django():
    """What an agent elsewhere imports, or what a fuzzer runs, needs no settings."""
    for path in python("runtime_app"):
        if room(path) in WITHOUT_DJANGO:
            rooms = {name.split(".")[1] for name in imports(path) if name.startswith("runtime_app.")}
            assert rooms <= WITHOUT_DJANGO and "django" not in known(path), path


def test_nobody_is_called_by_signal():
    """House rule 1: who writes is to be seen in the call."""
    for path in python("runtime_app"):
        signals = ("django.dispatch", "django.db.models.signals")
        assert not [name for name in imports(path) if name.startswith(signals)], path
