"""The public client and its shims, unchanged, against a running Sayso: six frameworks speak through that client, three
are here. What reached the outside is what `send` did; what Sayso says of it is the ledger."""

import asyncio
import threading

import pytest
from agentapprovalprotocol._client import AsyncClient, Client
from agentapprovalprotocol._gate import (
    CANCELLED_TEXT,
    CONSUMED_TEXT,
    EXPIRED_TEXT,
    Allow,
    AsyncGate,
    Call,
    Deny,
    Gate,
    Pending,
)
from agentapprovalprotocol.receiver import Receiver
from django.db import connection

from runtime_app import deliveries, transitions
from runtime_app.errors import StaleRequest
from runtime_app.models import Delivery, Effect, Evidence, Grant, Request, Run, Session
from tests import cast
from tests.aap import receiving
from tests.aap.conftest import provisioner_of
from tests.aap.shims import SHIMS, PydanticAI
from tests.browser.fixtures import BUSY, console  # noqa: F401
from tests.cast import Deny as Denial
from tests.hosted.processes import soon

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def houses(transactional_db, console, owner):  # noqa: F811
    yield cast.assemble()
    connection.close()
    soon(lambda: owner.execute(BUSY).fetchone() == (0,))


@pytest.fixture
def url(console) -> str:  # noqa: F811
    return f"{console.url}/api/aap"


@pytest.fixture
def beside():
    """A loop in a thread, where agents and their receivers live: `beside(coroutine)` begins, `.result()` waits."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop)
    asyncio.run_coroutine_threadsafe(_end_all(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


async def _end_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.wait(others, timeout=5) if others else None


@pytest.fixture
def clients(url, beside):
    """Clients of the package, closed afterwards: `clients(token)` is awaited, `clients.sync(token)` is not."""
    made = []

    def awaited(token: str) -> AsyncClient:
        made.append(AsyncClient(url, token))
        return made[-1]

    def sync(token: str) -> Client:
        made.append(Client(url, token))
        return made[-1]

    awaited.sync, awaited.made = sync, made
    yield awaited
    for client in made:
        client.close() if isinstance(client, Client) else beside(client.aclose()).result(5)


@pytest.fixture
def receiver(beside):
    """The package's Receiver, served on loopback at `receiver.address`."""
    receiver = Receiver(resumers={})
    server, serving, receiver.address = beside(receiving.served(receiver.asgi())).result(20)
    yield receiver
    server.should_exit = True
    soon(serving.done)


def pending(number: int = 1) -> list[Request]:
    """Once so many wait."""
    waiting = Request.objects.filter(state="pending", kind="wait_approval").order_by("created_at")
    soon(lambda: waiting.count() >= number)
    return list(waiting)


def to(request: Request) -> str:
    return bytes(request.parameters).decode().split('"')[3]


def call(key: str = "call", **more) -> Call:
    return Call(**{"key": key, "tool": "send", "arguments": {"to": "ada", "n": 1.5}} | more)


@pytest.mark.parametrize("shim", SHIMS, ids=lambda shim: shim.framework)
def test_calls_at_once_each_meet_their_own_fate(northgate, clients, beside, clock, shim):
    """One turn, four calls: approved (by two), denied with a note, cancelled by a person, expired. Each waits on
    its own Request, and only what was approved is done, once."""
    agent = shim(clients(cast.elsewhere(northgate).token))
    running = beside(agent.run("approved", "denied", "cancelled", "expired"))
    fates = {to(request): request for request in pending(4)}
    assert {request.claim for request in fates.values()} == {"They asked." if shim is not SHIMS[2] else ""}
    northgate.says("Ada", fates["denied"], Denial(fates["denied"].digest), message="Not on Sundays.")
    northgate.cancels("Olga", fates["cancelled"].run)
    northgate.approves("Ada", fates["approved"])
    with pytest.raises(StaleRequest):
        northgate.approves("Bob", fates["approved"])
    soon(lambda: Run.objects.filter(pk=fates["approved"].run_id, state="succeeded").exists())
    clock.move(minutes=11)
    transitions.sweep()
    said = running.result(60)
    assert agent.sent == ["approved"]
    for words in ("sent to approved", "Not on Sundays.", CANCELLED_TEXT, EXPIRED_TEXT):
        assert words in said, said
    effect = Effect.objects.get()
    assert (effect.state, effect.key) == ("committed", str(fates["approved"].pk))
    assert Evidence.objects.get().source == "reply"
    states = {name: Run.objects.get(pk=request.run_id).state for name, request in fates.items()}
    assert states == {"approved": "succeeded", "denied": "failed", "cancelled": "cancelled", "expired": "failed"}


def deliver() -> None:
    """What a worker does."""
    for parcel in deliveries.due(10):
        transitions.delivered(parcel, *asyncio.run(deliveries.attempt(parcel)))


@pytest.mark.parametrize("shim", SHIMS, ids=lambda shim: shim.framework)
def test_a_paused_run_is_woken_by_the_webhook_and_acts_once_however_often_it_is_resumed(
    northgate, url, clients, beside, receiver, settings, shim
):
    """Async mode: the pause is stored, the notification wakes it. The libraries run a tool again when an old pause is
    answered once more (measured): the one use of the approval is taken, so it does not reach the effect."""
    settings.SAYSO_WEBHOOK_LOOPBACK = True
    token = provisioner_of(northgate).token
    where = {"provider_url": url, "provisioner_token": token, "url": receiver.address}
    made = beside(receiver.provision(**where, instance_name="a")).result(20)
    clients.made.append(receiver.client)
    agent = shim(clients(made.token), mode="async")
    receiver.resumers[shim.framework] = agent.resumer()
    beside(agent.run("ada", "bob")).result(30)
    first, second = pending(2)
    assert Session.objects.filter(instance_id=made.instance_id).count() == 1  # the thread that the shim sends
    before = agent.snapshot()
    assert agent.sent == [] and not Delivery.objects.exists()
    northgate.approves("Ada", first)
    deliver()
    soon(lambda: Run.objects.filter(pk=first.run_id, state="succeeded").exists())
    northgate.says("Ada", second, Denial(second.digest))
    deliver()
    soon(lambda: Run.objects.filter(pk=second.run_id, state="failed").exists())
    assert agent.sent == [to(first)] and not Delivery.objects.filter(delivered_at=None).exists()
    assert beside(receiver.wake(str(first.pk))).result(20) is True  # told twice
    beside(agent.again(before)).result(30)
    beside(agent.again(before)).result(30)
    assert agent.sent == [to(first)]
    assert Effect.objects.get().state == "committed" and Grant.objects.get().state == "consumed"
    assert Request.objects.filter(kind="wait_approval").count() == 2


def test_an_edited_call_is_not_the_approved_one(northgate, clients, beside):
    """K3 B26, B30: whoever replays it with other arguments asks anew, or is refused by its own shim."""
    from pydantic_ai import DeferredToolResults, ToolApproved

    agent = PydanticAI(clients(cast.elsewhere(northgate).token), mode="async")
    beside(agent.run("ada")).result(30)
    (asked,) = pending()
    northgate.approves("Ada", asked)
    edited = DeferredToolResults(approvals={"call-ada": ToolApproved(override_args={"to": "mallory"})})
    beside(agent.agent.run(conversation=agent.kept["c"], deferred_tool_results=edited)).result(30)
    assert agent.sent == [] and Grant.objects.get().state == "unused"


def test_a_replay_with_other_arguments_waits_for_its_own_approval(northgate, clients, beside):
    """K3 B26, B28: the same key of the call; what changed in it was approved by nobody."""
    gate = Gate(clients.sync(cast.elsewhere(northgate).token), mode="async")
    first = gate.check(call())
    assert isinstance(first, Pending)
    northgate.approves("Ada", Request.objects.get())
    elsewhere = {"to": "ada", "n": 1.5, "environment": "production"}
    changes = [{"arguments": {"to": "ada ", "n": 1.5}}, {"arguments": elsewhere}, {"server": "s"}, {"tool": "send_all"}]
    for changed in changes:
        other = gate.check(call(**changed))
        assert isinstance(other, Pending) and other.request_id != first.request_id
    assert gate.check(call()).request_id == first.request_id
    assert Grant.objects.get().state == "consumed" and Request.objects.filter(state="pending").count() == 4


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_agent_killed_after_consume_is_asked_about_and_does_not_do_it_again(northgate, clients, beside, clock, kind):
    """R26, K7: nobody reports; started anew, it finds its approval used. Past the deadline a person says."""
    token = cast.elsewhere(northgate).token

    def check():
        if kind == "sync":
            return Gate(clients.sync(token)).check(call())
        return beside(AsyncGate(clients(token)).check(call())).result(30)

    northgate.policy("send", verdict="allow")
    assert isinstance(check(), Allow)  # and here it dies
    again = check()
    assert isinstance(again, Deny) and (again.status, again.reason) == ("consumed", CONSUMED_TEXT)
    clock.move(minutes=10, seconds=1)
    transitions.sweep()
    assert Request.objects.get(kind="wait_effect").state == "pending" and Effect.objects.get().state == "uncertain"
    assert isinstance(check(), Deny) and Grant.objects.count() == 1


def test_two_processes_with_one_call_do_it_once(northgate, clients, race):
    """K9: both ask under one key, both are told that it is approved; one of them takes it."""
    token = cast.elsewhere(northgate).token
    northgate.policy("send", verdict="allow")
    verdicts = race(*[lambda: Gate(clients.sync(token)).check(call()) for _ in range(5)])
    assert [type(each) for each in verdicts].count(Allow) == 1, verdicts
    assert {each.status for each in verdicts if isinstance(each, Deny)} == {"consumed"}


def test_a_held_environment_makes_the_client_try_again(northgate, clients, beside):
    """R16: it retries by itself, and goes on after the release."""
    northgate.policy("send", verdict="allow")
    told = {"environment": "staging", "response_id": cast.uuid7()}
    transitions.hold(northgate.context("Olga"), **told)
    checking = beside(AsyncGate(clients(cast.elsewhere(northgate).token)).check(call()))
    soon(lambda: Request.objects.exists())
    transitions.release(northgate.context("Olga"), **told | {"response_id": cast.uuid7()})
    assert isinstance(checking.result(30), Allow)


def test_an_agent_whose_credential_was_revoked_is_told_so(northgate, clients, beside):
    """R40: during its long poll too."""
    mailer = cast.elsewhere(northgate)
    waiting = beside(AsyncGate(clients(mailer.token)).check(call()))
    pending()
    transitions.revoke_credential(northgate.context("Ann"), credential_id=mailer.context.credential_id)
    verdict = waiting.result(15)
    assert isinstance(verdict, Deny) and "credential" in verdict.reason and not Grant.objects.exists()
