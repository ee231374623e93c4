"""The package's own FakeProvider and ours get the same calls and must answer alike: idempotency, cancel, consume,
outcome, and their order. It validates nothing, waits for nothing and lets nothing expire: more it cannot prove."""

import json

import httpx
import pytest
from agentapprovalprotocol._wire import loads, parse_request
from agentapprovalprotocol.testing import BASE_URL, TOKEN, FakeProvider
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime_app.ids import uuid7
from runtime_app.models import Request, Run
from tests.aap.conftest import Agent
from tests.cast import Deny, elsewhere

pytestmark = pytest.mark.django_db(transaction=True)

KEYS = st.sampled_from(["k1", "k2", "k3"])
PLACE = st.integers(0, 2)  # of the requests made so far
NOTES = st.sampled_from([None, "Go.", "No\nway."])
BODIES = st.sampled_from([
    {"tool": "send", "arguments": {}, "timeout": "10m"},
    {"tool": "send", "arguments": {"to": "a@b.c", "n": 12345678901234567890, "deep": [{"x": None}]}, "timeout": "10m"},
    {"tool": "send", "server": "mail", "arguments": {}, "timeout": "1h", "agent_reasoning": "", "context": {}},
    {"tool": "rm", "arguments": {}, "timeout": "30s", "context": {"session_id": "s", "null": None, "x": [1, "é"]}},
])  # fmt: skip
CALLS = st.one_of(
    st.tuples(st.just("create"), KEYS, BODIES),
    st.tuples(st.sampled_from(["get", "cancel", "get", "cancel"]), PLACE),
    st.tuples(st.just("consume"), PLACE, KEYS),
    st.tuples(st.just("outcome"), PLACE, st.sampled_from(["succeeded", "failed"]), NOTES),
    st.tuples(st.just("decide"), PLACE, st.sampled_from(["approved", "denied"]), NOTES),
)


class Fake:
    """FakeProvider, called as an agent calls ours."""

    def __init__(self):
        self.provider = FakeProvider(auto=None)

    def call(self, method: str, path: str, body=None, key: str | None = None):
        headers = {"Authorization": f"Bearer {TOKEN}"} | ({"Idempotency-Key": key} if key else {})
        content = json.dumps(body).encode() if body is not None else b""
        answer = self.provider.handle(httpx.Request(method, f"{BASE_URL}/v1{path}", headers=headers, content=content))
        return answer.status_code, answer.content

    def decide(self, id: str, status: str, note: str | None) -> None:
        self.provider.decide(id, status, note)


class Ours:
    def __init__(self, house):
        made = elsewhere(house, f"agent-{uuid7()}")
        self.house, self.instance, self.agent = house, made.instance.pk, Agent(made.token)

    def call(self, method: str, path: str, body=None, key: str | None = None):
        status, _ = self.agent.call(method, path, body, key)
        return status, self.agent.answer.content

    def decide(self, id: str, status: str, note: str | None) -> None:
        """A person decides, unless something has: then FakeProvider changes nothing either."""
        request = Request.objects.get(pk=id)
        if request.state != "pending":
            return
        if status == "approved":
            self.house.approves("Ada", request, message=note or "")
        else:
            self.house.says("Ada", request, Deny(request.digest), message=note or "")


def told(answer: tuple) -> tuple:
    """An answer as the client reads it, without ids and times, which differ."""
    status, content = answer
    if status >= 400:
        return status, loads(content)["error"]["code"] if content else None
    found = parse_request(loads(content))
    decided, consumed = found.decision, found.consumption
    outcome = consumed and consumed.outcome
    return (
        status, found.tool, found.server, found.arguments, found.timeout, found.agent_reasoning, found.context,
        found.status, decided and (decided.status, decided.note, decided.expires_at is None),
        consumed is not None, outcome and (outcome.status, outcome.note),
    )  # fmt: skip


def does(provider, made: list, what: str, *more):
    """One call; `made` are the ids of the requests made so far, in order."""
    if what == "create":
        key, body = more
        answer = provider.call("POST", "/requests", body, key)
        if answer[0] == 201:
            made.append(loads(answer[1])["id"])
        return told(answer)
    if more[0] >= len(made):
        return None
    id = made[more[0]]
    match what, more[1:]:
        case "get", _:
            return told(provider.call("GET", f"/requests/{id}"))
        case "cancel", _:
            return told(provider.call("DELETE", f"/requests/{id}"))
        case "consume", (key,):
            return told(provider.call("POST", f"/requests/{id}/consume", None, key))
        case "outcome", (status, note):
            report = {"status": status} | ({"note": note} if note else {})
            return told(provider.call("POST", f"/requests/{id}/outcome", report))
        case "decide", (status, note):
            return provider.decide(id, status, note)


@settings(
    max_examples=40, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(st.lists(CALLS, min_size=4, max_size=14))
def test_the_same_calls_get_the_same_answers(northgate, calls):
    """R09, R16, R25, T85, T86."""
    fake, ours, made = Fake(), Ours(northgate), ([], [])
    for call in [("create", "k1", {"tool": "send", "arguments": {}, "timeout": "10m"}), *calls]:
        assert does(ours, made[0], *call) == does(fake, made[1], *call), call
    assert len(made[0]) == len(made[1]) == Run.objects.filter(instance_id=ours.instance).count()
