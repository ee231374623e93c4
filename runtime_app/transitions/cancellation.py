"""Cancelling stops what can still stop, and is honest about the rest (R28-R32)."""


from .. import permissions, states
from ..errors import LeaseLost, RunEnded
from ..models import Response, Run
from .change import Change, opened, transition
from .continuing import end, open_effects
from .resolving import earlier_response, said_of


@transition("cancel", "run_id")
def cancel(change: Change, *, run_id, response_id, reason: str = "") -> Response:
    """Cancel exactly this Run. Queued or waiting, it is cancelled at once; running, it is marked and its worker stops.

    Returns what was recorded. Raises NotFound, NotAuthorized, RunEnded (how, or `cancelling`), IdempotencyConflict.
    """
    context = change.context
    found = permissions.find(Run, context, run_id)
    change.lock_session(found.session_id)
    run = change.lock(Run, found.pk)
    said = said_of("cancel", run.pk, response_id, reason, run=run)
    if earlier := earlier_response(context, said):
        return earlier
    if refused := permissions.may_operate(context, run.environment_id):
        raise refused
    if run.state in states.ENDED:
        raise RunEnded(how_it_ended(run), reason=run.state, by=run.cancelled_by, at=run.ended_at.isoformat())
    if run.cancel_requested_at:
        raise RunEnded(
            f"{run.cancelled_by} already cancelled this Run; its worker is stopping.", reason="cancelling",
            by=run.cancelled_by, at=run.cancel_requested_at.isoformat(),
        )  # fmt: skip
    said.name, said.user_id = context.actor.name, context.user_id
    children = Run.objects.filter(parent_id=run.pk).exclude(state__in=states.ENDED).order_by("pk")
    named = [str(pk) for pk in children.values_list("pk", flat=True)]
    _stop(change, run, said)
    uncertain = [str(pk) for pk in open_effects(run)]
    said.recorded = {"run": str(run.pk), "state": run.state, "children": named, "uncertain": uncertain}
    said.save(force_insert=True)
    return said


def _stop(change: Change, run: Run, said: Response) -> None:
    run.cancel_requested_at, run.cancelled_by, run.cancel_reason = change.now(), said.name, said.message
    if run.state in ("queued", "waiting") or run.single:  # nobody holds a turn at what is one Request
        end(change, run, "cancelled", by=said.name)
        return
    run.save(update_fields=["cancel_requested_at", "cancelled_by", "cancel_reason"])
    change.note("run.cancelling", run=run, by=said.name)
    change.log.work(f"cancel {run.pk}")


def how_it_ended(run: Run) -> str:
    by = f" by {run.cancelled_by}" if run.state == "cancelled" else ""
    return f"This Run ended as {run.state}{by} at {run.ended_at:%Y-%m-%d %H:%M:%S} UTC. Nothing was changed."


def stopped(turn) -> None:
    """The worker has stopped: the marked Run is cancelled. Raises LeaseLost if it is no longer this worker's to end."""
    with opened("stopped", permissions.system("worker", turn.run.tenant_id)) as change:
        change.lock_session(turn.run.session_id)
        run = change.lock(Run, turn.run.pk)
        if run.state != "running" or run.lease_number != turn.lease_number or not run.cancel_requested_at:
            raise LeaseLost
        end(change, run, "cancelled", by=run.cancelled_by)
