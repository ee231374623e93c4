"""What the agents may ask for: a deployment at Harbor. The whole of what Sayso has to know about it."""

import json
import os
from datetime import timedelta
from http.client import HTTPConnection
from urllib.parse import urlsplit

from pydantic import BaseModel, Field

from runtime_app.actions import Action, Committed, NotCommitted, Unknown, register


class NotReached(Exception):
    """There was no connection to Harbor, so nothing was sent."""


@register
class DeployRelease(Action):
    name = "deploy_release"
    title = "Deploy a release"
    consequence = "Replaces the running version of the service, for everybody who uses it."
    reversible = "Yes: deploy the earlier version again. What the new one did until then stays done."
    deadline = timedelta(seconds=30)
    nothing_sent = (NotReached,)
    risky = ("version",)
    idempotent = redispatch = True  # Harbor deploys a key once, however often it comes
    probe_title = "Look it up at Harbor"
    probe_looks = "Asks Harbor for the deployment with this key. Sends nothing."

    class Parameters(BaseModel):
        service: str = Field(min_length=1, max_length=80)
        version: str = Field(min_length=1, max_length=40)

    def dispatch(self, key, parameters, environment):
        status, told = ask("POST", "/deployments", key, parameters.model_dump() | {"environment": environment})
        if status == 201:
            return Committed(reference=told["id"])
        if status == 422:
            return NotCommitted(statement=told["reason"])
        raise RuntimeError(f"Harbor answered {status}")  # proves nothing: the outcome is uncertain

    def probe(self, key, parameters, environment):
        status, told = ask("GET", f"/deployments/{key}")
        if status == 200:
            return Committed(reference=told["id"])
        return NotCommitted(statement="Harbor has no deployment with this key.") if status == 404 else Unknown()


def ask(method, path, key="", body=None):
    line = HTTPConnection(urlsplit(os.environ["HARBOR_URL"]).netloc, timeout=10)
    try:
        line.connect()
    except OSError as error:
        raise NotReached from error
    try:
        line.request(method, path, json.dumps(body) if body else None, {"Idempotency-Key": key} if key else {})
        answer = line.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        line.close()
