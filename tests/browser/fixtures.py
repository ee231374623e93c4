"""What the tests at the doors share: the server, the people, their browsers."""

import os
import re

import pytest
from django.db import connection
from django.test import Client
from playwright.sync_api import Page, expect

from tests import cast
from tests.browser.installation import Harbor, Web, workers
from tests.hosted.processes import soon

expect.set_options(timeout=8_000)
WEB = pytest.StashKey[Web]()
REFUSED = re.compile(r"Failed to load resource: the server responded with a status of 4\d\d")


@pytest.fixture(scope="session")
def console(request, django_db_setup, tmp_path_factory):
    """The web server: one for all tests, whichever folder they are in."""
    if WEB in request.config.stash:
        yield request.config.stash[WEB]
        return
    web = request.config.stash[WEB] = Web(tmp_path_factory.mktemp("web"))
    web.start()
    yield web
    web.end()


@pytest.fixture(scope="session")
def base_url(console):
    return console.url


BUSY = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND state IN ('active', 'idle in transaction')
"""


@pytest.fixture
def houses(transactional_db, console, owner):
    """Afterwards the server has done what it was asked before the tables are emptied."""
    yield cast.assemble()
    connection.close()
    soon(lambda: owner.execute(BUSY).fetchone() == (0,))


@pytest.fixture
def northgate(houses):
    return houses[0]


@pytest.fixture
def harbour(houses):
    return houses[1]


@pytest.fixture
def harbor(tmp_path):
    harbor = Harbor(tmp_path)
    yield harbor
    harbor.end()


@pytest.fixture
def hands(tmp_path, harbor, monkeypatch):
    """Workers as processes: `hands.start()`."""
    monkeypatch.setenv("HARBOR_URL", harbor.url)
    monkeypatch.setenv("RAN", str(tmp_path / "ran"))
    hands = workers(tmp_path, harbor)
    yield hands
    hands.end()


def session_of(user) -> str:
    """The cookie of a browser in which this person has signed in."""
    client = Client()
    client.force_login(user)
    return client.cookies["session"].value


class Watched:
    """What a browser complained about. Nothing of it is allowed: no error, no refused resource, no foreign address."""

    def __init__(self, url: str):
        self.url, self.complaints = url, []

    def watch(self, page: Page) -> None:
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(f"{page.url}: {error}"))
        page.on("request", self._asked)

    def _said(self, message) -> None:
        if message.type in ("error", "warning") and not REFUSED.match(message.text):
            self.complaints.append(f"{message.location.get('url')}: {message.text}")

    def _asked(self, request) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.complaints.append(f"foreign: {request.url}")


@pytest.fixture
def watched(console):
    watched = Watched(console.url)
    yield watched
    assert not watched.complaints, "\n".join(watched.complaints)


@pytest.fixture
def browse(new_context, console, watched):
    """`browse(northgate.people["Ada"], "/t/northgate/inbox/")`: a browser of one person's own, at a page."""

    def browse(user, path: str = "/", *, live: bool = True, **options) -> Page:
        context = new_context(reduced_motion="reduce", **options)
        if user:
            context.add_cookies([{"name": "session", "value": session_of(user), "url": console.url}])
        context.set_default_timeout(10_000)
        page = context.new_page()
        watched.watch(page)
        if not live:  # a page that no news reaches, and that does not know it
            page.route_web_socket(re.compile("/ws/"), lambda socket: None)
        page.goto(path)
        return page

    return browse


@pytest.fixture(scope="session", autouse=True)
def orm_beside_playwright(playwright):
    """Playwright's loop runs in this thread from now on: these tests come last (see `last`)."""
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"


def last(items, folder: str) -> None:
    """Move the tests of this folder behind all others: what they start in this thread stays until the end."""
    inside = str(folder)
    items.sort(key=lambda item: str(item.path).startswith(inside))
