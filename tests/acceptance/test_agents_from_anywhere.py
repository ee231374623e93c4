"""Agents from anywhere, as their users would run them: real processes, the real server, worker and browser."""

import json
import re
import subprocess
import threading
import time
from datetime import timedelta

import httpx
import pytest
from playwright.sync_api import expect

from runtime_app import transitions
from runtime_app.models import Credential, Effect, Evidence, Grant, Registration, Request, Run, Worker
from tests.acceptance.elsewhere import Agent, outbox, ten_lines, write_demo
from tests.browser.installation import free_port
from tests.cast import elsewhere
from tests.hosted.processes import soon

DEADLINE = timedelta(seconds=3)  # how long an agent may be silent about a mail
IN_TIME = DEADLINE.total_seconds() + 10


@pytest.fixture
def folder(tmp_path, console, northgate):
    write_demo(tmp_path, console.url, northgate)
    return tmp_path


@pytest.fixture
def agents(folder):
    """`agents("name", "-m", "examples.elsewhere.graph", …)`: a process, ended with the test."""
    started = []

    def start(*words: str, **environment: str) -> Agent:
        started.append(Agent(folder, *words, **environment))
        return started[-1]

    yield start
    for each in started:
        each.end()


def asked() -> Request:
    return soon(lambda: Request.objects.filter(kind="wait_approval", state="pending").first(), within=60)


def approves(page, request: Request) -> None:
    page.goto(f"/t/northgate/requests/{request.pk}/")
    page.get_by_role("button", name=re.compile("^Approve")).click()
    expect(page.locator("#act")).to_have_count(0)


def test_a_pydantic_ai_agent_stops_is_approved_in_the_browser_and_its_tool_runs_once(northgate, folder, agents, browse):
    """The README's ten lines. The ledger has the intent, the outcome and the evidence (R16, R22, R25)."""
    mailer = agents("lines", "-c", ten_lines())
    request = asked()
    assert (request.run.single, request.environment.name, request.run.state) == (True, "staging", "waiting")
    ada = browse(northgate.people["Ada"], "/t/northgate/inbox/")
    expect(ada.locator(f"#r-{request.pk}")).to_be_visible()
    assert mailer.running.poll() is None and not outbox(folder)
    approves(ada, request)
    mailer.ended()
    assert len(outbox(folder)) == 1
    effect = Effect.objects.get()
    assert (Grant.objects.get().state, effect.state) == ("consumed", "committed")
    assert Evidence.objects.values_list("grade", "finding").get(effect=effect) == ("claimed", "committed")
    ada.goto(f"/t/northgate/effects/{effect.pk}/")
    for words in ("Happened", "Claimed", effect.key):
        expect(ada.locator("main")).to_contain_text(words)


def test_an_agent_killed_between_consume_and_outcome_leaves_a_question_in_the_inbox(
    northgate, console, folder, agents, browse, hands
):
    """R26: within its deadline plus 10 s. Started again, it does not do it twice."""
    Registration.objects.create(tenant=northgate.tenant, pattern="send_mail", title="Mail", deadline=DEADLINE)
    hands.start()
    soon(Worker.objects.exists, within=120)
    instance = elsewhere(northgate)
    script = ["-m", "tests.acceptance.slow_tool", f"{console.url}/api/aap", instance.token]
    first = agents("first", *script)
    request = asked()
    northgate.approves("Ada", request)
    soon(lambda: outbox(folder), within=60)
    first.kill()
    about = soon(lambda: Request.objects.filter(kind="wait_effect", state="pending").first(), within=IN_TIME)
    olga = browse(northgate.people["Olga"], "/t/northgate/inbox/")
    expect(olga.locator(f"#r-{about.pk}")).to_be_visible()
    assert Effect.objects.get().state == "uncertain"
    agents("second", *script).ended()
    assert outbox(folder) == ["begun"]


def test_a_graph_whose_process_exits_while_it_waits_is_woken_by_the_webhook_and_runs_once(
    northgate, folder, agents, hands
):
    """The decision is told to whoever listens by then, again until somebody does."""
    hands.start()
    soon(Worker.objects.exists, within=120)
    graph = ["-m", "examples.elsewhere.graph", str(folder), str(free_port())]
    agents("leaves", *graph, "leave").ended()
    request = asked()
    northgate.approves("Ada", request)
    soon(lambda: Run.objects.filter(pk=request.run_id, state="running").exists())
    assert not outbox(folder)
    assert "is sent" in agents("woken", *graph).ended(within=90)
    assert len(outbox(folder)) == 1
    soon(lambda: Run.objects.get(pk=request.run_id).state == "succeeded")


@pytest.mark.parametrize("path", ["/api/aap/v1/requests/{}", "/api/v1/requests/{}"])
def test_a_long_poll_ends_with_401_within_two_seconds_of_the_revocation(northgate, console, path):
    """R40, T97."""
    mailer = elsewhere(northgate)
    request = mailer.proposes()
    ended, signed = {}, {"Authorization": f"Bearer {mailer.token}"}

    def poll():
        with httpx.Client(timeout=40) as client:
            answer = client.get(f"{console.url}{path.format(request.pk)}?wait=30s", headers=signed)
        ended["at"], ended["status"] = time.monotonic(), answer.status_code

    polling = threading.Thread(target=poll)
    polling.start()
    soon(lambda: Credential.objects.get(instance=mailer.instance).last_used_at)
    assert not ended
    transitions.revoke_credential(
        northgate.context("Ann"), credential_id=Credential.objects.get(instance=mailer.instance).pk
    )
    revoked = time.monotonic()
    polling.join(30)
    assert ended["status"] == 401 and ended["at"] - revoked < 2


def test_curl_follows_events_over_a_restart_with_no_gap_and_no_repeat(northgate, console, folder):
    """R37: by `Last-Event-ID`, as any client of server-sent events has it."""
    mailer = elsewhere(northgate)
    run = mailer.begins()
    lines = folder / "events"

    def follow(last: str) -> subprocess.Popen:
        asked = ["-H", "Accept: text/event-stream", "-H", f"Authorization: Bearer {mailer.token}"]
        asked += ["-H", f"Last-Event-ID: {last}"] if last else []
        with open(lines, "ab") as file:
            return subprocess.Popen(
                ["curl", "-sN", *asked, f"{console.url}/api/v1/sessions/{run.session_id}/events"], stdout=file
            )

    def seen(name: str) -> list[str]:
        found = lines.read_text().splitlines() if lines.exists() else []
        return [line.partition(": ")[2] for line in found if line.startswith(f"{name}: ")]

    def happens(count: int) -> int:
        for _ in range(count):
            transitions.take_turn(mailer.context, run_id=run.pk)
        run.session.refresh_from_db()
        return run.session.last_seq

    following = follow("")
    soon(lambda: len(seen("id")) == happens(0))
    last = happens(3)
    soon(lambda: len(seen("id")) == last)
    console.end()
    following.wait(10)
    last = happens(2)
    console.start()
    following = follow(seen("id")[-1])
    soon(lambda: len(seen("id")) == last)
    last = happens(2)
    soon(lambda: len(seen("id")) == last)
    following.kill()
    following.wait(5)
    assert [json.loads(each)["seq"] for each in seen("data")] == list(range(1, last + 1))
    assert len(set(seen("id"))) == last
