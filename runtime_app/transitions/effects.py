"""Effects: the dispatch intent, the reply, doubt, evidence, recovery (R16, R22-R25). Reality, not permission."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Max, Q
from pydantic import BaseModel

from .. import actions, canonical, permissions, states
from ..errors import InvalidInput, InvalidResponse, StaleRequest
from ..failpoints import failpoint
from ..models import Attempt, Effect, Environment, Evidence, Grant, Request, Response, Run
from ..models.effects import GRADES
from ..permissions import Actor
from ..responses import Finding, Recover
from .change import Change, opened
from .continuing import wake, withdraw
from .granting import drift
from .raising import raise_anew, raise_unknown
from .resolving import resolve

REFERENCE_BYTES = 2_000
PROBE_FOR = timedelta(seconds=60)  # a probe that said nothing for so long may be taken up by another worker


@dataclass(frozen=True)
class Dispatch:
    """What a worker sends once, after the intent: `seconds` are left to begin the call (R23)."""

    effect_id: UUID
    attempt_id: UUID
    tenant_id: UUID
    key: str
    action: actions.Action
    parameters: BaseModel
    environment: str
    seconds: float
    deadline: float


@dataclass(frozen=True)
class Recovery:
    """A probe to make: it asks and sends nothing."""

    effect_id: UUID
    tenant_id: UUID
    key: str
    action: actions.Action
    parameters: BaseModel
    environment: str
    deadline: float


def known_actions() -> Q:
    """Only what this process has the code for, in that version, is dispatched or probed by it."""
    known = Q(pk=None)
    for name in actions.names():
        known |= Q(action_name=name, action_version=actions.registered(name).version)
    return known


# ---------------------------------------------------------------- dispatch


def intend(worker_id: UUID) -> Dispatch | None:
    """Write the dispatch intent of the next prepared Effect: the one commit that consumes its Grant. After it, send."""
    while True:
        with opened() as change:
            prepared = Effect.objects.filter(
                known_actions(), state="prepared", environment__held_at=None, run__state="waiting"
            ).order_by("prepared_at")
            pk = change.lock_first("worker", prepared.values_list("pk", "tenant_id", "session_id")[:8])
            if pk is None:
                return None
            dispatch = _intend(change, pk, worker_id)
        if dispatch:  # else it was taken back, or voided and asked anew: look for another
            return dispatch


def _intend(change: Change, pk: UUID, worker_id: UUID) -> Dispatch | None:
    seen = Effect.objects.values("run_id", "request_id").get(pk=pk)
    run = change.lock(Run, seen["run_id"])
    request = change.lock(Request, seen["request_id"])
    effect = change.lock(Effect, pk)
    # last, so that a hold that has returned is complete: nothing it did not see is dispatched after it (R16)
    environment = Environment.objects.raw(
        "select * from runtime_app_environment where id = %s for share", [effect.environment_id]
    )[0]
    if effect.state != "prepared" or environment.held_at or run.state in states.ENDED or run.cancel_requested_at:
        return None
    grant = Grant.objects.get(request_id=request.pk)
    if why := drift(change, run, request, effect, grant, environment):
        _void(change, run, request, effect, why)
        return None
    return _consume(change, run, request, effect, grant, worker_id)


def _consume(change, run, request, effect, grant, worker_id) -> Dispatch:
    failpoint("dispatch.claim")
    action = actions.registered(effect.action_name)
    now = change.now()
    grant.state, grant.used_at = "consumed", now
    grant.save(update_fields=["state", "used_at"])
    attempt = Attempt.objects.create(
        tenant_id=run.tenant_id, effect_id=effect.pk, number=_last_number(effect) + 1, grant_id=grant.pk,
        worker=worker_id, intent_at=now, send_by=now + action.send_within,
    )  # fmt: skip
    effect.state, effect.intent_at, effect.deadline_at = "in_flight", now, now + action.deadline
    effect.save(update_fields=["state", "intent_at", "deadline_at"])
    change.note("grant.consumed", run=run, subject=grant.pk)
    change.note("effect.in_flight", run=run, subject=effect.pk, attempt=attempt.number, key=effect.key)
    return Dispatch(
        effect.pk, attempt.pk, run.tenant_id, effect.key, action, action.parsed(request.parameters),
        request.bound["environment"]["name"], action.send_within.total_seconds(), action.deadline.total_seconds(),
    )  # fmt: skip


def _last_number(effect: Effect) -> int:
    return Attempt.objects.filter(effect_id=effect.pk).aggregate(last=Max("number"))["last"] or 0


def _void(change: Change, run: Run, request: Request, effect: Effect, why: str) -> None:
    """What was approved is not what would be sent now, or not by whom: nothing is sent, it is asked anew (R16)."""
    withdraw(change, run, effect, why)
    raise_anew(change, run, request, because=why)
    wake(change, run)


def record(dispatch: Dispatch, reply: actions.Reply | BaseException) -> None:
    """Write what became of an Attempt: the provider's clear yes or no, still working, or doubt. Never a guess (R23).

    Also under a lost Lease and beside an ended Run: a reply is evidence whoever carries it (R29).
    """
    unsent = isinstance(reply, (actions.NotSent, *dispatch.action.nothing_sent))
    with opened(permissions.system("worker" if unsent else "provider", dispatch.tenant_id)) as change:
        run, effect = locked(change, dispatch.effect_id)
        attempt = Attempt.objects.get(pk=dispatch.attempt_id)
        told = _told(dispatch.action, reply) | {"source": "worker" if unsent else "reply"}
        if attempt.replied_at is None:
            attempt.replied_at, attempt.reply = change.now(), "not_sent" if unsent else told["finding"]
            attempt.save(update_fields=["replied_at", "reply"])
        newest = attempt.number == _last_number(effect)
        conclude(change, run, effect, attempt=attempt, newest=newest, grade="observed", **told)


def _told(action: actions.Action, reply) -> dict:
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


def locked(change: Change, effect_id: UUID) -> tuple[Run, Effect]:
    """Session, Run, the pending Request about it, Effect: locked in order by one id (R05)."""
    seen = Effect.objects.values("session_id", "run_id").get(pk=effect_id)
    change.lock_session(seen["session_id"])
    run = change.lock(Run, seen["run_id"])
    list(Request.objects.select_for_update(no_key=True).filter(effect_id=effect_id, state="pending"))
    return run, change.lock(Effect, effect_id)


# ---------------------------------------------------------------- evidence


def conclude(
    change: Change, run: Run, effect: Effect, *, finding: str, grade: str, source: str, attempt: Attempt | None = None,
    newest: bool = True, by: Response | None = None, reference: str = "", statement: str = "",
) -> None:  # fmt: skip
    """Keep the statement as evidence, and settle the Effect if it is conclusive and the Effect is open (R24, R25)."""
    settled = effect.state in states.SETTLED
    actor = change.context.actor
    Evidence.objects.create(
        tenant_id=effect.tenant_id, effect_id=effect.pk, attempt=attempt, grade=grade, finding=finding, source=source,
        user_id=by.user_id if by else None, name=actor.name, reference=reference, statement=statement,
        late=settled or run.state in states.ENDED,
    )  # fmt: skip
    change.note(
        "evidence.added", run=run, subject=effect.pk, grade=grade, finding=finding, source=source, reference=reference
    )
    if finding in ("committed", "not_committed"):
        if not settled or effect.disputed and by:
            _settle(change, run, effect, finding, actor)
        elif effect.state != finding:
            _dispute(change, run, effect, grade)
    elif settled or not newest:
        return
    elif finding == "working":
        raise_unknown(change, run, effect)
    elif effect.state == "in_flight" and source == "reply":
        doubt(change, run, effect)


def _settle(change: Change, run: Run, effect: Effect, finding: str, actor: Actor) -> None:
    effect.state, effect.disputed, effect.settled_at = finding, False, change.now()
    effect.recovering, effect.recovering_since, effect.recovering_by, effect.probe_at = "", None, "", None
    effect.save(
        update_fields=["state", "disputed", "settled_at", "recovering", "recovering_since", "recovering_by", "probe_at"]
    )
    change.note(f"effect.{finding}", run=run, subject=effect.pk)
    asked = Request.objects.filter(effect_id=effect.pk, state="pending").first()
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
    effect.state, effect.uncertain_at = "uncertain", change.now()
    effect.save(update_fields=["state", "uncertain_at"])
    change.note("effect.uncertain", run=run, subject=effect.pk)
    raise_unknown(change, run, effect)


def attest(change: Change, run: Run, request: Request, effect: Effect, said: Response, finding: Finding) -> None:
    """A person's statement, with a reference (R24). `unknown` is kept, and the Request stays pending (R25)."""
    if finding.outcome not in request.accepts["finding"]:
        raise InvalidResponse(
            f"A finding is one of {', '.join(request.accepts['finding'])}.",
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
    if finding.outcome == "not_committed" and (until := unproven_until(change, effect)):
        early = f"Too early to say that it did not happen: look again after {until:%H:%M:%S} UTC."
        raise InvalidResponse("It may still be sent.", fields={"finding": early})
    settles = finding.outcome != "unknown"
    said.content = {"outcome": finding.outcome, "reference": finding.reference}
    said.recorded = {"request": str(request.pk), "state": "resolved" if settles else "pending"}
    said.recorded["outcome"] = "settled" if settles else None
    said.save(force_insert=True)
    conclude(
        change, run, effect, finding=finding.outcome, grade="attested", source="statement", by=said,
        reference=printable(finding.reference), statement=said.message,
    )  # fmt: skip


def unproven_until(change: Change, effect: Effect) -> datetime | None:
    """Until when "it did not happen" proves nothing: the last Attempt's send-by time, and the provider's stated lag."""
    action = actions.registered(effect.action_name)
    last = Attempt.objects.filter(effect_id=effect.pk).order_by("-number").values_list("send_by", flat=True).first()
    if last is None:
        return None
    until = last + (action.lag if action else timedelta(0))
    return until if until > change.now() else None


# ---------------------------------------------------------------- recovery


def _start(effect: Effect, request: Request, said: Response, name: str) -> None:
    if effect.recovering:
        raise StaleRequest(
            f"{effect.recovering_by} already started {effect.recovering}. Your response was not recorded.",
            reason="recovering", by=effect.recovering_by, at=effect.recovering_since.isoformat(),
        )  # fmt: skip
    if name not in request.accepts["recover"]:
        raise InvalidResponse(
            f"{effect.action_name} has no recovery action {name[:60]}.",
            fields={"recovery": "not registered for this action"},
        )
    said.content = {"action": name}
    said.recorded = {"request": str(request.pk), "state": "pending", "outcome": None}


def start_recovery(
    change: Change, run: Run, request: Request, effect: Effect, said: Response, recover: Recover
) -> None:
    """Record it and let a worker do it. The Request stays pending until what was found settles the Effect (R24)."""
    _start(effect, request, said, recover.action)
    said.save(force_insert=True)
    effect.recovering, effect.recovering_since, effect.recovering_by = recover.action, change.now(), said.name
    effect.probe_at = None
    effect.save(update_fields=["recovering", "recovering_since", "recovering_by", "probe_at"])
    change.note("effect.recovering", run=run, subject=effect.pk, action=recover.action)
    change.log.work("probe")


def accept_uncertainty(change: Change, run: Run, request: Request, effect: Effect, said: Response) -> None:
    """The Run is told `unknown` and goes on; the Effect stays uncertain, marked; later evidence settles it (R24)."""
    _start(effect, request, said, "accept")
    if effect.state != "uncertain":
        raise InvalidResponse(
            "It is still in flight: there is no uncertainty to accept yet.",
            fields={"recovery": "not before it is uncertain"},
        )
    said.recorded |= {"state": "resolved", "outcome": "accepted"}
    said.save(force_insert=True)
    effect.accepted_at, effect.accepted_by, effect.accepted_why = change.now(), said.name, said.message
    effect.save(update_fields=["accepted_at", "accepted_by", "accepted_why"])
    change.note("effect.accepted", run=run, subject=effect.pk, why=said.message)
    resolve(change, run, request, "accepted", said.name)
    wake(change, run)


def recovering(worker_id: UUID) -> Recovery | None:
    """Take the next probe that was asked for."""
    while True:
        with opened() as change:
            now = change.now()
            asked = Effect.objects.filter(known_actions(), Q(probe_at=None) | Q(probe_at__lte=now), recovering="probe")
            seen = asked.order_by("recovering_since").values("pk", "tenant_id").first()
            if seen is None:
                return None
            change.act(permissions.system("worker", seen["tenant_id"]))
            _, effect = locked(change, seen["pk"])
            if effect.recovering == "probe" and not (effect.probe_at and effect.probe_at > now):
                return _recover(effect, now)  # else another worker has it: look for another


def _recover(effect: Effect, now: datetime) -> Recovery:
    """A probe is under way, for a while: a worker that dies with it keeps nobody from asking again."""
    effect.probe_at, effect.probes = now + PROBE_FOR, effect.probes + 1
    effect.save(update_fields=["probe_at", "probes"])
    request = Request.objects.get(pk=effect.request_id)
    action = actions.registered(effect.action_name)
    return Recovery(
        effect.pk, effect.tenant_id, effect.key, action, action.parsed(request.parameters),
        request.bound["environment"]["name"], PROBE_FOR.total_seconds(),
    )  # fmt: skip


def recovered(recovery: Recovery, found: actions.Reply | BaseException) -> None:
    """Keep what the probe found; settle the Effect where that is conclusive."""
    with opened(permissions.system("probe", recovery.tenant_id)) as change:
        run, effect = locked(change, recovery.effect_id)
        told = _told(_Probe, found)
        until = unproven_until(change, effect)
        if told["finding"] == "not_committed" and until:
            told["finding"] = "unknown"
            told["statement"] = (
                f"Not found, which proves nothing before {until:%H:%M:%S} UTC. {told['statement']}".strip()
            )
        if effect.recovering == "probe":
            effect.recovering, effect.recovering_since, effect.recovering_by, effect.probe_at = "", None, "", None
            effect.save(update_fields=["recovering", "recovering_since", "recovering_by", "probe_at"])
        conclude(change, run, effect, grade="observed", source="probe", **told)


class _Probe:
    """A probe that failed proves nothing about what was sent."""

    nothing_sent = ()
