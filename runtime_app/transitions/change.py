"""The frame of every transition (R05): one transaction, locks in one order, checks after the last lock, then facts.

    find by one scoped query -> lock Session, Run, Request, Effect, one statement each -> check -> write -> commit

A refusal rolls everything back and is then written down on its own (R13).
"""

from collections.abc import Callable
from contextlib import contextmanager
from functools import wraps

from django.db import IntegrityError, OperationalError, connection, transaction

from .. import clock, statements
from ..errors import Busy, SaysoError
from ..events import Log
from ..failpoints import failpoint
from ..models import Session
from ..permissions import Context, system
from .refusals import record_refusal

# lock_not_available, query_canceled, deadlock_detected, serialization_failure
_BUSY = {"55P03", "57014", "40P01", "40001"}
_NO_ROOM = "53100"
# two calls at once under one client-made id: the second looks again and finds what the first recorded (R09)
_REPEATED = {"run_started_once", "response_id_once", "call_once", "session_thread_once"}
_REPEATED |= {"runtime_app_credential_pkey", "registration_pattern_once"}


class Change:
    """One transition under way. `log` exists once the Session is locked."""

    def __init__(self, verb: str):
        self.verb = verb
        self.context: Context | None = None
        self.log: Log | None = None
        self._now = None

    def act(self, context: Context) -> None:
        """Name who acts in which tenant; row-level policies read the setting."""
        self.context = context
        with connection.cursor() as cursor:
            cursor.execute("select set_config('app.tenant', %s, true)", [str(context.tenant_id)])

    def lock_session(self, pk, *, skip_locked: bool = False) -> Session | None:
        self._now = None
        wait = "skip locked" if skip_locked else ""
        session = statements.first(Session, f"where id = %s for no key update {wait}", pk)
        if session:
            self.log_of(session)
            failpoint(f"{self.verb}.locked")
        return session

    def log_of(self, session: Session) -> None:
        self.log = Log(session, self.context.actor)

    def lock_first(self, part: str, rows) -> object | None:
        """Lock the Session of the first of these (id, tenant, session) that is free, or wait for one: its id.

        Waiting as the last resort keeps a wake-up from being lost: whoever holds the Session may not hint at commit.
        """
        rows = list(rows)
        for skip_locked in (True, False):
            for pk, tenant_id, session_id in rows:
                self.act(system(part, tenant_id))
                if self.lock_session(session_id, skip_locked=skip_locked):
                    return pk
        return None

    def lock(self, model, pk):
        """One row of one table by one statement. FOR NO KEY UPDATE: children may still be inserted, and no join is
        locked with an answer from before the wait."""
        self._now = None
        row = statements.first(model, "where id = %s for no key update", pk)
        if row is None:
            raise model.DoesNotExist
        return row

    def note(self, kind: str, **facts) -> None:
        self.log.note(kind, **facts)

    def reads(self, now) -> None:
        """The database's clock was read beside something else, after the last lock so far."""
        self._now = self._now or now

    def now(self):
        """The database's clock, read once after the last lock: a wait for a lock is never before it."""
        if self._now is None:
            self._now = clock.now()
        return self._now


@contextmanager
def opened(verb: str, context: Context | None = None):
    """A Change in its transaction; its Events are numbered and written last, just before the commit."""
    try:
        with transaction.atomic(durable=True):
            change = Change(verb)
            if context:
                change.act(context)
            yield change
            failpoint(f"{verb}.written")
            if change.log:
                change.log.write()
            failpoint(f"{verb}.events")
        failpoint(f"{verb}.committed")
    except OperationalError as failed:
        state = getattr(failed.__cause__, "sqlstate", None)
        if state in _BUSY:
            raise Busy(retry_after=1) from failed
        if state == _NO_ROOM:
            raise Busy(
                "The database has no room left to write this. Nothing happened; tell whoever runs this installation.",
                reason="no_room", retry_after=60,
            ) from failed  # fmt: skip
        raise


def transition(verb: str, target: str) -> Callable:
    """Make a function of a Change into a verb of callers: `verb(context, **arguments)`.

    `target` names the argument whose id is written down when the attempt is refused.
    """

    def of(body):
        @wraps(body)
        def call(context: Context, **arguments):
            try:
                return _once(verb, body, context, arguments)
            except Busy:  # nothing was refused, and nothing happened
                raise
            except SaysoError as refused:
                record_refusal(context, verb, refused, _named(arguments, target))
                raise

        return call

    return of


def _once(verb, body, context, arguments):
    for last in (False, True):
        try:
            with opened(verb, context) as change:
                return body(change, **arguments)
        except IntegrityError as failed:
            constraint = getattr(getattr(failed.__cause__, "diag", None), "constraint_name", "")
            if last or constraint not in _REPEATED:
                raise


def _named(arguments: dict, target: str) -> str:
    for part in target.split("."):
        arguments = arguments.get(part) if isinstance(arguments, dict) else getattr(arguments, part, "")
    return str(arguments or "")[:200]
