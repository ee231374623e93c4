import json

import pytest
from django.test import Client

from runtime_app.api import doors
from runtime_app.ids import uuid7
from tests import cast


@pytest.fixture
def houses(transactional_db):
    doors._left.clear()
    return cast.assemble()


@pytest.fixture
def northgate(houses):
    return houses[0]


@pytest.fixture
def harbour(houses):
    return houses[1]


@pytest.fixture
def mailer(northgate):
    return cast.elsewhere(northgate)


class Http:
    """Calls the API, as an agent with a token or as a person with a session."""

    def __init__(self, token: str = "", user=None, tenant: str = "northgate", **options):
        self.client = Client(raise_request_exception=True, **options)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        if user:
            self.client.force_login(user)
            self.headers["Sayso-Tenant"] = tenant

    def get(self, path: str, **headers):
        return self.client.get(f"/api/v1{path}", headers=self.headers | headers)

    def post(self, path: str, body=None, key: str | None = None, **headers):
        sent = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        headers = {"Idempotency-Key": key or str(uuid7())} | self.headers | headers
        type = headers.pop("Content-Type", "application/json")
        return self.client.post(f"/api/v1{path}", sent, content_type=type, headers=headers)


@pytest.fixture
def agent(mailer):
    """The API as `mailer` calls it."""
    return Http(mailer.token)


@pytest.fixture
def by(northgate):
    """`by("Ada")`: the API as a signed-in person calls it from another front end."""
    return lambda name, **more: Http(user=northgate.people[name], **more)
