"""Another front end waits and follows with its person's session: told as it happens, until the sign-in, the membership
or the account ends (R37-R40). No socket opens by a cookie, which a page of elsewhere could ride on."""

import asyncio

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.sessions.models import Session as SignIn
from django.test import Client

from runtime_app.api import streaming, waiting
from runtime_app.models import Membership, Role
from runtime_app.transitions import Question
from tests.api.asgi import staged
from tests.api.test_waiting import SSE, Stream, data, stand
from tests.cast import KEY_NAME, Answer

do = sync_to_async


@pytest.fixture
def question(mailer):
    return mailer.asks(mailer.begins(), Question("q", "Which?", KEY_NAME))


@pytest.fixture
def signed_in(northgate):
    """`signed_in("Sam")`: the headers of that person's front end."""

    def of(name: str, house=northgate, tenant: str = "northgate") -> dict[str, str]:
        client = Client()
        client.force_login(house.people[name])
        key = client.cookies[settings.SESSION_COOKIE_NAME].value
        return {"Cookie": f"{settings.SESSION_COOKIE_NAME}={key}", "Sayso-Tenant": tenant}

    return of


def test_a_poll_of_a_person_ends_as_soon_as_the_question_is_answered(northgate, question, signed_in):
    """R08, R39."""
    bob = signed_in("Bob")

    async def scene(call):
        poll = call(f"/requests/{question.pk}?wait=30s", **bob)
        await stand(poll)
        await do(northgate.says)("Sam", question, Answer({"name": "k"}))
        status, _, body = await poll.answer()
        assert (status, body["outcome"]) == (200, "answered")

    staged(scene)


@pytest.mark.parametrize("path", ["/sessions/{}/events", "/events"])
def test_a_person_follows_events_and_goes_on_by_their_id(northgate, question, signed_in, path):
    """R37, R38."""
    path, bob = path.format(question.session_id), signed_in("Bob")

    async def scene(call):
        stream = Stream(call(path, **bob, **SSE))
        await stream.begun()
        first = await stream.frame()
        while data(first)["kind"] != "run.waiting":
            first = await stream.frame()
        await do(northgate.says)("Sam", question, Answer({"name": "k"}))
        live = await stream.frame()
        again = Stream(call(path, **bob, **SSE, **{"Last-Event-ID": first["id"]}))
        await again.begun()
        assert (await again.frame())["id"] == live["id"]

    staged(scene)


THEIRS = [
    (Role.objects, lambda user: {"membership__user": user}),
    (Membership.objects, lambda user: {"user": user}),
]
LOST = {
    "signed out": (lambda user: SignIn.objects.all().delete(), "not_signed_in"),
    "another password": (lambda user: [user.set_password("new"), user.save()], "not_signed_in"),
    "no member any more": (lambda user: [rows.filter(**who(user)).delete() for rows, who in THEIRS], "not_found"),
    "deactivated": (lambda user: type(user).objects.filter(pk=user.pk).update(is_active=False), "not_signed_in"),
}


@pytest.mark.parametrize("what", LOST)
def test_a_stream_of_a_person_ends_with_their_right_to_it(northgate, question, signed_in, monkeypatch, what):
    """R06, R40."""
    monkeypatch.setattr(streaming, "BEAT", 0.05)
    lose, code = LOST[what]
    bob = signed_in("Bob")

    async def scene(call):
        stream = Stream(call("/events", **bob, **SSE))
        await stream.begun()
        await do(lose)(northgate.people["Bob"])
        while "event: error" not in stream.text:
            stream.text += (await stream.call.message(5))["body"].decode()
        assert f'"{code}"' in stream.text
        await asyncio.wait_for(stream.call.task, 2)
        assert not waiting._watched

    staged(scene)


def test_two_sign_ins_of_one_person_end_apart(northgate, question, signed_in, monkeypatch):
    """R40: what is read once for all who ask the same is not read once for two sessions."""
    monkeypatch.setattr(streaming, "BEAT", 0.05)
    here, there = signed_in("Bob"), signed_in("Bob")
    key = there["Cookie"].partition("=")[2]

    async def scene(call):
        stays, ends = Stream(call("/events", **here, **SSE)), Stream(call("/events", **there, **SSE))
        await stays.begun(), await ends.begun()
        await do(SignIn.objects.filter(session_key=key).delete)()
        while "event: error" not in ends.text:
            ends.text += (await ends.call.message(5))["body"].decode()
        await do(northgate.says)("Sam", question, Answer({"name": "k"}))
        while "request.resolved" not in stays.text:
            stays.text += (await stays.call.message(5))["body"].decode()
        assert "event: error" not in stays.text

    staged(scene)


def test_a_stranger_waits_for_nothing(harbour, question, signed_in):
    """R07: an outsider, and one who names a tenant of others, as for what is not there."""
    mallory = signed_in("Mallory", harbour)

    async def scene(call):
        for path in (
            f"/requests/{question.pk}?wait=30s",
            f"/sessions/{question.session_id}/events?wait=30s",
            "/events?wait=5s",
        ):
            assert (await call(path, **mallory).answer())[0] == 404
        assert (await call("/events?wait=1s", **mallory | {"Sayso-Tenant": "harbour"}).answer())[0] == 200
        nobody = {"Cookie": f"{settings.SESSION_COOKIE_NAME}=made-up", "Sayso-Tenant": "northgate"}
        assert (await call("/events?wait=30s", **nobody).answer())[0] == 401

    staged(scene)


def test_a_cookie_opens_no_socket(northgate, question, signed_in):
    """T21: a page of elsewhere could ride on it."""
    bob = signed_in("Bob")

    async def scene(call):
        for origin in ("https://elsewhere.example", settings.ORIGINS[0]):
            socket = call("/events", type="websocket", **bob, Origin=origin)
            sent = [await socket.message()]
            while sent[-1]["type"] == "websocket.accept":
                sent.append(await socket.message())
            assert sent[-1]["type"] == "websocket.close"  # before anything was told

    staged(scene)
