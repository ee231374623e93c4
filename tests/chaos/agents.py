"""What the agents of these runs may do: a release at Harbor, its recall, and a loop that asks as its message says."""

import asyncio
import json
import os
from datetime import timedelta
from http.client import HTTPConnection
from urllib.parse import urlsplit

from pydantic import BaseModel

from runtime_app.actions import Action, Committed, NotCommitted, Unknown, register
from runtime_app.hosted.registry import agent
from runtime_app.transitions import Ask, Question

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
PATIENCE = 1.0  # seconds a provider has for its reply


class AtHarbor(Action):
    """What Harbor does: its key at most once, unless it was told otherwise."""

    deadline, send_within = timedelta(seconds=20), timedelta(seconds=5)
    nothing_sent = (ConnectionRefusedError,)

    class Parameters(BaseModel):
        service: str
        version: str = "1"

    def dispatch(self, key, parameters, environment):
        status, told = ask("POST", "/deployments", key, parameters.model_dump() | {"environment": environment})
        if status == 201:
            return Committed(reference=told["id"])
        if status == 422:
            return NotCommitted(statement=told["reason"])
        raise RuntimeError(f"Harbor answered {status}")

    def probe(self, key, parameters, environment):
        status, told = ask("GET", f"/deployments/{key}")
        if status == 200:
            return Committed(reference=told["id"])
        return NotCommitted(statement="Harbor has no deployment with this key.") if status == 404 else Unknown()


@register
class Release(AtHarbor):
    name, title = "release", "Release a version"
    idempotent = redispatch = True
    compensation = "recall"


@register
class Recall(AtHarbor):
    name, title = "recall", "Recall a version"


@register
class Once(AtHarbor):
    """Its provider has no look-ups and does not know keys: what nobody saw, only people can establish."""

    name, title = "once", "Release without a key"
    probe = None


def ask(method: str, path: str, key: str = "", body: dict | None = None) -> tuple[int, dict]:
    line = HTTPConnection(urlsplit(os.environ["HARBOR_URL"]).netloc, timeout=PATIENCE)
    try:
        line.request(method, path, json.dumps(body) if body else None, {"Idempotency-Key": key} if key else {})
        answer = line.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        line.close()


def release(service: str, action: str = "release") -> Ask:
    return Ask("d", action, json.dumps({"service": service}))


def question() -> Question:
    return Question("q", "Which name?", NAME)


async def as_told(steps) -> str:
    """ "release a", "once a", "ask", "hang": one wait, then the end, with what came of it."""
    what, _, service = steps.message.partition(" ")
    if what == "hang":
        await asyncio.sleep(3600)
    if what == "ask":
        return json.dumps(await steps.wait(question()))
    return json.dumps(await steps.wait(release(service, what)))


agent("deployer", actions=[Release, Recall, Once], loop=as_told)
