"""Sessions of an agent elsewhere, and what is said in them: each message starts a Run (R10)."""

from ninja import Router

from ... import events, permissions, transitions
from ...errors import InvalidInput
from ...models import Session
from ...selectors import outside
from . import callers, documents
from .bodies import NewMessage, NewSession
from .contract import Key, answered, responses
from .queries import Before, Limit
from .schemas import RunDoc, SessionDoc, Sessions

router = Router(tags=["sessions"], by_alias=True)


def described(session: Session) -> dict:
    return documents.session(session) | {
        "cursor": events.cursor_of(session.pk, session.last_seq, events.current_epoch())
    }


@router.post("/sessions", auth=callers.agent, response=responses(SessionDoc, 201))
def create_session(request, said: NewSession, key: Key):
    """A Session of this Instance alone. A `thread` of the agent's own name is one Session."""
    made = transitions.open_session(request.context, key=key, **said.model_dump())
    return answered(request, described(made), 201)


@router.get("/sessions", auth=callers.either, response=responses(Sessions))
def list_sessions(request, before: Before = "", limit: Limit = 30):
    """Newest first."""
    found, last = outside.sessions_before(request.context, last=before, limit=limit)
    return answered(request, {"sessions": [described(each) for each in found], "next": last})


@router.get("/sessions/{id}", auth=callers.either, response=responses(SessionDoc))
def read_session(request, id: str):
    return answered(request, described(permissions.find(Session, request.context, id)))


@router.post("/sessions/{id}/messages", auth=callers.either, response=responses(RunDoc, 201))
def send_message(request, id: str, said: NewMessage, key: Key):
    """A new message starts a new Run. Whatever it says, it answers no Request."""
    return started(request, key, said, session_id=permissions.find(Session, request.context, id).pk)


def started(request, key: str, said, **where):
    """An agent's credential starts a Run of its own; a person starts a hosted agent."""
    context, asked = request.context, {"message": said.message, "interactive": said.interactive}
    if context.credential_id:
        if wrong := {name: "the credential has its own" for name in ("agent", "environment") if getattr(said, name)}:
            raise InvalidInput("An agent's Run is its own, in the environment of its credential.", fields=wrong)
        run = transitions.begin(context, key=key, **asked, **where)
    else:
        if where.pop("thread", ""):
            raise InvalidInput("Only an agent has threads.", fields={"thread": "an agent's own"})
        where |= {"agent": said.agent, "environment": said.environment, "start_id": callers.response_id(key)}
        run = transitions.start(context, **asked, **where)
    return answered(request, documents.whole(outside.told(context, run.pk)), 201)
