"""The durable steps of one turn at a hosted Run: what was journaled is given again, what is new is journaled (R22)."""

import json
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from pydantic_core import from_json, to_json

from .. import questions, selectors, transitions
from ..errors import InvalidInput
from ..failpoints import failpoint
from ..transitions import Ask, Child, NewEntry, Question, Turn
from . import outcomes, registry, secrets

log = logging.getLogger(__name__)


class Parked(Exception):
    """The Run stopped at its Requests, or ended at them. The turn is over; it is no error."""


class CannotGoOn(Exception):
    """Why the Run fails, in a sentence for people."""


class Steps:
    """What a loop stands on. A loop starts at its top in every turn: `once` and `wait` give what earlier turns got.

    `call` runs a domain function on one of the worker's database threads.
    """

    def __init__(self, turn: Turn, agent: registry.HostedAgent, call: Callable[..., Awaitable[Any]]):
        self.turn = turn
        self.agent = agent
        self.message = turn.run.message
        self.call = call
        self.held: list[NewEntry] = []  # written with what comes next, since nothing starts before it
        self.lost: Exception | None = None  # the Run was taken from us; nothing a loop does afterwards counts
        self._journaled = {(entry.kind, entry.position, entry.call): entry.content for entry in turn.journal}
        self._known: dict[str, dict] | None = None

    def replies(self) -> list[str]:
        """The journaled replies, in order."""
        found = []
        while (content := self._journaled.get(("reply", len(found), ""))) is not None:
            found.append(content)
        return found

    async def once(self, key: str, function: Callable[[], Awaitable[Any]], *, position: int = 0) -> Any:
        """What `function` returns, as JSON has it. Journaled when it returns; never run again after that (R22)."""
        written = self._journaled.get(("result", position, key))
        if written is None:
            with secrets.within(await self._secrets()) as opened:
                written = opened.blotted(to_json(await function(), fallback=str).decode())
            await self.journal(NewEntry("result", position, written, key), used=opened.used)
            failpoint("turn.tool_returned")
        return from_json(written)

    async def journal(self, *entries: NewEntry, used: Iterable = ()) -> None:
        """Write these now, after whatever is still held. The secrets a step `used` are destroyed with it (R12)."""
        entries = (*self.held, *entries)
        if entries:
            await self._do(transitions.journal, self.turn, *entries, used=used)
            self.held = []
            self._journaled |= {(entry.kind, entry.position, entry.call): entry.content for entry in entries}

    async def _secrets(self) -> list:
        """The secret answers that this Run may still open."""
        if not any(questions.secret(request.schema) for request in self.turn.requests):
            return []
        return await self._do(selectors.secrets.of_run, self.turn.run.pk)

    async def wait(self, *waits: Question | Ask | Child) -> dict[str, dict]:
        """What came of each wait, by its key, as plain data. Raises Parked when the Run has to stop (R01, R04)."""
        if self._known is None:
            came = self.turn.came
            if came is None:
                came = await self._do(outcomes.of, self.turn.requests) if self.turn.requests else {}
            self._known = came | outcomes.of_children(self.turn.children)
        refused, fresh = {}, []
        for each in waits:
            if each.key not in self._known:
                if wrong := await self._wrong(each):
                    refused[each.key] = outcomes.refused(wrong)
                else:
                    fresh.append(each)
        if fresh:
            raised = await self._do(transitions.suspend, self.turn, waits=fresh, entries=self.held)
            self.held = []
            failpoint("turn.suspended")
            if raised is None:
                raise Parked
            self._known |= await self._do(outcomes.of, raised)
        return {each.key: refused.get(each.key) or self._known[each.key] for each in waits}

    async def _wrong(self, wait: Question | Ask | Child) -> InvalidInput | None:
        if wrong := transitions.check(wait):
            return wrong
        if not isinstance(wait, Child):
            return None
        if wait.agent not in self.agent.children:
            may = ", ".join(self.agent.children) or "none"
            return InvalidInput(f"This agent may not run {wait.agent[:60]}. It may run: {may}.")
        return await self._do(transitions.check_child, self.turn.run, wait)

    async def finish(self, state: str, *, result: str = "", reason: str = "") -> None:
        await self._do(
            transitions.finish,
            self.turn,
            state=state,
            result=legible(result),
            reason=legible(reason),
            entries=self.held,
        )

    async def _do(self, function, *arguments, **named):
        if self.lost:
            raise self.lost
        try:
            return await self.call(function, *arguments, **named)
        except InvalidInput:
            raise
        except Exception as error:  # a loop that catches everything must not go on without us
            self.lost = error
            raise


async def take(turn: Turn, call: Callable[..., Awaitable[Any]]) -> None:
    """One turn, from claim to parked or ended. Raises LeaseLost, RunEnded and database errors; what the agent's own
    code or model raises ends the Run `failed`, with a sentence."""
    agent = registry.find(turn.run.agent)
    steps = Steps(turn, agent, call)
    if turn.run.recovers_id:  # it asked and sent without a loop (R24)
        state, words = await call(outcomes.of_recovery, turn.run, turn.requests)
        await steps.finish(state, **{"result" if state == "succeeded" else "reason": words})
        return
    try:
        if agent is None:
            raise CannotGoOn(f"No agent called {turn.run.agent} is registered with this worker.")
        said = await (agent.loop or _library())(steps)
    except Parked:
        return
    except Exception as error:
        if steps.lost:
            raise steps.lost from None
        reason = str(error) if isinstance(error, CannotGoOn) else _sentence(error)
        untold = isinstance(error, CannotGoOn | secrets.ToldASecret)
        log.warning("run %s failed", turn.run.pk, exc_info=not untold)
        await steps.finish("failed", reason=reason)
    else:
        await steps.finish("succeeded", result=said if isinstance(said, str) else json.dumps(said))


def _library():
    from .loop import converse  # importing the agent library takes over a second: only who needs it pays

    return converse


def _sentence(error: Exception) -> str:
    """The kind of error and no more: a message may hold what nobody but the worker's log should."""
    return f"The agent's own code or its model failed ({type(error).__name__}). The worker's log has the details."


def legible(text: str) -> str:
    """Text that can be kept: what no database column takes is replaced by U+FFFD."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()
