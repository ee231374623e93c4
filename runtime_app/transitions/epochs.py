"""After a restore, or on a copy, nothing is sent until a person says so (R27). It is noticed without help.

What a database cannot restore about itself is compared with what it says: the system it is on, its WAL's timeline,
its own oid, and a mark outside it. The mark is a file: its inode, and the number of the last dispatch intent, written
after that intent is committed and before it is sent. A database ahead of its mark is normal; one behind was restored.
"""

import fcntl
import json
import logging
import os
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.db import connection

from .. import permissions, states
from ..models import Attempt, Effect, Epoch, Grant, Run, Session
from .change import Change, opened
from .continuing import revoke, wake
from .evidence import probe_or_block, unsettle

log = logging.getLogger(__name__)

_LOCK = 7_021_190  # of all advisory locks, the one under which an epoch begins
_FACTS = """
select (select system_identifier::text from pg_control_system()),
       ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int,
       (select oid::bigint from pg_database where datname = current_database()),
       coalesce(pg_sequence_last_value('sayso_intents'), 0)
"""


def next_intent() -> int:
    """Number a dispatch intent, in its transaction. Not counted twice, and never back: a sequence."""
    with connection.cursor() as cursor:
        cursor.execute("select nextval('sayso_intents')")
        return cursor.fetchone()[0]


def mark(intent: int, attempt: UUID | None = None) -> None:
    """Write outside the database that this intent, and so its Attempt, is committed; called before it is sent. Raises
    OSError: then nothing may be sent.

    The Attempt is looked for later, since a count alone is not enough: after a crash a sequence is up to 32 ahead.
    """
    with _marked() as file:
        if intent > (told := _read(file)).get("intents", 0):
            _write(file, told | {"intents": intent, "attempt": str(attempt or "")})


def current() -> Epoch:
    return Epoch.objects.order_by("-number").first()


def released(epoch: Epoch) -> bool:
    """Whether a person has said that this installation may send: of the first epoch nobody has to (R27)."""
    return epoch.number == 1 or epoch.released_at is not None


def differences(epoch: Epoch | None = None) -> list[str]:
    """What this database says of itself that is not so, in words. Empty: this is the installation it was."""
    epoch = epoch or current()
    identifier, timeline, oid, intents = _facts()
    with _marked() as file:
        told, inode = _read(file), os.fstat(file.fileno()).st_ino
    if not epoch.system_identifier:
        return ["this installation was never seen before"] if told or intents else []
    found = {
        "the database system is another one": identifier != epoch.system_identifier,
        "the database runs on another timeline: it was restored or promoted": timeline != epoch.timeline,
        "the database was made anew": oid != epoch.database_oid,
        "the mark outside the database is missing": not told,
        "the mark outside the database is a copy": bool(told) and not told.get("inode") == inode == epoch.mark,
        "the database is older than what was sent": told.get("intents", 0) > intents or _missing(told.get("attempt")),
    }
    return [words for words, so in found.items() if so]


def _missing(attempt: str | None) -> bool:
    return bool(attempt) and not Attempt.objects.filter(pk=attempt).exists()


def watch() -> Epoch:
    """Compare, and begin a new epoch on any difference. Called at start, and when a dispatch finds one."""
    now = Epoch.objects.order_by("-number").first()
    if now.system_identifier and not differences(now):
        return now
    with _alone():
        epoch, remembered = _watch()
        if remembered:  # and committed: told before, a process killed in between would hide the restore for good
            _tell_mark(epoch)
    return epoch


def _watch() -> tuple[Epoch, bool]:
    with opened("watch") as change:
        now = Epoch.objects.order_by("-number").first()
        if why := differences():
            return _begin(change, now, why), True
        if now.system_identifier:
            return now, False
        return _remember(now), True  # a new installation: it is what it says it is, from now on


@contextmanager
def _alone():
    """One process at a time, until the mark is written."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_advisory_lock(%s)", [_LOCK])
        try:
            yield
        finally:
            cursor.execute("select pg_advisory_unlock(%s)", [_LOCK])


def watch_at_start() -> None:
    """Compare when a process starts, and say what waits for a person."""
    epoch = watch()
    if epoch.number > 1 and epoch.released_at is None:
        log.warning(
            "epoch %s began at %s: %s. Nothing is sent until a person says so: ./run manage release_epoch --by NAME",
            epoch.number, f"{epoch.began_at:%Y-%m-%d %H:%M:%S} UTC", epoch.why,
        )  # fmt: skip


def _begin(change: Change, last: Epoch, why: list[str]) -> Epoch:
    epoch = Epoch(number=last.number + 1, why="; ".join(why))
    _remember(epoch)
    unended = Run.objects.exclude(state__in=states.ENDED)
    sessions = set(unended.values_list("session_id", flat=True))
    sessions |= set(Effect.objects.exclude(state__in=states.SETTLED).values_list("session_id", flat=True))
    for pk, tenant_id in Session.objects.filter(pk__in=sessions).order_by("pk").values_list("pk", "tenant_id"):
        change.act(permissions.system("epoch", tenant_id))
        change.lock_session(pk)
        _doubt_all(change, pk, epoch)
        change.log.write()
        change.log = None
    return epoch


def _doubt_all(change: Change, session_id, epoch: Epoch) -> None:
    """Effects not final become uncertain and ask, unused Grants are void, unended Runs are held."""
    runs, unsure = [], []
    for run in Run.objects.select_for_update(no_key=True).filter(session_id=session_id).order_by("pk"):
        run.epoch = epoch.number
        if run.state not in states.ENDED:
            run.held_at = change.now()
            change.note("run.held", run=run, epoch=epoch.number, why=epoch.why)
        run.save(update_fields=["epoch", "held_at"])
        every = Effect.objects.select_for_update(no_key=True).filter(run_id=run.pk)
        for effect in every.filter(state__in=["prepared", "in_flight"]).order_by("pk"):
            effect.epoch = epoch.number
            effect.save(update_fields=["epoch"])
            unsettle(change, run, effect)
            unsure.append(effect)
        for made in Grant.objects.filter(run_id=run.pk, state="unused").select_related("request"):
            revoke(change, run, made.request, "this installation's data began a new epoch")
        runs.append(run.pk)
    # only now, since a Run that ends withdraws what it was granted, and its parent's and children's with it
    for effect in unsure:
        probe_or_block(change, Run.objects.get(pk=effect.run_id), effect)
    for pk in runs:
        run = Run.objects.get(pk=pk)
        wake(change, run)  # a Run whose Grant was all it waited for: it is held, and then goes on


def release_epoch(by: str) -> None:
    """A person says that this installation may send again: held Runs go on where they were (R27)."""
    with opened("release_epoch") as change:
        epoch = Epoch.objects.select_for_update(no_key=True).order_by("-number").first()
        if epoch.number > 1 and epoch.released_at is None:
            epoch.released_at, epoch.released_by = change.now(), by
            epoch.save(update_fields=["released_at", "released_by"])
            held = Run.objects.exclude(held_at=None).values_list("pk", "tenant_id", "session_id")
            for pk, tenant_id, session_id in held.order_by("session_id", "pk"):
                change.act(permissions.system("epoch", tenant_id))
                change.lock_session(session_id)
                run = change.lock(Run, pk)
                run.held_at = None
                run.save(update_fields=["held_at"])
                change.note("run.released", run=run, by=by)
                change.log.work("run")
                change.log.write()
                change.log = None


def _remember(epoch: Epoch) -> Epoch:
    epoch.system_identifier, epoch.timeline, epoch.database_oid, _ = _facts()
    with _marked() as file:
        epoch.mark = os.fstat(file.fileno()).st_ino
    epoch.save()
    return epoch


def _tell_mark(epoch: Epoch) -> None:
    intents = _facts()[3]  # asked before: a line to the database that says nothing would keep the mark from everybody
    with _marked() as file:
        _write(file, {"inode": epoch.mark, "intents": intents, "epoch": epoch.number})


def _facts() -> tuple:
    with connection.cursor() as cursor:
        cursor.execute(_FACTS)
        return cursor.fetchone()


def _marked():
    """The mark, locked: many processes write it."""
    path = Path(settings.SAYSO_MARK)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def _read(file) -> dict:
    file.seek(0)
    try:
        return json.loads(file.read() or "{}")
    except ValueError:
        return {}


def _write(file, told: dict) -> None:
    """In place, since the inode is part of the mark, and on disk before we go on."""
    file.seek(0)
    file.write(json.dumps(told).ljust(300))
    file.truncate()
    file.flush()
    os.fsync(file.fileno())
