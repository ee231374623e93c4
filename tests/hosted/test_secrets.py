"""R12: a hosted Run gets a reference; the code of its tools opens it, once the step is journaled it is gone."""

import json

import pytest

from runtime_app import transitions
from runtime_app.hosted.registry import agent
from runtime_app.hosted.secrets import NoSuchSecret, open_secret
from runtime_app.models import Entry, Instance, Request, Run, Secret
from runtime_app.transitions import Question
from tests.cast import Answer
from tests.database import everything
from tests.hosted.loops import ran, runs

MARKER = 'hunter2 "Æ"'
FORM = {"type": "object", "properties": {"token": {"type": "string", "format": "password"}}, "required": ["token"]}
BROKEN = []  # the marker is in what the tool fails with


def call_provider(token: str) -> dict:
    """In a thread of the library's."""
    if BROKEN:
        raise ValueError(f"https://provider/?token={open_secret(token)}")
    return {"echo": f"called with {open_secret(token)}!", open_secret(token): [open_secret(token), 7, None, True]}


async def call_slowly(token: str) -> str:
    return f"{len(open_secret(token))} characters"


def model():
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel

    def play(messages, info):
        told = [part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        if not told:
            return ModelResponse(parts=[ToolCallPart("ask_person", {"prompt": "Token?", "schema": FORM})])
        if len(told) == 1:
            token = {"token": told[0]["values"]["token"]}
            return ModelResponse(parts=[ToolCallPart("call_provider", token), ToolCallPart("call_slowly", token)])
        return ModelResponse(parts=[TextPart(json.dumps(told))])

    return FunctionModel(play)


async def by_hand(steps) -> str:
    came = await steps.wait(Question("token", "Token?", FORM))
    reference = came["token"]["values"]["token"]

    async def use():
        ran("used" if open_secret(reference) == MARKER else "wrong")
        return "ok"

    async def use_again():
        try:
            return open_secret(reference)
        except NoSuchSecret:
            return "gone"

    return json.dumps([await steps.once("use", use), await steps.once("again", use_again)])


agent("keeper", tools=[call_provider, call_slowly], model=model)
agent("keeper_by_hand", loop=by_hand)


@pytest.fixture
def started(northgate, worked):
    """The Run has asked, and Sam has answered with the marker."""

    def started(name: str) -> Run:
        where = northgate.staging
        Instance.objects.create(tenant=northgate.tenant, agent=name, environment=where, owner=northgate.people["Omar"])
        run = transitions.start(northgate.context("Olga"), agent=name, environment="staging", message="go")
        worked(run)
        northgate.says("Sam", Request.objects.get(run=run), Answer({"token": MARKER}))
        return run

    return started


@pytest.fixture(autouse=True)
def whole():
    yield
    BROKEN.clear()


def test_tools_open_it_and_nothing_journaled_or_told_has_it(started, worked):
    run = worked(started("keeper"))
    assert run.state == "succeeded", run.reason
    answered, echoed, counted = json.loads(run.result)
    kept = Secret.objects.get()
    assert answered["values"] == {"token": f"secret:{kept.pk}"}
    assert echoed == {"echo": "called with [secret]!", "[secret]": ["[secret]", 7, None, True]}
    assert counted == f"{len(MARKER)} characters"
    assert kept.sealed is None and kept.opened_at
    assert "hunter2" not in everything()


def test_a_step_that_was_not_journaled_finds_it_again(started, worked, monkeypatch, clock):
    """R22: the worker died between the use and its journal; the step runs again, with the secret."""
    run = started("keeper_by_hand")
    with monkeypatch.context() as dying, pytest.raises(RuntimeError):
        dying.setattr(transitions, "journal", _dies)
        worked(run)
    assert Secret.objects.get().sealed and runs() == ["used"]
    clock.move(hours=1)
    transitions.sweep()
    assert worked(run).state == "succeeded" and runs() == ["used", "used"]


def _dies(*_, **__):
    raise RuntimeError("killed")


def test_once_its_step_is_journaled_it_is_gone(started, worked):
    run = worked(started("keeper_by_hand"))
    assert json.loads(run.result) == ["ok", "gone"] and runs() == ["used"]
    assert Entry.objects.filter(run=run, call="use").exists()
    assert Secret.objects.get().sealed is None


def test_a_tool_that_fails_with_it_tells_nobody(started, worked, caplog):
    """In no event, no reason, no log."""
    BROKEN.append(True)
    run = worked(started("keeper"))
    assert run.state == "failed" and "ToldASecret" in run.reason
    assert "hunter2" not in everything() and "hunter2" not in caplog.text
    assert Secret.objects.get().sealed is None


def test_another_runs_reference_opens_nothing(started, worked, northgate):
    """Within its Run only: what a model was told, or guessed, of another Run's is no secret here."""
    kept = Secret.objects.get(request__run=started("keeper_by_hand"))
    with pytest.raises(NoSuchSecret):
        open_secret(kept.reference)
