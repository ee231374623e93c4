"""The committed document is what is served, and what every answer keeps to: schemathesis tries."""

import json
import os
import subprocess
import sys

import pytest
from django.test import Client

from console.environ import ROOT
from runtime_app import errors
from runtime_app.api.v1 import contract
from tests import cast
from tests.browser.fixtures import console  # noqa: F401
from tests.cast import elsewhere

DOCUMENT = ROOT / "runtime_app/api/v1/openapi.json"
# What no schema can say: where a cursor is of, which form can be shown, what a Run or a Request stands at; and that an
# agent's environment is its credential's, while a person names one.
# The cookie that it tries to leave out comes in a header of every call.
JUDGED = """
[[operations]]
include-name = "GET /api/v1/inbox"
checks.negative_data_rejection.enabled = false
[[operations]]
include-name = "GET /api/v1/events"
checks.positive_data_acceptance.expected-statuses = [200, 400, 404]
[[operations]]
include-name = "GET /api/v1/sessions/{id}/events"
checks.positive_data_acceptance.expected-statuses = [200, 400, 404]
[[operations]]
include-path-regex = "/(runs|messages|turn|complete|fail|stopped|requests|outcome|response)$"
checks.positive_data_acceptance.expected-statuses = [200, 201, 400, 403, 404, 409, 413, 422]
"""


def test_the_committed_document_is_the_served_one():
    """Written anew by: ./run manage openapi > runtime_app/api/v1/openapi.json"""
    served = Client().get("/api/v1/openapi.json")
    assert served.status_code == 200 and served.json() == json.loads(DOCUMENT.read_text()) == contract.document()
    assert served.json()["openapi"].startswith("3.1")


def test_every_error_there_is_has_its_place_in_the_document():
    """Spec section 9: each class, under its status, in every operation."""
    ours = [each for each in errors.SaysoError.__subclasses__() if each.__module__ == errors.__name__]
    assert len(ours) == 14
    for each in ours:
        assert f"`{each.code}`" in contract.CODES[each.status], each
    for path in contract.document()["paths"].values():
        for operation in path.values():
            assert set(operation["responses"]) >= {str(status) for status in contract.CODES}


def test_every_post_takes_a_key_and_every_call_a_caller():
    for path in contract.document()["paths"].values():
        for method, operation in path.items():
            names = {each["name"] for each in operation["parameters"] if each["required"]}
            assert ("Idempotency-Key" in names) == (method == "post") and operation["security"]


@pytest.fixture
def houses(transactional_db, console, owner):  # noqa: F811
    return cast.assemble()


@pytest.mark.parametrize("who", ["agent", "person"])
def test_schemathesis_finds_nothing(who, northgate, console, tmp_path):  # noqa: F811
    """Examples, edges, invalid input, wrong methods, calls in sequence; as an agent, and as a signed-in person."""
    headers = _person(northgate) if who == "person" else {"Authorization": f"Bearer {elsewhere(northgate).token}"}
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", str(DOCUMENT), "--url", console.url, "--max-examples", "5",
        "--seed", "1", "--generation-database", "none", "--request-timeout", "20", "--no-color",
        *(part for name, value in headers.items() for part in ("--header", f"{name}: {value}")),
        *(("--include-tag", "people") if who == "person" else ("--exclude-tag", "people")),
    ]  # fmt: skip
    (tmp_path / "schemathesis.toml").write_text(JUDGED)
    known = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    known |= {"SCHEMATHESIS_HOOKS": "tests.api.generating"}
    tried = subprocess.run(command, cwd=tmp_path, env=known, capture_output=True, text=True, timeout=300)
    assert tried.returncode == 0, tried.stdout[-20_000:] + tried.stderr[-2_000:]


def _person(northgate) -> dict[str, str]:
    client = Client()
    client.force_login(northgate.people["Ada"])
    token = client.get("/api/v1/me", headers={"Sayso-Tenant": "northgate"}).json()["csrf_token"]
    cookies = "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items())
    return {"Cookie": cookies, "X-CSRFToken": token, "Sayso-Tenant": "northgate"}
