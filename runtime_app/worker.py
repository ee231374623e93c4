"""One worker process: claims turns and dispatches from our own tables, keeps its Leases, looks again when told to or
when time has passed. Any number of them work side by side; what each may write is fenced in `transitions`."""

import asyncio
import atexit
import logging
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import psycopg
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from . import transitions
from .actions import NotCommitted, Reply
from .errors import Busy, LeaseLost, RunEnded, SaysoError
from .events import WORK
from .failpoints import failpoint
from .hosted import registry
from .hosted.steps import take
from .ids import uuid7
from .selectors.claimable import claimable

log = logging.getLogger(__name__)

DOMAIN_THREADS = 4  # each keeps a database connection
STOP_WITHIN = 0.5  # seconds a cancelled turn has to end before it is left behind
LEAVE_WITHIN = 3.5  # seconds that dispatches under way, and everything else, have when the worker stops
KINDS = ("run", "effect", "probe")  # what a hint may say became claimable
TRIES = 5  # of recording what a provider said


@dataclass
class UnderWay:
    turn: transitions.Turn
    task: asyncio.Task


class Worker:
    def __init__(self):
        self.id = uuid7()
        self.name = f"{socket.gethostname()} {os.getpid()}"
        self.turns: dict[UUID, UnderWay] = {}
        self.sends: set[asyncio.Task] = set()
        self.leaving: set[asyncio.Task] = set()
        self.stopped = asyncio.Event()
        self.swept = self.looked = float("-inf")
        self.news = asyncio.Event()
        self.hints: Counter[str] = Counter()  # what we were told of and have not tried to claim
        self.domain = ThreadPoolExecutor(DOMAIN_THREADS, "domain")
        self.pulse = ThreadPoolExecutor(1, "pulse")  # a Lease must not lapse because the others wait for a lock
        self.providers = ThreadPoolExecutor(settings.SAYSO_WORKER_TURNS, "provider")

    # ------------------------------------------------------------------------------------------------ its life

    async def run(self) -> None:
        """Work until SIGTERM or SIGINT; then give the turns back, let dispatches under way end, and leave."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.stop)
        await self.beat()
        looking = asyncio.create_task(self._look_until_stopped())
        beside = [asyncio.create_task(self._beats()), asyncio.create_task(self._listen())]
        log.info("worker %s is looking for work", self.name)
        await self.stopped.wait()
        leaving = asyncio.create_task(self._leave(looking))
        await asyncio.wait({leaving}, timeout=LEAVE_WITHIN)
        for task in beside:
            task.cancel()
        await asyncio.wait(beside)

    def stop(self) -> None:
        self.stopped.set()
        self.news.set()

    async def _leave(self, looking: asyncio.Task) -> None:
        await looking
        await asyncio.gather(*(self._drop(run, self._give_back) for run in list(self.turns)))
        if under_way := self.sends | self.leaving:
            await asyncio.wait(under_way)
        await self._in(self.pulse, transitions.leave, self.id)  # else it is missed, and what it sent is uncertain

    # ------------------------------------------------------------------------------------------------ looking

    async def _look_until_stopped(self) -> None:
        while not self.stopped.is_set():
            self.news.clear()  # before the look: what is told during it means another look
            rest = settings.SAYSO_LOOK_SECONDS / 2
            try:
                await self._look()
            except Exception as failed:
                self._complain("could not look for work", failed)
                self.looked, rest = float("-inf"), min(1, rest)
            try:
                async with asyncio.timeout(rest):
                    await self.news.wait()
            except TimeoutError:
                pass

    async def _look(self) -> None:
        """Claim what we were told of. Now and then see for ourselves what there is, and sweep."""
        now = time.monotonic()
        if now - self.looked >= settings.SAYSO_LOOK_SECONDS:
            self.looked = now
            self.hints |= Counter(await self.call(claimable))  # the larger of each
        work = [
            self._claim("run", self._room_for_turns, transitions.claim, self._begin),
            self._claim("effect", self._room_to_send, transitions.intend, self._dispatch),
            self._claim("probe", self._room_to_send, transitions.recovering, self._recover),
        ]
        if now - self.swept >= settings.SAYSO_LOOK_SECONDS / 2:
            self.swept = now
            work.append(self.call(transitions.sweep))
        # one that fails does not keep the others from their work
        for failed in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(failed, BaseException):
                raise failed

    async def _claim(self, word: str, room: Callable, verb: Callable, begin: Callable) -> None:
        """One by one, as long as there is room. A "run" is one Run; "effect" and "probe" may each be several."""
        while (heard := self.hints[word]) and room():
            before = time.monotonic()
            found = await self.call(verb, self.id)
            if found is None:
                self.hints[word] -= heard  # not those that were heard meanwhile
            else:
                self.hints[word] -= word == "run"
                begin(found, before)

    def _room_for_turns(self) -> bool:
        return not self.stopped.is_set() and len(self.turns) < settings.SAYSO_WORKER_TURNS

    def _room_to_send(self) -> bool:
        return not self.stopped.is_set() and len(self.sends) < settings.SAYSO_WORKER_TURNS

    def _begin(self, turn: transitions.Turn, before: float) -> None:
        self.turns[turn.run.pk] = UnderWay(turn, asyncio.create_task(self._take(turn)))

    def _dispatch(self, dispatch: transitions.Dispatch, before: float) -> None:
        # the intent is younger than `before`, so its time to send is not over earlier
        self._send(self._sending(dispatch, before + dispatch.seconds))

    def _recover(self, recovery: transitions.Recovery, before: float) -> None:
        self._send(self._recovering(recovery))

    def _send(self, work: Coroutine) -> None:
        task = asyncio.create_task(work)
        self.sends.add(task)
        task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task) -> None:
        self.sends.discard(task)
        self.news.set()

    # ------------------------------------------------------------------------------------------------ turns

    async def _take(self, turn: transitions.Turn) -> None:
        failpoint("turn.claimed")
        try:
            await take(turn, self.call)
        except LeaseLost:
            log.info("run %s is somebody else's now", turn.run.pk)
        except RunEnded:
            await self._stopped(turn)
        except (DatabaseError, InterfaceError, SaysoError) as failed:
            log.warning("run %s: the turn could not be written: %s", turn.run.pk, failed)
            await self._give_back(turn)
        except Exception:
            log.exception("run %s: the turn broke", turn.run.pk)
            await self._give_back(turn)
        finally:
            if (under_way := self.turns.get(turn.run.pk)) and under_way.turn is turn:
                del self.turns[turn.run.pk]
            self.news.set()

    async def _drop(self, run_id: UUID, then: Callable) -> None:
        """Stop working at a Run, and say so (R29). What a tool's thread still does, nobody can write any more."""
        under_way = self.turns.pop(run_id, None)
        if under_way is None:
            return
        under_way.task.cancel()
        await asyncio.wait({under_way.task}, timeout=STOP_WITHIN)
        if not under_way.task.done():
            self.leaving.add(under_way.task)
            under_way.task.add_done_callback(self.leaving.discard)
        await then(under_way.turn)
        self.news.set()

    async def _stopped(self, turn: transitions.Turn) -> None:
        await self._quietly(transitions.stopped, turn)

    async def _give_back(self, turn: transitions.Turn) -> None:
        await self._quietly(transitions.give_back, turn)

    async def _quietly(self, verb: Callable, turn: transitions.Turn) -> None:
        try:
            await self.call(verb, turn)
        except (LeaseLost, RunEnded):
            pass
        except (DatabaseError, InterfaceError, SaysoError) as failed:
            log.warning("run %s: left to its Lease: %s", turn.run.pk, failed)

    # ------------------------------------------------------------------------------------------------ the outside

    async def _sending(self, dispatch: transitions.Dispatch, send_by: float) -> None:
        failpoint("dispatch.intent_committed")
        reply = await self._outside(send_in_time, dispatch, send_by)
        await self._record(transitions.record, dispatch, reply)
        failpoint("dispatch.result_committed")

    async def _recovering(self, recovery: transitions.Recovery) -> None:
        found = await self._outside(_probe, recovery)
        await self._record(transitions.recovered, recovery, found)

    async def _outside(self, function: Callable, *arguments):
        return await asyncio.get_running_loop().run_in_executor(self.providers, function, *arguments)

    async def _record(self, verb: Callable, what, reply) -> None:
        """Try for a few seconds: what a provider said is worth more than what a sweep would have to assume."""
        for wait in [0.1 * 2**n for n in range(TRIES)]:
            try:
                return await self.call(verb, what, reply)
            except (DatabaseError, InterfaceError, Busy) as failed:
                log.warning("effect %s: its reply is not recorded yet: %s", what.effect_id, failed)
                await asyncio.sleep(wait)
            except SaysoError as refused:
                log.warning("effect %s: its reply came too late: %s", what.effect_id, refused)
                return
        log.error("effect %s: its reply could not be recorded; it will be uncertain", what.effect_id)

    # ------------------------------------------------------------------------------------------------ news and Leases

    async def _beats(self) -> None:
        while True:
            await asyncio.sleep(settings.SAYSO_BEAT_SECONDS)
            try:
                await self.beat()
            except Exception as failed:
                self._complain("could not renew the Leases", failed)

    async def beat(self) -> None:
        held = {run_id: under_way.turn for run_id, under_way in self.turns.items()}
        ended = await self._in(self.pulse, transitions.beat, self.id, self.name, list(held.values()))
        for run_id in ended:
            under_way = self.turns.get(run_id)
            if under_way and under_way.turn is held[run_id]:  # not a later turn of the same Run
                self._drop_soon(run_id)

    def _complain(self, what: str, failed: Exception) -> None:
        """The database may be away for a while; anything else is a fault of ours, and no reason to end."""
        known = isinstance(failed, (DatabaseError, InterfaceError, Busy))
        log.warning("%s: %s", what, failed, exc_info=not known)

    async def _listen(self) -> None:
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(**_where(), autocommit=True) as listening:
                    await listening.execute(f"listen {WORK}")
                    self._hear("")  # what was told before we listened
                    async for hint in listening.notifies():
                        self._hear(hint.payload)
            except psycopg.Error as failed:
                log.warning("not listening, only looking: %s", failed)
            await asyncio.sleep(1)

    def _hear(self, payload: str) -> None:
        word, _, run_id = payload.partition(" ")
        if word == "cancel":
            self._drop_soon(UUID(run_id))
            return
        if word in KINDS:
            self.hints[word] += 1
        else:
            self.looked = float("-inf")
        self.news.set()

    def _drop_soon(self, run_id: UUID) -> None:
        task = asyncio.create_task(self._drop(run_id, self._stopped))
        self.leaving.add(task)
        task.add_done_callback(self.leaving.discard)

    # ------------------------------------------------------------------------------------------------ threads

    async def call(self, function: Callable, *arguments, **named):
        """Run a domain function on a thread that has a database connection. It ends even if the caller is cancelled."""
        return await self._in(self.domain, function, *arguments, **named)

    async def _in(self, threads: ThreadPoolExecutor, function: Callable, *arguments, **named):
        work = partial(_with_connection, function, *arguments, **named)
        return await asyncio.get_running_loop().run_in_executor(threads, work)


def _with_connection(function: Callable, *arguments, **named):
    try:
        return function(*arguments, **named)
    except (DatabaseError, InterfaceError):
        connection.close()  # the next call on this thread takes a new one
        raise


def send_in_time(dispatch: transitions.Dispatch, send_by: float) -> Reply | BaseException:
    """Call the provider, unless it is later than `send_by` (of the monotonic clock): then nothing is sent (R23)."""
    failpoint("dispatch.before_send")
    if time.monotonic() > send_by:
        return NotCommitted(statement="The worker was too late: the time to send had passed, and nothing was sent.")
    try:
        reply = dispatch.action.dispatch(dispatch.key, dispatch.parameters, dispatch.environment)
    except BaseException as error:  # whatever it was, it proves nothing by itself (R23)
        reply = error
    failpoint("dispatch.after_send")
    return reply


def _probe(recovery: transitions.Recovery) -> Reply | BaseException:
    try:
        return recovery.action.probe(recovery.key, recovery.parameters, recovery.environment)
    except BaseException as error:
        return error


def _where() -> dict:
    """How to reach the database, without what only Django's own connections take."""
    found = connection.get_connection_params()
    for name in ("cursor_factory", "context", "prepare_threshold"):
        found.pop(name, None)
    return found | {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}


async def _work() -> None:
    await Worker().run()
    # What a tool or a provider still does in a thread would hold the exit, for as long as it likes. What came of a
    # dispatch that is left behind is asked later (R23).
    logging.shutdown()
    atexit._run_exitfuncs()
    os._exit(0)


def main() -> None:
    """Run one worker in this process until it is told to stop. An agent that cannot run stops the start, by name."""
    models = [agent for agent in registry.registered() if agent.loop is None]
    if models:
        from .hosted import loop

        for agent in models:
            loop.ready(agent)
    asyncio.run(_work())
