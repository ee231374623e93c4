"""Runs: started, read, taken up turn by turn under a Lease, and ended (R16, R26, R29, R30)."""

from typing import Annotated, Literal

from django.http import HttpResponse
from ninja import Query, Router

from ... import permissions, selectors, transitions
from ...models import Run
from ...selectors import outside
from . import callers, documents
from .bodies import Cancelled, Completed, Failed, Leased, NewRun, Nothing
from .contract import Key, answered, responses
from .queries import Before, Limit
from .schemas import RunDoc, Runs
from .sessions import started

router = Router(tags=["runs"], by_alias=True)
State = Literal[
    "", "queued", "running", "waiting", "succeeded", "failed", "cancelled", "blocked", "ended"
]  # fmt: skip

TRACE = {"responses": {200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}}}


def whole(request, run_id, status: int = 200):
    return answered(request, documents.whole(outside.told(request.context, run_id)), status)


@router.post("/runs", auth=callers.either, response=responses(RunDoc, 201))
def start_run(request, said: NewRun, key: Key):
    """A Session and a message in one: a Run of this Instance, with its first Lease taken; or, by a person, of a hosted
    agent."""
    return started(request, key, said, title=said.title, thread=said.thread)


@router.get("/runs", auth=callers.either, response=responses(Runs))
def list_runs(
    request, state: Annotated[State, Query(description="`ended` is each of the ends.")] = "", before: Before = "",
    limit: Limit = 30,
):  # fmt: skip
    """Newest first."""
    found, last = outside.runs_before(request.context, state=state, last=before, limit=limit)
    return answered(request, {"runs": [documents.run(each) for each in found], "next": last})


@router.get("/runs/{id}", auth=callers.either, response=responses(RunDoc))
def read_run(request, id: str):
    """With what it stopped at and did, the newest 100 of each; once it ended, with its terminal result."""
    return whole(request, id)


@router.get("/runs/{id}/trace", auth=callers.either, response=responses(str), openapi_extra=TRACE)
def read_trace(request, id: str):
    """What was asked, granted and done, one JSON object a line, for `agentack check`."""
    lines = selectors.trace(permissions.find(Run, request.context, id))
    return HttpResponse(selectors.as_lines(lines), content_type="application/x-ndjson")


@router.post("/runs/{id}/turn", auth=callers.agent, response=responses(RunDoc))
def take_turn(request, id: str, said: Nothing, key: Key):
    """Go on with a Run that is `queued`: its next Lease. One that runs already gives its turn to the caller."""
    taken = transitions.take_turn(request.context, run_id=id, key=key)
    # its own Lease, also if another turn was taken before this is read
    told = documents.whole(outside.told(request.context, taken.pk)) | {"lease": taken.lease_number}
    return answered(request, told)


@router.post("/runs/{id}/heartbeat", auth=callers.agent, response=responses(RunDoc))
def heartbeat(request, id: str, said: Leased, key: Key):
    """Extend the Lease. `run_ended` with the reason `cancelling` says: stop, then say so."""
    return whole(request, transitions.heartbeat(request.context, run_id=id, lease=said.lease).pk)


@router.post("/runs/{id}/complete", auth=callers.agent, response=responses(RunDoc))
def complete(request, id: str, said: Completed, key: Key):
    """The Run succeeded."""
    transitions.conclude_run(request.context, run_id=id, lease=said.lease, state="succeeded", result=said.result)
    return whole(request, id)


@router.post("/runs/{id}/fail", auth=callers.agent, response=responses(RunDoc))
def fail(request, id: str, said: Failed, key: Key):
    """The Run failed."""
    transitions.conclude_run(request.context, run_id=id, lease=said.lease, state="failed", reason=said.reason)
    return whole(request, id)


@router.post("/runs/{id}/stopped", auth=callers.agent, response=responses(RunDoc))
def stopped(request, id: str, said: Leased, key: Key):
    """The agent has stopped a Run that was cancelled while it ran."""
    transitions.stand_down(request.context, run_id=id, lease=said.lease)
    return whole(request, id)


@router.post("/runs/{id}/cancel", auth=callers.either, response=responses(RunDoc))
def cancel(request, id: str, said: Cancelled, key: Key):
    """Cancel exactly this Run: an agent one of its own, a person one where they are operator."""
    if request.context.credential_id:
        transitions.cancel_own(request.context, run_id=id, key=key, reason=said.reason)
    else:
        asked = {"reason": said.reason, "response_id": callers.response_id(key)}
        transitions.cancel(request.context, run_id=id, **asked)
    return whole(request, id)
