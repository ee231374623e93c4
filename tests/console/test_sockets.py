"""Sockets of the real server: who may open one, what it says, when it closes (R37, R39, R40, T09, T18, T19, T96)."""

import signal

import psycopg
import pytest
from django.conf import settings
from django.contrib.sessions.models import Session as Cookie
from websockets.exceptions import ConnectionClosed

from runtime_app import events
from runtime_app.ids import uuid7
from runtime_app.models import Event, Session
from tests.browser.fixtures import console, session_of  # noqa: F401
from tests.browser.sockets import closed, newest, refused, says, socket
from tests.cast import Answer

INBOX = "/ws/t/northgate/inbox/"


@pytest.fixture
def question(console, northgate):  # noqa: F811
    return northgate.question()


def page(question) -> str:
    return f"/ws/t/northgate/s/{question.session_id}/"


def tell(payload: str) -> None:
    with psycopg.connect(settings.DATABASE_URL, autocommit=True) as connection:
        connection.execute("select pg_notify(%s, %s)", [events.NEWS, payload])


# ---------------------------------------------------------------- who may open one


def test_only_our_own_pages_open_a_socket(console, question, northgate):  # noqa: F811
    """T96, B118: scheme, host and port have to be ours, to the letter; a missing Origin is a refusal."""
    port, ada = console.port, northgate.people["Ada"]
    foreign = [
        "https://evil.example",
        f"http://evil.example:{port}",
        f"http://localhost.evil.example:{port}",
        f"http://evillocalhost:{port}",
        "null",
        f"https://localhost:{port}",
        "http://localhost",
        f"http://localhost:{port + 1}",
        f"http://localhost:{port}.evil.example",
        f"ws://localhost:{port}",
        f"file://localhost:{port}",
        "",
        None,
        f"http://user@localhost:{port}",
        f"http://[::1]:{port}",
    ]
    for origin in foreign:
        given = " " if origin == "" else origin
        assert refused(console, page(question), ada, given) in (400, 403), origin
    for origin in (f"http://localhost:{port}", f"http://127.0.0.1:{port}"):
        assert refused(console, page(question), ada, origin) is None, origin


def test_foreign_and_unknown_close_alike(console, question, harbour):  # noqa: F811
    """T09, R07: the same code for what belongs to others, does not exist, or is no id; and nothing is said before."""
    paths = [
        page(question),
        page(question).replace("northgate", "harbour"),
        INBOX,
        "/ws/t/nobody/inbox/",
        f"/ws/t/harbour/s/{uuid7()}/",
        "/ws/t/harbour/s/not-an-id/",
        "/ws/t/harbour/s/%00/",
        "/ws/",
        "/",
        "/ws/t/harbour/",
    ]
    for path in paths:
        with socket(console, path, harbour.people["Mallory"]) as line, pytest.raises(ConnectionClosed) as end:
            line.recv(timeout=5)
        assert end.value.rcvd.code == 4404, path


def test_a_stranger_hears_nothing(console, question):  # noqa: F811
    for session in (None, "x" * 32):
        with socket(console, INBOX, session=session) as line, pytest.raises(ConnectionClosed) as end:
            line.recv(timeout=5)
        assert end.value.rcvd.code == 4401


# ---------------------------------------------------------------- what it says


def test_a_push_says_that_there_is_news_and_no_more(console, question, northgate):  # noqa: F811
    """R39: a number, or a word. What happened is fetched through the page's own view."""
    with (
        socket(console, page(question), northgate.people["Rita"]) as line,
        socket(console, INBOX, northgate.people["Rita"]) as inbox,
    ):
        seen = Session.objects.get(pk=question.session_id).last_seq
        assert (says(line), says(inbox)) == (f"news {seen}", "news")
        northgate.says("Sam", question, Answer({"name": "ci-october"}))
        newest(line, Session.objects.get(pk=question.session_id).last_seq)
        assert says(inbox) == "news"


def test_news_of_another_tenant_is_not_news(console, question, northgate, harbour):  # noqa: F811
    """T09: the server decides what a socket is about."""
    with socket(console, "/ws/t/harbour/inbox/", harbour.people["Mallory"]) as theirs:
        assert says(theirs) == "news"
        northgate.says("Sam", question, Answer({"name": "ci-october"}))
        with socket(console, INBOX, northgate.people["Ada"]) as ours:
            assert says(ours) == "news"
        with pytest.raises(TimeoutError):
            theirs.recv(timeout=0.5)


def test_a_forged_hint_harms_nobody(console, question, northgate, harbour):  # noqa: F811
    """Whoever can say NOTIFY can make a page look once too often, and nothing else."""
    tenant, session = northgate.tenant.pk, question.session_id
    forged = [
        "",
        "x",
        f"{tenant}",
        f"{tenant} {session}",
        f"{tenant} {session} x",
        f"{tenant} {session} -1",
        "a b c d",
        f"{harbour.tenant.pk} {session} 99",
        "{}",
        "news 1\nnews 2",
        "x" * 7000,
        f"{tenant} {session} 9" + "9" * 30,
        '"; drop table',
        "\u202e",
        f"{tenant} {session} 1 ",
    ]
    with socket(console, page(question), northgate.people["Ada"]) as line:
        says(line)
        for payload in forged:
            tell(payload)
        northgate.says("Sam", question, Answer({"name": "ci-october"}))
        newest_seq = Session.objects.get(pk=session).last_seq
        heard = []
        while f"news {newest_seq}" not in heard and len(heard) < 100:
            heard.append(says(line))
        assert all(word.partition(" ")[0] == "news" and word.partition(" ")[2].lstrip("-").isdigit() for word in heard)


# ---------------------------------------------------------------- what is said to it

FRAMES = [
    "",
    "not JSON",
    "null",
    "[1,2,3]",
    "{}",
    '{"type": 42}',
    '{"type": "websocket.close"}',
    '{"type": "send", "text": "x"}',
    b"\x00\xff",
    b"",
    "[" * 20_000,
    "\0",
    '{"action": "approve"}',
    "x" * 100_000,
]


def test_frames_are_not_listened_to(console, question, northgate):  # noqa: F811
    """B119: whatever a page says, it hears news afterwards; whoever talks on is cut off, alone."""
    with socket(console, INBOX, northgate.people["Rita"]) as quiet:
        says(quiet)
        for frame in FRAMES:
            with socket(console, page(question), northgate.people["Ada"]) as line:
                says(line)
                line.send(frame)
                assert line.ping().wait(5), frame[:20]
        with socket(console, page(question), northgate.people["Ada"]) as talker:
            says(talker)
            with pytest.raises(ConnectionClosed):
                for _ in range(1000):
                    talker.send("and another thing")
                closed(talker)
                raise ConnectionClosed(None, None)
        northgate.says("Sam", question, Answer({"name": "ci-october"}))
        assert says(quiet) == "news"
    assert b"Traceback" not in console.log.read_bytes()


def test_five_megabytes_close_one_socket(console, question, northgate):  # noqa: F811
    with socket(console, INBOX, northgate.people["Rita"]) as quiet:
        says(quiet)
        with socket(console, page(question), northgate.people["Ada"]) as line:
            says(line)
            try:
                line.send("x" * 5_000_000)
                line.ping().wait(2)
            except ConnectionClosed:
                pass
        northgate.says("Sam", question, Answer({"name": "ci-october"}))
        assert says(quiet) == "news"


# ---------------------------------------------------------------- how long it may watch


def leaves(northgate, who: str) -> None:
    membership = northgate.people[who].memberships.get(tenant=northgate.tenant)
    membership.roles.all().delete()
    membership.delete()


@pytest.mark.parametrize("path", ["inbox", "session"])
def test_who_is_put_out_hears_nothing_that_happens_afterwards(console, question, northgate, path):  # noqa: F811
    """R40, T18: asked again at each push; no word of what was committed after the removal."""
    with socket(console, INBOX if path == "inbox" else page(question), northgate.people["Bob"]) as line:
        says(line)
        leaves(northgate, "Bob")
        northgate.says("Sam", question, Answer({"name": "ci-october"}))
        with pytest.raises(ConnectionClosed) as end:
            line.recv(timeout=5)
    assert end.value.rcvd.code == 4404


def signs_out(user, session: str) -> None:
    Cookie.objects.filter(session_key=session).delete()


def changes_the_password(user, session: str) -> None:
    user.set_password("another horse battery")
    user.save()


def is_deactivated(user, session: str) -> None:
    user.is_active = False
    user.save()


@pytest.mark.parametrize("end", [signs_out, changes_the_password, is_deactivated])
def test_a_session_that_ends_closes_its_sockets(console, question, northgate, end):  # noqa: F811
    """T19: sign-out, a new password and a deactivated account, at the next push."""
    session = session_of(northgate.people["Bob"])
    with socket(console, page(question), session=session) as line:
        says(line)
        end(northgate.people["Bob"], session)
        northgate.says("Sam", question, Answer({"name": "ci-october"}))
        with pytest.raises(ConnectionClosed) as gone:
            line.recv(timeout=5)
    assert gone.value.rcvd.code in (4401, 4404)


# ---------------------------------------------------------------- nothing is lost


def test_a_page_catches_up_over_a_restart_of_the_server(console, question, northgate):  # noqa: F811
    """R37: killed, and started again: every Event after the cursor, once, in order; and the first word says how far."""
    ada = northgate.people["Ada"]
    with socket(console, page(question), ada) as line:
        seen = int(says(line).split()[1])
        console.end(signal.SIGKILL)
        with pytest.raises(ConnectionClosed):
            while True:
                line.recv(timeout=5)
    try:
        northgate.says("Sam", question, Answer({"name": "ci-october"}))
        northgate.start(session_id=question.session_id)
    finally:
        console.start()
    last = Session.objects.get(pk=question.session_id).last_seq
    with socket(console, page(question), ada) as line:
        assert says(line) == f"news {last}"
    missed = Event.objects.filter(session_id=question.session_id, seq__gt=seen).order_by("seq")
    assert [event.seq for event in missed] == list(range(seen + 1, last + 1))


def test_a_cut_line_to_the_database_costs_seconds_and_no_news(console, question, northgate, owner):  # noqa: F811
    """R39: the one LISTEN of the process is cut; it listens again, and tells everybody to look."""
    with socket(console, page(question), northgate.people["Ada"]) as line:
        says(line)
        cut = owner.execute(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity"
            " where datname = current_database() and lower(query) like 'listen %%'"
        ).fetchone()
        assert cut == (1,), "one LISTEN a process"
        northgate.says("Sam", question, Answer({"name": "ci-october"}))
        newest(line, Session.objects.get(pk=question.session_id).last_seq)
