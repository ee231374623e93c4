"""AAP requests by rule, over HTTP. What comes back is read by the package's own client: it is the judge."""

import json
from datetime import timedelta

import pytest
from agentapprovalprotocol._wire import loads, parse_request
from django.db import InterfaceError, OperationalError, connection
from django.test.utils import CaptureQueriesContext

from runtime_app import credentials, selectors, transitions
from runtime_app.api.aap.requests import action_name, thread_of
from runtime_app.ids import uuid7
from runtime_app.models import Credential, Effect, Evidence, Grant, Now, Refusal, Request, Run, Session
from tests.aap.conftest import Agent, refused, run, stored
from tests.cast import Deny, elsewhere

pytestmark = pytest.mark.django_db(transaction=True)


def read(agent: Agent):
    """The last answer, as the client reads it: it raises for what the contract forbids."""
    return parse_request(loads(agent.answer.content))


# ---------------------------------------------------------------- from pending to its end


def test_one_request_is_one_run_that_waits_runs_and_succeeds(northgate, mailer):
    """R04, R22: pending is waiting, approved is running, outcome succeeded is succeeded."""
    _, told = mailer.asks(server="mail", agent_reasoning="He asked for it.", context={"session_id": "s", "n": 1.0})
    assert read(mailer).status == "pending" and run(told).state == "waiting"
    northgate.approves("Ada", stored(told), message="Go.")
    _, told = mailer.reads(told["id"])
    decision = read(mailer).decision
    assert (decision.status, decision.note) == ("approved", "Go.") and run(told).state == "running"
    _, told = mailer.consumes(told["id"])
    assert read(mailer).consumption.outcome is None
    assert Effect.objects.get().state == "in_flight" and Effect.objects.get().key == told["id"]
    _, told = mailer.reports(told["id"], note="Sent as 17.")
    outcome = read(mailer).consumption.outcome
    assert (outcome.status, outcome.note) == ("succeeded", "Sent as 17.")
    assert (Effect.objects.get().state, run(told).state) == ("committed", "succeeded")
    evidence = Evidence.objects.get()
    assert (evidence.grade, evidence.source, evidence.statement) == ("claimed", "reply", "Sent as 17.")


def test_what_is_asked_stands_in_the_inbox_as_it_came(northgate, mailer):
    """R03, R15: server, tool and arguments are facts; the reasoning is a claim, and nobody's title."""
    _, told = mailer.asks("issue/refund", server="bank%1", agent_reasoning="Trust me.", arguments={"amount": 4900})
    request = stored(told)
    assert request.action_name == "bank%251/issue%2Frefund" and request.claim == "Trust me."
    assert bytes(request.parameters) == b'{"amount":4900}' and request.run.single
    assert "Trust" not in request.run.message + request.run.session.title
    assert not request.described["registered"]


def test_a_denial_carries_its_note_and_a_suggestion_comes_with_it(northgate, mailer, asked):
    """R19, K4 B43: the text reaches the agent unchanged, as data."""
    said = 'Not today.\n{"type":"approve"}'
    northgate.says("Ada", stored(asked), Deny(stored(asked).digest, '{"to":"c@d.e"}'), message=said)
    _, told = mailer.reads(asked["id"])
    assert read(mailer).decision.note == said + '\nSuggested arguments: {"to":"c@d.e"}'
    assert (told["status"], run(told).state, run(told).reason) == ("denied", "failed", "denied")
    refused(mailer.consumes(asked["id"]), 409, "not_approved")


def test_a_note_is_left_out_rather_than_empty(northgate, mailer, asked):
    northgate.says("Ada", stored(asked), Deny(stored(asked).digest), message="  ")
    _, told = mailer.reads(asked["id"])
    assert "note" not in told["decision"]


def test_a_policy_may_decide_at_once(northgate, mailer):
    """R17: allowed or denied when it is created, and decided once."""
    northgate.policy("send", verdict="allow")
    northgate.policy("rm", verdict="deny")
    status, told = mailer.asks("send")
    assert (status, read(mailer).status) == (201, "approved") and mailer.consumes(told["id"])[0] == 200
    status, told = mailer.asks("rm", key="2")
    assert (status, read(mailer).status, run(told).state) == (201, "denied", "failed")
    assert told["decision"]["note"] == "A policy denies this action here."


def test_a_timeout_is_a_deadline_that_policy_may_shorten(northgate, mailer):
    northgate.policy("send", request_for=timedelta(hours=1))
    for key, (timeout, seconds) in enumerate({"30s": 30, "5m": 300, "2h": 3600, "9" * 40 + "h": 3600}.items()):
        _, told = mailer.asks(timeout=timeout, key=str(key))
        found = read(mailer)
        assert (found.deadline_at - found.created_at).total_seconds() == seconds and told["timeout"] == timeout


def test_expired_is_read_from_the_clock_and_its_time_is_the_deadline(northgate, mailer, clock):
    """R08: before any sweep, and after it, the same."""
    _, told = mailer.asks(timeout="1s")
    clock.move(seconds=2)
    _, now = mailer.reads(told["id"])
    assert read(mailer).status == "expired" and now["decision"]["decided_at"] == told["deadline_at"]
    refused(mailer.cancels(told["id"]), 409, "already_terminal")
    refused(mailer.consumes(told["id"]), 409, "not_approved")
    transitions.sweep()
    assert mailer.reads(told["id"])[1] == now and run(told).state == "failed"


def test_times_are_strictly_in_order(northgate, mailer, approved):
    mailer.consumes(approved["id"])
    mailer.reports(approved["id"])
    found = read(mailer)
    assert found.created_at < found.deadline_at and found.decision.decided_at < found.decision.expires_at
    assert found.decision.decided_at <= found.consumption.consumed_at <= found.consumption.outcome.reported_at


def test_a_cancel_by_its_agent_is_final_and_calm_the_second_time(northgate, mailer, asked):
    for _ in range(2):
        status, told = mailer.cancels(asked["id"])
        assert (status, read(mailer).status, run(told).state) == (200, "cancelled", "cancelled")
    refused(mailer.consumes(asked["id"]), 409, "not_approved")


def test_a_cancel_by_a_person_is_cancelled_with_their_reason(northgate, mailer, asked):
    northgate.cancels("Olga", run(asked), reason="Not this week.")
    _, told = mailer.reads(asked["id"])
    assert told["decision"]["note"] == "Not this week." and read(mailer).status == "cancelled"
    assert mailer.cancels(asked["id"])[0] == 200


def test_what_was_approved_cannot_be_taken_back_by_its_agent(northgate, mailer, approved):
    refused(mailer.cancels(approved["id"]), 409, "already_terminal")
    assert mailer.consumes(approved["id"])[0] == 200


# ---------------------------------------------------------------- numbers


def test_numbers_come_back_with_every_digit(northgate, mailer):
    """K13 B137, R15: in arguments and context alike."""
    numbers = '{"a":1.0,"b":12345678901234567890123,"c":1E2,"d":0.10,"e":-0.0,"f":9007199254740993,"g":[true,"1",-0]}'
    body = f'{{"tool":"t","arguments":{numbers},"timeout":"1m","context":{{"nested":{numbers}}}}}'
    status, told = mailer.call("POST", "/requests", body, "k")
    assert status == 201
    for text in (mailer.answer.content.decode(), stored(told).parameters.decode()):
        assert numbers in text
    assert mailer.answer.content.decode().count(numbers) == 2
    assert mailer.call("POST", "/requests", body.replace(",", " , "), "k")[0] == 200
    refused(mailer.call("POST", "/requests", body.replace('"a":1.0', '"a":1.00'), "k"), 409, "idempotency_conflict")


def test_texts_are_kept_byte_for_byte(northgate, mailer):
    """K13 B141, B144: composed and decomposed letters stay two, and half a surrogate pair is refused."""
    for key, text in enumerate(("caf\u00e9", "cafe\u0301", "\U0001f600", "a\u202eb", "\u00a0")):
        _, told = mailer.asks(arguments={"path": text}, context={text: text}, key=str(key))
        assert told["arguments"] == {"path": text} and told["context"] == {text: text}
    for broken in (r"\ud83d", r"\udc00x", r"\u0000"):
        body = f'{{"tool":"t","arguments":{{"x":"{broken}"}},"timeout":"1m"}}'
        refused(mailer.call("POST", "/requests", body, "broken"), 400, "invalid_request")


# ---------------------------------------------------------------- keys


def test_the_same_key_is_the_same_request_as_it_is_now(northgate, mailer, approved):
    """T85, R09: other fields conflict, whichever it is; the order of keys is no other field."""
    status, told = mailer.call("POST", "/requests", '{"timeout":"10m", "arguments":{"to":"a@b.c"},"tool":"send"}', "k")
    assert (status, told["status"], told["id"]) == (200, "approved", approved["id"])
    for more in ({"tool": "other"}, {"arguments": {}}, {"timeout": "11m"}, {"agent_reasoning": "x"}, {"server": "s"}):
        refused(mailer.asks(**more), 409, "idempotency_conflict")
    assert Request.objects.count() == 1


def test_a_key_counts_within_its_operation_and_its_instance(northgate, mailer, approved):
    other = Agent(elsewhere(northgate, "other").token)
    assert other.asks()[1]["id"] != approved["id"]
    assert mailer.consumes(approved["id"], key="k")[0] == 200
    assert mailer.asks(key="x" * 3000)[0] == 201


@pytest.mark.parametrize("what", ["asks", "consumes"])
def test_a_call_that_makes_something_takes_a_key(northgate, mailer, approved, what):
    for key in (None, "", " "):
        answer = mailer.asks(key=key) if what == "asks" else mailer.consumes(approved["id"], key=key)
        refused(answer, 400, "missing_idempotency_key")


def test_two_calls_at_once_under_one_key_make_one_request(northgate, mailer, race):
    """T85."""
    answers = race(*[lambda: Agent(mailer.token).asks() for _ in range(6)])
    assert sorted(status for status, _ in answers) == [200] * 5 + [201]
    assert len({told["id"] for _, told in answers}) == 1 and Run.objects.count() == 1


def test_a_key_that_is_forgotten_asks_anew_and_brings_no_approval_back(northgate, mailer, approved, owner):
    """T86: the effect's own key is never forgotten, and no old Grant serves a new request."""
    mailer.consumes(approved["id"])
    mailer.reports(approved["id"])
    with owner.transaction():
        owner.execute("set local session_replication_role = replica")
        owner.execute("delete from runtime_app_call")
    status, told = mailer.asks()
    assert (status, told["status"]) == (201, "pending") and told["id"] != approved["id"]
    refused(mailer.consumes(told["id"], key="c"), 409, "not_approved")
    refused(mailer.consumes(approved["id"], key="new"), 409, "already_consumed")


def test_a_replay_by_another_gives_its_words_back_and_no_decision_of_its_own(northgate, mailer, asked):
    """K3 B32: no body brings an approval with it."""
    for more in ({"status": "approved"}, {"decision": {"status": "approved"}}, {"id": str(uuid7())}):
        answer = mailer.asks(key="forged", **more)
        refused(answer, 400, "invalid_request")
        assert answer[1]["error"]["param"] == next(iter(more))


# ---------------------------------------------------------------- who, and where


def test_actions_have_one_name_for_one_pair():
    names = [("a/b", None), ("b", "a"), ("a%2Fb", None), ("b", "a/"), ("/b", "a"), ("%2Fb", "a"), ("b", "a%")]
    assert len({action_name(*each) for each in names}) == len(names)
    assert action_name("send", "mail") == "mail/send" and action_name("send", None) == "send"


def test_a_session_is_the_thread_that_the_shim_sends(northgate, mailer):
    """Of its Instance alone; without a thread each request has one of its own."""
    contexts = [
        {"resume": {"framework": "langgraph", "thread_id": "t"}},
        {"resume": {"framework": "pydantic-ai", "conversation_id": "c"}},
        {"resume": {"framework": "adk", "app_name": "a", "session_id": "s"}, "session_id": "x"},
        {"session_id": "t"},
        {"resume": {"thread_id": 7}, "session_id": ""},
        {"resume": "t"},
    ]
    assert [thread_of(each) for each in contexts] == ["t", "c", "s", "t", "", ""]
    assert len(thread_of({"session_id": "x" * 10_000})) <= 200
    for key, context in enumerate(contexts):
        assert mailer.asks(key=str(key), context=context)[0] == 201
    assert Session.objects.count() == 5
    Agent(elsewhere(northgate, "other").token).asks(context=contexts[0])
    assert Session.objects.count() == 6


def test_another_agents_request_does_not_exist(northgate, harbour, mailer, approved):
    """T84, R07: another instance, another tenant, a native Request, an unknown id, no id: one answer."""
    theirs = [Agent(elsewhere(northgate, "other").token), Agent(elsewhere(harbour).token)]
    native = mailer.elsewhere.asks(mailer.elsewhere.begins(), transitions.Ask("m", "mail/send", "{}"))
    tries = [(agent, approved["id"]) for agent in theirs]
    tries += [(mailer, str(pk)) for pk in (native.pk, northgate.approval().pk, uuid7(), "no-id", "%00", "x" * 500)]
    said = set()
    for agent, id in tries:
        for answer in (agent.reads(id), agent.cancels(id), agent.consumes(id), agent.reports(id)):
            refused(answer, 404, "not_found")
            said.add(answer[1]["error"]["message"])
    assert len(said) == 1 and Grant.objects.get().state == "unused"


def test_credentials_are_for_what_they_are_for(northgate, mailer, factory, asked):
    """T80, T21: kind and scope; in the header alone (T82); no method approves."""
    refused(factory.asks(), 403, "forbidden")
    refused(factory.reads(asked["id"]), 403, "forbidden")
    refused(mailer.call("POST", "/instances", {}, "k"), 403, "forbidden")
    for token in ("", "sayso_i_" + "0" * 64, mailer.token[:-1], mailer.token.upper(), "x" * 5_000):
        refused(Agent(token).reads(asked["id"]), 401, "unauthenticated")
    refused(Agent("x").call("GET", f"/requests/{asked['id']}?token={mailer.token}"), 401, "unauthenticated")
    Credential.objects.filter(kind="instance").update(scopes=["api"])
    refused(mailer.asks(key="2"), 401, "unauthenticated")
    for method in ("PUT", "PATCH", "HEAD", "OPTIONS", "POST"):
        assert mailer.http.generic(method, f"/api/aap/v1/requests/{asked['id']}").status_code == 405
    assert stored(asked).state == "pending"


def test_a_revoked_or_expired_credential_does_nothing_more(northgate, mailer, approved):
    """R06, T83."""
    for ended in ({"expires_at": Now()}, {"revoked_at": Now()}):
        Credential.objects.update(**ended)
        for answer in (mailer.asks(key="n"), mailer.reads(approved["id"]), mailer.consumes(approved["id"])):
            refused(answer, 401, "unauthenticated")
    assert Grant.objects.get().state == "unused"


def test_who_made_the_credential_does_not_approve_with_it(northgate, mailer, asked):
    """R18, T32: whatever the body claims about who acts and where."""
    _, told = mailer.asks(key="2", context={"environment": "production", "actor": "ada", "tenant": "harbour"})
    request = stored(told)
    assert (request.environment_id, request.tenant_id) == (northgate.staging.pk, northgate.tenant.pk)
    assert request.bound["actor"] == str(mailer.elsewhere.instance.pk)


def test_a_refused_attempt_is_written_down(northgate, mailer, asked):
    """R13."""
    mailer.consumes(asked["id"])
    assert Refusal.objects.get().reason == "not_approved"


def test_reading_changes_nothing(northgate, mailer, asked):
    """R11."""
    with CaptureQueriesContext(connection) as said:
        mailer.reads(asked["id"])
        mailer.call("GET", f"/requests/{asked['id']}?wait=1s")
    assert said.captured_queries and all(each["sql"].upper().startswith("SELECT") for each in said.captured_queries)


def test_the_exchange_is_named_in_header_and_error(mailer):
    status, told = mailer.reads("nothing")
    assert told["error"]["request_id"] == mailer.answer.headers["X-Request-ID"]
    assert set(told["error"]) == {"type", "code", "message", "request_id"} and told["error"]["type"] == "not_found"


def test_a_fault_of_ours_is_told_as_that_and_nothing_of_it(mailer, monkeypatch, caplog):
    from runtime_app.api.aap import requests

    monkeypatch.setattr(requests.selectors, "proposal", lambda *_: 1 / 0)
    status, told = mailer.reads("x")
    assert (status, told["error"]["type"]) == (500, "internal")
    assert "Zero" not in json.dumps(told) and "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("failed", [OperationalError, InterfaceError])
def test_a_database_that_is_away_is_asked_again_later(mailer, approved, monkeypatch, failed):
    """Spec 9: no fault of the call; what was asked under its key is asked again."""
    monkeypatch.setattr(credentials.statements, "first", lambda *_: raises(failed("no line")))
    refused(mailer.consumes(approved["id"]), 503, "busy")
    assert mailer.answer.headers["Retry-After"] == "1"
    monkeypatch.undo()
    assert mailer.consumes(approved["id"])[0] == 200


def test_a_credential_that_ends_within_a_call_is_told_so(mailer, asked, monkeypatch):
    """R06, R40: what it may not see any more is not said to be unknown."""
    real = selectors.proposal

    def revoked_meanwhile(*args):
        Credential.objects.update(revoked_at=Now())
        return real(*args)

    monkeypatch.setattr(selectors, "proposal", revoked_meanwhile)
    refused(mailer.reads(asked["id"]), 401, "unauthenticated")


def raises(error):
    raise error


def test_a_refusal_that_no_transition_made_is_written_down_too(northgate, mailer, factory):
    """R13: what is no request, what is not this agent's, and what its kind of credential may not."""
    theirs = elsewhere(northgate, "other").proposes()
    mailer.asks(timeout="soon")
    mailer.consumes(str(theirs.pk))
    mailer.reads(str(theirs.pk))
    factory.call("POST", f"/requests/{theirs.pk}/consume", key="c")
    kept = Refusal.objects.order_by("first_at").values_list("actor_id", "code", "count")
    agent, token = mailer.elsewhere.context.actor.id, str(Credential.objects.get(kind="provisioner").pk)
    assert list(kept) == [(agent, "invalid_input", 1), (agent, "not_found", 1), (token, "not_authorized", 1)]
