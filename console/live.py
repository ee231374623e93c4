"""One socket a page. It carries no data, only that there is news: the page fetches through its own view (R39, R40)."""

import asyncio
import hashlib
import json
import logging

from channels.db import database_sync_to_async
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import connection

from runtime_app import permissions
from runtime_app.errors import NotFound
from runtime_app.hub import hub
from runtime_app.models import Session

AGAIN = 30  # seconds until the right to watch is looked at again without news
FRAMES = 20  # a page says nothing; whoever talks on is cut off
NOWHERE, SIGNED_OUT, TALKS, BROKEN = 4404, 4401, 4008, 1011
log = logging.getLogger(__name__)


class Page(AsyncWebsocketConsumer):
    """Watches one topic. Unknown and foreign close alike."""

    async def connect(self):
        await self.accept()
        self.frames, self.task = 0, None
        user = self.scope["user"]
        if not user.is_authenticated:
            return await self.close(SIGNED_OUT)
        self.watcher = (user.pk, self.scope["session"].session_key or "", _stamp(user.password))
        try:
            self.tenant_id, topic = await self.find(user, **self.scope["url_route"]["kwargs"])
        except NotFound:
            return await self.close(NOWHERE)
        self.task = asyncio.create_task(self.watch(topic))

    async def watch(self, topic):
        try:
            await self.close(await self.tell(topic))
        except Exception:  # the page connects again and catches up; a socket that went dumb would mislead it
            log.exception("A socket's watch ended")
            await self.close(BROKEN)

    async def tell(self, topic) -> int:
        with hub.listening(topic) as ear:
            seq = await self.newest(topic)  # read after listening began: nothing falls between
            while not (reason := await _closed(self.tenant_id, self.watcher)):
                if seq is not None:
                    await self.send(self.word(seq))
                try:
                    seq = await asyncio.wait_for(ear.wait(), AGAIN)
                except TimeoutError:
                    seq = None
            return reason

    async def receive(self, text_data=None, bytes_data=None):
        self.frames += 1
        if self.frames > FRAMES:
            await self.close(TALKS)

    async def disconnect(self, code):
        if self.task:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        raise StopConsumer


class SessionPage(Page):
    @database_sync_to_async
    def find(self, user, slug, session_id):
        tenant, context = permissions.member(user, slug)
        return tenant.pk, permissions.find(Session, context, session_id).pk

    @database_sync_to_async
    def newest(self, topic):
        return Session.objects.values_list("last_seq", flat=True).get(pk=topic)

    def word(self, seq):
        return f"news {seq}" if seq else "news"


class TenantPage(Page):
    """Inbox and lists: told that something changed in their tenant, never what."""

    @database_sync_to_async
    def find(self, user, slug):
        tenant, _ = permissions.member(user, slug)
        return tenant.pk, tenant.pk

    async def newest(self, topic):
        return 0

    def word(self, seq):
        return "news"


class Nowhere(AsyncWebsocketConsumer):
    async def connect(self):
        await self.accept()
        await self.close(NOWHERE)


# ---------------------------------------------------------------- the right to watch, for all of a tenant at once

_asked: dict = {}

_STILL = """
select w.id,
       exists (select from runtime_app_membership m join auth_user u on u.id = m.user_id
                where m.tenant_id = %s and m.user_id = w.id and u.is_active and md5(u.password) = w.stamp),
       exists (select from django_session s where s.session_key = w.key and s.expire_date > now())
  from jsonb_to_recordset(%s::jsonb) as w(at int, id int, key text, stamp text)
 order by w.at
"""


async def _closed(tenant_id, watcher) -> int | None:
    """Why this watcher may watch no longer, or None. One query serves all who were woken together."""
    batch = _asked.get(key := (tenant_id, hub.wakes))
    if batch is None:
        batch = _asked[key] = {"watchers": [], "task": asyncio.ensure_future(_ask(key))}
    at = len(batch["watchers"])
    batch["watchers"].append(watcher)
    return (await asyncio.shield(batch["task"]))[at]


async def _ask(key):
    await asyncio.sleep(0)  # whoever was woken by the same news joins
    return await _look(key[0], _asked.pop(key)["watchers"])


@database_sync_to_async
def _look(tenant_id, watchers) -> list[int | None]:
    names = ("at", "id", "key", "stamp")
    asked = json.dumps([dict(zip(names, (at, *watcher), strict=True)) for at, watcher in enumerate(watchers)])
    with connection.cursor() as cursor:
        cursor.execute(_STILL, [tenant_id, asked])
        return [
            None if member and alive else NOWHERE if alive else SIGNED_OUT for _, member, alive in cursor.fetchall()
        ]


def _stamp(password: str) -> str:
    return hashlib.md5(password.encode(), usedforsecurity=False).hexdigest()
