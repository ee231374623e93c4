"""The public Python face (spec section 3): start, resume, cancel, subscribe.

    run = await agent.start(context, agent="deployer", environment="staging", message="deploy card-api 0.8.8")
    await agent.resume(Resume(session_id=…, request_id=…, response=Approve(digest=…)), context)
    async for event in agent.subscribe(session_id, after=cursor, context=context): …

Each stands on the transition that the pages use; errors are those of `errors`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass

from asgiref.sync import sync_to_async

from . import events, transitions
from .hub import hub
from .ids import uuid7
from .models import Event, Response, Run, Session
from .permissions import Context, find, member, person, system
from .responses import Answer, Approve, Deny, Finding, Recover, Resume

LOOK_AGAIN = 20  # seconds: a lost push costs no more, and permission to watch is read again (R39, R40)

__all__ = [
    "Answer", "Approve", "Context", "Deny", "Finding", "Gap", "Recover", "Resume", "cancel", "member", "person",
    "resume", "start", "subscribe", "system",
]  # fmt: skip


async def start(context: Context, **arguments) -> Run:
    """Start a Run with a message: `agent`, `environment`, `message`, and perhaps `session_id`, `title`, `interactive`,
    `start_id` (the same again is the same Run)."""
    return await sync_to_async(transitions.start)(context, **arguments)


async def resume(resume: Resume, context: Context) -> Response:
    """Respond to exactly the Request that `resume` names."""
    return await sync_to_async(transitions.respond)(context, resume=resume)


async def cancel(run_id, context: Context, *, reason: str = "", response_id=None) -> Response:
    """Cancel exactly this Run."""
    arguments = {"run_id": run_id, "reason": reason, "response_id": response_id or uuid7()}
    return await sync_to_async(transitions.cancel)(context, **arguments)


@dataclass(frozen=True)
class Gap:
    """What came before this cursor is of another epoch and is not given: look at the whole Session anew (R37)."""

    cursor: str


async def subscribe(session_id, *, context: Context, after: str | None = None) -> AsyncIterator[Event | Gap]:
    """Every Event of the Session after the cursor, once, in order, then live ones, each with its `.cursor` (R37).

    Raises NotFound, also when the right to watch ends while it lives (R40), and CursorInvalid.
    """
    session = await sync_to_async(find)(Session, context, session_id)
    with hub.listening(session.pk) as news:
        while True:
            news.clear()  # before the read: what commits during it wakes the next one
            page = await sync_to_async(events.after)(context, session.pk, after)
            if page.gap:
                yield Gap(events.cursor_of(session.pk, 0, events.epoch_of(page.cursor)))
            for event in page.events:
                event.cursor = events.cursor_of(session.pk, event.seq, events.epoch_of(page.cursor))
                yield event
            after = page.cursor
            if not page.more:
                with suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), LOOK_AGAIN)
