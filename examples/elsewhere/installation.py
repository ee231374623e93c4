"""Where Sayso is: `./run demo` says it in demo.json (SAYSO_DEMO names another), or two variables do, of each door."""

import json
import os
import pathlib

import httpx

DEMO = os.environ.get("SAYSO_DEMO", "var/demo.json")
OUTBOX = os.environ.get("OUTBOX", "var/outbox.log")


def api() -> tuple[str, str]:
    """Base URL and instance credential of the native API."""
    if "SAYSO_API_URL" in os.environ:
        return os.environ["SAYSO_API_URL"], os.environ["SAYSO_API_TOKEN"]
    found = json.loads(pathlib.Path(DEMO).read_text())["api"]
    return found["base_url"], found["instance_token"]


def provisioner() -> tuple[str, str]:
    """Base URL of AAP, and the token that makes Instances there."""
    if "SAYSO_AAP_URL" in os.environ:
        return os.environ["SAYSO_AAP_URL"], os.environ["SAYSO_AAP_TOKEN"]
    found = json.loads(pathlib.Path(DEMO).read_text())["aap"]
    return found["base_url"], found["provisioner_token"]


def aap(name: str) -> tuple[str, str]:
    """Base URL and credential of the Instance of this name, which is made when it is first asked for."""
    url, token = provisioner()
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": f"example {name}"}
    made = httpx.post(f"{url}/v1/instances", json={"instance_name": name}, headers=headers).raise_for_status()
    return url, made.json()["credential"]["token"]


def send_mail(to: str, subject: str) -> str:
    """The effect of all examples: a line in a file."""
    with open(OUTBOX, "a") as outbox:
        outbox.write(json.dumps({"to": to, "subject": subject}) + "\n")
    return f"The mail to {to} is sent."
