"""Whoever may not see it gets one answer, whatever it is; a credential that ended gets another (R06, R07, T80-T85)."""

import gzip
import json
import time
import tracemalloc

import pytest
from django.db import OperationalError, connection
from django.urls import get_resolver

from runtime_app.api.v1.contract import document
from runtime_app.models import Call, Credential, Effect, Event, Grant, Now, Request, Response, Run, Session
from runtime_app.selectors import outside
from runtime_app.transitions import Ask
from tests.api.asgi import staged
from tests.api.conftest import Http
from tests.api.test_native import ASK, MAIL, asked
from tests.cast import Approve, elsewhere, uuid7

LEASE = {"lease": 1}
BODIES = {  # operation: what it takes, complete, so that only who calls can be wrong
    "create_session": {}, "send_message": {"message": "go"}, "start_run": {"message": "go"}, "take_turn": {},
    "heartbeat": LEASE, "complete": LEASE, "fail": LEASE, "stopped": LEASE, "cancel": {},
    "raise_request": MAIL | LEASE, "dispatch": {}, "report": {"status": "succeeded"}, "acknowledge_secrets": {},
    "claim_evidence": {"finding": "committed"},
    "respond": {"session": "…", "kind": "approve", "digest": "…"},
}  # fmt: skip
OF_NOBODY = {"create_session", "start_run", "list_sessions", "list_runs", "tenant_events", "me", "inbox"}
SEEN = Session, Run, Request, Effect, Grant, Response, Event, Call


def operations() -> list[tuple[str, str, str]]:
    """Every operation that the document has: method, path, name. A new one is in the matrix by itself."""
    return [
        (method, path.removeprefix("/api/v1"), operation["operationId"])
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    ]


@pytest.fixture
def theirs(agent, northgate, mailer):
    """What belongs to `mailer`: an id for each noun."""
    run = agent.post("/runs", {"message": "go"}).json()
    request = asked(agent, run, MAIL)
    northgate.approves("Ada", Request.objects.get())
    effect = agent.post(f"/requests/{request['id']}/dispatch", {}).json()["effect"]
    return {"sessions": run["session"], "runs": run["id"], "requests": request["id"], "effects": effect["id"]}


def call(http: Http, method: str, path: str, name: str, ids: dict):
    noun = path.split("/")[1]
    path = path.replace("{id}", str(ids.get(noun, "")))
    return http.get(path) if method == "get" else http.post(path, BODIES[name])


def rows() -> list[int]:
    return [model.objects.count() for model in SEEN]


@pytest.mark.parametrize("who", ["another instance", "another tenant", "nothing at all"])
def test_what_is_anothers_does_not_exist(who, theirs, northgate, harbour, mailer):
    """R07, T84: every operation, one status and one body, and nothing is written."""
    other = elsewhere(harbour) if who == "another tenant" else elsewhere(northgate, "other")
    http = Http(other.token)
    ids = dict.fromkeys(theirs, str(uuid7())) if who == "nothing at all" else theirs
    before, answers = rows(), set()
    for method, path, name in operations():
        if name not in OF_NOBODY | {"respond"}:
            answer = call(http, method, path, name, ids)
            answers.add((answer.status_code, answer.content))
    assert len(answers) == 1 and answers.pop()[0] == 404
    assert rows() == before


def test_nobody_gets_in_without_a_credential_that_lives(theirs, mailer, northgate):
    """R06, T80, T82: none, a wrong one, a revoked one, one in the address, one of another kind or scope: 401."""
    provisioner = elsewhere(northgate, "provisioner")
    narrow = elsewhere(northgate, "narrow")
    Credential.objects.filter(instance=narrow.instance).update(scopes=["aap"])
    Credential.objects.filter(instance=provisioner.instance).update(kind="provisioner", instance=None)
    Credential.objects.filter(instance=mailer.instance).update(revoked_at=Now())
    before = rows()
    for token in ("", "sayso_i_" + "0" * 64, "no token", mailer.token, narrow.token, provisioner.token):
        for method, path, name in operations():
            answer = call(Http(token), method, path, name, theirs)
            assert (answer.status_code, answer.json()["code"]) == (401, "not_signed_in"), (token[:10], path)
            assert answer["WWW-Authenticate"] == "Bearer" and answer["X-Request-ID"]
    assert Http().get(f"/me?access_token={mailer.token}&token={mailer.token}").status_code == 401
    assert rows() == before


def test_an_expired_credential_and_one_of_a_deleted_instance_are_nobody(mailer, clock):
    """R06."""
    Credential.objects.update(expires_at=Now())
    assert Http(mailer.token).get("/me").status_code == 401
    Credential.objects.update(expires_at=None)
    assert Http(mailer.token).get("/me").status_code == 200
    type(mailer.instance).objects.filter(pk=mailer.instance.pk).update(deleted_at=Now())
    assert Http(mailer.token).get("/me").status_code == 401


def test_an_outsider_signed_in_sees_no_tenant(theirs, northgate, harbour):
    """R07: also without naming one, and with a name that is none."""
    for tenant in ("northgate", "", "nowhere", "a\tb", "é"):
        mallory = Http(user=harbour.people["Mallory"], tenant=tenant)
        for path in ("/inbox", "/me", "/runs", f"/runs/{theirs['runs']}", "/events"):
            assert mallory.get(path).status_code == 404, (tenant, path)
    mallory = Http(user=harbour.people["Mallory"], tenant="harbour")
    assert mallory.get(f"/runs/{theirs['runs']}").status_code == 404
    said = {"session": theirs["sessions"], "kind": "approve", "digest": "x"}
    assert mallory.post(f"/requests/{theirs['requests']}/response", said).status_code == 404


def test_no_token_changes_a_request_of_kind_approval(northgate, agent, mailer, harbour):
    """T21: every POST there is, with every token there is."""
    request = asked(agent, agent.post("/runs", {"message": "go"}).json(), MAIL)
    tokens = [mailer.token, elsewhere(northgate, "other").token, elsewhere(harbour).token, ""]
    for method, path, name in operations():
        if method == "post" and name not in ("cancel", "fail", "complete", "stopped"):
            for token in tokens:
                ids = {"requests": request["id"], "runs": request["run"], "sessions": request["session"]}
                call(Http(token), method, path, name, ids)
    assert Request.objects.get(pk=request["id"]).state == "pending"
    assert not Response.objects.exists() and not Grant.objects.exists()


def test_every_route_below_the_api_is_in_the_document():
    """T80: default deny for a new route: what is routed is described, and the matrix above calls it."""
    routed = {str(each.pattern) for each in _routes(get_resolver("runtime_app.api.v1.urls").url_patterns)}
    described = {path.removeprefix("/api/v1/").replace("{", "<").replace("}", ">") for path in document()["paths"]}
    assert routed - {"openapi.json", "", "^"} == described


def _routes(patterns):
    for each in patterns:
        inner = getattr(each, "url_patterns", None)
        yield from _routes(inner) if inner is not None else [each]


# ---------------------------------------------------------------- bad input

DEEP = b"[" * 20_000 + b"]" * 20_000
BAD = [  # what is sent, its headers, the status
    (b"{", {}, 400), (b"\xff\xfe", {}, 422), (b"nonsense", {}, 400), (b"[]", {}, 422), (b'"go"', {}, 422),
    (b'{"message":"go","message":"go"}', {}, 422), (b'{"message":null}', {}, 422), (b'{"message":1}', {}, 422),
    (b'{"message":"go","interactive":"true"}', {}, 422), (b'{"message":"go","interactive":1}', {}, 422),
    (b'{"message":"go","extra":1}', {}, 422), (b'{"message":"go\\u0000"}', {}, 422), (b'{"message":" "}', {}, 422),
    (b'{"message":"\\ud800"}', {}, 422), (b'{"message":NaN}', {}, 422), (b"{}", {}, 422), (b"", {}, 422),
    (b'{"message":' + b"9" * 2_000 + b"}", {}, 422), (DEEP, {}, 422),
    (b'{"a":' * 20_000 + b"1" + b"}" * 20_000, {}, 422),
    (b'{"message":"' + b"x" * 2_000_000 + b'"}', {}, 413), (b"x" * 300_000, {}, 413),
    (b'{"message":"go"}', {"Content-Type": "text/plain"}, 415), (b'{"message":"go"}', {"Content-Type": ""}, 415),
    (b"message=go", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
    (b'{"message":"go"}', {"Content-Type": "multipart/form-data; boundary=x"}, 415),
    (gzip.compress(b"0" * 50_000_000), {"Content-Encoding": "gzip"}, 415),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD)))
def test_what_cannot_be_taken_is_refused_at_once_in_flat_memory(agent, number):
    """R15, T91: before anything is parsed that must not be, with its code, and nothing is written."""
    sent, headers, status = BAD[number]
    agent.get("/me")
    tracemalloc.start()
    began = time.thread_time()
    answer = agent.post("/runs", sent, **headers)
    took, (_, peak) = time.thread_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (answer.status_code, answer.json()["code"]) == (status, "invalid_input")
    assert took < 0.5 and peak < 4 * len(sent) + 8_000_000  # of a thread that is being traced
    assert not Run.objects.exists()


@pytest.mark.parametrize("key", [None, "", "x" * 256, "a b", "é"])
def test_every_post_takes_an_idempotency_key(agent, key):
    """R09: 422, and which field."""
    headers = {} if key is None else {"Idempotency-Key": key}
    for method, path, name in operations():
        if method == "post" and name != "respond":
            path = f"/api/v1{path.replace('{id}', str(uuid7()))}"
            sent = json.dumps(BODIES[name])
            answer = agent.client.post(path, sent, "application/json", headers=agent.headers | headers)
            assert answer.status_code == 422 and "Idempotency-Key" in answer.json()["fields"], path


def test_no_field_of_a_model_can_be_written_by_a_call(agent):
    """T91: each of them, added to a body that is right."""
    for field in {each.name for model in SEEN for each in model._meta.fields} - {
        "message",
        "interactive",
        "title",
        "thread",
    }:
        answer = agent.post("/runs", {"message": "go", field: "x"})
        assert answer.status_code == 422, field
    assert not Run.objects.exists()


@pytest.mark.parametrize("path", [
    "/runs?limit=0", "/runs?limit=101", "/runs?limit=x", "/runs?state=odd", "/sessions?limit=1e9", "/events?limit=501",
])  # fmt: skip
def test_an_address_asks_only_what_there_is(agent, path):
    assert agent.get(path).json()["code"] == "invalid_input"


def test_a_cursor_of_elsewhere_is_refused(agent, mailer):
    """R37."""
    first, second = (agent.post("/sessions", {"title": title}).json() for title in "ab")
    assert agent.get(f"/sessions/{first['id']}/events?after={second['cursor']}").json()["code"] == "cursor_invalid"
    assert agent.get(f"/events?after={first['cursor']}").status_code == 400
    for cursor in ("x", "a" * 300, "é", "W10"):
        assert agent.get("/events", **{}).status_code == 200
        assert agent.get(f"/events?after={cursor}").status_code == 400


def test_what_is_not_there_is_json_too(agent):
    for path in ("/", "/nothing", "/runs/", "/runs/x/y/z"):
        answer = agent.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert agent.client.put("/api/v1/runs", headers=agent.headers).status_code == 405


def test_a_credential_that_ends_within_a_call_is_told_so(agent, mailer, monkeypatch):
    """R06, R40: in a call that waits and in one that does not."""
    request, real = mailer.asks(mailer.begins(), Ask("mail", "mail/send", '{"to":"a@b.c"}')), outside.asked

    def revoked_meanwhile(*args):
        Credential.objects.update(revoked_at=Now())
        return real(*args)

    monkeypatch.setattr(outside, "asked", revoked_meanwhile)
    told = agent.get(f"/requests/{request.pk}")
    assert (told.status_code, told.json()["code"], told["WWW-Authenticate"]) == (401, "not_signed_in", "Bearer")
    Credential.objects.update(revoked_at=None)

    async def scene(call):
        status, _, body = await call(f"/requests/{request.pk}?wait=1s", mailer.token).answer()
        assert (status, body["code"]) == (401, "not_signed_in")

    staged(scene)


def test_a_database_that_is_away_is_json_too(agent, monkeypatch):
    """Spec 9: whoever calls, an agent or another front end of people, reads a code and when to ask again."""

    def gone(*_):
        raise OperationalError("no line")

    monkeypatch.setattr("runtime_app.credentials.statements.first", gone)
    told = agent.post("/runs", {"message": "go"})
    assert (told.status_code, told.json()["code"], told["Retry-After"]) == (503, "busy", "1")


@pytest.mark.parametrize(("method", "path"), [("put", "/runs"), ("delete", "/me"), ("options", "/runs")])
def test_a_method_that_does_nothing_is_refused_in_json(agent, method, path):
    told = getattr(agent.client, method)(f"/api/v1{path}", headers=agent.headers)
    assert (told.status_code, told.json()["reason"]) == (405, "method_not_allowed") and told.headers["Allow"]


def test_who_calls_too_often_waits(agent, mailer, monkeypatch):
    """T92: 429 with Retry-After; another credential is not kept waiting."""
    monkeypatch.setattr("runtime_app.api.doors.BURST", 3)
    monkeypatch.setattr("runtime_app.api.doors.RATE", 0.01)
    assert [agent.get("/me").status_code for _ in range(5)] == [200, 200, 200, 429, 429]
    told = agent.get("/me")
    assert int(told["Retry-After"]) > 1 and told.json()["code"] == "too_many"
    assert Http(elsewhere(mailer.house, "other").token).get("/me").status_code == 200


# ---------------------------------------------------------------- at once


def test_two_calls_at_once_with_one_key_have_one_effect(agent, mailer, northgate, race):
    """R09, T85, K9 (B102): five of each; one Run, one Request, one intent."""

    def together(path, body, key):
        answers = race(*[lambda: Http(mailer.token).post(path, body, key=key)] * 5)
        assert {each.status_code for each in answers} <= {200, 201}, [each.content for each in answers]
        return [each.json() for each in answers]

    run = together("/runs", {"message": "go"}, "r")[0]
    assert Run.objects.count() == 1
    requests = together(f"/runs/{run['id']}/requests", MAIL | LEASE, "q")
    assert {each["id"] for each in requests} == {str(Request.objects.get().pk)}
    northgate.says("Ada", Request.objects.get(), Approve(requests[0]["digest"]))
    sent = together(f"/requests/{requests[0]['id']}/dispatch", {}, "d")
    assert len({each["effect"]["id"] for each in sent}) == 1
    together(f"/requests/{requests[0]['id']}/outcome", {"status": "succeeded"}, "o")
    assert Effect.objects.get().state == "committed"
    assert Event.objects.filter(kind="effect.in_flight").count() == 1


def test_two_calls_at_once_under_two_keys_take_one_grant_once(agent, mailer, northgate, race):
    """R16, K3 (B38)."""
    run = agent.post("/runs", {"message": "go"}).json()
    request = asked(agent, run, MAIL)
    northgate.approves("Ada", Request.objects.get())
    path = f"/requests/{request['id']}/dispatch"
    answers = race(*[lambda key=key: Http(mailer.token).post(path, {}, key=key) for key in "abcde"])
    assert sorted(each.status_code for each in answers) == [200, 409, 409, 409, 409]


def test_an_effect_key_holds_after_its_call_was_forgotten(agent, northgate, owner):
    """T86: the record of the call may be purged; the Grant is used for good."""
    request = asked(agent, agent.post("/runs", {"message": "go"}).json(), MAIL)
    northgate.approves("Ada", Request.objects.get())
    first = agent.post(f"/requests/{request['id']}/dispatch", {}, key="k").json()
    owner.execute("delete from runtime_app_call")
    assert agent.post(f"/requests/{request['id']}/dispatch", {}, key="k").json() == first
    assert Effect.objects.count() == 1 and Event.objects.filter(kind="effect.in_flight").count() == 1


def test_reads_are_bounded(agent, northgate, django_assert_max_num_queries):
    """Goal 4: a Run is read by as many statements with ten Requests as with one."""
    run = agent.post("/runs", {"message": "go"}).json()
    asked(agent, run, ASK)
    with django_assert_max_num_queries(20, connection=connection):
        agent.get(f"/runs/{run['id']}")
    for number in range(9):
        asked(agent, run, MAIL | {"key": str(number)})
    with django_assert_max_num_queries(20, connection=connection):
        agent.get(f"/runs/{run['id']}")


def test_a_long_run_is_told_by_its_newest_requests_and_effects(agent, northgate, monkeypatch):
    """R31: what still waits, and what is in flight, is not crowded out by what was decided before it."""
    for read in (outside.told, outside.of_runs):
        monkeypatch.setitem(read.__globals__, "MOST", 2)
    northgate.policy("mail/*", verdict="allow")
    run = agent.post("/runs", {"message": "go"}).json()
    for key in "abc":
        sent = asked(agent, run, MAIL | {"key": key, "parameters": {"to": key}})
        agent.post(f"/requests/{sent['id']}/dispatch", {})
    asked(agent, run, ASK)
    told = agent.get(f"/runs/{run['id']}").json()
    assert [each["key"] for each in told["requests"]] == ["c", ASK["key"]]
    assert [each["key"] for each in told["effects"]][-1] == sent["id"] and len(told["effects"]) == 2


def test_an_agent_fills_no_page_where_a_person_settles_its_effect(agent, northgate, monkeypatch):
    """T89, T93: a claim said again is kept as often as people can read it; its report is heard all the same."""
    monkeypatch.setattr("runtime_app.transitions.acting.CLAIMS", 2)
    northgate.policy("mail/*", verdict="allow")
    sent = asked(agent, agent.post("/runs", {"message": "go"}).json(), MAIL)
    effect = agent.post(f"/requests/{sent['id']}/dispatch", {}).json()["effect"]
    said = [agent.post(f"/effects/{effect['id']}/evidence", {"finding": "unknown"}, key=key) for key in "abca"]
    assert [answer.status_code for answer in said] == [201, 201, 422, 201]
    reported = agent.post(f"/requests/{sent['id']}/outcome", {"status": "succeeded"}).json()
    assert reported["effect"]["state"] == "committed"
