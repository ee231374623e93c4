"""Two agents that ask one question: a scripted loop, and pydantic-ai with a scripted model. Both say where they are."""

from contextvars import ContextVar

from bench.cycle import mark
from runtime_app.hosted.contained import Limits, command
from runtime_app.hosted.registry import agent
from runtime_app.hosted.steps import Parked, Steps
from runtime_app.transitions import Question

PROMPT = "What is the API key called?"
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 80}}, "required": ["name"]}

STUBBORN = (
    "trap '' TERM HUP INT; (setsid sh -c 'trap \"\" TERM; exec sleep 86413' </dev/null >/dev/null 2>&1 &); sleep 86413"
)

_run: ContextVar = ContextVar("run")


async def plain(steps: Steps) -> str:
    try:
        came = await steps.wait(Question("name", PROMPT, SCHEMA))
    except Parked:  # the wait is committed
        mark(steps.turn.run.pk, "waiting")
        raise
    mark(steps.turn.run.pk, "resumed")
    return came["name"]["values"]["name"]


async def conversing(steps: Steps) -> str:
    from runtime_app.hosted.loop import converse

    _run.set(steps.turn.run.pk)
    try:
        return await converse(steps)
    except Parked:
        mark(steps.turn.run.pk, "waiting")
        raise


def scripted():
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    async def play(messages, info) -> ModelResponse:
        if not any(isinstance(message, ModelResponse) for message in messages):
            return ModelResponse(parts=[ToolCallPart("ask_person", {"prompt": PROMPT, "schema": SCHEMA})])
        mark(_run.get(), "resumed")
        return ModelResponse(parts=[TextPart("done")])

    return FunctionModel(play)


async def stubborn(steps: Steps) -> str:
    """Runs a command that forks, ignores SIGTERM and detaches."""
    tool = command("stubborn", "sh", "-c", description="Will not end.", limits=Limits(seconds=600))
    await tool.run(steps, "0.0", [STUBBORN])
    return "never"


agent("stubborn", loop=stubborn)
agent("plain", loop=plain)
agent("conversing", model=scripted, loop=conversing)
