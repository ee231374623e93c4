"""Every example of an agent elsewhere, as its reader starts it, against a real server; the graph has a test of its own
in `test_agents_from_anywhere`."""

import pytest

from console.environ import ROOT
from runtime_app.models import Effect, Request, Run
from runtime_app.responses import Answer
from tests.acceptance.elsewhere import Agent, outbox, write_demo
from tests.hosted.processes import soon

EXAMPLES = {
    "plain": ["-m", "examples.elsewhere.plain"],
    "pydantic": ["-m", "examples.elsewhere.pydantic_agent"],
    "openai": ["-m", "examples.elsewhere.openai_agent"],
    "curl": ["sh", str(ROOT / "examples/elsewhere/with_curl.sh")],
}


@pytest.fixture
def agents(tmp_path, console, northgate):
    write_demo(tmp_path, console.url, northgate)
    started = {name: Agent(tmp_path, name, *words) for name, words in EXAMPLES.items()}
    yield started
    for each in started.values():
        each.end()


def test_each_stops_is_answered_and_sends_once(northgate, agents, tmp_path):
    def decide() -> bool:
        for request in Request.objects.filter(state="pending"):
            assert not outbox(tmp_path) or request.kind != "wait_effect"
            if request.kind == "wait_user":
                northgate.says("Sam", request, Answer({"subject": "Out now"}))
            else:
                northgate.approves("Ada", request)
        return all(each.running.poll() is not None for each in agents.values())

    soon(decide, within=120)
    said = {name: each.ended() for name, each in agents.items()}
    assert "Ada knows." in said["plain"] and "succeeded" in said["curl"]
    assert "is sent" in said["pydantic"] and "is sent" in said["openai"]
    assert sorted(outbox(tmp_path)) == sorted(
        [
            '{"to": "ada@example.com", "subject": "Out now"}',
            '{"to": "ada@example.com", "subject": "The release is out"}',
            '{"to": "ada@example.com", "subject": "The release is out"}',
            "keep 14 days",
        ]
    )
    assert list(Run.objects.values_list("state", flat=True)) == ["succeeded"] * 4
    assert list(Effect.objects.values_list("state", flat=True)) == ["committed"] * 4


def test_each_is_short():
    """Under 40 lines, so that it is read."""
    for path in (ROOT / "examples/elsewhere").iterdir():
        if path.suffix in (".py", ".sh") and path.stem not in ("models", "installation"):
            assert len(path.read_text().splitlines()) < 40, path.name
