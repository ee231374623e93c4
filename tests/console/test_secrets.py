"""R12 on pages: a secret is typed, never shown; not in a refusal, a late page, an export, a log (K13, T69)."""

import logging

import pytest

from runtime_app import transitions
from runtime_app.ids import uuid7
from runtime_app.models import Blocker, Run, Secret
from runtime_app.transitions import Question
from tests import cast
from tests.cast import Answer, elsewhere
from tests.console.stage import visitor
from tests.database import everything

ROOT = "/t/northgate/"
MARKER = "hunter2-correct-horse"
FORM = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "token": {"type": "string", "format": "password", "minLength": 8}},
    "required": ["name", "token"],
}
WANTED = Question("q", "Which token?", FORM)


@pytest.fixture
def asked(northgate):
    mailer = elsewhere(northgate)
    return mailer.asks(mailer.begins(), WANTED)


@pytest.fixture
def sam(northgate):
    return visitor(northgate.people["Sam"])


def form(asked, **fields) -> dict:
    return {"response_id": str(uuid7()), "session": str(asked.session_id), "message": "", "token": MARKER} | fields


def pages(client, asked) -> str:
    root = f"{ROOT}runs/{asked.run_id}/"
    addresses = [f"{ROOT}requests/{asked.pk}/", root, f"{root}result.json", f"{root}trace.jsonl",
                 f"{ROOT}sessions/{asked.session_id}/", f"{ROOT}inbox/?tab=decided"]  # fmt: skip
    return "\n".join(client.get(address).content.decode() for address in addresses)


def test_no_page_no_export_and_no_log_has_it(sam, northgate, asked, caplog):
    caplog.set_level(logging.DEBUG)
    to = f"{ROOT}requests/{asked.pk}/answer/"
    refused = sam.post(to, form(asked))
    assert refused.status_code == 422 and MARKER not in refused.content.decode()
    assert 'type="password"' in refused.content.decode() and "Enter it again" in refused.content.decode()
    assert sam.post(to, form(asked, name="ci")).status_code == 303
    answered = sam.get(f"{ROOT}requests/{asked.pk}/").content.decode()
    assert "Secret, set" in answered and "by Sam" in answered and "secret:" not in answered
    northgate.cancels("Olga", Run.objects.get(pk=asked.run_id))
    assert "Destroyed" in sam.get(f"{ROOT}requests/{asked.pk}/").content.decode()
    assert MARKER not in pages(sam, asked) + caplog.text + everything()


def test_too_short_is_said_without_saying_how_short(sam, asked):
    refused = sam.post(f"{ROOT}requests/{asked.pk}/answer/", form(asked, name="ci", token="abc"))
    assert refused.status_code == 422 and "Must be a text of 8 to" in refused.content.decode()
    assert "abc" not in refused.content.decode() and "it has 3" not in refused.content.decode()


def test_who_comes_too_late_gets_back_all_but_the_secret(sam, northgate, asked):
    """The page of a late answer keeps what was written: never this."""
    northgate.says("Sam", asked, Answer({"name": "ci", "token": "another-token"}))
    late = sam.post(f"{ROOT}requests/{asked.pk}/answer/", form(asked, name="my-very-own-name"))
    assert late.status_code == 409 and "my-very-own-name" in late.content.decode()
    assert MARKER not in late.content.decode() and "another-token" not in late.content.decode()
    olga = visitor(northgate.people["Olga"])
    barred = olga.post(f"{ROOT}requests/{asked.pk}/answer/", form(asked, name="x"))
    assert barred.status_code == 403 and MARKER not in barred.content.decode()


def test_what_a_job_lacked_is_typed_and_not_shown_either(sam, northgate):
    """R34."""
    run = northgate.start(interactive=False)
    transitions.suspend(cast.claim(run), waits=[WANTED])
    blocker = Blocker.objects.get()
    to = f"{ROOT}blockers/{blocker.pk}/supply/"
    data = {"response_id": str(uuid7()), "message": "", "token": MARKER}
    refused = sam.post(to, data)
    assert refused.status_code == 422 and MARKER not in refused.content.decode()
    assert sam.post(to, data | {"name": "ci"}).status_code == 303
    assert MARKER not in sam.get(f"{ROOT}blockers/{blocker.pk}/").content.decode() + everything()
    assert Secret.objects.get().run.follows_id == run.pk
