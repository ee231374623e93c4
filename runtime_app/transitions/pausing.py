"""Schedules are paused and started again by an operator there; whose they are is not changed by it (R18)."""

from .. import permissions
from ..errors import InvalidInput
from ..models import Response, Schedule, Session
from .change import Change, transition
from .resolving import earlier_response, said_of


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
    if found.session_id is None:
        _tell_in_a_session(found)
    session = change.lock_session(Schedule.objects.values_list("session_id", flat=True).get(pk=found.pk))
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
    said.name, said.user_id = context.actor.name, context.user_id
    said.recorded = {"schedule": str(schedule.pk), "active": on}
    said.save(force_insert=True)
    return said


def _tell_in_a_session(schedule: Schedule) -> None:
    session = Session.objects.create(tenant_id=schedule.tenant_id, title=f"Pauses of the schedule of {schedule.agent}")
    # of two at once, the second's Session stays empty
    Schedule.objects.filter(pk=schedule.pk, session=None).update(session=session)
