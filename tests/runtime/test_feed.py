"""The feed of a tenant: by epoch, transaction, Session and seq; whatever commits late is not missed (R38)."""

import threading
import time

import psycopg
import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from runtime_app import events, permissions
from runtime_app.errors import CursorInvalid
from runtime_app.models import Epoch, Event, Run, Session
from tests.cast import elsewhere


@pytest.fixture
def restored(transactional_db):
    """As if this installation had been restored: the next epoch has begun."""
    yield Epoch.objects.create(number=2, why="restored")
    Epoch.objects.filter(number=2).delete()


OLD = """
insert into runtime_app_event (tenant_id, session_id, run_id, seq, kind, actor_kind, actor_id, actor_name, data, epoch,
                               transaction)
select tenant_id, session_id, run_id, seq + 1, kind, actor_kind, actor_id, actor_name, data, 1, '9000000000000'
  from runtime_app_event
"""


def read(context, cursor=None, limit=500) -> tuple[list, str]:
    """All there is after the cursor, page by page, and the cursor after it. Waits for whoever else writes here."""
    found, ends = [], time.monotonic() + 30
    while True:
        page = events.feed(context, cursor, limit)
        assert not page.gap
        found += page.events
        cursor = page.cursor
        if not page.more and not page.held:
            return found, cursor
        assert time.monotonic() < ends


def key(event) -> tuple:
    return event.session_id, event.seq


def all_of(tenant) -> set:
    return {key(event) for event in Event.objects.filter(tenant=tenant)}


def test_every_event_of_the_tenant_comes_once_and_of_no_other(northgate, harbour):
    """R38, R07: whatever the size of the pages."""
    for house in (northgate, harbour, northgate):
        house.cancels("Olga" if house is northgate else "Mallory", house.start("Olga" if house is northgate else "Max"))
    northgate.unknown()
    whole, cursor = read(northgate.context("Rita"))
    paged, _ = read(northgate.context("Rita"), limit=2)
    assert [key(each) for each in whole] == [key(each) for each in paged]
    assert {key(each) for each in whole} == all_of(northgate.tenant) and len(whole) == len(set(map(key, whole)))
    assert read(northgate.context("Rita"), cursor)[0] == []
    northgate.start()
    assert len(read(northgate.context("Rita"), cursor)[0]) == 1
    by_session = {}
    for event in whole:
        by_session.setdefault(event.session_id, []).append(event.seq)
    assert all(seqs == sorted(seqs) for seqs in by_session.values())


def test_each_event_has_the_cursor_after_it(northgate):
    """R37: whoever stops in the middle goes on there."""
    northgate.unknown()
    whole, _ = read(northgate.context("Rita"))
    for place, event in enumerate(whole):
        assert [key(each) for each in read(northgate.context("Rita"), event.cursor)[0]] == list(
            map(key, whole[place + 1 :])
        )


def test_an_agent_is_told_of_its_own_sessions_alone(northgate):
    """R07."""
    mailer, other = elsewhere(northgate), elsewhere(northgate, "other")
    mine = mailer.begins()
    other.begins()
    northgate.start()
    found, cursor = read(mailer.context)
    assert {each.session_id for each in found} == {mine.session_id}
    other.begins()
    assert read(mailer.context, cursor)[0] == []


class Open:
    """A transaction that stays open: it has written, and not yet committed."""

    def __init__(self, do):
        self.do, self.written, self.end = do, threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        assert self.written.wait(20)

    def run(self):
        try:
            with transaction.atomic():
                self.do()
                self.written.set()
                assert self.end.wait(20)
        finally:
            connection.close()

    def commits(self):
        self.end.set()
        self.thread.join(20)


def late(run):
    """One more Event of this Run, by the log, in a transaction of its own."""

    def write():
        with transaction.atomic():
            session = Session.objects.select_for_update(no_key=True).get(pk=run.session_id)
            log = events.Log(session, permissions.system("worker", run.tenant_id).actor)
            log.note("run.held", run=run, why="late")
            log.write()

    return write


def test_what_commits_late_is_given_later_and_never_skipped(northgate):
    """R38: real transactions; a younger one that commits first waits for the older one."""
    first, second = northgate.start(), northgate.start()
    context = northgate.context("Rita")
    _, cursor = read(context)
    older = Open(late(first))
    late(second)()
    page = events.feed(context, cursor)
    assert page.events == [] and page.held, "there is news, and an older transaction is open"
    older.commits()
    found, cursor = read(context, page.cursor)
    assert [event.session_id for event in found] == [first.session_id, second.session_id]
    assert not events.feed(context, cursor).held and read(context, cursor)[0] == []


def test_what_is_rolled_back_holds_nothing_for_ever(northgate):
    """R38."""
    first, second = northgate.start(), northgate.start()
    context = northgate.context("Rita")
    _, cursor = read(context)

    def fails():
        late(first)()
        transaction.set_rollback(True)

    older = Open(fails)
    late(second)()
    assert events.feed(context, cursor).held
    older.commits()
    assert [event.session_id for event in read(context, cursor)[0]] == [second.session_id]


def test_eight_writers_and_a_reader_lose_nothing(northgate, race):
    """R38: read all the while, each Event once, in an order that never goes back."""
    runs = [northgate.start() for _ in range(8)]
    context, found, done = northgate.context("Rita"), [], threading.Event()

    def reader():
        cursor = None
        while True:
            last = done.is_set()
            page = events.feed(context, cursor)
            found.extend(page.events)
            cursor = page.cursor
            if last and not page.more and not page.held:
                return "read"

    def writer(run):
        def write():
            for _ in range(6):
                late(run)()
            connection.close()

        return write

    def writers():
        threads = [threading.Thread(target=writer(run)) for run in runs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        done.set()
        return "all written"

    assert race(reader, writers) == ["read", "all written"]
    places = [(each.epoch, each.transaction, str(each.session_id), each.seq) for each in found]
    assert places == sorted(places) and len(places) == len(set(places))
    assert {key(each) for each in found} == all_of(northgate.tenant)


def test_an_open_writer_in_another_database_of_the_server_holds_it_back_and_no_longer(northgate, owner):
    """R38: a transaction id is of the whole server. Whoever is idle in one of our roles is ended after 10 s."""
    run = northgate.start()
    context = northgate.context("Rita")
    _, cursor = read(context)
    with psycopg.connect(**_elsewhere(owner)) as foreign:
        foreign.execute("select pg_current_xact_id()")
        late(run)()
        page = events.feed(context, cursor)
        assert page.events == [] and page.held
        foreign.rollback()
    assert len(read(context, cursor)[0]) == 1


def _elsewhere(owner) -> dict:
    info = owner.info
    return {"host": info.host, "port": info.port, "user": info.user, "password": info.password, "dbname": "postgres"}


def test_earlier_epochs_are_below_whatever_their_transactions_are(northgate, owner, restored):
    """R38, R27: after a restore into a fresh server old transaction ids are far above new ones."""
    with_old = northgate.start().session_id
    owner.execute(OLD)
    fresh = northgate.start()
    found, _ = read(northgate.context("Rita"))
    assert [(each.epoch, each.session_id) for each in found] == [
        (1, with_old), (2, with_old), (2, fresh.session_id),
    ]  # fmt: skip
    assert [key(each) for each in read(northgate.context("Rita"), found[0].cursor)[0]] == list(map(key, found[1:]))


def test_a_cursor_of_another_epoch_is_a_gap_and_one_of_elsewhere_is_refused(northgate, harbour):
    """R37."""
    run = northgate.start()
    context = northgate.context("Rita")
    all_there, cursor = read(context)
    of, epoch, *place = events._parts(cursor)
    gap = events.feed(context, events._cursor([of, epoch + 1, *place]))
    assert gap.gap and read(context, gap.cursor)[0] == all_there[len(gap.events) :]
    wrong = [
        events.cursor_of(run.session_id, 1, epoch), events.cursor_of(northgate.tenant.pk, 1, epoch),
        read(harbour.context("Max"))[1], "x", "a" * 400, events._cursor({"a": 1}), events._cursor([of, True, 1]),
        events._cursor([of, epoch, epoch, 2**60, str(run.pk), 1]),
        events._cursor([of, epoch, epoch, 2**64, str(run.pk), 1]),
        events._cursor([of, epoch, epoch, -1, str(run.pk), 1]), events._cursor([of, epoch, epoch, 1, "no id", 1]),
        events._cursor([of, epoch, epoch, 1.5, str(run.pk), 1]), events._cursor([of, epoch, epoch, 1, 5, 1]),
    ]  # fmt: skip
    for cursor in wrong:
        with pytest.raises(CursorInvalid):
            events.feed(context, cursor)


def test_the_feed_is_read_by_its_index(northgate, owner):
    """Goal 4: a look at the tip reads what is new, not the history."""
    run = northgate.start()
    like = {"tenant_id": run.tenant_id, "session_id": run.session_id, "actor_kind": "system", "kind": "x"}
    Event.objects.bulk_create(Event(seq=seq, **like) for seq in range(2, 5_000))
    owner.execute("analyze runtime_app_event")
    _, cursor = read(northgate.context("Rita"))
    northgate.start()
    with CaptureQueriesContext(connection) as asked:
        events.feed(northgate.context("Rita"), cursor)
    plan = "\n".join(line for (line,) in owner.execute(f"explain {asked[-1]['sql']}"))
    assert "event_feed" in plan and "Seq Scan on runtime_app_event" not in plan


def test_a_transition_writes_the_epoch_that_is(northgate, restored):
    """R38: not the one its Run began in."""
    run = northgate.start()
    Run.objects.update(epoch=1)
    northgate.cancels("Olga", run)
    assert set(Event.objects.values_list("epoch", flat=True)) == {2}
