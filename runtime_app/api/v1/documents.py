"""What the API says, as data: one shape for each noun, the same wherever it appears."""

import json
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

from ... import canonical, states
from ...models import Effect, Event, Run, Session
from ...selectors import results
from ...selectors.outside import Asked, Told


class Raw(str):
    """JSON text that is written as it is: the bytes that were bound, numbers with every digit."""


def written(value: Any) -> str:
    """As JSON."""
    match value:
        case Raw():
            return value
        case dict():
            return "{" + ",".join(f"{json.dumps(name)}:{written(inner)}" for name, inner in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(map(written, value)) + "]"
    return json.dumps(value, cls=DjangoJSONEncoder)


def session(found: Session) -> dict:
    return {"id": found.pk, "title": found.title, "thread": found.thread, "created_at": found.created_at}


def run(found: Run) -> dict:
    """As lists have it."""
    return {
        "id": found.pk, "session": found.session_id, "agent": found.agent, "environment": found.environment.name,
        "state": found.state, "interactive": found.interactive, "hosted": found.hosted, "message": found.message,
        "lease": found.lease_number, "lease_until": found.lease_until, "held": found.held_at is not None,
        "cancel_requested": found.cancel_requested_at is not None, "created_at": found.created_at,
        "started_by": found.initiator_name, "ended_at": found.ended_at,
    }  # fmt: skip


def whole(told: Told) -> dict:
    """A Run with everything it stopped at and did; once it ended, with its terminal result (R31)."""
    ended = told.run.state in states.ENDED
    return run(told.run) | {
        "requests": [request(each) for each in told.requests],
        "effects": [effect(each) for each in told.effects],
        "result": results.terminal_result(told.run) if ended else None,
    }


def request(asked: Asked) -> dict:
    found = asked.request
    return {
        "id": found.pk, "run": found.run_id, "session": found.session_id, "environment": found.environment.name,
        "kind": found.kind, "key": found.key, "number": found.number, "replaces": found.replaces_id,
        "state": asked.stands, "outcome": found.outcome, "accepts": found.accepts, "who_could": asked.could,
        "created_at": found.created_at, "expires_at": found.expires_at, "resolved_at": found.resolved_at,
        "resolved_by": found.resolved_by or None, "prompt": found.prompt or None, "schema": found.schema,
        "action": _action(asked), "digest": found.digest or None, "claim": found.claim or None,
        "response": _response(asked), "grant": _grant(asked),
        "effect": _in_short(asked.effect) if asked.effect else None,
    }  # fmt: skip


def _action(asked: Asked) -> dict | None:
    found = asked.request
    if not found.action_name:
        return None
    bound = Raw(found.parameters.decode()) if found.action_bytes else None
    described = {name: found.described.get(name) for name in ("title", "consequence", "reversible", "registered")}
    return {"name": found.action_name, "version": found.action_version, "parameters": bound} | described


def _response(asked: Asked) -> dict | None:
    """What resolved it. A policy says no words."""
    found, said = asked.request, asked.response
    if asked.stands != "resolved":
        return None
    if said is None:
        kind = {"approved": "approve", "denied": "deny"}.get(found.outcome or "", found.outcome)
        return {"kind": kind, "message": "", "by": found.resolved_by, "at": found.resolved_at}
    told = {"kind": said.kind, "message": said.message, "by": said.name, "at": said.at}
    if said.kind == "answer":
        told["values"] = said.content.get("values", {})
    if said.suggestion:
        told["suggestion"] = Raw(said.suggestion)
    if said.kind == "finding":
        told |= {"finding": said.content.get("outcome"), "reference": said.content.get("reference", "")}
    return told


def _grant(asked: Asked) -> dict | None:
    made = asked.grant
    if made is None:
        return None
    return {
        "state": made.state, "expires_at": made.expires_at, "used_at": made.used_at, "void_why": made.void_why or None
    }  # fmt: skip


def _in_short(found: Effect) -> dict:
    return {"id": found.pk, "key": found.key, "state": found.state, "deadline_at": found.deadline_at}


def effect(found: Effect) -> dict:
    """With its evidence, and what is still uncertain about it. `found` is of the ledger."""
    return results.effect_document(found) | {
        "run": found.run_id, "session": found.session_id, "request": found.request_id,
        "prepared_at": found.prepared_at, "intent_at": found.intent_at, "deadline_at": found.deadline_at,
        "settled_at": found.settled_at,
    }  # fmt: skip


def sending(sent) -> dict:
    """What may be done now, once: the key that the provider gets, and the bytes that were approved."""
    return {
        "effect": _in_short(sent.effect) if sent.effect else None,
        "action": sent.request.action_name, "parameters": Raw(sent.request.parameters.decode()),
        "digest": sent.request.digest,
    }  # fmt: skip


def event(found: Event) -> dict:
    """`id` is the cursor after it."""
    return {
        "id": found.cursor, "seq": found.seq, "session": found.session_id, "kind": found.kind, "run": found.run_id,
        "subject": found.subject, "actor": {"kind": found.actor_kind, "name": found.actor_name}, "at": found.at,
        "data": found.data,
    }  # fmt: skip


def page(found) -> dict:
    """Some Events; `gap`: what came before the first of them is not given, look at everything anew."""
    events = [event(each) for each in found.events]
    return {"events": events, "cursor": found.cursor, "gap": found.gap, "more": found.more}


def values(given: dict) -> dict:
    """What came through the strict parser, for a column."""
    return canonical.plain(given)
