"""Agents with loops of their own, for these tests: a worker that has only these starts quickly."""

import asyncio
import json
import os
import time
from pathlib import Path

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


async def twice(steps) -> str:
    for step in ("one", "two"):
        await steps.once(step, lambda step=step: _step(step))
    return "done"


async def _step(step: str) -> None:
    ran(step)


agent("plain", actions=[Deploy], loop=without_a_library)
agent("stubborn", loop=hangs_in_a_thread)
agent("asks", loop=asks)
agent("twice", loop=twice)
