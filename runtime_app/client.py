"""The client of agents elsewhere; it needs httpx, and no Django.

    from runtime_app.client import Sayso

    with Sayso(base_url, token) as sayso, sayso.running("Write to the list") as run:
        named = sayso.ask(run, "Which list?", {"type": "object", "properties": {"name": {"type": "string"}}})
        sayso.effect(run, "mail/send", {"to": named["name"]}, lambda key, parameters: send(key, **parameters))

`AsyncSayso` is the same with `await`. What each verb does stands in `calling`; it never answers for a person.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import isawaitable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import httpx

from .calling import WAIT, Call, Calling, Do, Event, NotGiven, Pause, Report, Request, Run, Steps, Unreachable
from .errors import RunEnded
from .states import ENDED

__all__ = ["AsyncSayso", "Event", "NotGiven", "Report", "Request", "Run", "Sayso", "Unreachable"]

P, T = ParamSpec("P"), TypeVar("T")


class verb(Generic[P, T]):
    """A method of `Calling`, taken at once by `Sayso`, awaited by `AsyncSayso`."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]):
        self.steps = steps

    @overload
    def __get__(self, client: "Sayso", owner=None) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: "AsyncSayso", owner=None) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, client, owner=None):
        if client is None:
            return self.steps
        return wraps(self.steps)(lambda *args, **named: client._take(self.steps(client.calling, *args, **named)))


class _Client:
    """`base_url` ends in /api/v1. `patience`: seconds to go on trying. `http`: an httpx client of your own."""

    def __init__(self, base_url: str, token: str, *, patience: float = 60.0, http=None):
        self.calling = Calling(base_url, token, patience)
        self._http = http or self._made(follow_redirects=False)

    def __repr__(self):
        return f"{type(self).__name__}({self.calling.base_url!r})"

    me = verb(Calling.me)
    start = verb(Calling.start)
    run = verb(Calling.run)
    turn = verb(Calling.turn)
    complete = verb(Calling.complete)
    fail = verb(Calling.fail)
    stopped = verb(Calling.stopped)
    cancel = verb(Calling.cancel)
    question = verb(Calling.question)
    ask = verb(Calling.ask)
    approval = verb(Calling.approval)
    wait = verb(Calling.wait)
    request = verb(Calling.request)
    secrets = verb(Calling.secrets)
    acknowledge_secrets = verb(Calling.acknowledge_secrets)
    effect = verb(Calling.effect)
    act = verb(Calling.act)
    evidence = verb(Calling.evidence)

    def running(self, message: str, **more) -> "Running":
        """As `start`, for `with`: a heartbeat beside it; at the end it is complete with `run.ends_with`, or failed with
        the exception, or stopped if it was cancelled. What ends the process leaves it to the next start under `key`;
        RunEnded if the Run under that key has ended."""
        return Running(self, message, more)

    def events(self, session: str | None = None, *, after: str | None = None, follow: bool = True) -> "Events":
        """The Events of a Session (or of all of yours) after a cursor, each once, in order; then live ones, for ever,
        if you `follow`. A dropped line or a restarted server costs nothing: it goes on after the last one."""
        return Events(self, session, after, follow)


class Sayso(_Client):
    """Every verb returns when it is done."""

    _made = httpx.Client

    def close(self) -> None:
        self._http.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _take(self, steps: Steps[T], pause: Callable = time.sleep) -> T:
        came = raised = None
        try:
            while True:
                step = steps.throw(raised) if raised is not None else steps.send(came)
                came = raised = None
                try:
                    match step:
                        case Call(method, url, content, headers, timeout):
                            came = self._http.request(method, url, content=content, headers=headers, timeout=timeout)
                        case Pause(seconds):
                            came = pause(seconds)
                        case Do(function, arguments):
                            came = function(*arguments)
                except BaseException as error:
                    raised = error
        except StopIteration as ended:
            return ended.value

    def _beside(self, steps: Steps) -> Callable[[], None]:
        over = threading.Event()
        beside = threading.Thread(target=self._take, args=(steps, over.wait), daemon=True)
        beside.start()

        def stop():
            over.set()
            beside.join(1)  # a heartbeat under way may go on by itself: it changes nothing

        return stop


class AsyncSayso(_Client):
    """Every verb is awaited; `async with`, `async for`. `effect` takes a plain or a coroutine function."""

    _made = httpx.AsyncClient

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.aclose()

    async def _take(self, steps: Steps[T]) -> T:
        came = raised = None
        try:
            while True:
                step = steps.throw(raised) if raised is not None else steps.send(came)
                came = raised = None
                try:
                    match step:
                        case Call(method, url, content, headers, timeout):
                            came = await self._http.request(
                                method, url, content=content, headers=headers, timeout=timeout
                            )
                        case Pause(seconds):
                            came = await asyncio.sleep(seconds)
                        case Do(function, arguments):
                            came = function(*arguments)
                            came = await came if isawaitable(came) else came
                except BaseException as error:
                    raised = error
        except StopIteration as ended:
            return ended.value

    def _beside(self, steps: Steps) -> Callable[[], None]:
        return asyncio.ensure_future(self._take(steps)).cancel


class Running:
    """`with sayso.running(…) as run`, or `async with`."""

    def __init__(self, client: _Client, message: str, more: dict):
        self.client, self.message, self.more = client, message, more

    def _enter(self) -> Steps[Run]:
        calling = self.client.calling
        self.run = yield from calling.start(self.message, **self.more)
        if self.run.state in ENDED:  # an earlier process ended it: nothing of the block is done again
            raise RunEnded(f"The Run under this key has {self.run.state} already.", reason=self.run.state)
        if self.run.state == "queued":  # an earlier process left it so
            yield from calling.turn(self.run)
        self.stop = self.client._beside(calling.beat(self.run))
        return self.run

    def _exit(self, error) -> Steps[None]:
        self.stop()
        yield from self.client.calling.end(self.run, error)

    def __enter__(self) -> Run:
        return self.client._take(self._enter())

    def __exit__(self, kind, error, trace) -> None:
        self.client._take(self._exit(error))

    async def __aenter__(self) -> Run:
        return await self.client._take(self._enter())

    async def __aexit__(self, kind, error, trace) -> None:
        await self.client._take(self._exit(error))


class Events:
    """`for event in sayso.events(…)`, or `async for`. `cursor`: where to go on, another day too."""

    def __init__(self, client: _Client, session: str | None, after: str | None, follow: bool):
        self.client, self.session, self.cursor, self.follow = client, session, after, follow
        self._ready: list[Event] = []
        self._more = True

    def _next(self) -> Steps[Event | None]:
        while not self._ready:
            if not self._more and not self.follow:
                return None
            held, patience = (WAIT * (not self._more), float("inf")) if self.follow else (0, None)
            page = yield from self.client.calling.page(self.session, self.cursor, held, patience)
            self._ready = [Event.of(each) for each in page["events"]]
            if page["gap"]:
                self._ready.insert(0, Event("" if self._ready else page["cursor"], "gap"))
            self._more = page["more"]
            if not page["events"]:
                self.cursor = page["cursor"]
        event = self._ready.pop(0)
        self.cursor = event.id or self.cursor
        return event

    def __iter__(self):
        return self

    def __next__(self) -> Event:
        if (event := self.client._take(self._next())) is None:
            raise StopIteration
        return event

    def __aiter__(self):
        return self

    async def __anext__(self) -> Event:
        if (event := await self.client._take(self._next())) is None:
            raise StopAsyncIteration
        return event
