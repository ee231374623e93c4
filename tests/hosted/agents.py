"""Agents for these tests. A scripted model says what `SCRIPTS` has for the message; tools write down that they ran."""

import asyncio
import json
import os
import time
from pathlib import Path

from runtime_app.hosted.contained import command
from runtime_app.hosted.registry import agent
from runtime_app.transitions import Ask, Question
from tests.cast import Deploy

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def ran(what: str) -> None:
    """One line in a file that outlives a killed worker."""
    with open(os.environ["RAN"], "a") as file:
        file.write(what + "\n")


def runs() -> list[str]:
    path = Path(os.environ["RAN"])
    return path.read_text().splitlines() if path.exists() else []


def count(word: str) -> str:
    ran(f"count {word}")
    return f"{len(word)} letters"


async def slow(word: str) -> str:
    ran(f"slow {word}")
    await asyncio.sleep(0.05)
    ran(f"slow {word} done")
    return word.upper()


def broken() -> str:
    raise ValueError("the password is hunter2")


# forks, ignores SIGTERM, starts a session of its own, detaches
STUBBORN = (
    "trap '' TERM HUP INT; (setsid sh -c 'trap \"\" TERM; exec sleep 86421' </dev/null >/dev/null 2>&1 &); sleep 86421"
)

# message: what the model does, reply by reply; a call is (tool, arguments), a text ends the Run
SCRIPTS = {
    "two tools": [[("count", {"word": "one"}), ("slow", {"word": "two"})], "done"],
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
    "a secret": [[("ask_person", {"prompt": "Well?", "schema": {"type": "object", "properties": {"p": {"type": "string", "format": "password"}}}})], "done"],  # noqa: E501
    "a child that deploys": [[("run_agent", {"agent": "scripted", "message": "two deployments"})], "done"],
    "a child and a question": [
        [("run_agent", {"agent": "scripted", "message": "two questions"}), ("ask_person", {"prompt": "Confirm?", "schema": NAME})],
        "done",
    ],
    "two questions": [
        [("ask_person", {"prompt": "Confirm?", "schema": NAME})], [("ask_person", {"prompt": "Confirm?", "schema": NAME})], "done",
    ],
    "a stranger": [[("run_agent", {"agent": "deployer", "message": "deploy a 1"})], "done"],
    "a child nobody set up": [[("run_agent", {"agent": "orphan", "message": "go"})], "done"],
    "itself": [[("run_agent", {"agent": "scripted", "message": "itself"})], "done"],
    "two commands": [[("shell", {"arguments": ["echo one"]}), ("shell", {"arguments": ["echo two"]})], "done"],
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


async def without_a_library(steps) -> str:
    """A loop of one's own: once, two waits, once more."""
    first = await steps.once("first", _first)
    came = await steps.wait(
        Ask("deploy", "deploy", json.dumps({"service": first, "version": "1"})), Question("name", "Which?", NAME)
    )
    return json.dumps([came["deploy"], came["name"]])


async def _first() -> str:
    ran("first")
    return "a"


async def hangs_in_a_thread(steps) -> str:
    ran("hanging")
    await asyncio.to_thread(time.sleep, 3600)
    return "never"


async def asks(steps) -> str:
    came = await steps.wait(Question("name", "Which?", NAME))
    return came["name"]["values"]["name"]


agent(
    "scripted",
    instructions="Follow the script.",
    actions=[Deploy],
    tools=[count, slow, broken, command("shell", "sh", "-c", description="Runs a script.")],
    model=scripted,
    steps=20,
    children=["scripted", "orphan"],
)
agent("plain", actions=[Deploy], loop=without_a_library)
agent("stubborn", loop=hangs_in_a_thread)
agent("asks", loop=asks)
agent("orphan", loop=asks)
