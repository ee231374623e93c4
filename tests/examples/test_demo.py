"""The seed and the demo: three Runs that stopped for three reasons, and a job that nobody was on the line for."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import httpx
import pytest
from django.contrib.auth.models import User

from console.demo import free_port
from examples.harbor import agents, seed  # noqa: F401
from runtime_app import permissions, transitions
from runtime_app.ids import uuid7
from runtime_app.models import Blocker, Effect, Membership, Request, Run, Schedule
from runtime_app.responses import Approve
from tests.hosted.processes import beside_a_worker, soon

KINDS = {"question": "wait_user", "permission": "wait_approval", "unknown": "wait_effect"}


def test_the_stories_stop_where_the_text_says(transactional_db, harbor):
    seed.tenants("correct horse battery")
    told = []
    beside_a_worker(lambda: told.extend(seed.stories(harbor.url)))
    runs = {each["story"]: Run.objects.get(pk=each["id"]) for each in told}
    for story, kind in KINDS.items():
        request = Request.objects.get(run=runs[story], state="pending")
        assert (runs[story].state, request.kind) == ("waiting", kind)
    assert (runs["blocked"].state, Blocker.objects.get().kind) == ("blocked", "wait_approval")
    assert Effect.objects.get().state == "uncertain"
    assert [line["what"] for line in harbor.log.lines] == ["committed"], "Harbor knows, and nobody here does"


def test_the_nightly_job_is_granted_its_deployment_and_its_next_run_makes_it(transactional_db, harbor):
    """R34: Ada grants the exact action for the next run; it starts at once, as Olga's, and Harbor deploys once."""
    seed.tenants("correct horse battery")

    def people():
        nightly = next(each["id"] for each in seed.stories(harbor.url) if each["story"] == "blocked")
        blocker = Blocker.objects.get(run=nightly)
        _, ada = permissions.member(User.objects.get(username="ada"), "northgate")
        granted = Approve(blocker.digest, confirm="production")
        transitions.supply(ada, blocker_id=blocker.pk, response=granted, response_id=uuid7())
        soon(lambda: Run.objects.filter(follows=nightly, state="succeeded").first())

    beside_a_worker(people)
    successor = Run.objects.exclude(follows=None).get()
    assert successor.schedule == Schedule.objects.get() and successor.initiator_name == "Olga Marin"
    assert "statements 2.0.4 is deployed" in successor.result
    assert [line["order"]["service"] for line in harbor.log.lines] == ["ledger", "statements"]


def test_seeding_again_changes_nothing(transactional_db, harbor):
    def twice():
        seed.tenants("correct horse battery")
        first = seed.stories(harbor.url)
        seed.tenants("correct horse battery")
        assert seed.stories(harbor.url) == first

    beside_a_worker(twice)
    assert (Run.objects.count(), Membership.objects.count(), len(harbor.log.lines)) == (4, len(seed.PEOPLE), 1)


class Demo:
    """`./run demo` in a process, on the tests' database."""

    def __init__(self, folder: Path):
        self.folder, self.port = folder, free_port()
        self.running = None

    def start(self) -> dict:
        (self.folder / "demo.json").unlink(missing_ok=True)
        with open(self.folder / "out", "wb") as out:
            arguments = ["--port", str(self.port), "--data", str(self.folder)]
            command = [sys.executable, "-m", "console.cli", "demo", *arguments]
            without = {"SAYSO_AGENTS", "SAYSO_DATA", "SAYSO_PORT"}
            environment = {name: value for name, value in os.environ.items() if name not in without}
            self.running = subprocess.Popen(command, env=environment, stdout=out, stderr=out)
        soon(self.told, within=240)
        return json.loads((self.folder / "demo.json").read_text())

    def told(self) -> bool:
        assert self.running.poll() is None, self.said()
        return (self.folder / "demo.json").exists() and "Ctrl-C" in self.said()

    def said(self) -> str:
        return (self.folder / "out").read_text()

    def end(self, number=signal.SIGTERM, within: float = 5) -> int:
        self.running.send_signal(number)
        return self.running.wait(within)

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://localhost:{self.port}/health/", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False


def provisions(told: dict) -> int:
    """The status that an agent elsewhere gets that asks for its Instance, with what demo.json says."""
    signed = {"Authorization": f"Bearer {told['api']['instance_token']}"}
    me = httpx.get(f"{told['api']['base_url']}/me", headers=signed).raise_for_status().json()
    assert (me["tenant"], me["environment"]) == ("northgate", "staging")
    signed = {"Authorization": f"Bearer {told['aap']['provisioner_token']}", "Idempotency-Key": "mine"}
    return httpx.post(f"{told['aap']['base_url']}/v1/instances", json={}, headers=signed).status_code


@pytest.fixture
def demo(transactional_db, tmp_path):
    demo = Demo(tmp_path)
    yield demo
    if demo.running.poll() is None:
        demo.end()


def test_the_demo_tells_scripts_ends_in_time_and_goes_on_after_a_kill(demo):
    told = demo.start()
    assert (demo.folder / "demo.json").stat().st_mode & 0o777 == 0o600
    kinds = {request["run"]: request["kind"] for request in told["requests"]}
    assert {run["story"]: kinds.get(run["id"]) for run in told["runs"]} == KINDS | {"blocked": None}
    assert {person["tenant"] for person in told["people"] if person["username"] == "jo"} == {"northgate", "harbour"}
    assert {"approver@staging", "approver", "admin"} <= {role for person in told["people"] for role in person["roles"]}
    assert told["people"][0]["password"] in demo.said()
    assert demo.answers()
    assert provisions(told) == 201

    demo.end(signal.SIGKILL)
    soon(lambda: not demo.answers(), within=10)
    again = demo.start()
    assert again["runs"] == told["runs"] and again["requests"] == told["requests"]
    assert again["aap"] == told["aap"] and again["api"] == told["api"] and provisions(again) == 200
    assert demo.end(within=5) == 0
    assert not demo.answers()
