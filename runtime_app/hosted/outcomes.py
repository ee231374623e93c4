"""What the agent is told came of each wait, as plain data. The words under `outcome`:

    answered        `values`, typed as the form says
    committed       the effect happened; `reference` and `statement` from its evidence
    not_committed   it did not happen, by evidence
    unknown         nobody knows whether it happened, and an operator accepted that (R24)
    denied          `message`; `suggestion`, parameters to ask for instead, where somebody gave some (R19)
    expired         nobody decided in time
    void            it was approved, and taken back before anything was sent (R16)
    refused         the call itself cannot be accepted; `message` says why (R15)
"""

import json
from collections.abc import Iterable

from django.db import transaction

from .. import canonical
from ..errors import InvalidInput
from ..models import Effect, Evidence, Request, Response


@transaction.atomic
def of(requests: Iterable[Request]) -> dict[str, dict]:
    """By the wait's key: every Request that is not pending, and whose Effect, if it has one, is known or accepted."""
    ended = {request.pk: request for request in requests if request.state != "pending"}
    effects = {effect.request_id: effect for effect in Effect.objects.filter(request_id__in=ended)}
    said = {}
    for response in Response.objects.filter(request_id__in=ended, kind__in=["answer", "deny"]).order_by("at"):
        said.setdefault(response.request_id, []).append(response)
    told = {
        request.key: _of_effect(effects[pk]) if pk in effects else _of_request(request, said.get(pk, []))
        for pk, request in ended.items()
    }
    return {key: outcome for key, outcome in told.items() if outcome}


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
