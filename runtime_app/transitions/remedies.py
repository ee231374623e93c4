"""Recovery actions: registered remedies for an Effect, one at a time (R24). A probe asks and sends nothing."""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db.models import Q
from pydantic import BaseModel

from .. import actions, permissions
from ..errors import InvalidResponse, StaleRequest
from ..models import Effect, Request, Response, Run
from ..responses import Recover
from .change import Change, opened
from .continuing import wake
from .dispatching import known_actions
from .evidence import conclude, locked, told, unproven_until
from .resolving import resolve

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
    with opened() as change:
        now = change.now()
        asked = Effect.objects.filter(known_actions(), Q(probe_at=None) | Q(probe_at__lte=now), recovering="probe")
        seen = asked.order_by("recovering_since").values("pk", "tenant_id").first()
        if seen is None:
            return None
        change.act(permissions.system("worker", seen["tenant_id"]))
        run, effect = locked(change, seen["pk"])
        if effect.recovering != "probe" or effect.probe_at and effect.probe_at > now:
            return None
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
        told = told(_Probe, found)
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
