"""What a signed-in person does from another front end: the inbox, and a response to exactly one Request (R08, R18)."""

from django.middleware.csrf import get_token
from ninja import Body, Router

from ... import canonical, permissions, selectors, transitions
from ...responses import Answer, Approve, Deny, Finding, Recover, Resume
from ...selectors import outside
from . import callers, documents
from .bodies import NewResponse, SaidAnswer, SaidApprove, SaidDeny, SaidFinding
from .contract import ResponseId, answered, responses
from .schemas import InboxDoc, Me, Recorded

router = Router(tags=["people"], by_alias=True)


@router.get("/me", auth=callers.either, response=responses(Me))
def me(request):
    """Whose credential this is, or who is signed in."""
    told = dict.fromkeys(("instance", "environment", "expires_at", "person", "csrf_token")) | {"scopes": []}
    if request.context.credential_id:
        shown = request.credential
        instance = {"id": shown.instance_id, "agent": shown.instance.agent, "name": shown.instance.name}
        told |= {"tenant": shown.tenant.slug, "instance": instance, "environment": shown.environment.name}
        told |= {"scopes": shown.scopes, "expires_at": shown.expires_at}
    else:
        person = request.context.actor.name
        told |= {"tenant": request.tenant.slug, "person": person, "csrf_token": get_token(request)}
    return answered(request, told)


@router.get("/inbox", auth=callers.person, response=responses(InboxDoc))
def inbox(request):
    """What waits: that which the caller may answer first, soonest deadline first."""
    found = selectors.inbox(request.context, permissions.roles(request.context))
    told = {"for_you": _told(found.for_you), "for_others": _told(found.rest), "more": found.more}
    return answered(request, told)


def _told(rows) -> list[dict]:
    return [documents.request(each) for each in outside.around(rows)]


@router.post("/requests/{id}/response", auth=callers.person, response=responses(Recorded))
def respond(request, id: str, key: ResponseId, said: NewResponse = Body(...)):  # noqa: B008
    """Answer, approve, deny, state a finding or start a recovery action: to exactly this Request. The Idempotency-Key
    is the `response_id`. A credential here is refused: no token approves."""
    resume = Resume(said.session, id, _response(said), said.message, key)
    return answered(request, transitions.respond(request.context, resume=resume).recorded)


def _response(said):
    match said:
        case SaidAnswer():
            return Answer(said.values)
        case SaidApprove():
            return Approve(said.digest, said.confirm)
        case SaidDeny():
            suggested = canonical.dump(said.suggestion).decode() if "suggestion" in said.model_fields_set else None
            return Deny(said.digest, suggested)
        case SaidFinding():
            return Finding(said.outcome, said.reference)
    return Recover(said.action)
