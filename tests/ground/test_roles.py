"""The two database roles, and what the tests' own ground gives."""

import os
import subprocess
import sys

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.utils import ProgrammingError

from console.environ import ROOT

pytestmark = pytest.mark.django_db


def refused(statement: str) -> str:
    with pytest.raises(ProgrammingError) as error, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    return str(error.value)


def test_the_app_role_cannot_make_change_or_empty_a_table():
    assert "permission denied" in refused("CREATE TABLE mine ()")
    assert "must be owner" in refused("ALTER TABLE auth_user ADD COLUMN mine int")
    assert "must be owner" in refused("DROP TABLE auth_user")
    assert "permission denied" in refused("TRUNCATE auth_user CASCADE")


def test_the_app_role_can_become_nobody_else():
    assert "permission denied" in refused("SET ROLE sayso_owner")
    assert "permission denied" in refused("CREATE ROLE mallory")
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolsuper OR rolbypassrls OR rolcreatedb FROM pg_roles WHERE rolname = current_user")
        assert cursor.fetchone() == (False,)


def test_the_app_role_waits_for_nothing_for_long_R38():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('idle_in_transaction_session_timeout'), current_setting('lock_timeout'),"
            " current_setting('statement_timeout')"
        )
        assert cursor.fetchone() == ("10s", "5s", "30s")


def test_neither_side_waits_for_hours_for_one_that_fell_silent():
    """Half-open lines: both ends ask after 10 s, and give up after 25 s."""
    asked = connection.get_connection_params()
    assert (asked["keepalives_idle"], asked["keepalives_count"], asked["tcp_user_timeout"]) == (10, 3, 25_000)
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolconfig FROM pg_roles WHERE rolname = current_user")
        assert {"tcp_keepalives_idle=10s", "tcp_user_timeout=25s"} <= set(cursor.fetchone()[0])


def test_the_app_role_uses_what_the_owner_made():
    User.objects.create(username="ada")
    User.objects.filter(username="ada").update(first_name="Ada")
    assert User.objects.get().first_name == "Ada"
    User.objects.all().delete()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("turn", [1, 2])
def test_what_one_test_commits_the_next_does_not_see(turn):
    assert not User.objects.exists()
    User.objects.create(username="ada")


def test_statements_can_be_counted(owner):
    assert owner.execute("SELECT count(*) FROM pg_stat_statements").fetchone()[0] >= 0


def test_in_a_race_each_has_a_connection_of_its_own(race):
    def backend():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            return cursor.fetchone()[0]

    def fails():
        raise ValueError("Bob tripped")

    *pids, error = race(*[backend] * 20, fails)
    assert len(set(pids)) == 20
    assert isinstance(error, ValueError)


def test_everybody_sees_the_clock_move_R05(clock, owner):
    with connection.cursor() as cursor:
        cursor.execute("SELECT sayso_now() - clock_timestamp()")
        before = cursor.fetchone()[0]
        clock.move(hours=2)
        cursor.execute("SELECT sayso_now() - clock_timestamp()")
        assert 7190 < (cursor.fetchone()[0] - before).total_seconds() < 7210
    clock.reset()
    assert abs((clock.now() - owner.execute("SELECT clock_timestamp()").fetchone()[0]).total_seconds()) < 1


def test_a_second_superuser_session_is_not_needed(owner):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        owner.execute("ALTER ROLE sayso_owner SUPERUSER")


def test_web_and_worker_do_not_start_as_the_owner_of_the_tables(owner):
    def check(**variables):
        return subprocess.run(
            [sys.executable, "-m", "console.cli", "manage", "check", "--database", "default"],
            cwd=ROOT, env=os.environ | variables, capture_output=True, text=True,
        )  # fmt: skip

    assert "no issues" in check().stdout
    refused = check(DATABASE_URL=os.environ["DATABASE_OWNER_URL"])
    assert refused.returncode == 1 and "sayso.E002" in refused.stderr and "HINT: " in refused.stderr
