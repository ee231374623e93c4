"""A Response resolves a Request: the one way, for form, API and Python alike (R06-R09, R14-R19, R24)."""

import json
from hashlib import sha256

from .. import canonical, permissions, questions, statements
from ..errors import DigestMismatch, InvalidInput, InvalidResponse, NotAuthorized, NotFound
from ..ids import parse_id
from ..models import Blocker, Effect, Environment, Request, Response, Run
from ..responses import Answer, Approve, Deny, Finding, Recover, Resume, Said
from .calls import gone
from .change import Change, transition
from .continuing import wake
from .evidence import attest
from .granting import grant
from .remedies import accept_uncertainty, start_recovery
from .resolving import MESSAGE_BYTES, earlier_response, resolve, stale, still_pending
from .secrets import keep
from .texts import legal_texts

KIND_OF = {Answer: "answer", Approve: "approve", Deny: "deny", Finding: "finding", Recover: "recover"}
ANSWERS = {"wait_user": (Answer,), "wait_approval": (Approve, Deny), "wait_effect": (Finding, Recover)}


@transition("respond", "resume.request_id")
def respond(change: Change, *, resume: Resume) -> Response:
    """Resolve exactly this Request, or add one vote to it. Returns what was recorded; a repeat returns the same (R09).

    Raises NotFound, InvalidResponse (wrong_kind, or fields), NotAuthorized, StaleRequest, DigestMismatch,
    IdempotencyConflict, InvalidInput, Busy. Nothing is recorded then.
    """
    context = change.context
    found = permissions.find(Request, context, resume.request_id)
    if parse_id(resume.session_id) != found.session_id:
        raise NotFound
    change.lock_session(found.session_id)
    run = change.lock(Run, found.run_id)
    request = change.lock(Request, found.pk)
    effect = change.lock(Effect, found.effect_id) if found.effect_id else None

    said = said_in(resume, request)
    if earlier := earlier_response(context, said):
        return earlier
    if not isinstance(resume.response, ANSWERS[request.kind]):
        raise InvalidResponse(
            f"This Request is a {request.kind}; it accepts {', '.join(request.accepts)}.", reason="wrong_kind"
        )
    if refused := permissions.why_not(context, request):
        raise refused
    if not run.hosted and request.kind != "wait_effect" and gone(run.instance_id):
        raise NotAuthorized("Its agent was deleted: nothing is decided for it any more, and its Run ends.")
    still_pending(change, request)
    take(change, run, request, said, resume.response, effect)
    return said


def take(
    change: Change, run: Run, request: Request, said: Response, response: Said, effect: Effect | None = None
) -> None:  # fmt: skip
    """Record a response that may be given; resolve what it resolves."""
    said.name, said.user_id = change.context.actor.name, change.context.user_id
    match response:
        case Answer():
            _answer(change, run, request, said, response)
        case Approve() | Deny():
            _vote(change, run, request, said, response)
        case Finding():
            attest(change, run, request, effect, said, response)
        case Recover(action="accept"):
            accept_uncertainty(change, run, request, effect, said)
        case Recover():
            start_recovery(change, run, request, effect, said, response)


def said_in(resume: Resume, request: Request) -> Response:
    """The Response as it would be written, with the hash that a repeat must equal."""
    response_id = parse_id(resume.response_id)
    if response_id is None:
        raise InvalidResponse("The response_id is not a UUID.", fields={"response_id": "not a UUID"})
    legal_texts(MESSAGE_BYTES, message=resume.message)
    if (kind := KIND_OF.get(type(resume.response))) is None:
        raise InvalidResponse("This is no response at all.", reason="wrong_kind")
    content = dict(vars(resume.response))
    if isinstance(resume.response, Answer) and isinstance(resume.response.values, dict):
        # not even a hash of a secret is kept: a short one could be guessed from it (R09, R12)
        hidden = questions.secret(request.schema)
        content["values"] = {name: value for name, value in resume.response.values.items() if name not in hidden}
    text = json.dumps([str(request.pk), kind, content, resume.message], sort_keys=True, default=str)
    return Response(
        tenant_id=request.tenant_id, session_id=request.session_id, run_id=request.run_id, request_id=request.pk,
        kind=kind, response_id=response_id, message=resume.message,
        same=sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
    )  # fmt: skip


def _answer(change: Change, run: Run, request: Request, said: Response, answer: Answer) -> None:
    said.content = {"values": keep(run, request, questions.accept(request.schema, answer.values))}
    recorded(said, request, "resolved", "answered")
    resolve(change, run, request, "answered", said.name)
    wake(change, run)


def recorded(said: Response, request: Request, state: str, outcome: str | None) -> None:
    """Write the Response, with the outcome that a repeat of it gets again (R09)."""
    said.recorded = {"request": str(request.pk), "state": state, "outcome": outcome}
    statements.insert(said)


def _vote(change: Change, run: Run, request: Request, said: Response, vote: Approve | Deny) -> None:
    votes = Response.objects.filter(request_id=request.pk)
    outcome = weigh(change, run, request, said, vote, votes, of=request)
    recorded(said, request, "resolved" if outcome else "pending", outcome)
    if outcome:
        conclude_vote(change, run, request, outcome, said.name)


def weigh(
    change: Change, run: Run, request: Request, said: Response, vote: Approve | Deny, votes, of: Request | Blocker
) -> str | None:
    """What this vote, with those of `votes` that still count, comes to: approved, denied, or None, not enough yet.
    `of`: what they collect on.

    Raises DigestMismatch, InvalidInput, InvalidResponse, StaleRequest (already_voted).
    """
    if vote.digest != request.digest:
        raise DigestMismatch(digest=request.digest, shown=str(vote.digest)[:64])
    _legal_vote(request, said, vote)
    counted = _recount(change, run, request, said, votes, of)
    counted.append(said.kind)
    policy = request.policy
    said.content = {"digest": vote.digest}
    change.note(
        f"{_word(of)}.voted", run=run, subject=of.pk, vote=said.kind, approvals=counted.count("approve"),
        denials=counted.count("deny"), needed=policy["approvals"], message=said.message,
    )  # fmt: skip
    if counted.count("approve") >= policy["approvals"]:
        return "approved"
    return "denied" if counted.count("deny") >= policy["denials"] else None


def conclude_vote(change: Change, run: Run, request: Request, outcome: str, by: str) -> None:
    resolve(change, run, request, outcome, by)
    if outcome == "approved":
        grant(change, run, request)
    wake(change, run)  # when approved it goes on at once only if it is a successor that this was given to (R34)


def _legal_vote(request: Request, said: Response, vote: Approve | Deny) -> None:
    policy = request.policy
    if isinstance(vote, Deny) and vote.suggestion:
        suggested = canonical.parse(vote.suggestion)
        if not isinstance(suggested, dict):
            raise InvalidInput("A suggestion is a JSON object of parameters.", fields={"suggestion": "not an object"})
        said.suggestion = canonical.dump(suggested).decode()
    if policy["reason_required"] and not said.message.strip():
        raise InvalidResponse(
            "The policy asks for a reason.", fields={"message": "Write why: the policy asks for a reason."}
        )
    if policy["typed_environment"] and isinstance(vote, Approve):
        name = Environment.objects.values_list("name", flat=True).get(pk=request.environment_id)
        if vote.confirm.strip().casefold() != name.casefold():
            typed = f"You typed “{vote.confirm.strip()[:60]}”" if vote.confirm.strip() else "You typed nothing"
            raise InvalidResponse(
                "The environment's name was not typed as asked.",
                fields={"confirm": f"{typed}; the environment is called “{name}”."},
            )


def _word(of: Request | Blocker) -> str:
    return "blocker" if isinstance(of, Blocker) else "request"


def _recount(change: Change, run: Run, request: Request, said: Response, votes, of: Request | Blocker) -> list[str]:
    """The earlier votes that still count. One whose author lost the right is marked spent, visibly, for good (R18)."""
    earlier = list(votes.filter(kind__in=["approve", "deny"], spent_at=None).order_by("at"))
    if not earlier:
        return []
    able = permissions.entitled(request)
    counted = []
    for vote in earlier:
        if vote.user_id not in able:
            vote.spent_at = change.now()
            vote.save(update_fields=["spent_at"])
            change.note(f"{_word(of)}.vote_spent", run=run, subject=of.pk, vote=vote.kind, of=vote.name)
        elif vote.user_id == said.user_id:
            raise stale(request, "already_voted")
        else:
            counted.append(vote.kind)
    return counted
