"""What is no AAP is refused with its code, quickly, and costs no memory: K13, T91."""

import gc
import gzip
import json
import logging
import time
import tracemalloc

import pytest

from runtime_app.models import Request, Run
from tests.aap.conftest import refused

pytestmark = pytest.mark.django_db(transaction=True)

GOOD = {"tool": "t", "arguments": {}, "timeout": "1m"}


def text(**more) -> str:
    return json.dumps(GOOD | more)


DEEP = "[" * 20_000 + "]" * 20_000
BAD = [
    ("an unknown field", text(id="x"), 400, "invalid_request"),
    ("a field of the model", text(run_id="x", state="approved"), 400, "invalid_request"),
    ("a null", text(server=None), 400, "invalid_request"),
    ("a null context", text(context=None), 400, "invalid_request"),
    ("a field missing", '{"tool":"t","timeout":"1m"}', 400, "invalid_request"),
    ("a duplicate key", '{"tool":"a","tool":"b","arguments":{},"timeout":"1m"}', 400, "invalid_request"),
    ("a duplicate key, escaped", r'{"tool":"a","arguments":{"x":1,"\u0078":2},"timeout":"1m"}', 400, "invalid_request"),
    ("no object", "[]", 400, "invalid_request"),
    ("a text", '"x"', 400, "invalid_request"),
    ("no JSON", "{", 400, "unparsable"),
    ("nothing", "", 400, "unparsable"),
    ("no number", '{"tool":"t","arguments":{"x":NaN},"timeout":"1m"}', 400, "invalid_request"),
    ("a number beyond all", '{"tool":"t","arguments":{"x":1e999},"timeout":"1m"}', 400, "invalid_request"),
    ("a number of many digits", text()[:-1] + ',"context":{"x":' + "9" * 5000 + "}}", 400, "invalid_request"),
    ("deep arguments", '{"tool":"t","arguments":{"x":' + DEEP + '},"timeout":"1m"}', 400, "invalid_request"),
    ("deep, never closed", '{"arguments":' + "[" * 20_000, 400, "invalid_request"),
    ("arguments that are no object", text(arguments=[]), 400, "invalid_request"),
    ("arguments as text", text(arguments="{}"), 400, "invalid_request"),
    ("a context that is no object", text(context="x"), 400, "invalid_request"),
    ("an empty tool", text(tool=""), 400, "invalid_request"),
    ("a tool that is none", text(tool=7), 400, "invalid_request"),
    ("an empty server", text(server=""), 400, "invalid_request"),
    ("a tool of 300 letters", text(tool="x" * 300), 400, "invalid_request"),
    ("reasons of another kind", text(agent_reasoning=[]), 400, "invalid_request"),
    ("reasons without end", text(agent_reasoning="x" * 30_000), 413, "too_large"),
    ("arguments larger than what is bound", text(arguments={"x": "y" * 70_000}), 413, "too_large"),
    ("2 MB", text(context={"x": "y" * 2_000_000}), 413, "too_large"),
    *((f"a timeout {each!r}", text(timeout=each), 400, "invalid_request") for each in
      ("", "0s", "01m", "1", "1d", "-1s", "1.5h", " 1m", "1m ", "１m", 60, True, "s")),
]  # fmt: skip


def test_what_is_no_request_is_refused(mailer):
    slow = []
    for what, body, status, code in BAD:
        begun = time.monotonic()
        refused(mailer.call("POST", "/requests", body, "k", **{"Content-Type": "application/json"}), status, code)
        slow.append((time.monotonic() - begun, what))
        assert mailer.answer.headers["Content-Type"] == "application/json"
    assert not Request.objects.exists() and not Run.objects.exists()
    assert sorted(slow)[len(slow) // 2][0] < 0.3, max(slow)  # on an idle machine each is within 100 ms


def test_it_is_json_and_says_so_and_nothing_packed(mailer):
    packed = gzip.compress(b" " * 100_000_000 + text().encode())
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/xml",
    ):
        answer = mailer.http.post(
            "/api/aap/v1/requests", text(), content_type=kind,
            headers={"Authorization": f"Bearer {mailer.token}", "Idempotency-Key": "k"},
        )  # fmt: skip
        refused((answer.status_code, answer.json()), 415, "content_type")
    tracemalloc.start()
    begun = time.monotonic()
    answer = mailer.call("POST", "/requests", packed, "k", **{"Content-Encoding": "gzip"})
    took, (_, peak) = time.monotonic() - begun, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    refused(answer, 415, "content_type")
    assert took < 1 and peak < 5_000_000
    assert (
        mailer.call("POST", "/requests", text(), "k", **{"Content-Type": "application/json; charset=utf-8"})[0] == 201
    )


def test_many_large_bodies_keep_the_memory_flat(mailer, monkeypatch):
    large = text(context={"x": "y" * 250_000})[:-1] + "x"  # within the limit, and no JSON at its end
    mailer.call("POST", "/requests", large, "k")
    monkeypatch.setattr(logging.getLogger("django.request"), "disabled", True)  # its records hold requests for pytest
    tracemalloc.start()
    for _ in range(20):
        refused(mailer.call("POST", "/requests", large, "k"), 400, "unparsable")
    gc.collect()
    now, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert now < 2_000_000


def test_what_is_no_report_and_no_body_is_refused(mailer):
    mailer.asks()
    id = json.loads(mailer.answer.content)["id"]
    reports = [
        {}, {"status": "unknown"}, {"status": None}, {"status": []}, {"status": "succeeded", "note": ""},
        {"status": "failed", "note": None}, {"status": "failed", "note": 7}, {"status": "failed", "x": 1}, [],
    ]  # fmt: skip
    for report in reports:
        refused(mailer.call("POST", f"/requests/{id}/outcome", json.dumps(report)), 400, "invalid_request")
    refused(
        mailer.call("POST", f"/requests/{id}/outcome", json.dumps({"status": "failed", "note": "x" * 30_000})),
        413,
        "too_large",
    )
    path = f"/requests/{id}/consume"
    refused(mailer.call("POST", path, '{"key":"x"}', "k"), 400, "invalid_request")
    refused(mailer.call("POST", path, "x" * 300_000, "k"), 413, "too_large")
    refused(mailer.call("POST", path, "{}", "k"), 409, "not_approved")


def test_a_wait_is_a_duration(mailer):
    id = mailer.asks()[1]["id"]
    for wait in ("", "0s", "30", "x", "1d", "-1s"):
        refused(mailer.call("GET", f"/requests/{id}?wait={wait}"), 400, "invalid_request")
    assert mailer.call("GET", f"/requests/{id}?wait={'9' * 50}h")[0] == 200  # what is too long is shortened


def test_an_unknown_path_or_method_is_json_too(mailer):
    for method, path, status, code in (
        ("GET", "/nothing", 404, "not_found"), ("POST", "/requests/", 404, "not_found"),
        ("GET", "/requests", 405, "method_not_allowed"), ("PUT", "/instances", 405, "method_not_allowed"),
        ("POST", "/../../admin", 404, "not_found"),
    ):  # fmt: skip
        refused(mailer.call(method, path), status, code)
