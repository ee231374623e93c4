"""Sizes, names, documents: the habits that keep it small."""

import ast
import re

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection

from console import environ
from runtime_app.models import TenantKey
from tests.architecture.source import at, files, python, text, tree

LINES = 450
WRITTEN = {".py", ".md", ".html", ".css", ".js", ".toml", ".sql", ".sh", ""}
NOT_NAMES = {"utils", "util", "helpers", "helper", "manager", "managers", "service", "services", "handle", "process"}
NOT_FILES = NOT_NAMES | {"common", "misc", "base_classes"}
# Names given by the frameworks that call them.
GIVEN = {"handle", "handle_error", "process_exception", "process_view", "handleContentChunk"}


def test_files_are_short():
    assert not [path for path in python() if len(text(path).splitlines()) > LINES]


def test_a_name_says_what_it_is():
    """House rule 6."""
    for path in python():
        assert not set(path.stem.split("_")) & NOT_FILES, path
    for path in python("runtime_app", "console", "examples", "bench"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name not in GIVEN:
                words = set(re.findall(r"[a-z]+", re.sub("([A-Z])", r"_\1", node.name).lower()))
                assert not words & NOT_NAMES, f"{at(path, node)} {node.name}"


def test_settings_are_one_short_file():
    assert len(text("console/settings.py").splitlines()) < 150


def test_the_readme_lists_every_setting_and_no_other():
    """Each with the default and the meaning that the code has."""
    documented = re.findall(r"^\| `([A-Z_]+)` .*$", text("README.md"), re.MULTILINE)
    assert documented == [variable.name for variable in environ.VARIABLES]
    assert environ.table() in text("README.md")


def test_only_one_module_reads_the_environment_of_the_product():
    """What is not in the table is not read; the composition root hands the database's address to its children."""
    reads = {"console/environ.py", "console/cli.py", "console/demo.py", "console/postgres.py", "console/processes.py",
             "console/debian.py", "console/backup.py", "console/asgi.py", "runtime_app/failpoints.py"}  # fmt: skip
    for path in python("console", "runtime_app"):
        if str(path) not in reads:
            assert not re.search(r"\bos\.(environ|getenv)\b", text(path)), path


def test_what_the_readme_points_at_is_there():
    known, readme = {str(path) for path in files()}, text("README.md")
    pointed = re.findall(r"`([a-z_]+/[\w/.-]+\.\w+)`", readme) + re.findall(r"\]\((?!http)([^)#]+)\)", readme)
    assert not [name for name in pointed if name not in known]


def test_the_repository_speaks_of_the_product_alone():
    """No path of the machine it was made on, no unfinished business."""
    paths = r"(?<![\w.])/(?:work|home|Users)/\w"
    notes = rf"\b(?:TO{''}DO|FIX{''}ME|XX{''}X|clau{''}de|anthro{''}pic)\b"  # in halves, or this file would have them
    unwanted = re.compile(f"{paths}|{notes}", re.IGNORECASE)
    for path in files():
        if path.suffix in WRITTEN and path.name != "uv.lock":
            found = unwanted.search(text(path))
            assert not found, f"{path}: {found and found[0]}"


def test_no_test_waits_by_sleeping():
    """House rule 9: a barrier, an event or the movable clock. What looks again soon, or hangs for good, is no wait."""
    for path in python("tests"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.sleep", "sleep", "asyncio.sleep"):
                slept = node.args[0].value if isinstance(node.args[0], ast.Constant) else 1
                assert slept <= 0.25 or slept >= 600, at(path, node)


# ---------------------------------------------------------------- the tables


@pytest.mark.django_db
def test_the_migrations_say_what_the_models_say():
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)


@pytest.mark.django_db
def test_every_key_of_a_tenants_row_carries_the_tenant():
    """T04: (tenant_id, column) references (tenant_id, id), for each TenantKey there is."""
    with connection.cursor() as cursor:
        cursor.execute(
            """select conrelid::regclass::text, array_agg(attname order by place)::text[], confrelid::regclass::text
               from pg_constraint, unnest(conkey) with ordinality as key(number, place)
               join pg_attribute on attnum = key.number
               where contype = 'f' and attrelid = conrelid group by pg_constraint.oid, conrelid, confrelid"""
        )
        found = {(table, *columns, target) for table, columns, target in cursor if len(columns) == 2}
    wanted = {
        (model._meta.db_table, "tenant_id", field.column, field.related_model._meta.db_table)
        for model in apps.get_app_config("runtime_app").get_models()
        for field in model._meta.concrete_fields
        if isinstance(field, TenantKey)
    }
    assert wanted and wanted <= found


@pytest.mark.django_db
def test_no_key_of_ours_cascades():
    """B161: no row takes another with it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select conname from pg_constraint where contype = 'f' and confdeltype <> 'a'"
            " and conrelid::regclass::text like 'runtime_app%'"
        )
        assert not cursor.fetchall()


@pytest.mark.django_db
def test_every_state_is_checked_by_the_database():
    """House rule 2: the database refuses nonsense, and each refusal has a name that says what it prevents."""
    with connection.cursor() as cursor:
        cursor.execute("select conname from pg_constraint union select relname from pg_class where relkind = 'i'")
        named = {name for (name,) in cursor}
    for model in apps.get_app_config("runtime_app").get_models():
        for constraint in model._meta.constraints:
            assert re.fullmatch(r"[a-z]+(_[a-z]+)+", constraint.name), constraint.name
            assert constraint.name in named
        if "state" in {field.name for field in model._meta.concrete_fields}:
            assert f"{model._meta.model_name}_state_known" in named


@pytest.mark.django_db
def test_history_cannot_be_deleted_from_any_table():
    """B100, B161, T98: whoever asks, with whatever SQL."""
    with connection.cursor() as cursor:
        cursor.execute("select tgrelid::regclass::text from pg_trigger where tgname like 'pgtrigger_kept%'")
        kept = {table for (table,) in cursor}
    for name in (
        "session", "run", "entry", "chunk", "blocker", "request", "response", "grant", "effect", "attempt",
        "evidence", "event", "refusal",
    ):  # fmt: skip
        assert f"runtime_app_{name}" in kept
