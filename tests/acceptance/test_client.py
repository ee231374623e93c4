"""Sayso's own client against the real server: both halves, over a restart, through a cancel, into the unknown."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from runtime_app import calling
from runtime_app.client import AsyncSayso, NotGiven, Sayso
from runtime_app.errors import GrantUnusable, NotSignedIn, RunEnded
from runtime_app.models import Credential, Effect, Now, Request, Run
from runtime_app.responses import Answer, Deny
from tests.cast import KEY_NAME, elsewhere
from tests.hosted.processes import soon


@pytest.fixture
def mailer(northgate):
    return elsewhere(northgate)


@pytest.fixture
def beside():
    """`beside(function)`: in a thread of its own, where no loop runs; its future."""
    with ThreadPoolExecutor(4) as threads:
        yield threads.submit


@pytest.fixture
def sayso(console, mailer):
    with Sayso(f"{console.url}/api/v1", mailer.token) as sayso:
        yield sayso


def pending(kind: str, **more) -> Request:
    return soon(lambda: Request.objects.filter(kind=kind, state="pending", **more).first())


def test_it_says_who_it_is(sayso, mailer):
    told = sayso.me()
    assert (told["instance"]["id"], told["environment"]) == (str(mailer.instance.pk), "staging")


def test_awaited_it_asks_several_at_once_and_goes_on_when_all_are_answered(northgate, console, mailer, beside):
    """R04: each is answered by its own id, in any order."""

    async def works():
        async with AsyncSayso(f"{console.url}/api/v1", mailer.token) as sayso, sayso.running("go", key="k") as run:
            first = await sayso.question(run, "Which?", KEY_NAME)
            second = await sayso.question(run, "Whose?", KEY_NAME)
            both = await asyncio.gather(sayso.wait(run, first), sayso.wait(run, second))

            async def send(key, parameters):
                return parameters["to"]

            sent = await sayso.effect(run, "mail/send", {"to": both[1].response["values"]["name"]}, send)
            run.ends_with = sent
            return [each.response["values"]["name"] for each in both]

    working = beside(lambda: asyncio.run(works()))
    whose = pending("wait_user", prompt="Whose?")
    northgate.says("Sam", whose, Answer({"name": "hers"}))
    northgate.says("Sam", pending("wait_user", prompt="Which?"), Answer({"name": "this"}))
    northgate.approves("Ada", pending("wait_approval"))
    assert working.result(60) == ["this", "hers"]
    run = Run.objects.get()
    assert (run.state, run.result, Effect.objects.get().state) == ("succeeded", "hers", "committed")


def test_a_cancel_is_noticed_while_it_works_and_while_it_waits(northgate, sayso, beside, monkeypatch):
    """R29, R30: by the heartbeat, and by the wait itself."""
    monkeypatch.setattr(calling, "BEAT", 0.2)

    def works():
        with sayso.running("work") as run:
            begun.set()
            soon(lambda: run.stop)
            run.check()

    def waits():
        with sayso.running("wait") as run:
            sayso.ask(run, "Which?", KEY_NAME)

    begun = threading.Event()
    for body, ready in ((works, lambda: begun.wait(20)), (waits, lambda: pending("wait_user"))):
        working = beside(body)
        ready()
        northgate.cancels("Olga", Run.objects.latest("created_at"), reason="wrong list")
        with pytest.raises(RunEnded):
            working.result(60)
        assert Run.objects.latest("created_at").state == "cancelled"


def test_what_is_denied_is_told_and_the_run_goes_on(northgate, sayso, beside):
    """R08, R19."""

    def works():
        with sayso.running("go") as run:
            try:
                sayso.effect(run, "mail/send", {"to": "all"}, lambda *_: pytest.fail("sent"))
            except NotGiven as no:
                run.ends_with = f"{no} {no.request.response['suggestion']}"

    working = beside(works)
    asked = pending("wait_approval")
    northgate.says("Ada", asked, Deny(digest=asked.digest, suggestion='{"to": "ada"}'), message="Too many.")
    working.result(60)
    assert Run.objects.get().result == "denied: Too many. {'to': 'ada'}"


def test_an_exception_in_between_asks_a_person_and_a_second_process_does_not_do_it_again(northgate, sayso, beside):
    """R16, R23: unknown, never replayed. The same start, the same Request, no second use."""

    def works(do):
        with sayso.running("go", key="nightly") as run:
            sayso.effect(run, "mail/send", {"to": "all"}, do)

    def drops(key, parameters):
        raise KeyboardInterrupt

    working = beside(works, drops)
    northgate.approves("Ada", pending("wait_approval"))
    with pytest.raises(KeyboardInterrupt):
        working.result(60)
    assert (Effect.objects.get().state, pending("wait_effect").effect_id) == ("uncertain", Effect.objects.get().pk)
    with pytest.raises(GrantUnusable) as refused:
        works(lambda *_: pytest.fail("sent twice"))
    assert refused.value.reason == "already_consumed" and Run.objects.count() == 1


def test_events_are_followed_over_a_restart_of_the_server(console, sayso, mailer, beside):
    """R37: no gap, no repeat; the cursor of yesterday goes on today."""
    run = sayso.start("go")

    def follows() -> list[int]:
        seen = []
        for event in sayso.events(run.session):
            seen.append(event.seq)
            if len(seen) == 2:
                heard.set()
            if event.kind == "run.succeeded":
                return seen

    heard = threading.Event()
    following = beside(follows)
    assert heard.wait(20)
    console.end()
    console.start()
    sayso.complete(run, "done")
    seen = following.result(90)
    assert seen == list(range(1, seen[-1] + 1))
    first, *rest = sayso.events(run.session, follow=False)
    assert [each.seq for each in sayso.events(run.session, after=first.id, follow=False)] == [e.seq for e in rest]


def test_a_revoked_credential_is_told_and_not_tried_again(sayso, mailer):
    """R06."""
    run = sayso.start("go")
    Credential.objects.filter(instance=mailer.instance).update(revoked_at=Now())
    with pytest.raises(NotSignedIn):
        sayso.complete(run)
