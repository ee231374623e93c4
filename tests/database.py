"""The tests' database: made and migrated by the owner, then used as the app role, as in production.

Each pytest session has one of its own, so that several may run at once. It is real PostgreSQL: DATABASE_URL and
DATABASE_OWNER_URL name the server if they are set, else one is started under var/test-pg, without fsync.
"""

import json
import os
from datetime import timedelta
from urllib.parse import urlsplit

import psycopg
from psycopg import errors, sql

# What migrations wrote, and nothing would write again.
SPARED = {"django_migrations", "django_content_type", "auth_permission", "runtime_app_epoch", "sayso_test_clock"}

PREFIX = "test_sayso_"
NAME = f"{PREFIX}{os.getpid()}"
TEMPLATE = "SAYSO_TEST_TEMPLATE"  # names a database that is migrated already: whoever runs many sessions makes one

TABLES = "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"
STRAYS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
MOVABLE_CLOCK = """
    CREATE TABLE IF NOT EXISTS sayso_test_clock (ahead interval NOT NULL);
    DELETE FROM sayso_test_clock;
    INSERT INTO sayso_test_clock VALUES ('0');
    CREATE OR REPLACE FUNCTION sayso_now() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL UNSAFE
    AS 'SELECT clock_timestamp() + (SELECT ahead FROM public.sayso_test_clock)';
"""


def find_server() -> None:
    """Put the server's URLs into the environment and into Django's settings, which were read before."""
    from django.conf import settings

    from console import environ, postgres

    if not os.environ.get("DATABASE_URL"):
        cluster = postgres.Cluster(settings.SAYSO_DATA / "test-pg", fast=True).acquire()
        os.environ["DATABASE_URL"] = cluster.url(postgres.APP)
        os.environ["DATABASE_OWNER_URL"] = cluster.url(postgres.OWNER)
        with psycopg.connect(cluster.url(postgres.SUPER), autocommit=True) as connection:
            may = "SELECT has_parameter_privilege('sayso_owner', 'session_replication_role', 'SET')"  # see `delete`
            if not connection.execute(may).fetchone()[0]:
                connection.execute("GRANT SET ON PARAMETER session_replication_role TO sayso_owner")
    os.environ.setdefault("DATABASE_OWNER_URL", os.environ["DATABASE_URL"])
    settings.DATABASE_URL, settings.DATABASE_OWNER_URL = os.environ["DATABASE_URL"], os.environ["DATABASE_OWNER_URL"]
    # no pool: a race of twenty has twenty connections
    settings.DATABASES["default"].update(environ.database(settings.DATABASE_URL, pooled=False))
    settings.DATABASES["default"].setdefault("TEST", {}).update(NAME=NAME, TEMPLATE=os.environ.get(TEMPLATE) or None)


def connect_as(url: str) -> None:
    """From now on Django connects to the same database as another role."""
    from django.db import connection

    parts = psycopg.conninfo.conninfo_to_dict(url)
    connection.close()
    connection.settings_dict.update(USER=parts.get("user", ""), PASSWORD=parts.get("password", ""))


def name_database(name: str) -> None:
    """Processes the tests start find the tests' database."""
    from django.conf import settings

    for variable in ("DATABASE_URL", "DATABASE_OWNER_URL"):
        os.environ[variable] = urlsplit(os.environ[variable])._replace(path=f"/{name}").geturl()
        setattr(settings, variable, os.environ[variable])


def begin_epoch() -> None:
    """This database is an installation of its own, with its own mark outside it (R27)."""
    from django.conf import settings

    from runtime_app.transitions import epochs

    settings.SAYSO_MARK = settings.SAYSO_DATA / "test-marks" / NAME
    os.environ["SAYSO_MARK"] = str(settings.SAYSO_MARK)
    epochs.watch()


def forget_intents() -> None:
    """The Attempt that the mark names was deleted with the others."""
    from django.conf import settings

    path = settings.SAYSO_MARK
    told = json.loads(path.read_text() or "{}") if path.exists() else {}
    if told.pop("attempt", None):
        path.write_text(json.dumps(told))


def drop_abandoned() -> None:
    """Databases of sessions that were killed."""
    from django.conf import settings

    with psycopg.connect(settings.DATABASE_OWNER_URL, dbname="postgres", autocommit=True) as connection:
        for (name,) in connection.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [PREFIX]):
            pid = name.removeprefix(PREFIX).partition("_")[0]
            if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
                connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def owner() -> psycopg.Connection:
    """A connection of the tables' owner, autocommitting: for what the app role must not do."""
    return psycopg.connect(os.environ["DATABASE_OWNER_URL"], autocommit=True, options="-c lock_timeout=10s")


def make_clock_movable(connection: psycopg.Connection) -> None:
    if connection.execute("SELECT to_regproc('sayso_now')").fetchone()[0]:
        connection.execute(MOVABLE_CLOCK)


def empty(connection: psycopg.Connection) -> None:
    """Delete every row but those in the SPARED, as the owner: history refuses DELETE, and the app may not TRUNCATE."""
    tables = [sql.Identifier(name) for (name,) in connection.execute(TABLES) if name not in SPARED]
    for attempt in range(3):
        try:
            with connection.transaction():
                # waits for writers a test left behind; readers may go on
                connection.execute(sql.SQL("LOCK {} IN SHARE ROW EXCLUSIVE MODE").format(sql.SQL(", ").join(tables)))
                delete(connection, tables)
            forget_intents()
            return
        except errors.DeadlockDetected:
            if attempt == 2:
                raise


def delete(connection: psycopg.Connection, tables: list[sql.Identifier]) -> None:
    try:
        with connection.transaction():
            connection.execute(
                "SET LOCAL session_replication_role = replica"
            )  # no triggers, ours and the foreign keys'
    except errors.InsufficientPrivilege:  # a server that is not ours
        connection.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(tables)))
        return
    ask = sql.SQL("SELECT {} WHERE EXISTS (SELECT FROM {})")
    filled = sql.SQL(" UNION ALL ").join(ask.format(sql.Literal(number), table) for number, table in enumerate(tables))
    for (number,) in connection.execute(filled).fetchall():
        connection.execute(sql.SQL("DELETE FROM {}").format(tables[number]))


class Clock:
    """`sayso_now()`, moved for every connection and process at once."""

    def __init__(self, connection: psycopg.Connection):
        self.connection = connection

    def move(self, **ahead) -> None:
        """`clock.move(minutes=5)`: five minutes pass."""
        self.connection.execute("UPDATE sayso_test_clock SET ahead = ahead + %s", [timedelta(**ahead)])

    def now(self):
        return self.connection.execute("SELECT sayso_now()").fetchone()[0]

    def reset(self) -> None:
        self.connection.execute("UPDATE sayso_test_clock SET ahead = '0'")


def everything() -> str:
    """Every row of every table, as text; what is bytes there, as its text too."""
    from django.db import connection

    found = []
    with connection.cursor() as cursor:
        cursor.execute(TABLES)
        for (table,) in cursor.fetchall():
            cursor.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table)))
            found += [_legible(value) for row in cursor.fetchall() for value in row]
    return "\n".join(found)


def _legible(value) -> str:
    return bytes(value).decode(errors="replace") if isinstance(value, bytes | memoryview) else str(value)
