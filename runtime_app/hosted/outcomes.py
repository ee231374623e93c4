"""What the agent is told came of each wait, as plain data. The words under `outcome`:

    answered        `values`, typed as the form says
    committed       the effect happened; `reference` and `statement` from its evidence
    not_committed   it did not happen, by evidence
    unknown         nobody knows whether it happened, and an operator accepted that (R24)
    denied          `message`; `suggestion`, parameters to ask for instead, where somebody gave some (R19)
    expired         nobody decided in time
    void            it was approved, and taken back before anything was sent (R16)
    refused         the call itself cannot be accepted; `message` says why (R15)

and of a child Run, as it ended (R28):

    succeeded       `result`, what it said at its end
    failed          `reason`
    cancelled       `reason`, if one was given
    blocked         `reason`: what would unblock it
"""

import json
from collections.abc import Iterable

from django.db import transaction

from .. import canonical, statements
from ..errors import InvalidInput
from ..models import Effect, Evidence, Grant, Request, Response, Run
from ..states import ENDED

_SAID = "where request_id = any(%s) and kind in ('answer', 'deny') order by at"


def of(requests: Iterable[Request]) -> dict[str, dict]:
    """By the wait's key: every Request that is not pending, and whose Effect, if it has one, is known or accepted."""
    ended = {request.pk: request for request in requests if request.state != "pending"}
    approvals = [pk for pk, request in ended.items() if request.kind == "wait_approval"]
    sent = statements.rows(Effect, "where request_id = any(%s)", approvals) if approvals else []
    effects = {effect.request_id: effect for effect in sent}
    said = {}
    for response in statements.rows(Response, _SAID, list(ended)) if ended else []:
        said.setdefault(response.request_id, []).append(response)
    told = {
        request.key: _of_effect(effects[pk]) if pk in effects else _of_request(request, said.get(pk, []))
        for pk, request in ended.items()
    }
    return {key: outcome for key, outcome in told.items() if outcome}


def of_children(children: Iterable[Run]) -> dict[str, dict]:
    """By the wait's key: every child that has ended."""
    told = {}
    for child in children:
        if child.state in ENDED:
            words = {"result": child.result, "reason": child.reason or child.cancel_reason}
            told[child.key] = {"outcome": child.state} | {name: text for name, text in words.items() if text}
    return told


@transaction.atomic
def of_recovery(run: Run, requests: Iterable[Request]) -> tuple[str, str]:
    """How a Run that recovers an Effect ends, and in which words. Succeeded: what it was to send is known to have
    happened, and nothing less (R24)."""
    request = next(each for each in requests if each.key == run.recovery)
    what = f"{request.described.get('title') or request.action_name}: "
    sent = Grant.objects.filter(request_id=request.pk, state="consumed").exists()
    if not sent:
        return "failed", f"{what}nothing was sent. {_why_not_sent(request)}"
    effect = Effect.objects.get(pk=request.effect_id) if request.effect_id else Effect.objects.get(request=request)
    came = _of_effect(effect) or {"outcome": "unknown"}
    words = " ".join(came[name] for name in ("reference", "statement") if came.get(name))
    match came["outcome"]:
        case "committed":
            return "succeeded", f"{what}it was sent, and by evidence it happened. {words}".strip()
        case "not_committed":
            return "failed", f"{what}it was sent, and by evidence it did not happen. {words}".strip()
    return "failed", f"{what}it was sent, and nobody knows whether it happened."


def _why_not_sent(request: Request) -> str:
    if request.state != "resolved":
        return f"Its approval {'ran out of time' if request.state == 'expired' else f'was {request.state}'}."
    if request.outcome != "approved":
        return f"It was {request.outcome} by {request.resolved_by}."
    why = Grant.objects.filter(request_id=request.pk).values_list("void_why", flat=True).first()
    return f"The approval was taken back: {why}." if why else "The approval was not used."


def refused(wrong: InvalidInput) -> dict:
    return {"outcome": "refused", "message": wrong.message}


def _of_request(request: Request, said: list[Response]) -> dict:
    match request.outcome or request.state:
        case "answered":
            return {"outcome": "answered", "values": said[-1].content["values"]}
        case "denied":
            return {"outcome": "denied", "by": request.resolved_by} | _words(said)
        case state:
            return {"outcome": state}


def _words(said: list[Response]) -> dict:
    message = "\n".join(response.message for response in said if response.message)
    suggested = [response.suggestion for response in said if response.suggestion]
    words = {"message": message} if message else {}
    return words | {"suggestion": canonical.plain(json.loads(suggested[-1]))} if suggested else words


def _of_effect(effect: Effect) -> dict | None:
    match effect.state:
        case "withdrawn":
            return {"outcome": "void"}
        case "uncertain" if effect.accepted_at:
            return {"outcome": "unknown"}
        case "committed" | "not_committed":
            found = Evidence.objects.filter(effect_id=effect.pk, finding=effect.state).order_by("-at").first()
            words = {"reference": found.reference, "statement": found.statement} if found else {}
            return {"outcome": effect.state} | {name: text for name, text in words.items() if text}
    return None
