"""Recovery actions: registered remedies for an Effect, one at a time (R24). A probe asks and sends nothing."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q
from pydantic import BaseModel

from .. import actions, canonical, permissions, states
from ..errors import InvalidInput, InvalidResponse, StaleRequest
from ..events import current_epoch
from ..models import Effect, Request, Response, Run
from ..responses import Recover
from .change import Change, opened, transition
from .continuing import wake
from .dispatching import known_actions
from .evidence import conclude, locked, read_reply, schedule_probe, unproven_until
from .raising import raise_recovery
from .resolving import earlier_response, resolve, said_of

_OPEN = ~Q(state__in=states.SETTLED) | Q(disputed=True)
PROBE_FOR = timedelta(seconds=60)  # a probe that said nothing for so long may be taken up by another worker


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
    asked_at: datetime


def _start(effect: Effect, request: Request, said: Response, name: str) -> None:
    _only_one(effect, name)
    if name not in request.accepts["recover"]:
        raise InvalidResponse(
            f"{effect.action_name} has no recovery action {name[:60]}.",
            fields={"recovery": "not registered for this action"},
        )
    known = actions.recoveries(actions.registered(effect.action_name), compensates=effect.compensates_id is not None)
    # what no worker would take up would keep every other recovery from starting
    of_its_own = name in ("probe", "redispatch")
    unasked = of_its_own and not Effect.objects.filter(known_actions(), pk=effect.pk).exists()
    if unasked or name not in [each["name"] for each in known]:
        raise InvalidResponse(
            f"The recovery action {name} of {effect.action_name} {effect.action_version} is no longer registered. "
            "Nothing was started.",
            fields={"recovery": "no longer registered for this action"},
        )
    said.content = {"action": name}
    said.recorded = {"request": str(request.pk), "state": "pending", "outcome": None}


def _only_one(effect: Effect, name: str = "compensate") -> None:
    """One recovery action at a time, and one compensation in all (R24)."""
    if effect.recovering:
        raise StaleRequest(
            f"{effect.recovering_by} already started {effect.recovering}. Your response was not recorded.",
            reason="recovering", by=effect.recovering_by, at=effect.recovering_since.isoformat(),
        )  # fmt: skip
    if name != "compensate":
        return
    undone = Effect.objects.filter(compensates_id=effect.pk).exclude(state__in=["withdrawn", "not_committed"])
    # its Run may wait for an approval still, after a dispute about what it undoes was settled
    live = Q(recovers_id=effect.pk, recovery="compensate") & ~Q(state__in=states.ENDED)
    if first := Run.objects.filter(live | Q(pk__in=undone.values("run_id"))).order_by("pk").first():
        by = first.initiator_name
        raise StaleRequest(f"{by} already started its compensation.", reason="recovering", by=by)


def start_recovery(
    change: Change, run: Run, request: Request, effect: Effect, said: Response, recover: Recover
) -> None:
    """Record it and let a worker do it. The Request stays pending until what was found settles the Effect (R24)."""
    _start(effect, request, said, recover.action)
    if recover.action == "redispatch" and effect.state != "uncertain":
        raise InvalidResponse(
            "Only what is uncertain is sent again.", fields={"recovery": f"it is {effect.state} at present"}
        )
    if recover.action == "probe":
        _mark(change, run, effect, said, "probe", probe_at=change.now())
        change.log.work("probe")
    else:
        _send(change, run, effect, said, recover.action)
    said.save(force_insert=True)


@transition("compensate", "effect_id")
def compensate(change: Change, *, effect_id, response_id, message: str = "") -> Response:
    """Start the compensation of an Effect that happened: an Effect of its own, under its own action's policy (R24).

    Raises NotFound, NotAuthorized, InvalidResponse, StaleRequest (recovering), IdempotencyConflict.
    """
    context = change.context
    found = permissions.find(Effect, context, effect_id)
    change.lock_session(found.session_id)
    run = change.lock(Run, found.run_id)
    effect = change.lock(Effect, found.pk)
    said = said_of("compensate", effect.pk, response_id, message, run=run)
    if earlier := earlier_response(context, said):
        return earlier
    if refused := permissions.may_operate(context, effect.environment_id):
        raise refused
    offered = [each["name"] for each in actions.recoveries(actions.registered(effect.action_name))]
    if effect.state != "committed" or effect.compensates_id or "compensate" not in offered:
        raise InvalidResponse(
            "This effect cannot be compensated.",
            fields={"recovery": "only what happened, once, and where the action has a registered compensation"},
        )
    _only_one(effect)
    said.name, said.user_id = context.actor.name, context.user_id
    _send(change, run, effect, said, "compensate")
    said.save(force_insert=True)
    return said


def _mark(change: Change, run: Run, effect: Effect, said: Response, name: str, probe_at=None) -> None:
    effect.recovering, effect.recovering_since, effect.recovering_by = name, change.now(), said.name
    effect.probe_at = probe_at
    effect.save(update_fields=["recovering", "recovering_since", "recovering_by", "probe_at"])
    change.note("effect.recovering", run=run, subject=effect.pk, action=name)


def _send(change: Change, run: Run, effect: Effect, said: Response, name: str) -> None:
    """What sends is a Run of its own, started by this operator, linked, asking for its own Grant (R24)."""
    action = actions.registered(effect.action_name)
    parameters = Request.objects.get(pk=effect.request_id).parameters
    if name == "compensate":
        undone, action = action, actions.registered(action.compensation)
        parameters = _undoing(undone, action, parameters)
    _mark(change, run, effect, said, name)
    now = change.now()
    again = Run(
        tenant_id=run.tenant_id, session_id=run.session_id, environment_id=run.environment_id,
        instance_id=run.instance_id, agent=run.agent, agent_version=run.agent_version, recovers_id=effect.pk,
        recovery=name, message=f"{action.title}: {name} effect {effect.pk}", initiator_id=said.user_id,
        initiator_name=said.name, epoch=current_epoch(), state="waiting", waiting_since=now, started_at=now,
    )  # fmt: skip
    again.save(force_insert=True)
    change.note("run.started", run=again, recovery=name, recovers=str(effect.pk))
    same = effect if name == "redispatch" else None
    raise_recovery(change, again, name=action.name, parameters=parameters, effect=same)
    said.recorded = (said.recorded or {}) | {"run": str(again.pk)}
    wake(change, again)


def _undoing(undone: actions.Action, action: actions.Action, parameters: bytes) -> bytes:
    """What is bound of the compensation. It is made by code of the action's own, which may fail."""
    try:
        return action.bind(canonical.dump(undone.compensating(undone.parsed(parameters))))
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidResponse(
            f"What would undo it cannot be made from what was done ({type(error).__name__}). Nothing was started.",
            fields={"recovery": "it cannot be made from these parameters"},
        ) from error


def accept_uncertainty(change: Change, run: Run, request: Request, effect: Effect, said: Response) -> None:
    """The Run is told `unknown` and goes on; the Effect stays uncertain, marked; later evidence settles it (R24)."""
    _start(effect, request, said, "accept")
    if effect.state != "uncertain":
        stands = "It is disputed: a person settles that" if effect.disputed else "It is still in flight"
        raise InvalidResponse(
            f"{stands}. There is no uncertainty to accept.", fields={"recovery": f"it is {effect.state} at present"}
        )
    said.recorded |= {"state": "resolved", "outcome": "accepted"}
    said.save(force_insert=True)
    effect.accepted_at, effect.accepted_by, effect.accepted_why = change.now(), said.name, said.message
    effect.save(update_fields=["accepted_at", "accepted_by", "accepted_why"])
    change.note("effect.accepted", run=run, subject=effect.pk, why=said.message)
    resolve(change, run, request, "accepted", said.name)
    wake(change, run)


def recovering(worker_id: UUID) -> Recovery | None:
    """Take the next probe that is due: one that a person asked for, or one of a schedule (R24, R35)."""
    while True:
        with opened("recovering") as change:
            now = change.now()
            due = Effect.objects.filter(known_actions(), _OPEN, probe_at__lte=now).order_by("probe_at")
            seen = due.values("pk", "tenant_id").first()
            if seen is None:
                return None
            change.act(permissions.system("worker", seen["tenant_id"]))
            run, effect = locked(change, seen["pk"])
            open_still = effect.state not in states.SETTLED or effect.disputed
            if open_still and effect.probe_at and effect.probe_at <= now:
                if probe := _recover(change, run, effect, now):
                    return probe
            # else another worker has it, or it cannot be asked: look for another


def _recover(change: Change, run: Run, effect: Effect, now: datetime) -> Recovery | None:
    """A probe is under way, for a while: a worker that dies with it keeps nobody from asking again. None: the action
    does not read its own parameters any more, and one that cannot be asked keeps no other from it."""
    effect.probe_at, effect.probes = now + PROBE_FOR, effect.probes + 1
    effect.save(update_fields=["probe_at", "probes"])
    request = Request.objects.get(pk=effect.request_id)
    action = actions.registered(effect.action_name)
    try:
        parameters = action.parsed(request.parameters)
    except Exception as error:
        _found(change, run, effect, error, now)
        return None
    return Recovery(
        effect.pk, effect.tenant_id, effect.key, action, parameters, request.bound["environment"]["name"],
        PROBE_FOR.total_seconds(), now,
    )  # fmt: skip


def recovered(recovery: Recovery, found: actions.Reply | BaseException) -> None:
    """Keep what the probe found; settle the Effect where that is conclusive."""
    with opened("recovered", permissions.system("probe", recovery.tenant_id)) as change:
        run, effect = locked(change, recovery.effect_id)
        _found(change, run, effect, found, recovery.asked_at)


def _found(change: Change, run: Run, effect: Effect, found: actions.Reply | BaseException, asked_at: datetime) -> None:
    read = read_reply(_Probe, found)
    # as of when it was asked: an answer that comes late may be of before it was sent (R23)
    until = unproven_until(effect, asked_at)
    if read["finding"] == "not_committed" and until:
        read["finding"] = "unknown"
        read["statement"] = f"Not found, which proves nothing before {until:%H:%M:%S} UTC. {read['statement']}".strip()
    effect.probe_at = None
    if effect.recovering == "probe":
        effect.recovering, effect.recovering_since, effect.recovering_by = "", None, ""
    effect.save(update_fields=["recovering", "recovering_since", "recovering_by", "probe_at"])
    conclude(change, run, effect, grade="observed", source="probe", **read)
    _probe_on(change, run, effect)


def _probe_on(change: Change, run: Run, effect: Effect) -> None:
    """While in flight, and for a job with nobody on the line, the provider is asked again until the deadline (R35)."""
    alone = not run.interactive and run.state == "waiting"
    if (effect.state == "in_flight" or effect.state == "uncertain" and alone) and effect.deadline_at > change.now():
        schedule_probe(change, effect)


class _Probe:
    """A probe that failed proves nothing about what was sent."""

    nothing_sent = ()
