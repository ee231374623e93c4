"""What a worker does for agents that wait elsewhere: sends the notifications that are due, a few at a time.

The table is the queue. A hint wakes it, and it looks by itself now and then; what a worker that died had taken is due
again after its time. On a restored or copied installation nothing is sent until a person says so (R27).
"""

import asyncio
import logging
from collections.abc import Callable

from django.conf import settings

from . import transitions, webhooks
from .transitions import Parcel, epochs

MOST = 16  # attempts at once

log = logging.getLogger(__name__)


class Deliveries:
    """`call` runs a function on a thread that has a database connection."""

    def __init__(self, call: Callable):
        self.call = call
        self.news = asyncio.Event()
        self.under_way: set[asyncio.Task] = set()

    async def run(self) -> None:
        """Deliver until cancelled. What is under way then is due again later."""
        try:
            while True:
                self.news.clear()
                try:
                    await self._begin()
                except Exception as failed:  # the database may be away for a while
                    log.warning("could not look for notifications: %s", failed)
                try:
                    async with asyncio.timeout(settings.SAYSO_LOOK_SECONDS):
                        await self.news.wait()
                except TimeoutError:
                    pass
        finally:
            for task in self.under_way:
                task.cancel()

    async def _begin(self) -> None:
        room = MOST - len(self.under_way)
        if room <= 0:
            return
        for parcel in await self.call(due, room):
            task = asyncio.create_task(self._deliver(parcel))
            self.under_way.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task) -> None:
        self.under_way.discard(task)
        self.news.set()  # there is room again

    async def _deliver(self, parcel: Parcel) -> None:
        came_of_it = await attempt(parcel)
        try:
            await self.call(transitions.delivered, parcel, *came_of_it)
        except Exception as failed:
            log.warning("notification %s: what came of it is not recorded: %s", parcel.delivery_id, failed)


def due(most: int) -> list[Parcel]:
    return transitions.take_deliveries(most) if epochs.released(epochs.current()) else []


async def attempt(parcel: Parcel) -> tuple:
    """Send it once. What came of it, in words without the address; whether it was acknowledged; when to try again."""
    try:
        answer = await webhooks.post(
            parcel.url, id=str(parcel.delivery_id), at=parcel.at, secret=parcel.secret, body=parcel.body,
            seconds=parcel.seconds,
        )  # fmt: skip
    except (webhooks.Unsafe, webhooks.Failed) as failed:
        return str(failed), False, None
    return str(answer.status), answer.acknowledges, answer.retry_after
