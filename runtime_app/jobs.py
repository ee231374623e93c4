"""What procrastinate runs beside the worker: once a minute, the Schedules that are due; once a day, what is removed.

A job here only says that a minute has come. A repeated, late or lost one does no harm: each Schedule starts once for
each minute, under an id made from both (R09). A minute is made up for until ten minutes later.
"""

import asyncio
import logging
from datetime import UTC, datetime, timedelta

from croniter import CroniterBadDateError, croniter
from django.db import DatabaseError, InterfaceError, connection
from procrastinate import PsycopgConnector, RetryStrategy
from procrastinate.contrib.django import app
from procrastinate.contrib.django.utils import connector_params

from . import clock, selectors, transitions
from .errors import Busy
from .transitions import epochs

QUEUE = "sayso"
STALLED = 30  # seconds a worker that took a job may be silent
AGAIN = 5  # seconds until we try again after the database was away
LATE = timedelta(minutes=11)  # ten, and the one that it is

log = logging.getLogger(__name__)


@app.periodic(cron="* * * * *")
@app.task(queue=QUEUE, name="sayso.start_due", retry=RetryStrategy(max_attempts=5, wait=AGAIN))
def start_due(timestamp: int) -> None:
    """Start every active Schedule whose minute this is. Raises what kept one from it and passes: then it is done again,
    and those that have started start no second time."""
    if not epochs.released(epochs.current()):  # on a copy, the same jobs start where it was copied from (R27)
        return log.warning("no schedule starts: the epoch is not released")
    minute, away = datetime.fromtimestamp(timestamp, UTC), None
    if clock.now() - minute > LATE:  # no worker was there, or this is what a backup remembers
        return log.warning("no schedule of %s starts any more", minute)
    for schedule_id, cron in selectors.active_schedules():
        if legal(cron) and croniter.match(cron, minute):
            try:
                transitions.start_scheduled(schedule_id, minute)
            except Exception as failed:  # one that breaks does not keep the others from starting
                log.exception("schedule %s did not start", schedule_id)
                if isinstance(failed, (Busy, DatabaseError, InterfaceError)):
                    connection.close()
                    away = failed
    if away:
        raise away


@app.periodic(cron="17 3 * * *")
@app.task(queue=QUEUE, name="sayso.remove_output", retry=5)
def remove_output(timestamp: int) -> None:
    """Once a day: output that is kept long enough is removed, a batch at a time (R36)."""
    while transitions.remove_output():
        pass


@app.periodic(cron="* * * * *")
@app.task(queue=QUEUE, name="sayso.take_up", retry=False)
async def take_up(timestamp: int) -> None:
    """What a killed worker had taken is done again."""
    for job in await app.job_manager.get_stalled_jobs(queue=QUEUE, seconds_since_heartbeat=STALLED):
        await app.job_manager.retry_job(job)


def legal(cron: str) -> bool:
    """Whether this is five fields that name minutes: minute hour day month weekday."""
    return len(cron.split()) == 5 and croniter.is_valid(cron)


def next_time(cron: str) -> datetime | None:
    """The next minute that this names, or None: it is none, or no minute within the next years is like it."""
    try:
        return croniter(cron, clock.now(), max_years_between_matches=8).get_next(datetime) if legal(cron) else None
    except CroniterBadDateError:
        return None


async def run() -> None:
    """Do jobs until cancelled."""
    while True:
        try:
            # two connections: its own pool would keep four
            connector = PsycopgConnector(kwargs=connector_params(), min_size=1, max_size=2)
            with app.replace_connector(connector) as beside:
                async with beside.open_async():
                    await beside.run_worker_async(
                        queues=[QUEUE], delete_jobs="successful", install_signal_handlers=False, listen_notify=False,
                        shutdown_graceful_timeout=1,
                    )  # fmt: skip
        except Exception as failed:
            log.warning("schedules rest for %s s: %s", AGAIN, failed)
        await asyncio.sleep(AGAIN)
