"""An agent on the library, for these tests. Its model says what `SCRIPTS` has for the message; tools leave a line."""

import asyncio
import json
import threading

from runtime_app.hosted.contained import command
from runtime_app.hosted.registry import agent
from tests.cast import Deploy
from tests.hosted.loops import NAME, asks, ran


def count(word: str) -> str:
    ran(f"count {word}")
    return f"{len(word)} letters"


async def slow(word: str) -> str:
    ran(f"slow {word}")
    await asyncio.sleep(0.05)
    ran(f"slow {word} done")
    return word.upper()


gate = threading.Event()


async def held(word: str) -> str:
    """Until the gate opens."""
    while not gate.is_set():
        await asyncio.sleep(0.01)
    return word.upper()


def broken() -> str:
    raise ValueError("the password is hunter2")


# forks, ignores SIGTERM, starts a session of its own, detaches
STUBBORN = (
    "trap '' TERM HUP INT; (setsid sh -c 'trap \"\" TERM; exec sleep 86421' </dev/null >/dev/null 2>&1 &); sleep 86421"
)

CONFIRM = ("ask_person", {"prompt": "Confirm?", "schema": NAME})

# message: what the model does, reply by reply; a call is (tool, arguments), a text ends the Run
SCRIPTS = {
    "two tools": [[("count", {"word": "one"}), ("slow", {"word": "two"})], "done"],
    "a tool that is held": [[("count", {"word": "one"}), ("held", {"word": "two"})], "done"],
    "tool and wait": [[("count", {"word": "one"}), ("deploy", {"service": "a", "version": "1"})], "done"],
    "two deployments": [
        [("deploy", {"service": "a", "version": "1"}), ("deploy", {"service": "b", "version": "2"})], "done",
    ],
    "a deployment and a question": [
        [("deploy", {"service": "a", "version": "1"}), ("ask_person", {"prompt": "Which?", "schema": NAME})], "done",
    ],
    "a broken tool": [[("broken", {})], "done"],
    "no such tool": [[("fly", {})], "done"],
    "same ids": [[("count", {"word": "one"}, "id"), ("count", {"word": "four"}, "id")], "done"],
    "twice the same key": [[("deploy", '{"service":"a","version":"1","version":"2"}')], "done"],
    "no JSON": [[("deploy", '{"service": "a", ')], "done"],
    "a number for a text": [[("deploy", '{"service": "a", "version": 1}')], "done"],
    "a secret in clear": [
        [("ask_person", {"prompt": "?", "schema": {"type": "object", "properties": {"otp": {"type": "string"}}}})],
        "done",
    ],
    "a child that deploys": [[("run_agent", {"agent": "scripted", "message": "two deployments"})], "done"],
    "a child that deploys once": [[("run_agent", {"agent": "scripted", "message": "one deployment"})], "done"],
    "one deployment": [[("deploy", {"service": "a", "version": "1"})], "done"],
    "a child with a child that deploys": [
        [("run_agent", {"agent": "scripted", "message": "a child that deploys once"})], "done",
    ],
    "a child and a question": [
        [("run_agent", {"agent": "scripted", "message": "two questions"}), CONFIRM], "done",
    ],
    "two questions": [
        [CONFIRM], [CONFIRM], "done",
    ],
    "a stranger": [[("run_agent", {"agent": "deployer", "message": "deploy a 1"})], "done"],
    "a child nobody set up": [[("run_agent", {"agent": "orphan", "message": "go"})], "done"],
    "itself": [[("run_agent", {"agent": "scripted", "message": "itself"})], "done"],
    "two commands": [[("shell", {"arguments": ["echo one"]}), ("shell", {"arguments": ["echo two"]})], "done"],
    "a child with a stubborn command": [
        [("run_agent", {"agent": "scripted", "message": "a stubborn command"})], "done",
    ],
    "a stubborn command": [[("shell", {"arguments": [STUBBORN]})], "done"],
    "one refused, one not": [[("deploy", "[]"), ("deploy", {"service": "b", "version": "2"})], "done"],
}  # fmt: skip


def scripted():
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
    from pydantic_ai.models.function import FunctionModel

    async def play(messages, info):
        parts = [part for message in messages for part in message.parts]
        message = next(part.content for part in parts if isinstance(part, UserPromptPart))
        if message == "hang":
            ran("hanging")
            await asyncio.sleep(3600)
        if message == "never ends":
            return ModelResponse(parts=[ToolCallPart("count", {"word": "x"})])
        ran("model")
        replies = sum(isinstance(each, ModelResponse) for each in messages)
        says = SCRIPTS[message][replies]
        if isinstance(says, str):
            returned = [part.content for part in parts if isinstance(part, ToolReturnPart)]
            return ModelResponse(parts=[TextPart(json.dumps(returned))])
        calls = []
        for name, arguments, *ids in says:
            calls.append(ToolCallPart(name, arguments, tool_call_id=ids[0]) if ids else ToolCallPart(name, arguments))
        return ModelResponse(parts=[TextPart("I have a reason."), *calls])

    return FunctionModel(play)


agent(
    "scripted",
    instructions="Follow the script.",
    actions=[Deploy],
    tools=[count, slow, held, broken, command("shell", "sh", "-c", description="Runs a script.")],
    model=scripted,
    steps=20,
    children=["scripted", "orphan"],
)
agent("orphan", loop=asks)
