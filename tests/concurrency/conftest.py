import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from tests import database
from tests.runtime.conftest import harbour, houses, northgate  # noqa: F401

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@pytest.fixture
def crowd(northgate):  # noqa: F811
    """`crowd("approver", 20)`: so many people with that role, by name."""

    def crowd(role: str, count: int) -> list[str]:
        names = [f"{role.title()}{number}" for number in range(count)]
        for name in names:
            northgate.join(name, role)
        return names

    return crowd


@pytest.fixture
def while_held(owner):
    """`while_held(session_id, call, meanwhile)`: what `call` comes to when it had to wait for the Session's lock, and
    `meanwhile` happened while it waited; `by_holder(connection)` happens in the transaction that held it."""

    def run(id, call, meanwhile=lambda: None, *, by_holder=lambda connection: None, table="session"):
        with database.owner() as holder, ThreadPoolExecutor(1) as threads:
            with holder.transaction():
                holder.execute(f"SELECT FROM runtime_app_{table} WHERE id = %s FOR NO KEY UPDATE", [id])
                waiting = threads.submit(_alone, call)
                _until_one_waits(owner, waiting)
                meanwhile()
                by_holder(holder)
            return waiting.result()

    return run


def _alone(call):
    try:
        return call()
    except Exception as error:
        return error
    finally:
        connections.close_all()


def _until_one_waits(owner, waiting) -> None:
    pause = threading.Event()
    for _ in range(2_000):
        assert not waiting.done(), f"it did not wait for the lock: {waiting.result()!r}"
        if owner.execute(WAITING).fetchone()[0]:
            return
        pause.wait(0.005)
    raise AssertionError("nobody waits for the lock")


@pytest.fixture
def deadlocks(owner):
    """How many deadlocks PostgreSQL has seen in the tests' database so far."""

    def count() -> int:
        owner.execute("SELECT pg_stat_clear_snapshot()")
        counted = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        return owner.execute(counted).fetchone()[0]

    return count
