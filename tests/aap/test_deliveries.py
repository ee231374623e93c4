"""Notifications: written with the decision, signed, sent to checked addresses, again until acknowledged (T87)."""

import asyncio
import json
import ssl
import threading
import time
import uuid
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from agentapprovalprotocol.receiver import verify
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from runtime_app import deliveries, transitions, webhooks
from runtime_app.models import Delivery, Receiver
from tests.aap.conftest import Agent, provisioner_of, refused, stored
from tests.aap.receiving import SECRET, Hook
from tests.aap.test_instances import makes
from tests.cast import Deny
from tests.hosted.processes import beside_a_worker, soon

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def loopback(settings):
    settings.SAYSO_WEBHOOK_LOOPBACK = True


@pytest.fixture
def hook():
    with Hook() as hook:
        yield hook


def wanted(url: str, **more) -> dict:
    registration = {"type": "webhook", "url": url, "registration_id": str(uuid.uuid4()), "signing_secret": SECRET}
    return {"delivery": registration | more}


@pytest.fixture
def agent(factory, hook):
    """An agent that is told at `hook`; `agent.path` is its Instance's."""
    status, told = makes(factory, wanted(hook.url))
    assert status == 201, told
    agent = Agent(told["credential"]["token"])
    agent.id, agent.path = told["instance"]["id"], f"/instances/{told['instance']['id']}"
    hook.heard.clear()
    return agent


def deliver() -> int:
    """What a worker does: every attempt that is due, once."""
    due = deliveries.due(100)
    for parcel in due:
        transitions.delivered(parcel, *asyncio.run(deliveries.attempt(parcel)))
    return len(due)


def approve(northgate, told: dict) -> dict:
    northgate.approves("Ada", stored(told))
    return told


# ---------------------------------------------------------------- the receiver proves itself


def test_verification_is_signed_and_names_what_is_proposed(factory, hook):
    sent = wanted(hook.url)
    status, told = makes(factory, sent)
    (message,) = hook.messages()
    assert status == 201 and message["registration_id"] == sent["delivery"]["registration_id"]
    assert message["instance_id"] == told["instance"]["id"] and set(message) == {
        "id", "type", "registration_id", "instance_id", "created_at", "challenge"
    }  # fmt: skip


def test_only_the_very_challenge_passes(factory):
    def said(status, body, **headers):
        return lambda message: (status, headers, body if isinstance(body, str) else json.dumps(body(message)))

    wrong = [
        said(204, ""), said(200, ""), said(201, lambda m: {"challenge": m["challenge"]}), said(200, "{}"),
        said(200, lambda m: {"challenge": m["challenge"], "x": 1}), said(200, lambda m: {"challenge": m["id"]}),
        said(302, "", Location="/other"), said(200, "x" * 100_000), said(200, "[" * 10_000),
        said(200, lambda m: m["challenge"]), said(403, ""),
    ]  # fmt: skip
    for answer in wrong:
        with Hook(answer) as hook:
            refused(makes(factory, wanted(hook.url)), 422, "webhook_verification_failed")
            assert len(hook.heard) == 1  # one attempt, no redirect followed
    refused(makes(factory, wanted(hook.url)), 422, "webhook_verification_failed")  # nobody listens there any more


# ---------------------------------------------------------------- one notification for each end


def test_whatever_ends_a_request_is_told_once(northgate, agent, hook, clock):
    """In the transaction that ends it: approved, denied, cancelled by its agent or by a person, expired, by policy."""
    northgate.policy("by_policy", verdict="allow")
    ends = {
        "approved": lambda told: approve(northgate, told),
        "denied": lambda told: northgate.says("Ada", stored(told), Deny(stored(told).digest)),
        "taken": lambda told: agent.cancels(told["id"]),
        "cancelled": lambda told: northgate.cancels("Olga", stored(told).run),
        "by_policy": lambda told: None,
        "expired": lambda told: (clock.move(hours=1), transitions.sweep()),
    }
    for tool, end in ends.items():
        _, told = agent.asks(tool, key=tool)
        assert Delivery.objects.filter(request_id=told["id"]).exists() == (tool == "by_policy")
        end(told)
        delivery = Delivery.objects.get(request_id=told["id"])
        _, now = agent.reads(told["id"])
        assert json.loads(delivery.body) == {
            "id": str(delivery.pk), "type": "request.resolved", "instance_id": agent.id, "request_id": told["id"],
            "created_at": now["decision"]["decided_at"],
        }  # fmt: skip
    agent.asks(key="approved", tool="approved")  # a replay tells nobody again
    assert deliver() == 4 and deliver() == 2 and deliver() == 0  # four at once for one Instance
    assert {message["request_id"] for message in hook.messages(tolerance=10_000)} == {
        str(pk) for pk in Delivery.objects.values_list("request_id", flat=True)
    }
    assert Delivery.objects.filter(delivered_at=None).count() == 0


def test_an_attempt_is_signed_anew_and_says_the_same(northgate, agent, clock):
    """Body and id never change; timestamp and signature are of the attempt."""
    with Hook(500, 204) as hook:
        Receiver.objects.update(url=hook.url)
        approve(northgate, agent.asks()[1])
        assert deliver() == 1 and deliver() == 0
        clock.move(seconds=4)
        assert deliver() == 1
    (first, body), (second, again) = hook.heard
    assert body == again and first["webhook-id"] == second["webhook-id"] == json.loads(body)["id"]
    assert int(second["webhook-timestamp"]) > int(first["webhook-timestamp"])
    assert first["webhook-signature"] != second["webhook-signature"]
    assert verify(SECRET, first, body)["type"] == "request.resolved"
    assert "authorization" not in {name.lower() for name in first} and agent.token not in str(first)
    with pytest.raises(ValueError):
        verify(SECRET, first | {"webhook-timestamp": second["webhook-timestamp"]}, body)
    delivery = Delivery.objects.get()
    assert (delivery.attempts, delivery.last_status, delivery.next_at) == (2, "204", None)


def test_a_worker_tells_at_once_what_was_decided(northgate, agent, hook):
    """It is woken by the commit: by itself it would look a minute later."""

    def people():
        approve(northgate, agent.asks()[1])
        soon(lambda: Delivery.objects.filter(delivered_at__isnull=False).exists(), within=15)

    beside_a_worker(people, SAYSO_LOOK_SECONDS=60)
    assert [message["type"] for message in hook.messages()] == ["request.resolved"]


def test_it_is_tried_for_168_hours_after_the_decision_later_each_time(northgate, agent, clock):
    with Hook(500) as hook:
        Receiver.objects.update(url=hook.url)
        approve(northgate, agent.asks()[1])
        pauses = []
        while deliver():
            delivery = Delivery.objects.get()
            if delivery.next_at:
                pauses.append((delivery.next_at - clock.now()).total_seconds())
                clock.move(seconds=pauses[-1] + 0.1)
    assert delivery.ended_why == "Nobody acknowledged it within 168 hours." and delivery.delivered_at is None
    assert sum(pauses) < 168 * 3600 < sum(pauses) + 9 * 3600 and len(pauses) == len(hook.heard) - 1
    expected = [min(2 * 2**n, 6 * 3600) for n in range(len(pauses))]
    assert all(mean * 0.45 < pause < mean * 1.55 for mean, pause in zip(expected, pauses, strict=True))
    assert len({round(pause / mean, 2) for mean, pause in zip(expected, pauses, strict=True)}) > 5  # jitter


def test_retry_after_is_respected_within_the_window(northgate, agent, clock):
    cases = [
        ("429", "3600", 3600),
        ("503", "date", 7200),
        ("500", "3600", 3),
        ("429", "never", 3),
        ("503", "1" * 90, None),
    ]
    for status, told, least in cases:
        date = format_datetime(clock.now() + timedelta(seconds=7200), usegmt=False)
        with Hook((int(status), {"Retry-After": date if told == "date" else told}, "")) as hook:
            Receiver.objects.update(url=hook.url)
            approve(northgate, agent.asks(key=status + told)[1])
            assert deliver() == 1
        delivery = Delivery.objects.order_by("-made_at").first()
        if least is None:  # beyond the window: it is over
            assert delivery.next_at is None and delivery.ended_why
        else:
            pause = (delivery.next_at - clock.now()).total_seconds()
            assert (least < 60 or pause > least - 60) and pause < least + 5
        Delivery.objects.update(next_at=None)


def test_one_attempt_at_a_time_and_one_that_died_is_made_again(northgate, agent, hook, clock, race):
    approve(northgate, agent.asks()[1])
    taken = [parcel for found in race(*[lambda: transitions.take_deliveries(10)] * 5) for parcel in found]
    assert len(taken) == 1 and not transitions.take_deliveries(10)
    clock.move(seconds=31)  # longer than any attempt lasts: whoever took it is gone
    (again,) = transitions.take_deliveries(10)
    transitions.delivered(again, "204", True)
    transitions.delivered(taken[0], "500", False)  # the first one, late: nothing is undone
    delivery = Delivery.objects.get()
    assert delivery.delivered_at and delivery.next_at is None and delivery.attempts == 2


def test_one_that_never_answers_keeps_no_other_waiting(northgate, factory, agent, hook):
    """T92: of one Instance a few at once."""
    for key in range(9):
        approve(northgate, agent.asks(f"t{key}", key=str(key))[1])
    _, told = makes(factory, wanted(hook.url), key="2")
    other = Agent(told["credential"]["token"])
    approve(northgate, other.asks(key="x")[1])
    assert len(transitions.take_deliveries(16)) == 5 and not transitions.take_deliveries(16)


def test_a_tenant_whose_receivers_never_answer_keeps_no_other_tenant_waiting(northgate, harbour, agent, hook):
    """T92: tenants take turns, however long the line of one is and however many Instances it has."""
    mallory = provisioner_of(harbour)
    for name in "abcde":
        _, told = makes(mallory, wanted(hook.url), key=name)
        hanging = Agent(told["credential"]["token"])
        for key in "1234":
            asked = hanging.asks(key, key=key)[1]
            hanging.cancels(asked["id"])
    approve(northgate, agent.asks()[1])
    taken = transitions.take_deliveries(16)
    assert len(taken) == 16
    assert "northgate" in set(Delivery.objects.filter(taken_until__isnull=False).values_list("tenant__slug", flat=True))
    approve(northgate, agent.asks("again", key="again")[1])  # a place is free, and harbour waits longer for it
    (first,) = transitions.take_deliveries(1)
    assert Delivery.objects.get(pk=first.delivery_id).tenant_id == northgate.tenant.pk


def test_after_a_restore_nobody_is_told_until_a_person_says_so(northgate, agent, monkeypatch):
    """R27: a copy of an installation does not tell the agents of the original."""
    approve(northgate, agent.asks()[1])
    monkeypatch.setattr(deliveries.epochs, "released", lambda epoch: False)
    assert deliver() == 0
    monkeypatch.undo()


# ---------------------------------------------------------------- the receiver changes


def test_what_waits_goes_to_the_new_receiver_and_what_is_removed_ends(northgate, factory, agent, clock):
    with Hook(500) as old, Hook() as new:
        Receiver.objects.update(url=old.url)
        approve(northgate, agent.asks()[1])
        assert deliver() == 1
        assert factory.call("PATCH", agent.path, wanted(new.url), "1")[0] == 200
        clock.move(seconds=4)
        assert deliver() == 1 and len(old.heard) == 1
        assert [message["type"] for message in new.messages()] == ["webhook.verification", "request.resolved"]
        assert new.heard[1][1] == old.heard[0][1]
        approve(northgate, agent.asks("b", key="b")[1])
        factory.call("PATCH", agent.path, {"delivery": None}, "2")
        assert deliver() == 0 and Delivery.objects.get(next_at=None, delivered_at=None).ended_why
        approve(northgate, agent.asks("c", key="c")[1])
        assert Delivery.objects.count() == 2  # none without a receiver
        assert factory.call("PATCH", agent.path, wanted(new.url), "3")[0] == 200
        assert deliver() == 0  # and none afterwards


# ---------------------------------------------------------------- where it may go


def sends(url: str, seconds: float = 5):
    at = datetime.now(UTC)
    return asyncio.run(webhooks.post(url, id="m", at=at, secret=SECRET, body="{}", seconds=seconds))


def names(monkeypatch, *answers):
    """A resolver that says one thing after another, and then the last one again."""
    said = list(answers)

    async def resolve(host, port):
        return said.pop(0) if len(said) > 1 else said[0]

    monkeypatch.setattr(webhooks, "resolve", resolve)


INSIDE = [
    "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255",
    "240.0.0.1", "198.18.0.1", "192.0.2.1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fec0::1", "ff02::1",
    "::ffff:10.0.0.1", "::ffff:8.8.8.8", "::10.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::1", "2002:a00:1::1", "2001::1",
    "2001:db8::1", "3fff::1", "100::1", "no address",
]  # fmt: skip


def test_no_address_of_ours_is_sent_to(monkeypatch, settings):
    settings.SAYSO_WEBHOOK_LOOPBACK = False
    for address in [*INSIDE, "127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"]:
        assert not webhooks.reachable(address), address
        names(monkeypatch, ["93.184.216.34", address])  # one of them is enough
        with pytest.raises(webhooks.Unsafe):
            sends("https://hooks.example/")
    for address in ("93.184.216.34", "8.8.8.8", "2606:2800:220:1::1"):
        assert webhooks.reachable(address)


def test_a_name_server_that_hangs_keeps_nobody_beyond_their_time(monkeypatch, settings):
    """T92: the call ends when its time is over, though the look-up cannot be stopped."""
    over = threading.Event()
    monkeypatch.setattr(webhooks.socket, "getaddrinfo", lambda *_, **__: over.wait(60) and [])
    began = time.monotonic()
    with pytest.raises(webhooks.Failed):
        sends("https://hangs.example/", seconds=0.2)
    assert time.monotonic() - began < 10
    over.set()


def test_a_name_that_changes_its_meaning_gains_nothing(monkeypatch, settings, hook):
    """It is asked once, and the connection goes to the address that was checked; the next attempt asks anew."""
    asked = []

    async def resolve(host, port):
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    monkeypatch.setattr(webhooks, "resolve", resolve)
    port = hook.url.split(":")[2]
    monkeypatch.setattr(webhooks, "check", lambda url: url)  # as if it were a public one
    assert sends(f"http://rebound.test:{port}").acknowledges and asked == ["rebound.test"]
    assert hook.heard[0][0]["Host"] == f"rebound.test:{port.split('/')[0]}"
    with pytest.raises(webhooks.Unsafe):
        sends(f"http://rebound.test:{port}")


def test_a_certificate_is_one_of_the_name_and_not_of_the_address(monkeypatch, tmp_path):
    """T87: the connection goes to a checked address, and proves the name."""
    key, pem, later = ec.generate_private_key(ec.SECP256R1()), tmp_path / "pem", timedelta(days=1)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hooks.test")])
    certificate = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    certificate = certificate.not_valid_before(datetime.now(UTC) - later).not_valid_after(datetime.now(UTC) + later)
    certificate = certificate.add_extension(x509.SubjectAlternativeName([x509.DNSName("hooks.test")]), critical=False)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    pem.write_bytes(private + certificate.sign(key, SHA256()).public_bytes(Encoding.PEM))
    ours, theirs = ssl.create_default_context(cafile=pem), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(pem)
    asked = []
    theirs.sni_callback = lambda _, server, __: asked.append(server)
    monkeypatch.setattr(webhooks, "_certificates", lambda: ours)
    names(monkeypatch, ["127.0.0.1"])
    with Hook(tls=theirs) as hook:
        port = hook.url.split(":")[2]
        assert sends(f"https://hooks.test:{port}").acknowledges and asked == ["hooks.test"]
        with pytest.raises(webhooks.Failed):
            sends(f"https://other.test:{port}")
    assert len(hook.heard) == 1


def test_loopback_is_for_development(settings, hook):
    assert sends(hook.url).acknowledges
    settings.SAYSO_WEBHOOK_LOOPBACK = False
    for url in (hook.url, hook.url.replace("http:", "https:"), "https://localhost:1/", "https://2130706433/"):
        with pytest.raises(webhooks.Unsafe):
            sends(url)
    assert len(hook.heard) == 1


def test_a_redirect_is_an_answer_and_a_slow_one_is_none(hook):
    with Hook((307, {"Location": hook.url}, "")) as away:
        assert (sends(away.url).status, hook.heard) == (307, [])

    def slow(message):
        hook.lock.acquire(timeout=3)
        return 204

    with Hook(slow) as stuck:
        hook.lock.acquire()
        try:
            with pytest.raises(webhooks.Failed, match="TimeoutError"):
                sends(stuck.url, seconds=0.5)
        finally:
            hook.lock.release()


def test_what_a_receiver_says_fills_no_memory():
    with Hook(lambda message: (200, {"Content-Encoding": "gzip"}, "x" * 5_000_000)) as hook:
        assert len(sends(hook.url).body) <= webhooks.READ + 1
