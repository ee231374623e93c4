"""Calls that wait: long polls, streams and sockets, before Django's threads. While one waits it holds a coroutine: no
thread, no database connection. Woken by the hub; the tables say what is new (R37, R39, R40).

    Waiting(application, [Wait(r"/api/…/requests/(?P<id>[^/]+)", "aap", look, refuse), Feed(…)])

A GET with `wait=` of a path that a `Wait` matches, and a stream or socket that a `Feed` matches, are answered here; all
else goes on to `application`.
"""

import asyncio
import logging
import re
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import parse_qsl
from uuid import UUID, uuid4

from django.db import InterfaceError, OperationalError, connections

from .. import credentials
from ..errors import Busy, InvalidInput, NotFound, SaysoError, TooMany
from ..hub import hub
from ..permissions import Actor, Context
from . import watchers

LONGEST = 30  # seconds that one call waits at most
AGAIN = 30  # seconds until the tables are looked at again without news: a lost push costs no more (R39)
PULSE = 1  # seconds between looks at whether the credentials of all who wait still live (R40)
THREADS = 4  # that read for all who wait, each with one database connection while it reads
MOST, MOST_OF_ONE = 10_000, 2_000  # calls that wait at once, here and of one credential

DURATION = re.compile(r"([1-9][0-9]*)(s|m|h)")
UNITS = {"s": 1, "m": 60, "h": 3600}
QUIET = [("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")]
log = logging.getLogger(__name__)


class Answer(NamedTuple):
    """What a look gives. Not `final`: it is looked again when there is news of `topic`, the id of a Session or tenant,
    and after `again` seconds, until the call's time is over."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    final: bool = True
    topic: str = ""
    again: float = AGAIN


@dataclass(frozen=True)
class Wait:
    """A GET that may wait. `look(context, match, query) -> Answer` reads; it runs in a thread and is shared by all who
    ask the same at once. `refuse(error, exchange) -> Answer` says a refusal in the words of its door."""

    path: str
    scope: str
    look: Callable
    refuse: Callable


def seconds(query: dict[str, str]) -> float:
    """How long this call may wait: `30s`, `1m`; more than 30 s is 30 s. Raises InvalidInput."""
    told = DURATION.fullmatch(query.get("wait", ""))
    if told is None:
        wrong = "a whole number and s, m or h: 30s"
        raise InvalidInput(f"`wait` is {wrong}.", fields={"wait": wrong})
    return min(int(told[1][:6]) * UNITS[told[2]], LONGEST)


class Waiting:
    """The ASGI application in front of another."""

    def __init__(self, application, waits: list):
        self.application = application
        self.waits = [(re.compile(wait.path), wait) for wait in waits]

    async def __call__(self, scope, receive, send):
        answer, wait, match, query = self._found(scope)
        if answer is None:
            return await self.application(scope, receive, send)
        await answer(Call(wait, match, query, scope), receive, send)

    def _found(self, scope):
        if scope["type"] not in ("http", "websocket") or scope.get("method", "GET") != "GET":
            return None, None, None, {}
        for path, wait in self.waits:
            if match := path.fullmatch(scope["path"]):
                query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
                if answer := wait_for(wait, scope, query):
                    return answer, wait, match, query
        return None, None, None, {}


def wait_for(wait, scope, query) -> Callable | None:
    """How this call of this path is answered here, or None: it does not wait."""
    if not _shown(wait, scope):
        return None  # nobody waits without a credential or a session
    if not isinstance(wait, Wait):
        return wait.answering(scope)
    return poll if scope["type"] == "http" and "wait" in query else None


def _shown(wait, scope) -> bool:
    """Whether this call shows who makes it. No socket by a session: a page of elsewhere could ride on its cookie."""
    shown = dict(scope["headers"])
    if b"authorization" in shown:
        return True
    person = scope["type"] == "http" and wait.scope == "api"
    return person and bool(watchers.session_of(shown.get(b"cookie", b"").decode("latin-1")))


class Call:
    """One call that waits: what it asked, and who asked once that is known."""

    def __init__(self, wait, match: re.Match, query: dict[str, str], scope):
        self.wait, self.match, self.query = wait, match, query
        self.headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        self.peer = (scope.get("client") or ("", 0))[0]
        self.exchange = str(uuid4())
        self.who: watchers.Bearer | watchers.SignedIn | None = None
        self.context: Context | None = None

    async def begin(self, look: Callable, *more):
        """Find who calls, and look, by one reading. Raises NotSignedIn, TooMany, and what `look` does."""
        self.who = who = watchers.of(self.headers, self.peer or "", self.wait.scope)
        match, query = self.match, self.query

        def read():
            context = who.begins()
            return context, _seen(look, who, context, match, query, *more)

        self.context, found = await reads.own(read, who)
        return found

    def credential(self) -> list[UUID]:
        """The topic on which the end of its credential is told, if it has one."""
        return [self.context.credential_id] if self.context.credential_id else []

    async def look(self, look: Callable, *more):
        """What `look` says now; one reading for all who ask the same. NotSignedIn once the right to it ended."""
        who, context, match, query = self.who, self.context, self.match, self.query

        def read():
            who.may_still(context)
            return _seen(look, who, context, match, query, *more)

        same = (look, who, context, match.groups(), tuple(sorted(query.items())), more, hub.wakes)
        return await reads.shared(same, read, caller(context))


def _seen(look: Callable, who, context: Context, *more):
    try:
        return look(context, *more)
    except NotFound:  # to whoever lost the right to it since they showed it nothing is there
        who.may_still(context)
        raise


# ---------------------------------------------------------------- long polls


async def poll(call: Call, receive, send) -> None:
    """Answer when there is something final, when the time is over, or with 401 when the credential ends."""
    holding = asyncio.ensure_future(_held(call))
    gone = asyncio.ensure_future(until_gone(receive))
    try:
        await asyncio.wait({holding, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not gone.done():
            await send_answer(send, await holding, call.exchange)
    finally:
        holding.cancel()
        gone.cancel()
        await asyncio.gather(holding, gone, return_exceptions=True)


async def _held(call: Call) -> Answer:
    try:
        return await _until(call, seconds(call.query))
    except SaysoError as error:
        return Answer(*call.wait.refuse(error, call.exchange))


async def _until(call: Call, left: float) -> Answer:
    answer = Answer(*await call.begin(call.wait.look))
    if answer.final:
        return answer
    ends = asyncio.get_running_loop().time() + left
    with watched(call.context), hub.listening(answer.topic, *call.credential()) as ear:
        await hub.stands()
        while True:
            ear.clear()  # what follows is read after listening began: nothing falls between
            answer = Answer(*await call.look(call.wait.look))
            left = ends - asyncio.get_running_loop().time()
            if answer.final or left <= 0:
                return answer
            await heard(ear, min(left, answer.again))


async def heard(ear, longest: float) -> bool:
    """Whether there was news within so many seconds. `wait_for` of Python 3.11 loses a cancel that comes with it."""
    try:
        async with asyncio.timeout(longest):
            await ear.wait()
        return True
    except TimeoutError:
        return False


async def until_gone(receive) -> None:
    """Until the caller has gone."""
    while (await receive())["type"] not in ("http.disconnect", "websocket.disconnect"):
        pass


async def send_answer(send, answer: Answer, exchange: str) -> None:
    headers = [*answer.headers, *QUIET, ("X-Request-ID", exchange), ("Content-Length", str(len(answer.body)))]
    await send({"type": "http.response.start", "status": answer.status, "headers": encoded(headers)})
    await send({"type": "http.response.body", "body": answer.body})


def encoded(headers: list[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]


# ---------------------------------------------------------------- reading for all who wait


class Reads:
    """Few threads, few connections, and one reading for all who ask the same at the same time. Callers take turns: who
    waits with a thousand calls delays their own."""

    def __init__(self):
        self._threads = ThreadPoolExecutor(THREADS, "waiting")
        self._lock = threading.Lock()
        self._coming: dict = {}  # readings that have not begun
        self._lines: dict = {}  # caller to what was asked and has not begun; whose turn is next is first

    async def own(self, read: Callable, caller=None):
        """What only this caller asks."""
        return await self.shared(object(), read, caller)

    async def shared(self, same, read: Callable, caller=None):
        with self._lock:
            if same not in self._coming:
                self._coming[same] = future = Future()
                self._lines.setdefault(caller, deque()).append((same, read, future))
                self._threads.submit(self._next)
            future = self._coming[same]
        # shielded: one who goes away takes nothing from those who share
        return await asyncio.shield(asyncio.wrap_future(future))

    def _next(self):
        with self._lock:  # none joins a reading that has begun: it could have missed what they were woken for
            caller, line = next(iter(self._lines.items()))
            same, read, future = line.popleft()
            del self._lines[caller], self._coming[same]
            if line:
                self._lines[caller] = line  # behind all others
        try:
            future.set_result(self._read(same, read))
        except BaseException as failed:
            future.set_exception(failed)

    def _read(self, same, read):
        try:
            return read()
        except (OperationalError, InterfaceError) as failed:
            connections.close_all()
            raise Busy("The database does not answer; nothing happened.", retry_after=1) from failed
        finally:
            if not self._coming:  # back to the pool: who waits holds none
                connections.close_all()


reads = Reads()


# ---------------------------------------------------------------- who may go on waiting


_watched: Counter = Counter()  # credential, or person, to how many of their calls wait
_pulse: asyncio.Task | None = None


def caller(context: Context) -> UUID | Actor:
    """Whose calls are counted, and take turns, together."""
    return context.credential_id or context.actor


@contextmanager
def watched(context: Context):
    """While it waits, the caller's credential is looked at each second, together with all others; a person's session
    each time the tables are looked at. Raises TooMany."""
    global _pulse
    one = caller(context)
    if _watched.total() >= MOST or _watched[one] >= MOST_OF_ONE:
        raise TooMany("Too many calls wait already.", retry_after=5)
    _watched[one] += 1
    loop = asyncio.get_running_loop()
    if _pulse is None or _pulse.done() or _pulse.get_loop() is not loop:
        _pulse = loop.create_task(_beat())
    try:
        yield
    finally:
        _watched[one] -= 1
        _watched.pop(one) if not _watched[one] else None


async def _beat() -> None:
    """Wake whoever waits with a credential that has ended: it looks again, and is told."""
    while _watched:
        await asyncio.sleep(PULSE)
        waiting = {each for each in _watched if isinstance(each, UUID)}
        with suppress(Busy):
            for dead in waiting - await reads.own(lambda: credentials.those_alive(waiting)):  # noqa: B023
                hub.wake(str(dead))
