"""One worker process: claims turns and dispatches from our own tables, keeps its Leases, looks again when told to or
when time has passed. Any number of them work side by side; what each may write is fenced in `transitions`."""

import asyncio
import atexit
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

import psycopg
from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError, connection

from . import jobs, transitions
from .actions import NotSent, Reply
from .deliveries import Deliveries
from .errors import Busy, LeaseLost, RunEnded, SaysoError
from .events import WORK
from .failpoints import failpoint
from .hosted import contained, outcomes, registry
from .hosted.steps import take
from .ids import uuid7
from .selectors.claimable import claimable
from .transitions import epochs

log = logging.getLogger(__name__)

DOMAIN_THREADS = 6  # each keeps a database connection
STOP_WITHIN = 0.5  # seconds a cancelled turn has to end before it is left behind
LEAVE_WITHIN = 3.5  # seconds that dispatches under way, and everything else, have when the worker stops
TRIES = 5  # of recording what a provider said, where it is not the database that is away
LEFT = 64  # calls of providers that hang past their deadline, before others have to wait for them
PROBE_WITHIN = 50  # seconds; then another worker may ask, and this one goes on
RECORD_WITHIN = 900  # seconds that the database may be away before what a provider said is given up


@dataclass
class UnderWay:
    turn: transitions.Turn
    task: asyncio.Task


@dataclass
class Line:
    """What there is to claim, of one kind. A hint stands for one thing, or, where `several`, for any number of them."""

    verb: Callable
    begin: Callable
    has_room: Callable
    several: bool
    hints: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, number: int = 1) -> None:
        self.hints += number
        self.news.set()


class Worker:
    def __init__(self):
        self.id = uuid7()
        self.name = f"{socket.gethostname()} {os.getpid()}"
        self.knows = registry.knows()
        self.turns: dict[UUID, UnderWay] = {}
        self.sends: set[asyncio.Task] = set()
        self.asks: set[asyncio.Task] = set()  # probes: those that hang hold up no dispatch, nor the other way round
        self.leaving: set[asyncio.Task] = set()
        self.beaten = 0.0  # when it last said that it lives, on the monotonic clock
        self.stopped = asyncio.Event()
        self.look_now = asyncio.Event()
        self.lines = {  # by the words of the hints
            "run": Line(self.claim, self._begin, self._has_room_for_turns, several=False),
            "effect": Line(transitions.intend, self._dispatch, self._has_room_to_send, several=True),
            "probe": Line(transitions.recovering, self._recover, self._has_room_to_ask, several=True),
        }
        self.deliveries = Deliveries(self.call)
        self.domain = ThreadPoolExecutor(DOMAIN_THREADS, "domain")
        self.pulse = ThreadPoolExecutor(1, "pulse")  # a Lease must not lapse because the others wait for a lock
        self.providers = ThreadPoolExecutor(settings.SAYSO_WORKER_TURNS + LEFT, "provider")
        self.probes = ThreadPoolExecutor(settings.SAYSO_WORKER_TURNS, "probe")

    # ------------------------------------------------------------------------------------------------ its life

    async def run(self) -> None:
        """Work until SIGTERM or SIGINT; then give the turns back, let dispatches under way end, and leave."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.stop)
        await self.beat()
        claiming = [asyncio.create_task(self._claims(line)) for line in self.lines.values()]
        beside = (self._beats, self._listen, self._looks, self._sweeps, self.deliveries.run)
        beside = [asyncio.create_task(each()) for each in beside]
        log.info("worker %s is looking for work", self.name)
        await self.stopped.wait()
        leaving = asyncio.create_task(self._leave(claiming))
        await asyncio.wait({leaving}, timeout=LEAVE_WITHIN)
        for task in beside:
            task.cancel()
        await asyncio.wait(beside)

    def stop(self) -> None:
        self.stopped.set()
        self._make_room()

    async def _leave(self, claiming: list[asyncio.Task]) -> None:
        await asyncio.wait(claiming)
        await asyncio.gather(*(self._drop(run, self._give_back) for run in list(self.turns)))
        if under_way := self.sends | self.asks | self.leaving:
            await asyncio.wait(under_way)
        await self._in(self.pulse, transitions.leave, self.id)  # else it is missed, and what it sent is uncertain

    # ------------------------------------------------------------------------------------------------ claiming

    async def _claims(self, line: Line) -> None:
        while not self.stopped.is_set():
            line.news.clear()  # before the claims: what is told during them means another round
            try:
                await self._claim(line)
            except Exception as failed:
                _complain("could not claim", failed)
                asyncio.get_running_loop().call_later(1, line.news.set)  # it has its hints still
            await line.news.wait()

    async def _claim(self, line: Line) -> None:
        """Claim what we were told of, one by one, as long as there is room."""
        while (heard := line.hints) and line.has_room():
            before = time.monotonic()
            found = await self.call(line.verb, self.id)
            if found is None:
                line.hints -= heard  # not those that were heard meanwhile
            else:
                line.hints -= not line.several
                line.begin(found, before)

    async def _looks(self) -> None:
        """See for ourselves what there is: now and then, and when we may have missed a hint."""
        while True:
            self.look_now.clear()
            try:
                for word, number in (await self.call(claimable)).items():
                    line = self.lines[word]
                    if number > line.hints:
                        line.hear(number - line.hints)
            except Exception as failed:
                _complain("could not look for work", failed)
                asyncio.get_running_loop().call_later(1, self.look_now.set)
            try:
                async with asyncio.timeout(settings.SAYSO_LOOK_SECONDS):
                    await self.look_now.wait()
            except TimeoutError:
                pass

    async def _sweeps(self) -> None:
        """Twice a look, so that what a dead worker held goes on within a Lease and a look."""
        while True:
            try:
                if time.monotonic() - self.beaten > settings.SAYSO_LEASE_SECONDS / 2:
                    await self.beat()  # the database was away: our sweep must not take us for dead
                await self.call(transitions.sweep)
            except Exception as failed:
                _complain("could not sweep", failed)
            await asyncio.sleep(settings.SAYSO_LOOK_SECONDS / 2)

    def claim(self, worker_id: UUID) -> transitions.Turn | None:
        turn = transitions.claim(worker_id, self.knows["agents"])
        if turn and turn.requests:
            with suppress(DatabaseError, InterfaceError):  # it is claimed: the turn will meet what is wrong
                turn.came = outcomes.of(turn.requests)
        return turn

    def _has_room_for_turns(self) -> bool:
        return not self.stopped.is_set() and len(self.turns) < settings.SAYSO_WORKER_TURNS

    def _has_room_to_send(self) -> bool:
        return not self.stopped.is_set() and len(self.sends) < settings.SAYSO_WORKER_TURNS

    def _has_room_to_ask(self) -> bool:
        return not self.stopped.is_set() and len(self.asks) < settings.SAYSO_WORKER_TURNS

    def _make_room(self) -> None:
        """Something ended: whoever waited for room may claim."""
        for line in self.lines.values():
            line.news.set()

    def _begin(self, turn: transitions.Turn, before: float) -> None:
        self.turns[turn.run.pk] = UnderWay(turn, asyncio.create_task(self._take(turn)))

    def _dispatch(self, dispatch: transitions.Dispatch, before: float) -> None:
        # the intent is younger than `before`, so its time to send is not over earlier
        task = self._beside(self.sends, self._sending(dispatch, before + dispatch.seconds))
        asyncio.get_running_loop().call_later(dispatch.deadline, self._leave_behind, task)

    def _recover(self, recovery: transitions.Recovery, before: float) -> None:
        self._beside(self.asks, self._recovering(recovery))

    def _beside(self, under_way: set[asyncio.Task], work: Coroutine) -> asyncio.Task:
        task = asyncio.create_task(work)
        under_way.add(task)
        task.add_done_callback(partial(self._done, under_way))
        return task

    def _done(self, under_way: set[asyncio.Task], task: asyncio.Task) -> None:
        under_way.discard(task)
        self._make_room()

    def _leave_behind(self, task: asyncio.Task) -> None:
        """Past its deadline an Effect is uncertain, and a provider that still says nothing holds up no other. What it
        says later is recorded all the same."""
        if task in self.sends:
            self.sends.discard(task)
            self.leaving.add(task)
            task.add_done_callback(self.leaving.discard)
            self._make_room()

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
            self._make_room()

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
        self._make_room()

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
        reply = await self._outside(self.providers, send_in_time, dispatch, send_by)
        await self._record(transitions.record, dispatch, reply)
        failpoint("dispatch.result_committed")

    async def _recovering(self, recovery: transitions.Recovery) -> None:
        try:
            async with asyncio.timeout(PROBE_WITHIN):
                found = await self._outside(self.probes, _probe, recovery)
        except TimeoutError as silent:
            found = silent  # a probe that hangs proves nothing; its thread is left behind
        await self._record(transitions.recovered, recovery, found)

    async def _outside(self, threads: ThreadPoolExecutor, function: Callable, *arguments):
        return await asyncio.get_running_loop().run_in_executor(threads, function, *arguments)

    async def _record(self, verb: Callable, what, reply) -> None:
        """Try as long as the database is away: what a provider said is worth more than what a sweep would have to
        assume. Where a sweep did meanwhile, the reply is evidence still (R29)."""
        give_up, tries, wait = time.monotonic() + RECORD_WITHIN, 0, 0.1
        while time.monotonic() < give_up and tries < TRIES:
            try:
                return await self.call(verb, what, reply)
            except (DatabaseError, InterfaceError, Busy) as failed:
                away = isinstance(failed, (OperationalError, InterfaceError, Busy))
                tries += not away
                log.warning("effect %s: its reply is not recorded yet: %s", what.effect_id, failed)
                await asyncio.sleep(wait)
                wait = min(2 * wait, 1)
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
                _complain("could not renew the Leases", failed)

    async def beat(self) -> None:
        held = {run_id: under_way.turn for run_id, under_way in self.turns.items()}
        ended = await self._in(self.pulse, transitions.beat, self.id, self.name, list(held.values()), self.knows)
        self.beaten = time.monotonic()
        for run_id in ended:
            under_way = self.turns.get(run_id)
            if under_way and under_way.turn is held[run_id]:  # not a later turn of the same Run
                self._drop_soon(run_id)

    async def _listen(self) -> None:
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(**_where(), autocommit=True) as listening:
                    await listening.execute(f"listen {WORK}")
                    self.look_now.set()  # what was told before we listened
                    async for hint in listening.notifies():
                        self._hear(hint.payload)
            except psycopg.Error as failed:
                log.warning("not listening, only looking: %s", failed)
            await asyncio.sleep(1)

    def _hear(self, payload: str) -> None:
        word, _, run_id = payload.partition(" ")
        if word == "cancel":
            self._drop_soon(UUID(run_id))
        elif word == "delivery":
            self.deliveries.news.set()
        elif line := self.lines.get(word):
            line.hear()

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


def _complain(what: str, failed: Exception) -> None:
    """The database may be away for a while; anything else is a fault of ours, and still no reason to end."""
    known = isinstance(failed, (DatabaseError, InterfaceError, Busy))
    log.warning("%s: %s", what, failed, exc_info=not known)


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
        return NotSent("the time to send had passed")
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
    beside = asyncio.create_task(jobs.run())
    await Worker().run()
    beside.cancel()
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
    for agent in registry.registered():
        if any(isinstance(tool, contained.Command) for tool in agent.tools) and (why := contained.refusal()):
            log.warning("agent %s: its commands are refused. %s", agent.name, why)
    epochs.watch_at_start()
    connection.close()
    asyncio.run(_work())
