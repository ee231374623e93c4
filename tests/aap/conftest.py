import json

import pytest
from django.test import Client

from runtime_app import credentials
from runtime_app.models import Credential, Request, Run
from tests import cast

BASE = "/api/aap/v1"


class Agent:
    """Software that speaks AAP with one credential, over HTTP."""

    def __init__(self, token: str):
        self.http, self.token = Client(), token

    def call(self, method: str, path: str, body=None, key: str | None = None, **headers):
        """What came back: the status, and the JSON as Python has it (None: nothing)."""
        if key is not None:
            headers["Idempotency-Key"] = key
        sent = body if isinstance(body, str | bytes) else b"" if body is None else json.dumps(body)
        sort = {"content_type": "application/json"} if sent else {}
        answer = self.http.generic(
            method, BASE + path, sent, headers={"Authorization": f"Bearer {self.token}"} | headers, **sort
        )
        assert answer.headers["X-Request-ID"]
        self.answer = answer
        return answer.status_code, json.loads(answer.content) if answer.content else None

    def asks(self, tool: str = "send", key: str = "k", **more):
        body = {"tool": tool, "arguments": {"to": "a@b.c"}, "timeout": "10m"} | more
        return self.call("POST", "/requests", body, key)

    def reads(self, id: str):
        return self.call("GET", f"/requests/{id}")

    def consumes(self, id: str, key: str = "c"):
        return self.call("POST", f"/requests/{id}/consume", key=key)

    def reports(self, id: str, status: str = "succeeded", **more):
        return self.call("POST", f"/requests/{id}/outcome", {"status": status} | more)

    def cancels(self, id: str):
        return self.call("DELETE", f"/requests/{id}")


@pytest.fixture
def houses(transactional_db):
    return cast.assemble()


@pytest.fixture
def northgate(houses):
    return houses[0]


@pytest.fixture
def harbour(houses):
    return houses[1]


@pytest.fixture
def mailer(northgate):
    """An agent of northgate in staging; `mailer.elsewhere` is its Instance."""
    made = cast.elsewhere(northgate)
    agent = Agent(made.token)
    agent.elsewhere = made
    return agent


def stored(told: dict) -> Request:
    return Request.objects.select_related("run").get(pk=told["id"])


def run(told: dict) -> Run:
    return stored(told).run


def refused(answer: tuple, status: int, code: str) -> None:
    assert (answer[0], answer[1]["error"]["code"]) == (status, code), answer


def provisioner_of(house, environment: str = "staging", name: str = "factory") -> Agent:
    token = credentials.token("provisioner")
    made = Credential.objects.create(
        tenant=house.tenant, kind="provisioner", name=name, environment=getattr(house, environment), scopes=["aap"],
        made_by=house.people.get("Ann") or house.people["Max"], **credentials.stored(token),
    )  # fmt: skip
    agent = Agent(token)
    agent.credential = made
    return agent


@pytest.fixture
def factory(northgate):
    return provisioner_of(northgate)


@pytest.fixture
def asked(mailer):
    status, told = mailer.asks()
    assert status == 201
    return told


@pytest.fixture
def approved(northgate, asked):
    northgate.approves("Ada", stored(asked), message="Go.")
    return asked
