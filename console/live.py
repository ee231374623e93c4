"""One socket a page. It carries no data, only that there is news: the page fetches through its own view (R39, R40)."""

import asyncio
import hashlib
import json
import logging

from channels.db import database_sync_to_async
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.security.websocket import WebsocketDenier

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
        try:
            self.tenant_id, self.session_id = await self.find(user, **self.scope["url_route"]["kwargs"])
        except NotFound:
            return await self.close(NOWHERE)
        key = self.scope["session"].session_key or ""
        self.watcher = (user.pk, key, _stamp(user.password), str(self.session_id or "") or None)
        self.task = asyncio.create_task(self.watch())

    async def watch(self):
        try:
            await self.close(await self.tell())
        except Exception:  # the page connects again and catches up; a socket that went dumb would mislead it
            log.exception("A socket's watch ended")
            await self.close(BROKEN)

    async def tell(self) -> int:
        """Say that there is news, as long as this person may hear it; then why not."""
        told, woken = None, True
        with hub.listening(self.session_id or self.tenant_id) as ear:
            await hub.stands()
            ear.clear()  # what follows is read after listening began: nothing falls between
            while True:
                reason, newest = await _look(self.tenant_id, self.watcher)
                if reason:
                    return reason
                # of a tenant the newest is no number to count by: what commits late is older than it (R38)
                if newest != told or woken and not self.session_id:
                    await self.send(f"news {newest}" if self.session_id else "news")
                told = newest
                woken = await _heard(ear)

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


class TenantPage(Page):
    """Inbox and lists: told that something changed in their tenant, never what."""

    @database_sync_to_async
    def find(self, user, slug):
        tenant, _ = permissions.member(user, slug)
        return tenant.pk, None


class Nowhere(AsyncWebsocketConsumer):
    async def connect(self):
        await self.accept()
        await self.close(NOWHERE)


class OwnOrigin:
    """Only a page of ours opens a socket: its Origin is one of `origins`, to the letter, and there is exactly one."""

    def __init__(self, application, origins):
        self.application = application
        self.origins = {_without_default_port(origin).encode() for origin in origins}

    async def __call__(self, scope, receive, send):
        given = [value for name, value in scope["headers"] if name == b"origin"]
        inside = self.application if len(given) == 1 and given[0] in self.origins else WebsocketDenier()
        return await inside(scope, receive, send)


def _without_default_port(origin: str) -> str:
    return origin.removesuffix(":443" if origin.startswith("https:") else ":80")


# ---------------------------------------------------------------- the right to watch, for all of a tenant at once

_asked: dict = {}

_STILL = """
select exists (select from runtime_app_membership m join auth_user u on u.id = m.user_id
                where m.tenant_id = %(tenant)s and m.user_id = w.id and u.is_active),
       exists (select from django_session s join auth_user u on u.id = w.id and md5(u.password) = w.stamp
                where s.session_key = w.key and s.expire_date > now()),
       case when w.session is not null
            then (select last_seq from runtime_app_session s where s.id = w.session and s.tenant_id = %(tenant)s)
            else (select transaction::text::bigint from runtime_app_event e where e.tenant_id = %(tenant)s
                   order by epoch desc, transaction desc limit 1) end
  from jsonb_to_recordset(%(watchers)s::jsonb) as w(at int, id int, key text, stamp text, session uuid)
 order by w.at
"""


async def _heard(ear) -> bool:
    try:
        async with asyncio.timeout(AGAIN):  # `wait_for` of Python 3.11 loses a cancel that comes with the news
            await ear.wait()
        return True
    except TimeoutError:
        return False


async def _look(tenant_id, watcher) -> tuple[int | None, int | None]:
    """Why this watcher may watch no longer, or None; and the newest seq of its Session, or, of its tenant, the newest
    transaction in its feed. One query serves all who were woken together."""
    batch = _asked.get(key := (tenant_id, hub.wakes))
    if batch is None:
        batch = _asked[key] = {"watchers": [], "task": asyncio.ensure_future(_ask(key))}
    at = len(batch["watchers"])
    batch["watchers"].append(watcher)
    return (await asyncio.shield(batch["task"]))[at]


async def _ask(key):
    await asyncio.sleep(0)  # whoever was woken by the same news joins; none joins a query that has begun
    return await _query(key[0], _asked.pop(key)["watchers"])


async def _query(tenant_id, watchers) -> list[tuple[int | None, int | None]]:
    names = ("at", "id", "key", "stamp", "session")
    asked = json.dumps([dict(zip(names, (at, *watcher), strict=True)) for at, watcher in enumerate(watchers)])
    found = await hub.ask(_STILL, {"tenant": tenant_id, "watchers": asked})
    return [(_reason(member, signed_in), seq) for member, signed_in, seq in found]


def _reason(member: bool, signed_in: bool) -> int | None:
    if not signed_in:
        return SIGNED_OUT
    return None if member else NOWHERE


def _stamp(password: str) -> str:
    return hashlib.md5(password.encode(), usedforsecurity=False).hexdigest()
