"""The client, against a server that is a list of answers: what it sends, when it sends it again, what it never does."""

import asyncio
import json
import subprocess
import sys
import threading

import httpx
import pytest

from runtime_app import calling, client
from runtime_app.client import AsyncSayso, NotGiven, Report, Sayso, Unreachable
from runtime_app.errors import GrantUnusable, InvalidInput, LeaseLost, NotSignedIn, RunEnded

URL, TOKEN = "http://localhost:1/api/v1", "sayso_i_secret"
RUN = {"id": "r1", "session": "s1", "state": "running", "lease": 1}
ASKED = {"id": "q1", "run": "r1", "session": "s1", "kind": "wait_user", "key": "k", "state": "pending"}
ANSWERED = ASKED | {"state": "resolved", "outcome": "answered", "response": {"kind": "answer", "values": {"name": "n"}}}
APPROVED = ASKED | {"kind": "wait_approval", "state": "resolved", "outcome": "approved"}
DENIED = APPROVED | {"outcome": "denied", "response": {"kind": "deny", "message": "Not today."}}
SENDING = {"effect": {"id": "e1", "key": "q1", "state": "in_flight"}, "action": "mail", "parameters": {"to": "a"}}
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}


class Server:
    """Answers in turn: a status and data, or an exception; keeps what was asked."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, data, *headers = answer
        return httpx.Response(status, json=data, headers=dict(*headers))

    @property
    def paths(self) -> list[str]:
        return [f"{each.method} {each.url.path.removeprefix('/api/v1')}" for each in self.asked]

    def body(self, number: int) -> dict:
        return json.loads(self.asked[number].content)

    def keys(self) -> list[str]:
        return [each.headers["Idempotency-Key"] for each in self.asked if each.method == "POST"]


@pytest.fixture
def pauses(monkeypatch):
    """How long would have been waited between two tries; nobody waits."""
    waited = []
    monkeypatch.setattr(calling, "Pause", lambda seconds: waited.append(seconds) or client.Pause(0))
    return waited


@pytest.fixture(params=["sync", "async"])
def talk(request):
    """`talk(server, "ask", run, …)`: one verb of either client."""

    def sync(server, verb, *args, **named):
        with Sayso(URL, TOKEN, http=httpx.Client(transport=httpx.MockTransport(server))) as sayso:
            return getattr(sayso, verb)(*args, **named)

    def awaited(server, verb, *args, **named):
        async def main():
            http = httpx.AsyncClient(transport=httpx.MockTransport(server))
            async with AsyncSayso(URL, TOKEN, http=http) as sayso:
                return await getattr(sayso, verb)(*args, **named)

        return asyncio.run(main())

    return sync if request.param == "sync" else awaited


def run() -> client.Run:
    return client.Run.of(RUN)


def error(code: str, reason: str = "", status: int = 409) -> tuple:
    return status, {"code": code, "message": "No.", "reason": reason, "fields": {"a": "b"}}


# ------------------------------------------------------------------ asking


def test_a_question_waits_is_answered_and_takes_the_next_turn(talk):
    """R04, R29: the wait parks the Run; the answer queues it; the agent goes on under its next Lease."""
    server = Server((201, ASKED), (200, ASKED), (200, ANSWERED), (200, RUN | {"lease": 2}))
    mine = run()
    assert talk(server, "ask", mine, "Which?", SCHEMA) == {"name": "n"}
    assert server.paths == ["POST /runs/r1/requests", "GET /requests/q1", "GET /requests/q1", "POST /runs/r1/turn"]
    assert server.asked[1].url.query == b"wait=30s"
    assert (mine.lease, mine.waits) == (2, False)


def test_the_same_question_has_the_same_key_and_another_has_another(talk):
    """R04: a process that starts again finds its Request; what differs is asked apart."""
    server = Server(*[(201, ANSWERED)] * 3)
    for prompt in ("Which?", "Which?", "Whose?"):
        talk(server, "ask", run(), prompt, SCHEMA)
    keys = [server.body(number)["key"] for number in range(3)]
    assert keys[0] == keys[1] != keys[2]


def test_an_equal_action_has_the_same_key_in_whatever_order_its_parameters_come(talk):
    """R04: a process that starts again and builds them from a set asks for no second approval."""
    server = Server(*[(201, APPROVED)] * 3)
    for parameters in ({"to": "a", "at": {"x": 1, "y": 2}}, {"at": {"y": 2, "x": 1}, "to": "a"}, {"to": "b"}):
        talk(server, "approval", run(), "mail", parameters)
    keys = [server.body(number)["key"] for number in range(3)]
    assert keys[0] == keys[1] != keys[2]


def test_what_was_decided_at_once_takes_no_turn(talk):
    """R17: the Run never stopped."""
    server = Server((201, APPROVED), (200, SENDING), (200, {}))
    talk(server, "effect", run(), "mail", {"to": "a"}, lambda key, parameters: None)
    assert server.paths == ["POST /runs/r1/requests", "POST /requests/q1/dispatch", "POST /requests/q1/outcome"]


def test_a_no_is_told_apart_and_nothing_is_called(talk):
    """R08: denied and expired do not end a Run; the agent is told which."""
    for data, told in ((DENIED, "denied: Not today."), (APPROVED | {"state": "expired", "outcome": None}, "expired")):
        with pytest.raises(NotGiven, match=told):
            talk(Server((201, data)), "effect", run(), "mail", {}, lambda *_: pytest.fail("called"))


# ------------------------------------------------------------------ effects


def test_the_function_gets_what_was_approved_and_the_key(talk):
    """R15, R22: what comes back from the dispatch, not what was asked with."""
    called = []
    server = Server((201, APPROVED), (200, SENDING), (200, {}))
    came = talk(server, "effect", run(), "mail", {"to": "A"}, lambda key, sent: called.append((key, sent)) or "m-1")
    assert (came, called) == ("m-1", [("q1", {"to": "a"})])
    assert server.body(2) == {"status": "succeeded"}


def test_a_report_says_more(talk):
    server = Server((201, APPROVED), (200, SENDING), (200, {}))
    talk(server, "effect", run(), "mail", {}, lambda *_: Report("failed", reference="m-1", note="Bounced."))
    assert server.body(2) == {"status": "failed", "reference": "m-1", "note": "Bounced."}


@pytest.mark.parametrize(
    ("raised", "status"), [(TimeoutError("lost"), "unknown"), (ConnectionRefusedError(), "failed")]
)
def test_an_exception_proves_nothing_unless_it_was_said_to(talk, raised, status):
    """R23: never a guess. The exception goes on to the caller; its text does not leave the process."""

    def do(key, parameters):
        raise raised

    server = Server((201, APPROVED), (200, SENDING), (200, {}))
    with pytest.raises(type(raised)):
        talk(server, "effect", run(), "mail", {}, do, nothing_sent=(ConnectionRefusedError,))
    assert server.body(2) == {"status": status, "note": type(raised).__name__}


def test_a_spent_grant_calls_nothing(talk):
    """R16: another process took the one use; each dispatch has a key of its own, so that cannot be mistaken."""
    server = Server((201, APPROVED), error("grant_unusable", "already_consumed"))
    with pytest.raises(GrantUnusable) as refused:
        talk(server, "effect", run(), "mail", {}, lambda *_: pytest.fail("called"))
    assert (refused.value.reason, refused.value.facts) == ("already_consumed", {"fields": {"a": "b"}})


def test_a_coroutine_function_is_awaited():
    async def main():
        async def do(key, parameters):
            return parameters["to"]

        server = Server((201, APPROVED), (200, SENDING), (200, {}))
        http = httpx.AsyncClient(transport=httpx.MockTransport(server))
        async with AsyncSayso(URL, TOKEN, http=http) as sayso:
            return await sayso.effect(run(), "mail", {}, do)

    assert asyncio.run(main()) == "a"


# ------------------------------------------------------------------ what is sent again


def test_a_dropped_line_and_a_busy_server_are_tried_again_under_the_same_key(talk, pauses):
    """R09: what arrived twice was done once. `Retry-After` is honoured."""
    lost = httpx.ReadError("dropped")
    server = Server(lost, (503, {"code": "busy"}, {"Retry-After": "7"}), (502, {}), (201, RUN))
    assert talk(server, "start", "go", thread="t").id == "r1"
    assert len(set(server.keys())) == 1 and len(server.asked) == 4
    assert 7 in pauses and server.body(3) == {"message": "go", "interactive": True, "thread": "t"}


def test_a_date_to_try_again_at_is_counted_from_the_answers_own(talk, pauses):
    """No clock of this machine is asked."""
    dates = {"Date": "Sun, 29 Nov 2026 18:00:00 GMT", "Retry-After": "Sun, 29 Nov 2026 18:00:09 GMT"}
    talk(Server((429, {"code": "too_many"}, dates), (200, {})), "me")
    assert 9 in pauses


@pytest.mark.parametrize(
    ("answer", "raised"),
    [
        (error("not_signed_in", status=401), NotSignedIn),
        (error("invalid_input", status=422), InvalidInput),
        (error("lease_lost"), LeaseLost),
        (error("run_ended", "cancelled"), RunEnded),
    ],
)
def test_a_clear_no_is_not_tried_again(talk, answer, raised):
    """Section 9: the same class as in Python."""
    server = Server(answer)
    with pytest.raises(raised):
        talk(server, "complete", run(), "done")
    assert len(server.asked) == 1


def test_patience_ends(talk, pauses, monkeypatch):
    now = iter(range(0, 10_000, 20))
    monkeypatch.setattr(calling.time, "monotonic", lambda: next(now))
    with pytest.raises(Unreachable, match="GET /me: ConnectError"):
        talk(Server(*[httpx.ConnectError("refused")] * 9), "me")


# ------------------------------------------------------------------ a Run from beginning to end


def both(server, body):
    """`body(run)` inside `running`, with either client."""

    def sync():
        with Sayso(URL, TOKEN, http=httpx.Client(transport=httpx.MockTransport(server))) as sayso:
            with sayso.running("go", key="mine") as mine:
                body(mine)

    async def awaited():
        http = httpx.AsyncClient(transport=httpx.MockTransport(server))
        async with AsyncSayso(URL, TOKEN, http=http) as sayso, sayso.running("go", key="mine") as mine:
            body(mine)

    return sync, lambda: asyncio.run(awaited())


def ends(mine):
    mine.ends_with = "done"


def breaks(mine):
    raise ValueError("no list")


@pytest.mark.parametrize("which", [0, 1])
def test_it_ends_as_its_block_ends(which):
    server = Server((201, RUN), (200, RUN))
    both(server, ends)[which]()
    assert server.paths == ["POST /runs", "POST /runs/r1/complete"] and server.body(1)["result"] == "done"
    assert server.keys()[0] == "mine"
    server = Server((201, RUN), (200, RUN))
    with pytest.raises(ValueError, match="no list"):
        both(server, breaks)[which]()
    assert server.body(1) == {"lease": 1, "reason": "ValueError: no list"}


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(
    "told, then",
    [
        (error("invalid_response", "waiting", 422), ["POST /runs/r1/cancel"]),
        (error("run_ended", "cancelling"), ["POST /runs/r1/stopped"]),
        (error("run_ended", "blocked"), []),
        (error("lease_lost"), []),
    ],
)
def test_what_its_block_raised_is_what_its_caller_gets(which, told, then):
    """However the Run ended meanwhile; what still waits is taken back, so that nobody answers for nothing."""
    server = Server((201, RUN), told, (200, RUN))
    with pytest.raises(ValueError, match="no list"):
        both(server, breaks)[which]()
    assert server.paths[2:] == then


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled", "blocked"])
def test_a_run_that_has_ended_is_not_done_again(which, state):
    """R32: a job started twice under its key does its work once."""
    server, done = Server((201, RUN | {"state": state})), []
    with pytest.raises(RunEnded) as told:
        both(server, done.append)[which]()
    assert told.value.reason == state and not done and server.paths == ["POST /runs"]


def test_an_exception_says_what_no_database_takes():
    server = Server((201, RUN), (200, RUN))

    def body(mine):
        raise ValueError("a\0b\udce9")

    with pytest.raises(ValueError):
        both(server, body)[0]()
    assert server.body(1)["reason"] == "ValueError: a\\0b\\udce9"


def test_a_dispatch_that_is_told_too_late_calls_nothing(talk):
    """R22: the answer came on the second try, and meanwhile the outcome was a person's to establish."""
    late = SENDING | {"effect": SENDING["effect"] | {"state": "not_committed"}}
    server, called = Server(httpx.ReadError("lost"), (200, late)), []
    with pytest.raises(GrantUnusable):
        talk(server, "act", run(), client.Request.of(APPROVED), lambda *said: called.append(said))
    assert not called


@pytest.mark.parametrize("which", [0, 1])
def test_a_cancel_is_noticed_and_said_to_have_stopped_it(which):
    """R29, R30."""
    server = Server((201, RUN), error("run_ended", "cancelling"), (200, RUN))
    with pytest.raises(RunEnded):
        both(server, ends)[which]()
    assert server.paths[1:] == ["POST /runs/r1/complete", "POST /runs/r1/stopped"]


def test_a_heartbeat_notices_and_the_next_step_does_not_happen(monkeypatch):
    """R29: between two calls the heartbeat hears it."""
    told = threading.Event()

    class Told(Server):
        def __call__(self, request):
            if request.url.path.endswith("heartbeat"):
                told.set()
            return super().__call__(request)

    monkeypatch.setattr(calling, "BEAT", 0)
    server = Told((201, RUN), error("run_ended", "cancelling"), (200, RUN))

    def body(mine):
        assert told.wait(5)
        with_it = threading.Event()
        while mine.stop is None:
            with_it.wait(0.01)
        mine.check()

    with pytest.raises(RunEnded):
        both(server, body)[0]()
    assert server.paths == ["POST /runs", "POST /runs/r1/heartbeat", "POST /runs/r1/stopped"]


def test_a_heartbeat_of_an_earlier_turn_means_nothing():
    """The Run took its next turn while it was under way."""
    mine = run()
    steps = calling.Calling(URL, TOKEN, 60).beat(mine)
    steps.send(None)
    steps.send(None)
    mine.lease = 2
    steps.send(httpx.Response(409, json={"code": "lease_lost", "message": "No."}))
    assert mine.stop is None


# ------------------------------------------------------------------ Events


def page(*seqs, more=False, gap=False, cursor="c9") -> tuple:
    events = [{"id": f"c{seq}", "seq": seq, "kind": "run.running"} for seq in seqs]
    return 200, {"events": events, "cursor": cursor, "gap": gap, "more": more}


def test_events_go_on_after_the_last_one_over_a_dropped_line(pauses):
    """R37: no gap and no repeat, whatever the line does."""
    lost = httpx.ReadError("dropped")
    server = Server(page(1, 2, more=True), lost, page(3), page(cursor="c3"), httpx.ReadTimeout("restarted"), page(4))
    sayso = Sayso(URL, TOKEN, http=httpx.Client(transport=httpx.MockTransport(server)))
    events = sayso.events("s1")
    assert [next(events).seq for _ in range(4)] == [1, 2, 3, 4]
    asked = [each.url.query.decode() for each in server.asked]
    assert asked == ["", "after=c2", "after=c2", "after=c3&wait=30s", "after=c3&wait=30s", "after=c3&wait=30s"]
    assert events.cursor == "c4"


def test_events_without_following_end_and_a_gap_is_told():
    """R37: another epoch gets an explicit gap, never silence."""

    async def main():
        server = Server(page(gap=True, cursor="n0"), page(7, gap=True))
        http = httpx.AsyncClient(transport=httpx.MockTransport(server))
        sayso = AsyncSayso(URL, TOKEN, http=http)
        first = [(each.kind, each.id) async for each in sayso.events("s1", after="old", follow=False)]
        second = [each.kind async for each in sayso.events(after="old", follow=False)]
        return first, second

    assert asyncio.run(main()) == ([("gap", "n0")], ["gap", "run.running"])


# ------------------------------------------------------------------ what it is not


def test_it_imports_no_django():
    """In a bare interpreter in which Django cannot be imported."""
    script = (
        "import sys; sys.modules['django'] = None\n"
        "from runtime_app.client import AsyncSayso, Sayso\n"
        "allowed = {'runtime_app', 'httpx', 'httpcore', 'h11', 'anyio', 'certifi', 'idna', 'sniffio'}\n"
        "told = {name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names - allowed\n"
        "print(sorted(told & {'pydantic', 'psycopg', 'procrastinate', 'ninja', 'pydantic_ai', 'channels'}))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout.strip()) == (0, "[]"), ended.stderr


def test_it_has_no_word_for_answering():
    """R18: no verb of it answers, approves, denies or settles for a person."""
    words = {name for name in vars(client._Client) if not name.startswith("_")}
    assert not words & {"answer", "approve", "deny", "respond", "resume", "settle", "find", "recover"}
    assert "/response" not in (calling.__loader__.get_source(calling.__name__))


def test_the_token_is_in_no_repr_and_goes_nowhere_unprotected():
    sayso = Sayso(URL, TOKEN)
    assert TOKEN not in repr(sayso)
    sayso.close()
    for bad in ("http://sayso.example/api/v1", "https://a:b@sayso.example/api/v1", "ftp://localhost/"):
        with pytest.raises(ValueError, match="base URL"):
            Sayso(bad, TOKEN)
    with pytest.raises(ValueError, match="header"):
        Sayso(URL, "a\nb")
