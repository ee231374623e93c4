"""Schedules are paused and started again by an operator there; whose they are is not changed by it (R18)."""

from .. import permissions
from ..errors import InvalidInput
from ..models import Response, Schedule
from .change import Change, transition
from .resolving import earlier_response, keep, said_of
from .telling import lock_told


@transition("pause", "schedule_id")
def pause(change: Change, *, schedule_id, response_id, reason: str = "") -> Response:
    """Nothing starts by this Schedule until it is started again; a minute that has begun may still start its job.

    Raises NotFound, NotAuthorized, InvalidInput (paused already), IdempotencyConflict.
    """
    return _turn(change, "pause", schedule_id, response_id, reason)


@transition("unpause", "schedule_id")
def unpause(change: Change, *, schedule_id, response_id, reason: str = "") -> Response:
    """Its jobs start again, as the person who set it: minutes that passed are not made up for. Raises as `pause`."""
    return _turn(change, "unpause", schedule_id, response_id, reason)


def _turn(change: Change, verb: str, schedule_id, response_id, reason: str) -> Response:
    context, on = change.context, verb == "unpause"
    found = permissions.find(Schedule, context, schedule_id)
    session = lock_told(change, found, f"Pauses of the schedule of {found.agent}")
    schedule = change.lock(Schedule, found.pk)
    said = said_of(verb, schedule.pk, response_id, reason, session_id=session.pk, tenant_id=context.tenant_id)
    if earlier := earlier_response(context, said):
        return earlier
    if refused := permissions.may_operate(context, schedule.environment_id):
        raise refused
    if schedule.active == on:
        raise InvalidInput(f"This schedule {'runs' if on else 'is paused'} already. Nothing was changed.")
    schedule.active = on
    schedule.paused_at, schedule.paused_by = (None, "") if on else (change.now(), context.actor.name)
    schedule.save(update_fields=["active", "paused_at", "paused_by"])
    change.note(f"schedule.{verb}d", subject=schedule.pk, agent=schedule.agent, why=reason)
    return keep(change, said, {"schedule": str(schedule.pk), "active": on})
