"""The native API: what an agent elsewhere, and another front end of people, do with it."""

import json

import pytest

from runtime_app.models import Effect, Evidence, Grant, Refusal, Request, Response, Run
from tests.api.conftest import Http
from tests.cast import KEY_NAME, elsewhere, uuid7

MAIL = {"kind": "wait_approval", "key": "m", "action": "mail/send", "parameters": {"to": "a@b.c"}}
ASK = {"kind": "wait_user", "key": "q", "prompt": "Which?", "schema": KEY_NAME}


@pytest.fixture
def run(agent):
    return agent.post("/runs", {"message": "go"}).json()


def asked(agent, run, said, lease: int = 1) -> dict:
    answer = agent.post(f"/runs/{run['id']}/requests", said | {"lease": lease})
    assert answer.status_code == 201, answer.content
    return answer.json()


def says(by, who: str, request: dict, kind: str, key=None, **said):
    return by(who).post(
        f"/requests/{request['id']}/response", {"session": request["session"], "kind": kind} | said, key=key
    )


def approves(by, who: str, request: dict, **more):
    return says(by, who, request, "approve", digest=request["digest"], **more)


def test_whose_credential_it_is(agent, northgate, mailer):
    """R20: tenant, environment and actor come from the credential."""
    assert agent.get("/me").json() == {
        "tenant": "northgate", "environment": "staging", "scopes": ["aap", "api"], "expires_at": None, "person": None,
        "csrf_token": None, "instance": {"id": str(mailer.instance.pk), "agent": "mailer", "name": ""},
    }  # fmt: skip


def test_a_run_asks_a_question_is_answered_and_completes(agent, run, by):
    """R02, R04, R10: the whole way over HTTP."""
    assert (run["state"], run["lease"]) == ("running", 1)
    question = asked(agent, run, ASK)
    assert question["who_could"] == ["Sam"] and question["accepts"]["answer"]["schema"]["required"] == ["name"]
    assert agent.get(f"/runs/{run['id']}").json()["state"] == "waiting"
    recorded = says(by, "Sam", question, "answer", values={"name": "k"}, message="this one")
    assert recorded.status_code == 200 and recorded.json()["outcome"] == "answered"
    read = agent.get(f"/requests/{question['id']}").json()
    assert read["response"]["values"] == {"name": "k"} and read["response"]["by"] == "Sam"
    turn = agent.post(f"/runs/{run['id']}/turn").json()
    assert (turn["state"], turn["lease"]) == ("running", 2)
    assert agent.post(f"/runs/{run['id']}/heartbeat", {"lease": 2}).status_code == 200
    done = agent.post(f"/runs/{run['id']}/complete", {"lease": 2, "result": "done"}).json()
    assert done["state"] == "succeeded" and done["result"]["result"] == "done"
    again = agent.post(f"/runs/{run['id']}/complete", {"lease": 2, "result": "done"})
    assert again.status_code == 200
    assert agent.post(f"/runs/{run['id']}/fail", {"lease": 2, "reason": "no"}).json()["code"] == "run_ended"


def test_an_action_is_asked_approved_dispatched_and_reported(agent, run, by):
    """R16, R22, R25."""
    request = asked(agent, run, MAIL | {"claim": "It is safe."})
    assert request["action"]["registered"] is False and request["claim"] == "It is safe."
    early = agent.post(f"/requests/{request['id']}/dispatch", {"lease": 1})
    assert (early.status_code, early.json()["reason"]) == (409, "not_approved")
    assert approves(by, "Ada", request).json()["outcome"] == "approved"
    sending = agent.post(f"/requests/{request['id']}/dispatch", {}, key="one")
    assert sending.json()["effect"]["state"] == "in_flight" and sending.json()["parameters"] == {"to": "a@b.c"}
    assert agent.post(f"/requests/{request['id']}/dispatch", {}, key="one").content == sending.content
    assert agent.post(f"/requests/{request['id']}/dispatch", {}, key="two").json()["reason"] == "already_consumed"
    outcome = agent.post(f"/requests/{request['id']}/outcome", {"status": "succeeded", "reference": "mail-1"})
    assert outcome.json()["effect"]["state"] == "committed"
    other = agent.post(f"/requests/{request['id']}/outcome", {"status": "failed"})
    assert (other.status_code, other.json()["reason"]) == (409, "outcome_conflict")
    effect = agent.get(f"/effects/{outcome.json()['effect']['id']}").json()
    assert [each["reference"] for each in effect["evidence"]] == ["mail-1"]


def test_what_an_agent_says_later_of_an_effect_is_a_claim(agent, run, by):
    """R25, T89."""
    request = asked(agent, run, MAIL)
    approves(by, "Ada", request)
    effect = agent.post(f"/requests/{request['id']}/dispatch", {}).json()["effect"]
    agent.post(f"/requests/{request['id']}/outcome", {"status": "unknown"})
    claim = {"finding": "committed", "reference": "mail-1"}
    kept = agent.post(f"/effects/{effect['id']}/evidence", claim, key="e")
    assert (kept.status_code, kept.json()["grade"]) == (201, "claimed")
    assert agent.post(f"/effects/{effect['id']}/evidence", claim, key="e").json() == kept.json()
    other = agent.post(f"/effects/{effect['id']}/evidence", claim | {"reference": "x"}, key="e")
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    assert Effect.objects.get().state == "uncertain" and Evidence.objects.filter(source="statement").count() == 1
    asks = Request.objects.get(kind="wait_effect")
    settled = by("Olga").post(f"/requests/{asks.pk}/response", {
        "session": str(asks.session_id), "kind": "finding", "outcome": "committed", "reference": "mail-1",
    })  # fmt: skip
    assert settled.json()["outcome"] == "settled" and Effect.objects.get().state == "committed"


def test_parameters_come_back_with_every_digit(agent, run):
    """R15, K3 (B36): bound from the text as it came; key order does not count, digits do."""
    raw = '{"b":1.0,"a":{"z":1E2,"y":12345678901234567890123456789,"x":[3,1.50,2]}}'
    body = f'{{"lease":1,"kind":"wait_approval","key":"n","action":"pay","parameters":{raw}}}'
    answer = agent.post(f"/runs/{run['id']}/requests", body.encode())
    bound = '{"a":{"x":[3,1.50,2],"y":12345678901234567890123456789,"z":1E2},"b":1.0}'
    assert bound.encode() in answer.content
    assert bytes(Request.objects.get().parameters).decode() == bound
    assert bound.encode() in agent.get(f"/requests/{answer.json()['id']}").content
    other = body.replace("1.0,", "1,")
    assert agent.post(f"/runs/{run['id']}/requests", other.encode()).json()["code"] == "idempotency_conflict"


def test_a_refusal_keeps_no_word_of_what_was_refused(agent):
    """R13: the key as it was sent, and no title."""
    assert agent.post("/sessions", {"title": "Pay Ada"}, key="s").status_code == 201
    assert agent.post("/sessions", {"title": "Pay Mallory"}, key="s").status_code == 409
    assert list(Refusal.objects.values_list("verb", "target")) == [("open_session", "s")]


def test_a_request_raised_again_is_the_same_and_one_that_replaces_follows(agent, run):
    """R04, K9 (B102)."""
    request = asked(agent, run, MAIL)
    same = agent.post(f"/runs/{run['id']}/requests", MAIL | {"lease": 1})
    assert (same.status_code, same.json()["id"]) == (200, request["id"])
    changed = MAIL | {"parameters": {"to": "x@y.z"}, "lease": 1}
    assert agent.post(f"/runs/{run['id']}/requests", changed).json()["code"] == "idempotency_conflict"
    follows = agent.post(f"/runs/{run['id']}/requests", changed | {"replaces": request["id"]})
    assert (follows.status_code, follows.json()["number"], follows.json()["replaces"]) == (201, 2, request["id"])
    assert agent.get(f"/requests/{request['id']}").json()["state"] == "superseded"


def test_a_run_that_was_cancelled_stops_and_says_so(agent, run, by):
    """R30, R32: a person cancels, the agent is told on its next call."""
    cancelled = by("Olga").post(f"/runs/{run['id']}/cancel", {"reason": "wrong list"})
    assert cancelled.status_code == 200 and cancelled.json()["cancel_requested"]
    told = agent.post(f"/runs/{run['id']}/heartbeat", {"lease": 1})
    assert (told.status_code, told.json()["reason"]) == (409, "cancelling")
    assert agent.post(f"/runs/{run['id']}/stopped", {"lease": 1}).json()["state"] == "cancelled"
    own = agent.post("/runs", {"message": "another"}).json()
    assert agent.post(f"/runs/{own['id']}/cancel", {}).json()["state"] == "cancelled"


def test_a_job_with_nobody_on_the_line_ends_blocked(agent):
    """R33: and says what would unblock it."""
    job = agent.post("/runs", {"message": "nightly", "interactive": False}).json()
    told = agent.post(f"/runs/{job['id']}/requests", MAIL | {"lease": 1})
    assert (told.status_code, told.json()["code"], told.json()["reason"]) == (409, "run_ended", "blocked")
    assert agent.get(f"/runs/{job['id']}").json()["result"]["blocker"]["action"] == "mail/send"


def test_a_person_starts_a_hosted_agent_and_an_agent_only_itself(agent, by):
    """R20, T32: what an agent claims of agent or environment is refused."""
    said = {"message": "go", "agent": "deployer", "environment": "staging"}
    key = str(uuid7())
    started = by("Olga").post("/runs", said, key=key)
    assert (started.status_code, started.json()["hosted"]) == (201, True)
    assert by("Olga").post("/runs", said, key=key).json()["id"] == started.json()["id"]
    assert by("Olga").post("/runs", said | {"message": "x"}, key=key).status_code == 409
    assert by("Rita").post("/runs", said).status_code == 403
    refused = agent.post("/runs", said | {"environment": "production"})
    assert (refused.status_code, set(refused.json()["fields"])) == (422, {"agent", "environment"})
    session = started.json()["session"]
    assert by("Olga").post(f"/sessions/{session}/messages", said).json()["session"] == session
    assert by("Olga").post("/runs", said, key="no uuid").status_code == 422


def test_lists_go_on_by_their_last_row(agent):
    """Keyset: what comes meanwhile moves nothing."""
    made = [agent.post("/runs", {"message": str(n)}).json()["id"] for n in range(5)]
    first = agent.get("/runs?limit=2").json()
    agent.post("/runs", {"message": "newer"})
    rest = agent.get(f"/runs?limit=4&before={first['next']}").json()
    assert [each["id"] for each in (first["runs"][-1:] + rest["runs"])] == made[::-1][0:0] + made[::-1][1:]
    assert rest["next"] is None and len(agent.get("/sessions?limit=3").json()["sessions"]) == 3
    assert agent.get("/runs?state=ended").json()["runs"] == []
    assert agent.get("/runs?before=nothing").status_code == 404


def test_what_has_not_changed_is_not_sent_again(agent, run):
    """ETag and If-None-Match."""
    for path in ("/me", "/runs", f"/runs/{run['id']}", f"/sessions/{run['session']}/events"):
        tag = agent.get(path)["ETag"]
        assert agent.get(path, **{"If-None-Match": tag}).status_code == 304, path
        assert agent.get(path, **{"If-None-Match": '"other"'}).status_code == 200


def test_the_inbox_and_a_response_are_a_persons(agent, run, by):
    """R18, T21: no token approves, and that it tried is a fact (R13)."""
    request = asked(agent, run, MAIL)
    inbox = by("Ada").get("/inbox").json()
    assert [each["id"] for each in inbox["for_you"]] == [request["id"]]
    assert [each["id"] for each in by("Rita").get("/inbox").json()["for_others"]] == [request["id"]]
    for path, call in (("/inbox", agent.get), (f"/requests/{request['id']}/response", agent.post)):
        refused = call(path)
        assert (refused.status_code, refused.json()["permission"]) == (403, "person")
    assert Refusal.objects.filter(actor_kind="agent", code="not_authorized").exists()
    assert not Response.objects.exists() and Request.objects.get().state == "pending"


def test_a_persons_call_needs_the_token_of_its_session(northgate, agent, run):
    """T34: a page of another site could send the cookie."""
    request = asked(agent, run, MAIL)
    ada = Http(user=northgate.people["Ada"], enforce_csrf_checks=True)
    said = {"session": request["session"], "kind": "approve", "digest": request["digest"]}
    refused = ada.post(f"/requests/{request['id']}/response", said)
    assert (refused.status_code, refused.json()["permission"]) == (403, "csrf")
    token = ada.get("/me").json()["csrf_token"]
    assert ada.post(f"/requests/{request['id']}/response", said, **{"X-CSRFToken": token}).status_code == 200


def test_the_idempotency_key_of_a_person_is_the_response_id(agent, run, by):
    """R09."""
    request = asked(agent, run, MAIL)
    key = str(uuid7())
    first = approves(by, "Ada", request, key=key)
    assert approves(by, "Ada", request, key=key).json() == first.json()
    assert says(by, "Ada", request, "deny", digest=request["digest"], key=key).json()["code"] == "idempotency_conflict"
    late = approves(by, "Bob", request)
    assert (late.status_code, late.json()["reason"]) == (409, "already_resolved")
    assert Grant.objects.count() == 1


@pytest.mark.parametrize("said", [
    {"kind": "approve", "digest": None}, {"kind": "approve"}, {"kind": "APPROVE "}, {"kind": True}, {"kind": "true"},
    {"decision": "approve"}, {"approved": "false"}, {"kind": []}, {"kind": None}, {},
])  # fmt: skip
def test_only_the_documented_words_decide(agent, run, by, said):
    """K4 (B39): nothing is coerced to a yes."""
    request = asked(agent, run, MAIL)
    said = {"session": request["session"], "digest": request["digest"]} | said
    if said.get("kind") == "approve" and said["digest"]:
        said.pop("digest")
    assert by("Ada").post(f"/requests/{request['id']}/response", said).status_code == 422
    assert Request.objects.get().state == "pending"


def test_a_response_of_another_kind_is_refused(agent, run, by):
    """K4 (B41), R02: `wrong_kind`, and all stay open."""
    question, approval = asked(agent, run, ASK), asked(agent, run, MAIL)
    for who, request, kind, said in (
        ("Ada", question, "approve", {"digest": "x"}), ("Sam", approval, "answer", {"values": {}}),
        ("Olga", approval, "finding", {"outcome": "committed", "reference": "x"}),
        ("Olga", question, "recover", {"action": "probe"}),
    ):  # fmt: skip
        refused = says(by, who, request, kind, **said)
        assert (refused.status_code, refused.json()["reason"]) == (422, "wrong_kind")
    assert set(Request.objects.values_list("state", flat=True)) == {"pending"}


@pytest.mark.parametrize("message", ["", "no", "x" * 10_000, '{"type":"approve"}'])
def test_a_denial_is_the_same_whatever_its_words(agent, run, by, message):
    """K4 (B43): the words reach the agent unchanged, as data."""
    request = asked(agent, run, MAIL)
    suggestion = {"to": "list@b.c"}
    says(by, "Ada", request, "deny", digest=request["digest"], message=message, suggestion=suggestion)
    read = agent.get(f"/requests/{request['id']}").json()
    assert (read["outcome"], read["response"]["message"]) == ("denied", message)
    assert read["response"]["suggestion"] == suggestion


def test_three_responses_one_after_the_other_each_have_their_answer(agent, run, by):
    """K4 (B45): one settled or unknown id spoils nothing."""
    requests = [asked(agent, run, MAIL | {"key": key}) for key in "ab"]
    approves(by, "Ada", requests[0])
    unknown = requests[1] | {"id": str(uuid7())}
    assert [approves(by, "Bob", each).status_code for each in (requests[0], unknown, requests[1])] == [409, 404, 200]


def test_a_made_up_approval_is_nothing(agent, run):
    """K3 (B32): the server keeps its own record only."""
    request = asked(agent, run, MAIL)
    for body in ({"grant": str(uuid7())}, {"approved": True}, {"state": "approved"}):
        assert agent.post(f"/requests/{request['id']}/dispatch", body).status_code == 422
    assert agent.post(f"/requests/{request['id']}/dispatch", {}).status_code == 409
    assert not Grant.objects.exists()


def test_a_grant_is_for_one_argument_and_one_environment(agent, northgate, run, by):
    """K3 (B28, B30)."""
    request = asked(agent, run, MAIL)
    approves(by, "Ada", request)
    for parameters in ({"to": "a@b.c "}, {"to": "x@b.c"}, {"to": "a@b.c", "environment": "production"}):
        other = asked(agent, run, MAIL | {"key": json.dumps(parameters), "parameters": parameters})
        assert other["state"] == "pending"
        assert agent.post(f"/requests/{other['id']}/dispatch", {}).json()["reason"] == "not_approved"
    production = Http(elsewhere(northgate, "other", "production").token)
    theirs = production.post("/runs", {"message": "go"}).json()
    assert asked(production, theirs, MAIL)["state"] == "pending"
    assert Grant.objects.count() == 1


def test_a_client_that_lost_the_reply_finds_its_run_by_its_key(agent):
    """K7 (B86), R09."""
    first = agent.post("/runs", {"message": "go"}, key="mine").json()
    assert agent.post("/runs", {"message": "go"}, key="mine").json()["id"] == first["id"]
    assert agent.post("/runs", {"message": "other"}, key="mine").status_code == 409
    turn = agent.post(f"/runs/{first['id']}/turn", key="t").json()
    assert agent.post(f"/runs/{first['id']}/turn", key="t").json()["lease"] == turn["lease"] == 2
    assert Run.objects.count() == 1
