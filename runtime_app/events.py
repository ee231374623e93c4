"""Events: appended under their Session's lock, read after a cursor of a Session or of a tenant (R36-R38). A push is
only a hint (R39)."""

import base64
import binascii
import json
from dataclasses import dataclass, field
from uuid import UUID

from django.db import connection
from django.db.models import BooleanField
from django.db.models.expressions import RawSQL

from .errors import CursorInvalid
from .ids import parse_id
from .models import Event, Session
from .permissions import Actor, Context, find, visible

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
            rows.append("(%s::uuid, %s::bigint, %s, %s, %s, %s, %s::uuid, %s::jsonb)")
            values += [event.run_id, event.seq, event.kind, event.actor_kind, event.actor_id, event.actor_name]
            values += [event.subject, json.dumps(event.data)]
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


# the epoch is this installation's now, not the Run's: the feed orders by it (R38)
_WRITE = """
with numbered as (update runtime_app_session set last_seq = %s where id = %s),
written as (
    insert into runtime_app_event
        (tenant_id, session_id, run_id, seq, kind, actor_kind, actor_id, actor_name, subject, data, epoch)
    select %s::uuid, %s::uuid, draft.*, coalesce((select max(number) from runtime_app_epoch), 1)
      from (values {rows}) draft)
select {hints}
"""


def _hints(hints: list) -> str:
    return ", ".join(["pg_notify(%s, %s)"] * len(hints))


# ---------------------------------------------------------------- cursors


def cursor_of(session_id: UUID, seq: int, epoch: int) -> str:
    """Opaque outside: what it is of, the epoch, the place (R37)."""
    return _cursor([str(session_id), epoch, seq])


def _cursor(parts: list) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts, separators=(",", ":")).encode()).decode().rstrip("=")


def place(cursor: str, session: Session, epoch: int) -> int | None:
    """The seq that `cursor` has seen, or None for an explicit gap (another epoch). CursorInvalid for one that is not of
    this Session or is of the future."""
    of, of_epoch, *place = _parts(cursor)
    if of != str(session.pk) or len(place) != 1:
        raise CursorInvalid("This cursor is of another Session. Start again without one.")
    if of_epoch != epoch:
        return None
    if place[0] > session.last_seq:
        raise CursorInvalid("This cursor is of the future. Start again without one.")
    return place[0]


def _parts(cursor: str) -> list:
    """What it is of, the epoch, and the place: a seq, or an epoch, a transaction, a Session and a seq."""
    try:
        if len(cursor) > 300:
            raise ValueError
        parts = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        of, epoch, *place = parts
        numbers = [epoch, *place] if len(place) == 1 else [epoch, *place[:2], *place[3:]]
        texts = [of] if len(place) == 1 else [of, place[2]]
        if len(place) not in (1, 4) or not all(type(each) is int and 0 <= each < 2**63 for each in numbers):
            raise ValueError
        if not all(type(each) is str and parse_id(each) for each in texts):
            raise ValueError
    except (ValueError, TypeError, IndexError, binascii.Error, RecursionError):
        raise CursorInvalid("This is not a cursor. Start again without one.") from None
    return parts


@dataclass(frozen=True)
class Page:
    """Some Events in order, each with its `cursor`; the cursor after them; whether the way to them has a gap, and
    whether more follow. `held`: there is more that an older open transaction holds back; look again soon."""

    events: list[Event]
    cursor: str
    gap: bool
    more: bool
    held: bool = False


def after(context: Context, session_id, cursor: str | None = None, limit: int = PAGE) -> Page:
    """The Events of a Session after `cursor`, at most `limit`, in order, each once (R37)."""
    session = find(Session, context, session_id)
    epoch = current_epoch()
    seen = place(cursor, session, epoch) if cursor else 0
    found = list(Event.objects.filter(session_id=session.pk, seq__gt=seen or 0).order_by("seq")[: limit + 1])
    events = found[:limit]
    for event in events:
        event.cursor = cursor_of(session.pk, event.seq, epoch)
    last = events[-1].seq if events else (seen or 0)
    return Page(events, cursor_of(session.pk, last, epoch), gap=seen is None, more=len(found) > limit)


def epoch_of(cursor: str) -> int:
    return _parts(cursor)[1]


def current_epoch() -> int:
    with connection.cursor() as cursor:
        cursor.execute("select coalesce(max(number), 1) from runtime_app_epoch")
        return cursor.fetchone()[0]


# ---------------------------------------------------------------- the feed of a tenant

START = (0, 0, str(UUID(int=0)), 0)  # before every Event

_EDGE = """
with epoch as (select coalesce(max(number), 1) as now from runtime_app_epoch)
select epoch.now, pg_snapshot_xmin(open)::text::bigint, pg_snapshot_xmax(open)::text::bigint,
       exists (select from runtime_app_event
                where tenant_id = %s and (epoch, transaction) >= (epoch.now, pg_snapshot_xmin(open)))
  from epoch, pg_current_snapshot() open
"""


def feed(context: Context, cursor: str | None = None, limit: int = PAGE) -> Page:
    """The Events of the tenant that the caller may see, after `cursor`, at most `limit`: by epoch, transaction, Session
    and seq, up to the oldest transaction that is open (R38). What commits late is not below a cursor given before.

    Any open writer of the database server holds it back, one of another database too; one of our roles that is idle
    is ended after 10 s.
    """
    with connection.cursor() as reads:
        reads.execute(_EDGE, [context.tenant_id])
        epoch, oldest, newest, held = reads.fetchone()
    seen = _seen(cursor, context.tenant_id, epoch, newest) if cursor else START
    # Finished before this query began: a row below the edge is visible to it, or never will be to anybody.
    rows = visible(Event, context).filter(
        _row("(epoch, transaction) >= (%s, %s::text::xid8)", *(seen or START)[:2]),
        _row("(epoch, transaction) < (%s, %s::text::xid8)", epoch, oldest),
        _row("(epoch, transaction, session_id, seq) > (%s, %s::text::xid8, %s::uuid, %s)", *(seen or START)),
    )
    found = list(rows.order_by("epoch", "transaction", "session_id", "seq")[: limit + 1])
    events, more = found[:limit], len(found) > limit
    for event in events:
        place = (event.epoch, event.transaction, str(event.session_id), event.seq)
        event.cursor = _cursor([str(context.tenant_id), epoch, *place])
    # at the edge nothing below is unseen, whosever it was: the next look begins there
    edge = _cursor([str(context.tenant_id), epoch, epoch, oldest, START[2], 0])
    return Page(events, events[-1].cursor if more else edge, gap=seen is None, more=more, held=held)


def _row(condition: str, *values) -> RawSQL:
    """A comparison of rows, by which the feed's index is read."""
    return RawSQL(condition, values, output_field=BooleanField())


def _seen(cursor: str, tenant_id: UUID, epoch: int, newest: int) -> tuple | None:
    """The place `cursor` has seen, or None for an explicit gap."""
    of, of_epoch, *place = _parts(cursor)
    if of != str(tenant_id) or len(place) != 4:
        raise CursorInvalid("This cursor is not of this tenant. Start again without one.")
    if of_epoch != epoch:
        return None
    if tuple(place[:2]) > (epoch, newest):
        raise CursorInvalid("This cursor is of the future. Start again without one.")
    return tuple(place)
