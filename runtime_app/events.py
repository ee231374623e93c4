"""Events: appended under their Session's lock, read after a cursor (R36, R37). A push is only a hint (R39)."""

import base64
import binascii
import json
from dataclasses import dataclass, field
from uuid import UUID

from django.db import connection

from .errors import CursorInvalid
from .models import Event, Session
from .permissions import Actor, Context, find

NEWS = "sayso_news"  # a channel per installation: "<tenant> <session> <seq>"
WORK = "sayso_work"  # "run", "effect" or "probe": one became claimable; "cancel <run>": its worker has to stop

PAGE = 500


@dataclass
class Log:
    """The Events of one transition, written together just before its commit, with the hints that go out with it."""

    session: Session
    actor: Actor
    drafts: list[Event] = field(default_factory=list)
    hints: list[tuple[str, str]] = field(default_factory=list)
    epoch: int | None = None

    def note(self, kind: str, *, run=None, subject: UUID | None = None, actor: Actor | None = None, **data) -> None:
        by = actor or self.actor
        self.drafts.append(
            Event(
                tenant_id=self.session.tenant_id,
                session_id=self.session.pk,
                run_id=run.pk if run else None,
                kind=kind,
                actor_kind=by.kind,
                actor_id=by.id,
                actor_name=by.name,
                subject=subject,
                data=data,
                epoch=self.epoch or (run.epoch if run else 1),
            )
        )

    def work(self, payload: str = "") -> None:
        if (WORK, payload) not in self.hints:
            self.hints.append((WORK, payload))

    def write(self) -> None:
        """Number, insert and hint, by one statement. The caller holds the Session's lock, so the numbers have no gap
        for any reader (I16); a hint is delivered at commit or never, so it cannot overtake its rows."""
        if not self.drafts:
            return self._hint()
        rows, values = [], []
        for event in self.drafts:
            self.session.last_seq += 1
            event.seq = self.session.last_seq
            rows.append("(%s::uuid, %s::bigint, %s, %s, %s, %s, %s::uuid, %s::jsonb, %s::int)")
            values += [event.run_id, event.seq, event.kind, event.actor_kind, event.actor_id, event.actor_name]
            values += [event.subject, json.dumps(event.data), event.epoch]
        self.hints.append((NEWS, f"{self.session.tenant_id} {self.session.pk} {self.session.last_seq}"))
        with connection.cursor() as cursor:
            cursor.execute(
                _WRITE.format(rows=", ".join(rows), hints=_hints(self.hints)),
                [self.session.last_seq, self.session.pk, self.session.tenant_id, self.session.pk, *values]
                + [part for hint in self.hints for part in hint],
            )

    def _hint(self) -> None:
        if self.hints:
            with connection.cursor() as cursor:
                cursor.execute(f"select {_hints(self.hints)}", [part for hint in self.hints for part in hint])


_WRITE = """
with numbered as (update runtime_app_session set last_seq = %s where id = %s),
written as (
    insert into runtime_app_event
        (tenant_id, session_id, run_id, seq, kind, actor_kind, actor_id, actor_name, subject, data, epoch)
    select %s::uuid, %s::uuid, draft.* from (values {rows}) draft)
select {hints}
"""


def _hints(hints: list) -> str:
    return ", ".join(["pg_notify(%s, %s)"] * len(hints))


# ---------------------------------------------------------------- cursors


def cursor_of(session_id: UUID, seq: int, epoch: int) -> str:
    """Opaque outside: what it is of, the epoch, the place (R37)."""
    text = json.dumps([str(session_id), epoch, seq], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def place(cursor: str, session: Session, epoch: int) -> int | None:
    """The seq that `cursor` has seen, or None for an explicit gap (another epoch). CursorInvalid for one that is not of
    this Session or is of the future."""
    of, of_epoch, seq = _parts(cursor)
    if of != str(session.pk):
        raise CursorInvalid("This cursor is of another Session. Start again without one.")
    if of_epoch != epoch:
        return None
    if seq > session.last_seq:
        raise CursorInvalid("This cursor is of the future. Start again without one.")
    return seq


def _parts(cursor: str) -> tuple[str, int, int]:
    try:
        if len(cursor) > 200:
            raise ValueError
        of, epoch, seq = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if type(seq) is not int or type(epoch) is not int or seq < 0:
            raise ValueError
    except (ValueError, TypeError, binascii.Error, RecursionError):
        raise CursorInvalid("This is not a cursor. Start again without one.") from None
    return of, epoch, seq


@dataclass(frozen=True)
class Page:
    """Some Events in order, the cursor after them, and whether the way to them has a gap."""

    events: list[Event]
    cursor: str
    gap: bool
    more: bool


def after(context: Context, session_id, cursor: str | None = None, limit: int = PAGE) -> Page:
    """The Events of a Session after `cursor`, at most `limit`, in order, each once (R37)."""
    session = find(Session, context, session_id)
    epoch = current_epoch()
    seen = place(cursor, session, epoch) if cursor else 0
    found = list(Event.objects.filter(session_id=session.pk, seq__gt=seen or 0).order_by("seq")[: limit + 1])
    events = found[:limit]
    last = events[-1].seq if events else (seen or 0)
    return Page(events, cursor_of(session.pk, last, epoch), gap=seen is None, more=len(found) > limit)


def epoch_of(cursor: str) -> int:
    return _parts(cursor)[1]


def current_epoch() -> int:
    with connection.cursor() as cursor:
        cursor.execute("select coalesce(max(number), 1) from runtime_app_epoch")
        return cursor.fetchone()[0]
