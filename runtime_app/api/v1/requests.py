"""Requests: raised, read, waited for; and what an agent does under the approval of one (R04, R08, R12, R16, R22)."""

from ninja import Body, Router

from ... import canonical, transitions
from ...ids import parse_id
from ...selectors import outside, secrets
from ...transitions.calls import legal_key
from .. import waiting
from . import callers, contract, documents
from .bodies import AskedQuestion, Claimed, Dispatched, NewRequest, Nothing, Outcome
from .contract import Key, answered, responses
from .queries import Wait
from .schemas import Acknowledged, EffectDoc, Kept, Reported, RequestDoc, Sending

router = Router(tags=["requests"], by_alias=True)


@router.post("/runs/{id}/requests", auth=callers.agent, response=responses(RequestDoc, 200, 201))
def raise_request(request, id: str, key: Key, said: NewRequest = Body(...)):  # noqa: B008
    """Stop the Run at a Request, unless a policy decides at once. The same key and content is the same one (200)."""
    known = outside.raised(request.context, id, said.key)
    raised = transitions.raise_request(request.context, run_id=id, lease=said.lease, wait=_wait(said))
    if raised is None:  # noninteractive, and it needed a person (R33)
        transitions.heartbeat(request.context, run_id=id, lease=said.lease)  # says how the Run ended
    return answered(
        request, documents.request(outside.asked(request.context, raised.pk)), 200 if raised.pk in known else 201
    )


def _wait(said):
    if isinstance(said, AskedQuestion):
        return transitions.Question(said.key, said.prompt, canonical.plain(said.form))
    return transitions.Ask(
        said.key, said.action, canonical.dump(said.parameters).decode(), said.claim,
        replaces=(parse_id(said.replaces) or said.replaces) if said.replaces else None,
    )  # fmt: skip


@router.get("/requests/{id}", auth=callers.either, response=responses(RequestDoc))
def read_request(request, id: str, wait: Wait = ""):
    """What is asked, who could answer, and what came of it. With `wait`: as soon as it is decided."""
    return answered(request, documents.request(outside.asked(request.context, id)))


def look(context, match, query) -> waiting.Answer:
    """As `read_request`, for a call that waits."""
    asked = outside.asked(context, match["id"])
    body = documents.written(documents.request(asked)).encode()
    headers = [("Content-Type", "application/json"), ("ETag", contract.etag(body))]
    return waiting.Answer(200, headers, body, asked.stands != "pending", str(asked.request.session_id))


WAIT = waiting.Wait(r"/api/v1/requests/(?P<id>[^/]+)", "api", look, contract.told)


@router.post("/requests/{id}/dispatch", auth=callers.agent, response=responses(Sending))
def dispatch(request, id: str, said: Dispatched, key: Key):
    """Take the one use of the approval and put the Effect in flight. After it, and only then, act. The same key again
    is the same intent."""
    sent = transitions.dispatch(request.context, request_id=id, key=key, lease=said.lease or None)
    return answered(request, documents.sending(sent))


@router.post("/requests/{id}/outcome", auth=callers.agent, response=responses(Reported))
def report(request, id: str, said: Outcome, key: Key):
    """What became of what was dispatched. The same again is calm; another is `idempotency_conflict`."""
    transitions.report(request.context, request_id=id, **said.model_dump())
    effect = outside.asked(request.context, id).effect
    return answered(request, {"status": said.status, "effect": _effect(request, effect.pk) if effect else None})


@router.get("/requests/{id}/secrets", auth=callers.agent, response=responses(dict[str, str]))
def read_secrets(request, id: str):
    """The secret fields of an answer, for the Run that asked, until it acknowledges them or ends."""
    return answered(request, secrets.opened(request.context, id))


@router.post("/requests/{id}/secrets/acknowledge", auth=callers.agent, response=responses(Acknowledged))
def acknowledge_secrets(request, id: str, said: Nothing, key: Key):
    """They are destroyed. Again: none are left."""
    legal_key(key)
    return answered(request, {"destroyed": transitions.acknowledge_secrets(request.context, request_id=id)})


@router.get("/effects/{id}", auth=callers.either, response=responses(EffectDoc), tags=["effects"])
def read_effect(request, id: str):
    """With its evidence, and what is still uncertain about it."""
    return answered(request, _effect(request, id))


def _effect(request, id) -> dict:
    return documents.effect(outside.effect(request.context, id))


@router.post("/effects/{id}/evidence", auth=callers.agent, response=responses(Kept, 201), tags=["effects"])
def claim_evidence(request, id: str, said: Claimed, key: Key):
    """What an agent says of an Effect of its own: kept as claimed; it settles and disputes nothing (R25)."""
    kept = transitions.claim_evidence(request.context, effect_id=id, key=key, **said.model_dump())
    told = {name: getattr(kept, name) for name in ("grade", "finding", "reference", "statement", "late", "at")}
    return answered(request, {"id": kept.pk} | told, 201)
