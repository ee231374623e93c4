"""A token is in no address, no log, no error page and no table (T81, T82)."""

import logging

import pytest

from runtime_app import credentials
from runtime_app.ids import uuid7
from tests.cast import elsewhere
from tests.console.stage import visitor
from tests.database import everything

SAID = {"kind": "instance", "name": "billing", "agent": "", "environment": "staging", "api": "on", "lives": "30"}


@pytest.fixture
def mailer(northgate):
    return elsewhere(northgate)


@pytest.mark.parametrize("to", ["/api/v1/me", "/api/aap/v1/requests/{id}", "/t/northgate/agents/", "/nowhere/"])
def test_a_token_in_an_address_opens_nothing_and_is_written_nowhere(mailer, caplog, to):
    caplog.set_level(logging.DEBUG)
    address = to.format(id=uuid7())
    for answer in (
        visitor().get(f"{address}?token={mailer.token}&access_token={mailer.token}"),
        visitor().get(address, headers={"Cookie": f"session={mailer.token}", "Referer": f"/?{mailer.token}"}),
    ):
        assert answer.status_code in (302, 401, 404)
        assert mailer.token not in answer.content.decode()
    assert mailer.token not in caplog.text and mailer.token not in everything()


def test_what_fails_while_a_token_is_at_hand_does_not_tell_it(northgate, mailer, caplog, monkeypatch):
    """Ann's page of a new one, and a call with one, both end in a fault of ours."""
    caplog.set_level(logging.DEBUG)
    fresh = credentials.token("instance")
    monkeypatch.setattr("runtime_app.transitions.credentials.token", lambda kind: fresh)
    monkeypatch.setattr("console.views.agents.page", _fails)
    monkeypatch.setattr("runtime_app.credentials.context_of", _fails)
    ann = visitor(northgate.people["Ann"])
    ann.raise_request_exception = False
    failed = ann.post("/t/northgate/agents/new/", SAID | {"credential_id": str(uuid7())})
    called = visitor()
    called.raise_request_exception = False
    refused = called.get("/api/v1/me", headers={"Authorization": f"Bearer {mailer.token}"})
    assert failed.status_code == refused.status_code == 500 and "a fault of ours" in caplog.text
    for token in (fresh, mailer.token):
        assert token not in failed.content.decode() + refused.content.decode() + caplog.text + everything()


def _fails(*_, **__):
    raise RuntimeError("a fault of ours")


def test_whoever_guesses_gets_the_same_words(northgate, mailer):
    """T81: a known prefix with another rest, an unknown one, another kind: one answer."""
    near = mailer.token[:-1] + ("0" if mailer.token[-1] != "0" else "1")
    said = set()
    for token in (near, credentials.token("instance"), credentials.token("provisioner"), "x"):
        answer = visitor().get("/api/v1/me", headers={"Authorization": f"Bearer {token}"})
        said.add((answer.status_code, answer.content))
    assert len(said) == 1, said
