"""What a Run asked, was granted and did, as a trace that `agentack check` judges.

Whatever settled it passes. An Effect that nobody knows the outcome of has no line that says how it ended, so the trace
is incomplete, and so is that of a Run that has not ended.
"""

import json
from uuid import UUID

from .. import states
from ..models import Blocker, Effect, Event, Grant, Request, Run

VERSION = 2  # of the trace's schema
DECIDED = {
    "request.resolved": "",
    "request.expired": "nobody decided in time",
    "request.cancelled": "its Run ended first",
    "request.superseded": "the agent asked anew in its place",
}
USED = ("grant.consumed", "grant.void")
STOPPED = ("run.cancelling", "run.cancelled")


def trace(run: Run) -> list[dict]:
    """One line each, in the order in which it happened: proposed, requested, decided, executed or blocked, the end."""
    requests = {each.pk: each for each in Request.objects.filter(run_id=run.pk, kind="wait_approval")}
    grants = {each.pk: each for each in Grant.objects.filter(run_id=run.pk)}
    granted = {each.request_id: each for each in grants.values()}
    effects = {each.request_id: each for each in Effect.objects.filter(run_id=run.pk)}
    again = Effect.objects.in_bulk([each.effect_id for each in requests.values() if each.effect_id])  # a redispatch
    lines, interrupted = [], False
    kinds = ["request.raised", *DECIDED, *USED, *STOPPED]
    for event in Event.objects.filter(session_id=run.session_id, run_id=run.pk, kind__in=kinds).order_by("seq"):
        if event.kind in STOPPED and not interrupted:
            lines.append(_line(run, "interrupt", event.at, reason="cancelled"))
            interrupted = True
        elif request := requests.get(event.subject):
            lines += _asked(request) if event.kind == "request.raised" else _decided(request, granted, event)
        elif grant := grants.get(event.subject):
            request = requests[grant.request_id]
            lines += _used(request, grant, effects.get(request.pk) or again.get(request.effect_id), event)
    if blocker := Blocker.objects.filter(run_id=run.pk, kind="wait_approval").first():
        lines += _blocked(run, blocker)
    if run.state in states.ENDED:
        lines.append(_line(run, "session_end", run.ended_at, reason=run.state))
    return lines


def as_lines(lines: list[dict]) -> str:
    """As the file that `agentack check` reads."""
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def _asked(request: Request) -> list[dict]:
    """What was proposed is what was presented: both are the bound bytes (R15)."""
    action = _action(request, request.environment_id, request.digest)
    told = {"action_id": str(request.pk), "intent_id": request.key, "action": action}
    return [
        _line(request, "action_proposed", request.created_at, **told),
        _line(request, "approval_requested", request.created_at, approval_id=str(request.pk), **told),
    ]


def _decided(request: Request, granted: dict[UUID, Grant], event: Event) -> list[dict]:
    grant, told = granted.get(request.pk), _about(request.pk, request.key)
    if event.kind == "request.resolved" and grant:
        until = _time(grant.expires_at)
        return [_line(request, "approval_decision", grant.made_at, **told, decision="allow", expires_at=until)]
    return [
        _line(request, "approval_decision", event.at, **told, decision="deny"),
        _line(request, "action_blocked", event.at, **told, reason=DECIDED[event.kind] or "denied"),
    ]


def _used(request: Request, grant: Grant, effect: Effect | None, event: Event) -> list[dict]:
    """How it ended. A Grant that was used executed what its own digest says; nothing while the outcome is not known."""
    told = _about(request.pk, request.key)
    consumed = grant.state == "consumed"
    # after a restore an Effect whose Grant is void may prove to have been sent; one sent again has other Grants too
    happened = (effect is None or effect.state == "committed") and (consumed or effect and not request.effect_id)
    if effect and (effect.disputed or effect.state not in states.SETTLED):
        return []
    if happened:
        action = _action(request, request.environment_id, grant.digest)
        return [_line(request, "action_executed", grant.used_at or grant.made_at, **told, action=action)]
    reason = "it was sent, and did not happen" if consumed else "the approval was not used"
    return [_line(request, "action_blocked", event.at, **told, reason=reason)]


def _blocked(run: Run, blocker: Blocker) -> list[dict]:
    """Nobody was on the line: that is no permission (R33)."""
    told, action = _about(blocker.pk, str(blocker.pk)), _action(blocker, run.environment_id, blocker.digest)
    return [
        _line(run, "action_proposed", blocker.created_at, action_id=str(blocker.pk), action=action),
        _line(run, "approval_requested", blocker.created_at, **told, action=action),
        _line(run, "approval_decision", blocker.created_at, **told, decision="deny"),
        _line(run, "action_blocked", blocker.created_at, **told, reason="nobody was on the line"),
    ]


def _about(subject: UUID, intent: str) -> dict:
    return {"action_id": str(subject), "approval_id": str(subject), "intent_id": intent}


def _action(bound: Request | Blocker, environment: UUID, digest: str) -> dict:
    """The parameters as the text that was approved, so that no reader of the trace can change a digit of them."""
    server, _, tool = bound.action_name.rpartition("/")
    parameters = {"canonical": bound.parameters.decode(), "digest": digest}
    named = (server, tool) if server.strip() and tool.strip() else (bound.action_name, "run")
    return {"tool": named[0], "operation": named[1], "resource": str(environment), "parameters": parameters}


def _line(of: Run | Request, kind: str, at, **told) -> dict:
    run = of.pk if isinstance(of, Run) else of.run_id
    return {"schema_version": VERSION, "type": kind, "timestamp": _time(at), "session_id": str(run), **told}


def _time(at) -> str:
    return at.isoformat().replace("+00:00", "Z")
