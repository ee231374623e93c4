"""The terminal result of a Run: one document for page, API and whoever started it (R31)."""

from ..models import Blocker, Effect, Event, Run
from .ledger import ledger

STOPPED = {
    "run.cancelled": "the Run",
    "request.cancelled": "a request nobody can answer any more",
    "request.expired": "a request that had expired",
    "effect.withdrawn": "an effect that was granted and not sent",
    "grant.void": "an approval that was not used",
}
MOST = 200


def terminal_result(run: Run) -> dict:
    """What a Run leaves behind: how it ended, what stopped and when, every Effect with its evidence, what is uncertain,
    and who looks after that. Evidence that came later stands apart."""
    effects = ledger(Effect.objects.filter(run_id=run.pk).order_by("prepared_at", "pk"))
    blocker = Blocker.objects.filter(run_id=run.pk).first()
    children = Run.objects.filter(parent_id=run.pk).order_by("created_at").values("pk", "agent", "state")
    return {
        "run": str(run.pk),
        "session": str(run.session_id),
        "agent": run.agent,
        "environment": run.environment.name,
        "state": run.state,
        "started_at": run.created_at,
        "started_by": run.initiator_name,
        "ended_at": run.ended_at,
        "result": run.result,
        "reason": run.reason,
        "cancelled": _cancelled(run) if run.cancel_requested_at else None,
        "blocker": _blocker(blocker) if blocker else None,
        "children": [{"run": str(each["pk"]), "agent": each["agent"], "state": each["state"]} for each in children],
        "effects": [effect_document(effect) for effect in effects],
    }


def _cancelled(run: Run) -> dict:
    """By whom, when and why; and what stopped, measured in seconds from the cancel's commit."""
    told = Event.objects.filter(session_id=run.session_id, run_id=run.pk, at__gte=run.cancel_requested_at)
    stopped = [
        {
            "what": STOPPED[event.kind],
            "id": str(event.subject or run.pk),
            "at": event.at,
            "after_seconds": round(max(0.0, (event.at - run.cancel_requested_at).total_seconds()), 3),
        }
        for event in told.filter(kind__in=STOPPED).order_by("seq")[:MOST]
    ]
    return {"by": run.cancelled_by, "at": run.cancel_requested_at, "why": run.cancel_reason, "stopped": stopped}


def _blocker(blocker: Blocker) -> dict:
    return {
        "id": str(blocker.pk),
        "kind": blocker.kind,
        "unblocks": blocker.unblocks,
        "action": blocker.action_name or None,
        "digest": blocker.digest or None,
        "effect": str(blocker.effect) if blocker.effect else None,
        "child": str(blocker.child) if blocker.child else None,
        "supplied_by": blocker.supplied_by or None,
        "denied_by": blocker.denied_by or None,
        "successor": str(blocker.successor_run) if blocker.supplied_at else None,
    }


def effect_document(effect: Effect) -> dict:
    """One Effect of the ledger, with its evidence."""
    return {
        "id": str(effect.pk),
        "action": effect.action_name,
        "key": effect.key,
        "state": effect.state,
        "disputed": effect.disputed,
        "uncertain": effect.doubtful,
        "accepted": effect.accepted_at is not None,
        "remains": remains(effect),
        "owner": effect.owner or None,
        "compensates": str(effect.compensates_id) if effect.compensates_id else None,
        "evidence": [_said(each) for each in effect.evidence if not each.late],
        "later_evidence": [_said(each) for each in effect.evidence if each.late],
    }


def remains(effect: Effect) -> str:
    """What is still uncertain about an Effect, in a sentence; "" when nothing is."""
    if effect.disputed:
        return "The evidence contradicts itself: whether it happened is not settled."
    if effect.state == "uncertain" and effect.accepted_at:
        return f"Whether it happened. {effect.accepted_by} accepted that nobody knows."
    if effect.state == "uncertain":
        return "Whether it happened. It will not be sent again before that is established."
    return "Whether it happened: the provider has not said yet." if effect.state == "in_flight" else ""


def _said(each) -> dict:
    return {
        "grade": each.grade, "finding": each.finding, "source": each.source, "by": each.name,
        "reference": each.reference, "late": each.late, "at": each.at,
    }  # fmt: skip
