"""AAP requests, rule by rule, over HTTP. The client of the package is the judge of every answer."""

import json

import pytest
from agentapprovalprotocol._wire import parse_request
from agentapprovalprotocol._wire import loads as exactly

from runtime_app import transitions
from runtime_app.models import Effect, Grant, Registration, Request, Run, Session
from tests.cast import Deny, Finding

pytestmark = pytest.mark.django_db(transaction=True)


def stored(id: str) -> Request:
    return Request.objects.get(pk=id)


def run_of(id: str) -> str:
    return Run.objects.get(request_id := stored(id).run_id) and Run.objects.get(pk=request_id).state


def test_smoke(northgate, mailer):
    status, told = mailer.asks()
    assert status == 201, told
    parse_request(exactly(mailer.answer.content))
    northgate.approves("Ada", stored(told["id"]), message="Go.")
    status, told = mailer.reads(told["id"])
    parse_request(exactly(mailer.answer.content))
    assert told["decision"]["note"] == "Go."
    assert mailer.consumes(told["id"])[0] == 200
    parse_request(exactly(mailer.answer.content))
    assert mailer.reports(told["id"])[0] == 200
    parse_request(exactly(mailer.answer.content))
