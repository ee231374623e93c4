"""Jobs that start by the clock: each due minute once, as the person who set them, if they still may (R09, R33)."""

import logging
from datetime import datetime
from uuid import UUID, uuid5

from ..errors import Busy, NotFound, SaysoError
from ..models import Now, Run, Schedule
from ..permissions import Context, person
from .runs import start

log = logging.getLogger(__name__)


def start_scheduled(schedule_id: UUID, minute: datetime) -> Run | None:
    """Start the job of this Schedule for this minute, with nobody on the line. The same again is the same Run.

    None: it is not active, or its person lost the right; then the Schedule says so, and a Refusal is kept. Raises Busy.
    """
    schedule = Schedule.objects.select_related("set_by", "environment").get(pk=schedule_id)
    if not schedule.active:
        return None
    try:
        run = start(
            Context(schedule.tenant_id, person(schedule.set_by)), agent=schedule.agent,
            environment=schedule.environment.name, message=schedule.message, interactive=False,
            start_id=uuid5(schedule.pk, minute.isoformat()), schedule_id=schedule.pk,
        )  # fmt: skip
    except Busy:
        raise
    except SaysoError as refused:
        why = f"{schedule.set_by} is no active member any more." if isinstance(refused, NotFound) else refused.message
        log.warning("schedule %s did not start: %s", schedule.pk, why)
        Schedule.objects.filter(pk=schedule.pk).update(refused=why, refused_at=Now())
        return None
    Schedule.objects.filter(pk=schedule.pk).exclude(refused="").update(refused="", refused_at=None)
    return run
