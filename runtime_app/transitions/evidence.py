"""Evidence settles Effects; time and permission never do (R23-R25). Append-only, graded, all of it kept."""

from datetime import datetime, timedelta
from uuid import UUID

from .. import actions, canonical, permissions, states
from ..errors import InvalidInput, InvalidResponse, NotAuthorized, NotFound
from ..ids import parse_id
from ..models import Attempt, Effect, Evidence, EvidenceFile, Request, Response, Run
from ..models.effects import GRADES
from ..permissions import Actor
from ..responses import File, Finding
from .blocking import block_on, can_block
from .change import Change, transition
from .continuing import take_back, wake
from .raising import raise_unknown
from .resolving import earlier_response, resolve, said_of

REFERENCE_BYTES = 2_000


def locked(change: Change, effect_id: UUID) -> tuple[Run, Effect]:
    """Session, Run, the pending Request about it, Effect: locked in order by one id (R05)."""
    seen = Effect.objects.values("session_id", "run_id").get(pk=effect_id)
    change.lock_session(seen["session_id"])
    run = change.lock(Run, seen["run_id"])
    list(Request.objects.select_for_update(no_key=True).filter(effect_id=effect_id, state="pending"))
    return run, change.lock(Effect, effect_id)


@transition("add_evidence", "effect_id")
def add_evidence(
    change: Change, *, effect_id, finding: str, reference: str, response_id, message: str = "",
    files: tuple[File, ...] = (),
) -> Evidence:  # fmt: skip
    """A person's statement about an Effect that is settled already: kept, marked late. Contradicting evidence of the
    same or a higher grade makes it disputed (R25). One accepted as unknown is settled by it (R24). About an open one it
    is a Response to its Request instead.

    Raises NotFound, NotAuthorized, InvalidResponse, InvalidInput, IdempotencyConflict.
    """
    context = change.context
    found = permissions.find(Effect, context, effect_id)
    run, effect = locked(change, found.pk)
    facts = {"finding": finding, "reference": reference} | ({"files": files} if files else {})
    said = said_of("evidence", effect.pk, response_id, message, run=run, **facts)
    if earlier := earlier_response(context, said):
        return Evidence.objects.get(pk=earlier.recorded["evidence"])
    if refused := permissions.may_operate(context, effect.environment_id):
        raise refused
    _legal(Finding(finding, reference), ["committed", "not_committed", "unknown"])
    if not effect.closed:
        raise InvalidResponse(
            "It was never sent." if effect.state == "withdrawn" else "Its outcome is open: answer its Request.",
            fields={"finding": "nothing is settled that this could be about"},
        )
    _proven(change, effect, finding)
    said.name, said.user_id = context.actor.name, context.user_id
    kept = conclude(
        change, run, effect, finding=finding, grade="attested", source="statement", by=said,
        reference=printable(reference), statement=message,
    )  # fmt: skip
    said.recorded = {"evidence": str(kept.pk)}
    said.save(force_insert=True)
    _keep_files(kept, files)
    return kept


def _keep_files(kept: Evidence, files: tuple[File, ...]) -> None:
    EvidenceFile.objects.bulk_create(
        EvidenceFile(
            tenant_id=kept.tenant_id, evidence_id=kept.pk, name=file.name, stored=file.stored, size=file.size,
            sha256=file.sha256,
        )
        for file in files
    )  # fmt: skip


@transition("provider_says", "key")
def provider_says(change: Change, *, action: str, key, message_id: str, reply: actions.Reply) -> Evidence:
    """A provider's signed callback about the Effect with this key: observed evidence, kept once for each message id.

    The signature was checked by the door. Raises NotFound for a key that is not this tenant's and action's.
    """
    seen = Effect.objects.filter(
        tenant_id=change.context.tenant_id, request_id=parse_id(key) or UUID(int=0), action_name=action
    ).first()
    if seen is None:
        raise NotFound
    run, effect = locked(change, seen.pk)
    if again := Evidence.objects.filter(effect_id=effect.pk, message_id=message_id).first():
        return again
    attempt = Attempt.objects.filter(effect_id=effect.pk).order_by("-number").first()
    if effect.state in ("prepared", "withdrawn"):
        raise NotFound  # nothing was sent under this key
    kept = conclude(
        change, run, effect, grade="observed", source="callback", attempt=attempt, message_id=message_id,
        **read_reply(_Callback, reply),
    )  # fmt: skip
    return kept


class _Callback:
    nothing_sent = ()


def wake_recoverers(change: Change, effect: Effect) -> None:
    """A Run that sent this Effect again goes on when its Attempt is no longer in flight, whoever told; one that had not
    yet sent it has nothing left to ask for once the Effect is settled (R24)."""
    again = Run.objects.filter(recovers_id=effect.pk, recovery="redispatch", state="waiting")
    for pk in again.order_by("pk").values_list("pk", flat=True):
        run = change.lock(Run, pk)
        if effect.state in states.SETTLED:
            take_back(change, run, "its outcome was established meanwhile")
        wake(change, run)


def conclude(
    change: Change, run: Run, effect: Effect, *, finding: str, grade: str, source: str, attempt: Attempt | None = None,
    newest: bool = True, by: Response | None = None, reference: str = "", statement: str = "", message_id: str = "",
) -> Evidence:  # fmt: skip
    """Keep the statement as evidence, and settle the Effect if it is conclusive and the Effect is open (R24, R25)."""
    settled = effect.state in states.SETTLED
    actor = change.context.actor
    kept = Evidence.objects.create(
        tenant_id=effect.tenant_id, effect_id=effect.pk, attempt=attempt, grade=grade, finding=finding, source=source,
        user_id=by.user_id if by else None, name=actor.name, reference=reference, statement=statement,
        late=settled or run.state in states.ENDED or effect.accepted_at is not None, message_id=message_id,
    )  # fmt: skip
    change.note(
        "evidence.added", run=run, subject=effect.pk, grade=grade, finding=finding, source=source, reference=reference
    )
    if grade == "claimed" and source != "reply":
        pass  # a claim settles nothing and disputes nothing (R25)
    elif finding == "not_committed" and not newest:
        pass  # what an older Attempt did not do says nothing of the newer (R23)
    elif finding in ("committed", "not_committed"):
        if not settled or effect.disputed and by:
            _settle(change, run, effect, finding, actor)
        elif effect.state != finding:
            _dispute(change, run, effect, grade)
    elif finding == "working" and newest and effect.state == "in_flight":
        raise_unknown(change, run, effect)
        schedule_probe(change, effect)
    elif effect.state == "in_flight" and newest and source == "reply":
        doubt(change, run, effect)
    wake_recoverers(change, effect)
    return kept


def _settle(change: Change, run: Run, effect: Effect, finding: str, actor: Actor) -> None:
    effect.state, effect.disputed, effect.settled_at = finding, False, change.now()
    effect.recovering, effect.recovering_since, effect.recovering_by, effect.probe_at = "", None, "", None
    effect.save(
        update_fields=["state", "disputed", "settled_at", "recovering", "recovering_since", "recovering_by", "probe_at"]
    )
    change.note(f"effect.{finding}", run=run, subject=effect.pk)
    asked = Request.objects.filter(effect_id=effect.pk, state="pending", kind="wait_effect").first()
    if asked:
        resolve(change, run, asked, "settled", actor.name)
    wake(change, run)


def _dispute(change: Change, run: Run, effect: Effect, grade: str) -> None:
    """Evidence of the same or a higher grade says the opposite: both stand, and a person settles it (R25)."""
    standing = Evidence.objects.filter(effect_id=effect.pk, finding=effect.state).values_list("grade", flat=True)
    if effect.disputed or GRADES.index(grade) < max(map(GRADES.index, standing), default=-1):
        return
    effect.disputed = True
    effect.save(update_fields=["disputed"])
    change.note("effect.disputed", run=run, subject=effect.pk)
    raise_unknown(change, run, effect)


def doubt(change: Change, run: Run, effect: Effect) -> None:
    """It may have happened, or not: the Effect is uncertain, and exactly one pending Request asks (R23)."""
    unsettle(change, run, effect)
    probe_or_block(change, run, effect)


def unsettle(change: Change, run: Run, effect: Effect) -> None:
    effect.state, effect.uncertain_at = "uncertain", change.now()
    effect.save(update_fields=["state", "uncertain_at"])
    change.note("effect.uncertain", run=run, subject=effect.pk)
    if run.single and run.state == "running":  # it has nothing left to do but to learn what happened
        run.state, run.lease_until, run.waiting_since = "waiting", None, change.now()
        run.save(update_fields=["state", "lease_until", "waiting_since"])
        change.note("run.waiting", run=run, on=[str(effect.pk)])
    raise_unknown(change, run, effect)


def probe_or_block(change: Change, run: Run, effect: Effect) -> None:
    """With nobody on the line it is probed until its deadline, then the Run ends `blocked` on it (R35)."""
    if not can_block(run):
        return
    if not (effect.deadline_at and effect.deadline_at > change.now() and schedule_probe(change, effect)):
        block_on(change, run, effect)


def schedule_probe(change: Change, effect: Effect) -> bool:
    """When it is asked next: 1 s after the first doubt, then twice as long each time, at most 5 minutes. False: its
    action has no probe."""
    action = actions.registered(effect.action_name)
    if not (action and action.probe):
        return False
    effect.probe_at = change.now() + timedelta(seconds=min(2**effect.probes, 300))
    effect.save(update_fields=["probe_at"])
    change.log.work("probe")
    return True


def attest(change: Change, run: Run, request: Request, effect: Effect, said: Response, finding: Finding) -> None:
    """A person's statement, with a reference (R24). `unknown` is kept, and the Request stays pending (R25)."""
    _legal(finding, request.accepts["finding"])
    _proven(change, effect, finding.outcome)
    sides = Evidence.objects.filter(effect_id=effect.pk, finding__in=["committed", "not_committed"])
    if effect.disputed and sides.filter(user_id=change.context.user_id).exists():
        raise NotAuthorized(
            "You attested one side of this dispute. Another operator has to settle it.", stake="you attested one side"
        )
    settles = finding.outcome != "unknown"
    said.content = {"outcome": finding.outcome, "reference": finding.reference}
    said.recorded = {"request": str(request.pk), "state": "resolved" if settles else "pending"}
    said.recorded["outcome"] = "settled" if settles else None
    said.save(force_insert=True)
    kept = conclude(
        change, run, effect, finding=finding.outcome, grade="attested", source="statement", by=said,
        reference=printable(finding.reference), statement=said.message,
    )  # fmt: skip
    _keep_files(kept, finding.files)


def _proven(change: Change, effect: Effect, finding: str) -> None:
    open_still = finding == "not_committed" and (effect.disputed or effect.state not in states.SETTLED)
    if open_still and (until := unproven_until(effect, change.now())):
        early = f"Too early to say that it did not happen: look again after {until:%H:%M:%S} UTC."
        raise InvalidResponse("It may still be sent.", fields={"finding": early})


def _legal(finding: Finding, accepted: list[str]) -> None:
    if finding.outcome not in accepted:
        raise InvalidResponse(
            f"A finding is one of {', '.join(accepted)}.",
            fields={"finding": "choose one of the three"},
        )
    if wrong := canonical.fault(finding.reference):
        raise InvalidInput(f"The reference {wrong}.", fields={"reference": wrong})
    if len(finding.reference.encode()) > REFERENCE_BYTES:
        raise InvalidInput(f"The reference is longer than {REFERENCE_BYTES:,} bytes.", reason="too_large")
    if finding.outcome != "unknown" and not finding.reference.strip():
        raise InvalidResponse(
            "A finding needs a reference.",
            fields={"reference": "Say where this can be looked up: an identifier or a link."},
        )


def unproven_until(effect: Effect, asked_at: datetime) -> datetime | None:
    """Until when "it did not happen", if that was looked up then, proves nothing: the last Attempt's send-by time, and
    the provider's stated lag."""
    action = actions.registered(effect.action_name)
    last = Attempt.objects.filter(effect_id=effect.pk).order_by("-number").values_list("send_by", flat=True).first()
    if last is None:
        return None
    until = last + (action.lag if action else timedelta(0))
    return until if until > asked_at else None


def read_reply(action: actions.Action, reply) -> dict:
    if isinstance(reply, actions.NotSent):
        return {"finding": "not_committed", "statement": f"Nothing was sent: {reply}."}
    if isinstance(reply, action.nothing_sent):
        return {"finding": "not_committed", "statement": f"Nothing was sent: {type(reply).__name__}."}
    if isinstance(reply, BaseException):
        return {"finding": "unknown", "statement": f"No conclusive reply: {type(reply).__name__}."}
    if not isinstance(reply, (actions.Committed, actions.NotCommitted, actions.Working, actions.Unknown)):
        return {"finding": "unknown", "statement": f"The reply could not be read: {type(reply).__name__}."}
    return {"finding": reply.finding, "reference": printable(reply.reference), "statement": printable(reply.statement)}


def printable(text) -> str:
    """A provider's words, kept in a form that can be stored whatever they hold (B84)."""
    return str(text).encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")[:4000]
