"""A provider says what became of an Effect, signed: once, exactly, or not at all (R24, T88)."""

import base64
import json
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from standardwebhooks import Webhook

from runtime_app import transitions
from runtime_app.ids import uuid7
from runtime_app.models import CallbackSecret, Effect, Evidence, Refusal, Request, Run
from tests.cast import Finding, intend
from tests.runtime.test_reality import Ship


def secret_of(slug: str, action: str = "deploy", *more: str) -> str:
    told = StringIO()
    call_command("callback_secret", slug, action, *more, stdout=told, stderr=StringIO())
    return told.getvalue().strip()


def say(
    secret: str, body, *, slug="northgate", action="deploy", message_id="msg-1", minutes=0, changed=None, **headers
):  # fmt: skip
    """POST what a provider that knows this secret would."""
    text = body if isinstance(body, str) else json.dumps(body)
    at = datetime.now(UTC) + timedelta(minutes=minutes)
    signed = {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(message_id, at.replace(microsecond=0), text),
    }
    sent = changed if changed is not None else text
    return Client(enforce_csrf_checks=True).post(
        f"/callbacks/{slug}/{action}/", sent, "application/json", headers=signed | headers
    )


@pytest.fixture
def secret(northgate):
    return secret_of("northgate")


@pytest.fixture
def unknown(northgate) -> Request:
    return northgate.unknown()


def yes(effect: Effect, **more) -> dict:
    return {"key": effect.key, "finding": "committed", "reference": "build-7"} | more


def test_a_signed_callback_settles_what_nobody_knew(unknown, secret):
    """R24: observed evidence; the Run goes on."""
    answer = say(secret, yes(unknown.effect, statement="done at noon"))
    assert answer.status_code == 200
    said = Evidence.objects.get(source="callback")
    assert answer.json() == {"evidence": str(said.pk)}
    assert (said.grade, said.finding, said.reference, said.statement) == (
        "observed", "committed", "build-7", "done at noon",
    )  # fmt: skip
    assert Effect.objects.get().state == "committed"
    assert Run.objects.get().state == "queued"


def test_the_same_message_twice_is_one_piece_of_evidence(unknown, secret):
    """T88."""
    answers = [say(secret, yes(unknown.effect)).json() for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert Evidence.objects.filter(source="callback").count() == 1


def test_contradicting_callbacks_make_it_disputed(unknown, secret):
    """R25."""
    say(secret, yes(unknown.effect))
    say(secret, yes(unknown.effect, finding="not_committed"), message_id="msg-2")
    effect = Effect.objects.get()
    assert effect.disputed and Evidence.objects.get(finding="not_committed").late


@pytest.mark.parametrize("minutes", [-4, 4])
def test_four_minutes_of_skew_are_accepted(unknown, secret, minutes):
    assert say(secret, yes(unknown.effect), minutes=minutes).status_code == 200


def test_whoever_did_not_sign_this_is_refused_alike_and_written_down(unknown, secret, northgate, harbour):
    """T88: an old one, a changed byte, another tenant's key, another action, no such tenant: one answer."""
    body = yes(unknown.effect)
    others = secret_of("harbour")
    secret_of("northgate", Ship.name)
    answers = [
        say(secret, body, minutes=-6),
        say(secret, body, minutes=6),
        say(secret, body, changed=json.dumps(body).replace("committed", "not_committed")),
        say(others, body),
        say(secret, body, action="ship"),
        say(secret, body, action="nothing"),
        say(secret, body, slug="nowhere"),
        say(secret, body, message_id="x" * 201),
        say(secret, body, **{"webhook-signature": "v1,né"}),
        say(secret, body, **{"webhook-signature": "v1"}),
        say(secret, body, **{"webhook-timestamp": "nan"}),
        say(secret, body, **{"webhook-timestamp": "9" * 400}),
        Client().post("/callbacks/northgate/deploy/", json.dumps(body), "application/json"),
    ]
    assert {each.status_code for each in answers} == {401}
    assert len({each.content for each in answers}) == 1
    assert not Evidence.objects.filter(source="callback").exists()
    told = Refusal.objects.filter(verb="provider_says")
    assert sum(each.count for each in told) == len(answers)
    assert {each.target for each in told} == {"deploy", "ship", ""}, "no words of a stranger"


def test_a_key_of_nobody_or_of_another_tenant_is_not_found(unknown, secret, northgate, harbour):
    theirs = harbour.approval(by="Mallory")
    for key in (str(uuid7()), str(theirs.pk), "", "x", str(unknown.effect_id), "\\u0000"):
        answer = say(secret, json.dumps({"key": key, "finding": "committed"}), message_id=f"m-{key[:8]}")
        assert answer.status_code in (404, 422), key
    assert say(secret, yes(unknown.effect, key=str(uuid7()))).json()["code"] == "not_found"
    assert Effect.objects.get().state == "uncertain"
    assert Refusal.objects.filter(verb="provider_says", code="not_found").exists()


def test_nothing_was_sent_under_a_key_that_was_taken_back(northgate, secret):
    effect = northgate.granted()
    assert say(secret, yes(effect)).status_code == 404
    transitions.void(northgate.context("Ada"), request_id=effect.request_id, response_id=uuid7())
    assert say(secret, yes(effect)).status_code == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("", 400), ("{", 400), ("[]", 422), ("null", 422), ('{"key":1,"finding":"committed"}', 422),
        ('{"key":"a","key":"b","finding":"committed"}', 422), ('{"key":"a"}', 422),
        ('{"key":"a","finding":"unknown"}', 422), ('{"key":"a","finding":["committed"]}', 422),
        ('{"key":"a","finding":"committed","state":"x"}', 422), ('{"key":"a","finding":NaN}', 422),
        ('{"key":"a","finding":"committed","reference":"' + "x" * 2001 + '"}', 422),
        ("[" * 40 + "]" * 40, 422), ('{"key":"a","statement":"' + "x" * 66_000 + '"}', 413),
    ],
)  # fmt: skip
def test_a_body_that_is_none_is_refused_whoever_signed_it(secret, body, status):
    """Never 500; nothing of it is parsed before its size and signature are known."""
    answer = say(secret, body)
    assert answer.status_code == status, answer.content
    assert answer.json()["code"] == "invalid_input"
    assert Refusal.objects.get().code == "invalid_input"


def test_bytes_that_are_no_text_are_no_signed_message(secret):
    answer = Client().post(
        "/callbacks/northgate/deploy/", b"\xff\xfe", "application/json",
        headers={"webhook-id": "m", "webhook-timestamp": "1", "webhook-signature": "v1,eA=="},
    )  # fmt: skip
    assert answer.status_code == 401


def test_a_provider_that_is_still_working_keeps_it_in_flight(northgate, secret):
    """R23."""
    effect = northgate.granted()
    intend()
    assert say(secret, yes(effect, finding="working")).status_code == 200
    assert Effect.objects.get().state == "in_flight"
    assert Request.objects.get(kind="wait_effect").state == "pending"
    assert say(secret, yes(effect), message_id="msg-2").status_code == 200
    assert Effect.objects.get().state == "committed"


def test_a_callback_after_a_person_settled_it_is_late_and_changes_nothing(northgate, unknown, secret):
    """R25."""
    northgate.says("Olga", unknown, Finding("committed", "seen"))
    assert say(secret, yes(unknown.effect)).status_code == 200
    assert Evidence.objects.get(source="callback").late and not Effect.objects.get().disputed


def test_two_secrets_may_be_live_and_a_revoked_one_is_dead(northgate, unknown, secret):
    second = secret_of("northgate")
    with pytest.raises(CommandError, match="2 are live"):
        secret_of("northgate")
    assert say(secret, yes(unknown.effect)).status_code == 200
    assert say(second, yes(unknown.effect)).status_code == 200
    first = CallbackSecret.objects.order_by("made_at").first()
    secret_of("northgate", "deploy", "--revoke", str(first.pk))
    assert say(secret, yes(unknown.effect)).status_code == 401
    assert say(second, yes(unknown.effect)).status_code == 200
    with pytest.raises(CommandError):
        secret_of("northgate", "deploy", "--revoke", str(first.pk))


def test_the_database_does_not_hold_a_secret_in_clear(secret):
    stored = bytes(CallbackSecret.objects.get().secret)
    assert base64.b64decode(secret.removeprefix("whsec_")) not in stored and secret.encode() not in stored


def test_a_secret_needs_a_tenant_and_an_action_that_there_are(northgate):
    for wrong in (("nowhere", "deploy"), ("northgate", "nothing")):
        with pytest.raises(CommandError):
            secret_of(*wrong)


def test_a_callback_is_posted(secret):
    assert Client().get("/callbacks/northgate/deploy/").status_code == 405
