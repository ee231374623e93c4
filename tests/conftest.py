import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.test import TransactionTestCase

from console import chromium
from tests import database


class QuickHasher(PBKDF2PasswordHasher):
    """One round: what it made, the real one verifies."""

    iterations = 1


def pytest_addoption(parser):
    parser.addoption("--fail-on-skip", action="store_true", help="a skipped test fails the session")
    parser.addoption("--screenshots", metavar="DIR", help="keep a picture of every page, in both widths and themes")


def pytest_configure(config):
    from django.conf import settings

    settings.PASSWORD_HASHERS = ["tests.conftest.QuickHasher", *settings.PASSWORD_HASHERS]
    database.find_server()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("--fail-on-skip") and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    if config.getoption("--fail-on-skip") and (skipped := terminalreporter.stats.get("skipped")):
        terminalreporter.write_line(f"{len(skipped)} skipped: a failure here", red=True)


@pytest.fixture(scope="session")
def as_owner(django_db_blocker):
    from django.conf import settings

    with django_db_blocker.unblock():
        database.drop_abandoned()
        database.connect_as(settings.DATABASE_OWNER_URL)
    yield


@pytest.fixture(scope="session")
def django_db_setup(as_owner, django_db_setup, django_db_blocker):
    from django.conf import settings

    real = settings.DATABASES["default"]["NAME"]
    database.name_database(real)
    with django_db_blocker.unblock():
        database.connect_as(settings.DATABASE_URL)
    connection = database.owner()
    database.make_clock_movable(connection)
    with django_db_blocker.unblock():
        database.begin_epoch()
    TransactionTestCase._fixture_teardown = lambda self: database.empty(connection)
    yield
    connection.execute(database.STRAYS)
    connection.close()
    with django_db_blocker.unblock():
        database.connect_as(settings.DATABASE_OWNER_URL)


@pytest.fixture
def owner(django_db_setup):
    """A psycopg connection of the tables' owner, outside the test's transaction."""
    with database.owner() as connection:
        yield connection


@pytest.fixture
def clock(owner):
    """The one clock of R05: `clock.move(minutes=5)`."""
    moving = database.Clock(owner)
    yield moving
    moving.reset()


@pytest.fixture
def race(transactional_db):
    """`race(ada_approves, bob_denies)`: at the same moment, each on a connection of its own. Results or exceptions."""
    from django.db import connection, connections

    def run(*calls):
        line = threading.Barrier(len(calls), timeout=20)

        def one(call):
            try:
                connection.ensure_connection()
                line.wait()
                return call()
            except Exception as error:
                return error
            finally:
                connections.close_all()

        with ThreadPoolExecutor(len(calls)) as threads:
            return list(threads.map(one, calls))

    return run


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    quiet = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
    quiet += ["--disable-component-update", "--disable-sync"]
    return {**browser_type_launch_args, "executable_path": chromium.find(), "args": quiet}
