"""The document beside the code is what is served, and what every answer keeps to: schemathesis tries."""

import json
import os
import subprocess
import sys

import pytest
from django.db import connection
from django.test import Client

from console.environ import ROOT
from runtime_app.api.aap.urls import urlpatterns
from tests import cast
from tests.aap.conftest import provisioner_of
from tests.aap.receiving import Hook
from tests.browser.fixtures import BUSY, console  # noqa: F401
from tests.hosted.processes import soon

pytestmark = pytest.mark.django_db(transaction=True)
DOCUMENT = ROOT / "runtime_app/api/aap/openapi.json"


def test_the_document_is_served_to_everybody():
    answer = Client().get("/api/aap/openapi.json")
    assert answer.content == DOCUMENT.read_bytes() and answer.headers["X-Request-ID"]


def test_the_document_names_what_there_is_and_nothing_else(mailer):
    paths = json.loads(DOCUMENT.read_text())["paths"]
    there = {str(each.pattern).replace("<str:id>", "{id}") for each in urlpatterns} - {"", "openapi.json"}
    assert {path.lstrip("/") for path in paths} == there
    for path, item in paths.items():
        told = {method.upper() for method in item if method != "parameters"}
        answer = mailer.http.generic("TRACE", "/api/aap" + path)
        assert set(answer.headers["Allow"].split(", ")) == told


@pytest.fixture
def houses(transactional_db, console, owner):  # noqa: F811
    yield cast.assemble()
    connection.close()
    soon(lambda: owner.execute(BUSY).fetchone() == (0,))


def tried_with(hook: Hook, folder) -> None:
    """The document, for tries that take no half minute each, and whose receivers are the one that listens here."""
    document = json.loads(DOCUMENT.read_text())
    document["components"]["schemas"]["DeliveryInput"]["properties"]["url"] = {"enum": [hook.url]}
    (wait,) = document["paths"]["/v1/requests/{id}"]["get"]["parameters"]
    wait["schema"] = {"enum": ["1s"]}
    (folder / "openapi.json").write_text(json.dumps(document))


# to cancel a request is a DELETE, after which it is still read
TRIES = {"Requests": ["--exclude-checks", "use_after_free"], "Instances": []}


@pytest.mark.parametrize("tag", TRIES)
def test_every_answer_is_what_the_document_says(northgate, console, tag, tmp_path):  # noqa: F811
    """Examples, edges, invalid input, calls in sequence; as the credential that may."""
    token = cast.elsewhere(northgate).token if tag == "Requests" else provisioner_of(northgate).token
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", "openapi.json", "--url", f"{console.url}/api/aap",
        "--header", f"Authorization: Bearer {token}", "--include-tag", tag, "--max-examples", "10", "--seed", "1",
        "--generation-database", "none", "--request-timeout", "20", "--no-color", *TRIES[tag],
    ]  # fmt: skip
    with Hook() as hook:
        tried_with(hook, tmp_path)
        tried = subprocess.run(
            command, cwd=tmp_path, env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, capture_output=True,
            text=True, timeout=300,
        )  # fmt: skip
    assert tried.returncode == 0, tried.stdout[-20_000:] + tried.stderr[-2_000:]
