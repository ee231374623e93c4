"""/v1/requests: may this tool call be made? An instance credential asks, waits, takes its one use, and reports."""

import json
from hashlib import sha256
from urllib.parse import quote

from ... import canonical, clock, selectors, transitions
from ...errors import InvalidInput, NotAuthorized, NotSignedIn, SaysoError
from ...permissions import Context
from .. import doors
from ..waiting import Answer, Wait, seconds
from . import refusals, wire

THREADS = ("thread_id", "conversation_id", "session_id", "run_id")  # what the public shims call it in `resume`
THREAD, ACTION = 200, 200  # characters
POLICY = "A policy denies this action here."


TAKES = {"instance": "This takes an instance credential.", "provisioner": "This takes a provisioner token."}


def caller(request, kind: str = "instance") -> Context:
    """Who calls. A credential of the other kind is known, and may not."""
    try:
        credential, request.caller = doors.authenticate(request, "aap", kind)
    except NotSignedIn:
        _, request.caller = doors.authenticate(request, "aap", "provisioner" if kind == "instance" else "instance")
        raise NotAuthorized(TAKES[kind]) from None
    doors.limit(credential)
    return request.caller


# ---------------------------------------------------------------- operations


def create(request):
    context = caller(request)
    key = wire.key(request, "create")
    found = wire.body(request)
    wire.fields(found, ("tool", "arguments", "timeout"), ("server", "agent_reasoning", "context"))
    tool, server = wire.text(found, "tool"), wire.text(found, "server")
    reasoning = wire.text(found, "agent_reasoning", empty=True)
    surroundings, arguments = wire.document(found, "context") or {}, wire.document(found, "arguments")
    within = wire.duration(found, "timeout")
    ask = transitions.Ask(
        "aap", action_name(tool, server), canonical.dump(arguments).decode(), reasoning or "", within=within,
        sent=canonical.dump({name: value for name, value in found.items() if name != "arguments"}).decode(),
    )  # fmt: skip
    title = f"{tool} ({server})" if server else tool
    made, new = transitions.propose(
        context, key=key, ask=ask, thread=thread_of(surroundings), title=title,
        asked={"body": canonical.dump(found).decode()},
    )  # fmt: skip
    return _answer(context, made.pk, 201 if new else 200)


def get(request, id):
    context = caller(request)
    if "wait" in request.GET:
        seconds(request.GET.dict())  # a bad one is refused; who can wait is answered before Django
    return _answer(context, id)


def cancel(request, id):
    context = caller(request)
    wire.no_body(request)
    transitions.retract(context, request_id=id)
    return _answer(context, id)


def consume(request, id):
    context = caller(request)
    key = wire.key(request, "consume")
    wire.no_body(request)
    selectors.proposed(context, id)
    transitions.dispatch(context, request_id=id, key=key)
    return _answer(context, id)


def outcome(request, id):
    context = caller(request)
    found = wire.body(request)
    wire.fields(found, ("status",), ("note",))
    if found["status"] not in wire.OUTCOMES:
        raise wire.wrong("status", "succeeded or failed")
    note = wire.text(found, "note") or ""
    selectors.proposed(context, id)
    transitions.report(context, request_id=id, status=found["status"], note=note)
    return _answer(context, id)


def _answer(context: Context, id, status: int = 200):
    return refusals.answered(status, [("Content-Type", "application/json")], resource(selectors.proposal(context, id)))


# ---------------------------------------------------------------- who waits


def look(context: Context, match, query) -> Answer:
    found = selectors.proposal(context, match["id"])
    headers = [("Content-Type", "application/json")]
    return Answer(200, headers, resource(found), found.final, str(found.request.session_id))


def refuse(error: SaysoError, exchange: str) -> Answer:
    return Answer(*refusals.told(error, exchange))


WAIT = Wait(r"/api/aap/v1/requests/(?P<id>[^/]+)", "aap", look, refuse)


# ---------------------------------------------------------------- in our words, and in theirs


def action_name(tool: str, server: str | None) -> str:
    """`server/tool`, or `tool`: what is `/` or `%` in either is quoted, so that no two pairs have one name."""
    parts = [quoted(server), quoted(tool)] if server else [quoted(tool)]
    name = "/".join(parts)
    if len(name) > ACTION:
        raise InvalidInput(
            f"`tool` and `server` together have more than {ACTION} characters.", fields={"tool": "too long"}
        )
    return name


def quoted(name: str) -> str:
    return name.replace("%", quote("%")).replace("/", quote("/", safe=""))


def thread_of(context: dict) -> str:
    """What the agent calls its thread, conversation or session: one Session here, of its Instance alone. None: ''."""
    resume = context.get("resume")
    places = [(resume, name) for name in THREADS] if isinstance(resume, dict) else []
    for place, name in [*places, (context, "session_id")]:
        if isinstance(found := place.get(name), str) and found:
            return found if len(found) <= THREAD else f"sha256 {sha256(found.encode()).hexdigest()}"
    return ""


def resource(found: selectors.Proposal) -> bytes:
    """The request as AAP has it. What was sent goes back as the text it came in, every digit of it."""
    request = found.request
    ours = {
        "id": str(request.pk), "status": found.status, "created_at": clock.stamp(request.created_at),
        "deadline_at": clock.stamp(request.expires_at),
    }  # fmt: skip
    if found.final:
        ours["decision"] = decision(found)
    if found.grant and found.grant.state == "consumed":
        ours["consumption"] = consumption(found.grant)
    return b"".join(
        (request.sent.encode()[:-1], b',"arguments":', request.parameters, b",", json.dumps(ours).encode()[1:])
    )


def decision(found: selectors.Proposal) -> dict:
    told = {"status": found.status, "decided_at": clock.stamp(found.decided_at)}
    if found.status == "approved":
        told["expires_at"] = clock.stamp(found.grant.expires_at)
    return told | ({"note": said} if (said := note(found)) else {})


def note(found: selectors.Proposal) -> str:
    """What the decider said, for the agent to read. Never more than they said, and a suggestion with it (R19)."""
    if found.status == "cancelled":
        return found.request.run.cancel_reason.strip()
    if found.said is None:
        return POLICY if found.status == "denied" else ""
    suggestion = f"Suggested arguments: {found.said.suggestion}" if found.said.suggestion else ""
    return "\n".join(filter(None, (found.said.message.strip(), suggestion)))


def consumption(grant) -> dict:
    told = {"consumed_at": clock.stamp(grant.used_at)}
    report = grant.report
    if report and report["status"] in wire.OUTCOMES:
        outcome = {"status": report["status"], "reported_at": report["at"]}
        told["outcome"] = outcome | ({"note": report["note"]} if report["note"] else {})
    return told
