"""Twenty people press at the same moment, over real HTTP (R08, R16)."""

import http.client
import re
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from urllib.parse import urlencode, urlsplit

import pytest

from runtime_app.ids import uuid7
from runtime_app.models import Grant, Refusal, Request, Response, Run
from tests.browser.fixtures import session_of
from tests.hosted.processes import soon

TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def opens(console):
    """`opens(user, path)`: a signed-in person with this page open."""
    with ExitStack() as lines:

        def opens(user, path: str) -> Visitor:
            visitor = Visitor(console.url, user)
            lines.callback(visitor.line.close)
            visitor.opens(path)
            return visitor

        yield opens


class Visitor:
    """One signed-in person on one connection, as a browser without scripts."""

    def __init__(self, url: str, user):
        self.line = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
        self.url, self.session = url, session_of(user)

    def ask(self, method: str, path: str, body: str | None = None, cookie: str = "", headers: dict | None = None):
        sent = {"Cookie": f"session={self.session}{cookie}", "Origin": self.url, **(headers or {})}
        self.line.request(method, path, body, sent)
        answer = self.line.getresponse()
        return answer, answer.read().decode()

    def opens(self, path: str) -> None:
        """The page with the form: its token and its cookie."""
        answer, page = self.ask("GET", path)
        self.token = TOKEN.search(page).group(1)
        self.csrf = re.search(r"csrf=([^;]+)", answer.headers["Set-Cookie"]).group(1)

    def posts(self, path: str, **fields: str) -> tuple[int, str]:
        body = urlencode(fields | {"csrfmiddlewaretoken": self.token})
        answer, page = self.ask("POST", path, body, f"; csrf={self.csrf}", FORM)
        return answer.status, page


def at_once(*calls) -> list:
    line = threading.Barrier(len(calls), timeout=30)

    def one(call):
        line.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(one, calls))


def fields(request: Request, **more: str) -> dict[str, str]:
    return {"response_id": str(uuid7()), "session": str(request.session_id), "digest": request.digest, **more}


def test_one_of_twenty_approvals_counts_and_nineteen_are_told_whose(northgate, opens, harbor, hands):
    """One 303, nineteen 409 pages that name who decided; one Grant, one deployment."""
    hands.start()
    names = [f"Approver{number}" for number in range(20)]
    for name in names:
        northgate.join(name, "approver")
    run = northgate.start(message="deploy card-api 0.8.8")
    asked = soon(lambda: Request.objects.filter(run=run, kind="wait_approval").first())
    path = f"/t/northgate/requests/{asked.pk}/"
    people = [opens(northgate.people[name], path) for name in names]
    presses = [
        lambda each=each: each.posts(f"{path}decision/", **fields(asked, decision="approve", message="mine"))
        for each in people
    ]
    answers = at_once(*presses)
    assert Counter(status for status, _ in answers) == {303: 1, 409: 19}
    winner = names[[status for status, _ in answers].index(303)]
    for status, page in answers:
        if status == 409:
            assert "This was already decided" in page and f"{winner} was first" in page and "mine" in page
    assert Response.objects.get(request=asked).name == winner
    assert Grant.objects.filter(request=asked).count() == 1
    assert Refusal.objects.filter(code="stale_request").count() == 19
    soon(lambda: Run.objects.get(pk=run.pk).state == "succeeded")
    assert len(harbor.deliveries()) == 1


def test_ten_copies_of_one_form_are_one_vote_and_ten_equal_answers(northgate, opens):
    """T42, R09: a browser that sends again what it has sent."""
    asked = northgate.approval()
    path = f"/t/northgate/requests/{asked.pk}/"
    copies = [opens(northgate.people["Ada"], path) for _ in range(10)]
    form = fields(asked, decision="approve", message="once")
    answers = at_once(*(lambda each=each: each.posts(f"{path}decision/", **form) for each in copies))
    assert [status for status, _ in answers] == [303] * 10
    assert Response.objects.count() == Grant.objects.count() == 1


def test_approve_against_deny_has_one_winner(northgate, opens):
    asked = northgate.approval()
    path = f"/t/northgate/requests/{asked.pk}/"
    ada, bob = (opens(northgate.people[who], path) for who in ("Ada", "Bob"))
    answers = at_once(
        lambda: ada.posts(f"{path}decision/", **fields(asked, decision="approve", message="")),
        lambda: bob.posts(f"{path}decision/", **fields(asked, decision="deny", message="")),
    )
    assert sorted(status for status, _ in answers) == [303, 409]
    asked.refresh_from_db()
    won = "approved" if answers[0][0] == 303 else "denied"
    assert asked.outcome == won
    assert Grant.objects.count() == (won == "approved")
