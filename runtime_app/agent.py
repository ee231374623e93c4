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
from .models import Event, Evidence, Response, Run, Session
from .permissions import Context, find, member, person, system
from .responses import Answer, Approve, Deny, Finding, Recover, Resume

LOOK_AGAIN = 20  # seconds: a lost push costs no more, and permission to watch is read again (R39, R40)

__all__ = [
    "Answer", "Approve", "Context", "Deny", "Finding", "Gap", "Recover", "Resume", "add_evidence", "cancel",
    "compensate", "hold", "member", "person", "release", "resume", "start", "subscribe", "supply", "system", "void",
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


async def hold(environment: str, context: Context, *, reason: str = "", response_id=None) -> Response:
    """Nothing is dispatched in this Environment until its release, and nothing is voided (R16)."""
    return await _said(transitions.hold, context, response_id, environment=environment, reason=reason)


async def release(environment: str, context: Context, *, reason: str = "", response_id=None) -> Response:
    """End the hold of this Environment."""
    return await _said(transitions.release, context, response_id, environment=environment, reason=reason)


async def void(request_id, context: Context, *, reason: str = "", response_id=None) -> Response:
    """Take back the approval of this Request, if its Grant is unused (R16)."""
    return await _said(transitions.void, context, response_id, request_id=request_id, reason=reason)


async def compensate(effect_id, context: Context, *, message: str = "", response_id=None) -> Response:
    """Start the registered compensation of what happened: an Effect of its own (R24)."""
    return await _said(transitions.compensate, context, response_id, effect_id=effect_id, message=message)


async def supply(
    blocker_id, response: Answer | Approve | Deny, context: Context, *, message: str = "", response_id=None
) -> Response:  # fmt: skip
    """Answer, or grant or deny that exact action, for the next run of a blocked job (R34)."""
    return await _said(
        transitions.supply, context, response_id, blocker_id=blocker_id, response=response, message=message
    )


async def add_evidence(
    effect_id, finding: Finding, context: Context, *, message: str = "", response_id=None
) -> Evidence:  # fmt: skip
    """State what was found about an Effect that is settled, or accepted as unknown (R25)."""
    return await _said(
        transitions.add_evidence, context, response_id, effect_id=effect_id, finding=finding.outcome,
        reference=finding.reference, files=finding.files, message=message,
    )  # fmt: skip


async def _said(verb, context: Context, response_id, **arguments):
    return await sync_to_async(verb)(context, response_id=response_id or uuid7(), **arguments)


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
                    async with asyncio.timeout(LOOK_AGAIN):
                        await news.wait()
