"""Who waits for news in this process: one LISTEN connection wakes them all. A push is a hint, never the data (R39)."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
from django.db import connections

from .events import NEWS

QUIET = 20  # seconds without a notification before the line is tried
log = logging.getLogger(__name__)


class Ear:
    """One subscriber's topics: an Event that stays set until it is waited for. What is new, the tables say."""

    def __init__(self, topics: tuple[str, ...]):
        self.topics = topics
        self._heard = asyncio.Event()

    async def wait(self) -> None:
        """As soon as there is news; news that came meanwhile is not lost."""
        await self._heard.wait()
        self._heard.clear()

    def set(self) -> None:
        self._heard.set()

    def clear(self) -> None:
        self._heard.clear()

    def is_set(self) -> bool:
        return self._heard.is_set()


class Hub:
    """Topics are the ids of Sessions, of tenants and of credentials, as text."""

    def __init__(self):
        self._ears: dict[str, set[Ear]] = {}
        self._task: asyncio.Task | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stands = asyncio.Event()
        self._line: psycopg.AsyncConnection | None = None
        self._turns = asyncio.Lock()
        self.wakes = 0  # a read begun before a wake must not be shared after it

    def subscribe(self, *topics) -> Ear:
        """Listen from now on. Read the tables after this call, never before it, or a commit between is missed."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._ears, self._task, self._loop, self._stands = {}, None, loop, asyncio.Event()
            self._line, self._turns = None, asyncio.Lock()
        ear = Ear(tuple(map(str, topics)))
        for topic in ear.topics:
            self._ears.setdefault(topic, set()).add(ear)
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._listen())
        return ear

    def unsubscribe(self, ear: Ear) -> None:
        for topic in ear.topics:
            ears = self._ears.get(topic, set())
            ears.discard(ear)
            if not ears:
                self._ears.pop(topic, None)

    @contextmanager
    def listening(self, *topics) -> Iterator[Ear]:
        ear = self.subscribe(*topics)
        try:
            yield ear
        finally:
            self.unsubscribe(ear)

    async def stands(self, seconds: float = 2) -> None:
        """Until LISTEN stands. If the database keeps it waiting, whoever waits is woken once it does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):  # `wait_for` of Python 3.11 loses a cancel that comes with the news
                await self._stands.wait()

    async def ask(self, sql: str, values: dict) -> list[tuple]:
        """What one query says, by a connection kept for it: no thread, no pool. Raises psycopg.Error."""
        async with self._turns:
            if self._line is None or self._line.closed:
                self._line = await psycopg.AsyncConnection.connect(**_parameters(), autocommit=True)
            try:
                return await (await self._line.execute(sql, values)).fetchall()
            except psycopg.OperationalError:  # the server may have been restarted since the last query
                await self._line.close()
                self._line = await psycopg.AsyncConnection.connect(**_parameters(), autocommit=True)
                return await (await self._line.execute(sql, values)).fetchall()

    def wake(self, topic: str) -> None:
        self.wakes += 1
        for ear in self._ears.get(topic, ()):
            ear.set()

    def wake_all(self) -> None:
        for topic in list(self._ears):
            self.wake(topic)

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if self._line:
            await self._line.close()
            self._line = None

    async def _listen(self) -> None:
        delay = 0.1
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(**_parameters(), autocommit=True) as connection:
                    await connection.execute(f"listen {NEWS}")
                    delay = 0.1
                    self.wake_all()  # what was committed while nobody listened
                    self._stands.set()
                    while True:
                        async for notice in connection.notifies(timeout=QUIET):
                            self._hear(notice.payload)
                        await connection.execute("select 1")  # notices a dead line
            except (psycopg.Error, OSError) as broken:
                self._stands.clear()
                log.warning("LISTEN was cut (%s); again in %.1f s", type(broken).__name__, delay)
                await asyncio.sleep(delay)
                delay = min(delay * 2, 5)

    def _hear(self, payload: str) -> None:
        for topic in payload.split(" ")[:2]:
            self.wake(topic)


def _parameters() -> dict:
    """The app's own connection parameters, for a connection outside its pool."""
    wanted = ("host", "port", "user", "password", "dbname", "sslmode", "sslrootcert")
    found = connections["default"].get_connection_params()
    return {name: found[name] for name in wanted if found.get(name)}


hub = Hub()
