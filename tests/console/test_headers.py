"""What every answer says to the browser: nothing foreign runs, nothing frames it, nobody keeps it (T35, T36, T58)."""

import re

import pytest
from django.core.cache import cache

from tests.console import stage
from tests.console.stage import visitor

INLINE = re.compile(rb"<[^>]*\s(style|on\w+)\s*=", re.IGNORECASE)
SCRIPT = re.compile(rb"<script\b([^>]*)>(.*?)</script>", re.DOTALL)
FRAMING = re.compile(rb"<(iframe|object|embed|base|meta[^>]*http-equiv)\b", re.IGNORECASE)


def looked_at(answer, where: str) -> None:
    headers = answer.headers
    policy = dict(rule.strip().partition(" ")[::2] for rule in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'", where
    assert "unsafe" not in headers["Content-Security-Policy"] and "*" not in headers["Content-Security-Policy"], where
    assert policy["form-action"] == "'self'"
    assert headers["X-Frame-Options"] == "DENY", where
    assert headers["X-Content-Type-Options"] == "nosniff", where
    assert headers["Referrer-Policy"] == "same-origin", where
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin", where
    assert "camera=()" in headers["Permissions-Policy"], where
    if headers["Content-Type"].startswith("text/html"):
        assert not INLINE.search(answer.content), where
        assert not FRAMING.search(answer.content), where
        for attributes, body in SCRIPT.findall(answer.content):
            assert b"src=" in attributes and not body.strip(), where


def kept_by_nobody(answer, where: str) -> None:
    assert "no-store" in answer["Cache-Control"], where


@pytest.mark.parametrize("who", ["Ada", "Olga", "Sam"])
def test_every_page_and_every_fragment(everything, northgate, who):
    client = visitor(northgate.people[who])
    for address in everything.addresses():
        for headers in ({}, {"HX-Request": "true"}):
            answer = client.get(address, headers=headers)
            assert answer.status_code == 200, address
            looked_at(answer, address)
            kept_by_nobody(answer, address)


def test_every_refusal(everything, northgate, harbour):
    ada, mallory = visitor(northgate.people["Ada"]), visitor(harbour.people["Mallory"])
    rita = visitor(northgate.people["Rita"])
    strict = visitor(northgate.people["Ada"], enforce_csrf_checks=True)
    here, data = f"/t/northgate/requests/{everything.approval.pk}/decision/", stage.form("decision", everything)
    answers = {
        "403 csrf": strict.post(here, data),
        "403": rita.post(here, data),
        "404": mallory.get(here.removesuffix("decision/")),
        "404 nowhere": ada.get("/nowhere/"),
        "405": ada.post("/t/northgate/inbox/"),
        "409": ada.post(here, data | {"digest": "0" * 64}),
        "413": ada.post(here, data | {"message": "x" * 1_000_000}),
        "422": ada.post(here, data | {"decision": "maybe"}),
        "302": visitor().get("/t/northgate/inbox/"),
    }
    for named, answer in answers.items():
        assert answer.status_code == int(named[:3]), named
        looked_at(answer, named)
        kept_by_nobody(answer, named)


def test_a_failure_of_ours_is_a_page_with_a_number_and_the_same_headers(northgate, monkeypatch):
    from console.views import inbox

    def broken(*arguments):
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr(inbox.selectors, "inbox", broken)
    client = visitor(northgate.people["Ada"])
    client.raise_request_exception = False
    answer = client.get("/t/northgate/inbox/")
    assert answer.status_code == 500
    assert b"hunter2" not in answer.content and b"Traceback" not in answer.content
    looked_at(answer, "500")
    kept_by_nobody(answer, "500")


@pytest.mark.parametrize("path", ["sayso/sayso.css", "sayso/app.js", "sayso/icons.svg", "django_htmx/htmx-2.min.js"])
def test_static_files_say_no_less(client, path):
    answer = client.get(f"/static/{path}")
    assert answer.status_code == 200
    for name in ("X-Content-Type-Options", "Referrer-Policy", "Content-Security-Policy"):
        assert answer.headers.get(name), name
    b"".join(answer.streaming_content)
    answer.close()


def test_public_pages(client, db):
    for address in ("/sign-in/", "/help/", "/health/"):
        answer = client.get(address)
        assert answer.status_code == 200
        looked_at(answer, address)


def test_the_cookies_of_a_signed_in_person_are_out_of_reach_of_scripts_and_other_sites(northgate):
    answer = stage.signs_in(northgate.people["Ada"])
    assert answer.status_code == 302
    session = answer.cookies["session"]
    assert session["httponly"] and session["samesite"] == "Lax"
    assert session["expires"] == "", "it ends with the browser"


def test_ada_mistypes_her_password_and_still_gets_in_but_nobody_guesses_for_long(northgate):
    cache.clear()
    ada, door = northgate.people["Ada"], stage.visitor()
    assert stage.signs_in(ada).status_code == 302  # sets the password
    for _ in range(10):
        assert door.post("/sign-in/", {"login": "ada", "password": "wrong"}).status_code == 200
    assert stage.signs_in(ada).status_code == 302
    for _ in range(20):
        door.post("/sign-in/", {"login": "ada", "password": "wrong"})
    assert "Too many failed" in stage.signs_in(ada).content.decode()
    cache.clear()


@pytest.mark.parametrize("back", ["//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)"])
def test_sign_in_sends_nobody_elsewhere(northgate, back):
    answer = stage.signs_in(northgate.people["Ada"], next=back)
    assert answer.status_code == 302
    assert answer["Location"] == "/"
