"""Instances: made, changed and deleted by provisioner tokens, with idempotency, and with proof of their receivers."""

import json
import threading
import uuid

import pytest

from runtime_app import credentials, transitions
from runtime_app.api.aap import instances
from runtime_app.errors import NotAuthorized
from runtime_app.models import Credential, Delivery, Effect, Instance, Now, Receiver, Request, Run
from tests.aap.conftest import Agent, provisioner_of, refused, run, stored

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


def delivery(url: str = "https://hooks.example/aap", **more) -> dict:
    return {"type": "webhook", "url": url, "registration_id": str(uuid.uuid4()), "signing_secret": SECRET} | more


@pytest.fixture
def proofs(monkeypatch):
    """Receivers prove themselves, unless `proofs.fail`; what was asked is kept."""

    class Proofs(list):
        fail = False

    proofs = Proofs()

    def prove(address, instance_id):
        proofs.append((address.url, str(instance_id)))
        if proofs.fail:
            raise instances.refusals.Unverified

    monkeypatch.setattr(instances, "prove", prove)
    return proofs


def makes(factory, body=None, key: str = "k"):
    return factory.call("POST", "/instances", body or {}, key)


def test_a_provisioner_makes_an_instance_whose_credential_asks(northgate, factory):
    """R18, R20: its environment is the token's, its owner who made that."""
    status, told = makes(factory, {"instance_name": "codex-chris-laptop"})
    assert status == 201 and set(told) == {"instance", "credential"} and set(told["instance"]) == {"id", "name"}
    agent = Agent(told["credential"]["token"])
    assert agent.asks()[0] == 201
    made = Instance.objects.get(pk=told["instance"]["id"])
    assert (made.owner, made.environment, made.hosted) == (northgate.people["Ann"], northgate.staging, False)
    northgate.give(northgate.people["Ann"].memberships.get(), "approver")
    with pytest.raises(NotAuthorized):
        northgate.approves("Ann", Request.objects.get())


def test_the_same_call_gives_the_same_token_of_which_only_a_hash_is_kept(factory, owner):
    """T81: it is made again from what it was made of."""
    _, told = makes(factory, {"instance_name": "a"})
    assert makes(factory, {"instance_name": "a"}) == (200, told)
    refused(makes(factory, {"instance_name": "b"}), 409, "idempotency_conflict")
    assert makes(factory, {"instance_name": "a"}, key="other")[1]["credential"] != told["credential"]
    token = told["credential"]["token"]
    assert len(token) == len(credentials.token("instance"))
    tables = owner.execute("select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace")
    for (table,) in tables.fetchall():
        assert not owner.execute(f'select 1 from "{table}" t where t::text like %s', [f"%{token}%"]).fetchone(), table


def test_the_same_call_at_once_makes_one(factory, race):
    """T85: one makes it, the others are told what it made."""
    answers = race(*[lambda: makes(Agent(factory.token)) for _ in range(5)])
    assert sorted(status for status, _ in answers) == [200] * 4 + [201]
    assert len({json.dumps(told) for _, told in answers}) == 1 and Instance.objects.filter(hosted=False).count() == 1


def test_receivers_that_never_answer_keep_nobody_else_waiting(factory, proofs, monkeypatch, race):
    """T85: each holds one of few database connections, so of one token only some wait at once."""
    over, waiting = threading.Event(), threading.Semaphore(0)

    def prove(address, instance_id):
        waiting.release()
        assert over.wait(20)

    monkeypatch.setattr(instances, "prove", prove)
    slow = [
        lambda key=str(number): makes(Agent(factory.token), {"delivery": delivery()}, key)
        for number in range(instances.MOST_OF_ONE)
    ]

    def one_more():
        for _ in slow:
            assert waiting.acquire(timeout=20)
        answer = makes(Agent(factory.token), key="more")
        over.set()
        return answer

    *answers, more = race(*slow, one_more)
    refused(more, 429, "rate_limited")
    assert [status for status, _ in answers] == [201] * len(slow)
    assert makes(factory, key="more")[0] == 201


def test_a_receiver_proves_itself_before_anything_is_made(factory, proofs):
    proofs.fail = True
    sent = {"delivery": delivery()}
    refused(makes(factory, sent), 422, "webhook_verification_failed")
    assert not Instance.objects.filter(hosted=False).exists() and not Receiver.objects.exists()
    proofs.fail = False
    status, told = makes(factory, sent)
    assert status == 201 and proofs[1] == ("https://hooks.example/aap", told["instance"]["id"])
    assert told["instance"]["delivery"] == {k: v for k, v in sent["delivery"].items() if k != "signing_secret"}
    assert makes(factory, sent) == (200, told) and len(proofs) == 2
    assert SECRET.encode() not in bytes(Receiver.objects.get().secret)
    assert factory.call("GET", f"/instances/{told['instance']['id']}") == (200, told["instance"])


BAD_URLS = [
    "http://hooks.example/", "https://", "https://user@hooks.example/", "https://hooks.example/#f", "ftp://x/", "x",
    "https://127.0.0.1/", "https://10.1.2.3/", "https://169.254.169.254/latest", "https://[::1]/", "https://[fe80::1]/",
    "https://[::ffff:10.0.0.1]/", "https://[64:ff9b::a00:1]/", "https://[2002:a00:1::]/", "https://100.64.0.1/",
    "https://224.0.0.1/", "https://0.0.0.0/", "https://[fd00::1]/", "https://hooks.example:99999/", "https://hö.example/",
    "https://hooks.example/" + "x" * 2000, "https://hooks.example/a b",
]  # fmt: skip


def test_an_address_that_may_not_be_sent_to_is_refused_at_once(factory, proofs):
    """T87."""
    for url in BAD_URLS:
        refused(makes(factory, {"delivery": delivery(url)}), 400, "invalid_webhook_url")
    assert not proofs


WRONG = [
    {"delivery": None}, {"delivery": {}}, {"delivery": []}, {"instance_name": ""}, {"instance_name": " "},
    {"instance_name": 7}, {"instance_name": "x" * 201}, {"name": "x"}, {"instance_name": None}, [], "x", 7,
    {"delivery": delivery(signing_secret="whsec_short")}, {"delivery": delivery(registration_id="x")},
    {"delivery": delivery(signing_secret=SECRET[:-2] + "9=")}, {"delivery": delivery(extra=1)},
]  # fmt: skip


def test_what_is_no_provisioning_is_refused_by_name(factory, proofs):
    for wrong in WRONG:
        refused(factory.call("POST", "/instances", json.dumps(wrong), "k"), 400, "invalid_request")
    assert not Instance.objects.filter(hosted=False).exists()


def test_other_ways_of_delivery_are_not_known(factory, proofs):
    refused(makes(factory, {"delivery": delivery(type="socket")}), 400, "unsupported_delivery_type")


def test_an_update_is_answered_again_as_it_was_and_overwrites_nothing_later(factory, proofs):
    _, told = makes(factory, {"instance_name": "a"})
    path = f"/instances/{told['instance']['id']}"
    status, first = factory.call("PATCH", path, {"instance_name": "b", "delivery": delivery()}, "1")
    assert status == 200 and first["name"] == "b" and "delivery" in first
    status, second = factory.call("PATCH", path, {"delivery": None}, "2")
    assert (status, second) == (200, {"id": told["instance"]["id"], "name": "b"})
    sent = {"instance_name": "c"}
    assert factory.call("PATCH", path, sent, "3")[1]["name"] == "c"
    for key, body, answer in (("2", {"delivery": None}, second), ("3", sent, {**second, "name": "c"})):
        assert factory.call("PATCH", path, body, key) == (200, answer)
    refused(factory.call("PATCH", path, {"instance_name": "x"}, "2"), 409, "idempotency_conflict")
    assert factory.call("GET", path) == (200, {"id": told["instance"]["id"], "name": "c"})
    assert len(proofs) == 1 and makes(factory, {"instance_name": "a"})[1]["instance"]["name"] == "a"


def test_an_update_that_is_not_proven_changes_nothing(factory, proofs):
    _, told = makes(factory, {"delivery": delivery()})
    proofs.fail, path = True, f"/instances/{told['instance']['id']}"
    sent = {"instance_name": "new", "delivery": delivery("https://other.example/")}
    refused(factory.call("PATCH", path, sent, "1"), 422, "webhook_verification_failed")
    assert factory.call("GET", path) == (200, told["instance"])
    proofs.fail = False
    assert factory.call("PATCH", path, sent, "1")[1]["delivery"]["url"] == "https://other.example/"


def test_what_is_no_update_is_refused(factory):
    _, told = makes(factory)
    for wrong in [{}, {"instance_name": None}, {"x": 1}, {"delivery": {}}, []]:
        answer = factory.call("PATCH", f"/instances/{told['instance']['id']}", json.dumps(wrong), "1")
        refused(answer, 400, "invalid_request")


def test_an_instance_is_deleted_once_and_for_all(northgate, factory, proofs):
    """It revokes in one commit, ends its Runs, and doubts at once what nobody can report any more; none is told."""
    _, told = makes(factory, {"delivery": delivery()})
    agent, path = Agent(told["credential"]["token"]), f"/instances/{told['instance']['id']}"
    pending, approved, flying = (agent.asks(f"t{key}", key=str(key))[1] for key in range(3))
    for each in (approved, flying):
        northgate.approves("Ada", stored(each))
    agent.consumes(flying["id"])
    told_before = Delivery.objects.count()
    for _ in range(2):
        assert factory.call("DELETE", path) == (204, None)
    assert [run(each).state for each in (pending, approved, flying)] == ["cancelled"] * 3
    assert stored(pending).state == "cancelled" and stored(approved).outcome == "approved"
    assert {each.request_id: each.state for each in Effect.objects.all()} == {
        stored(approved).pk: "withdrawn", stored(flying).pk: "uncertain"
    }  # fmt: skip
    assert Request.objects.get(kind="wait_effect").state == "pending"
    assert Delivery.objects.count() == told_before == 2 and not Delivery.objects.filter(next_at__isnull=False).exists()
    refused(agent.reads(pending["id"]), 401, "unauthenticated")
    refused(factory.call("GET", path), 404, "not_found")
    refused(factory.call("PATCH", path, {"instance_name": "x"}, "1"), 404, "not_found")
    refused(makes(factory, {"instance_name": "x"}, key="k"), 409, "idempotency_conflict")


def test_a_deleted_instance_is_not_made_again(factory):
    _, told = makes(factory)
    factory.call("DELETE", f"/instances/{told['instance']['id']}")
    refused(makes(factory), 409, "instance_deleted")


def test_who_deletes_and_dies_leaves_the_rest_to_the_sweep(northgate, factory, monkeypatch):
    """From the commit that revoked it nothing of it can be approved."""
    _, told = makes(factory)
    asked = Agent(told["credential"]["token"]).asks()[1]
    from runtime_app.transitions import credentials as verbs

    monkeypatch.setattr(verbs, "end_instance", lambda *_: None)
    assert factory.call("DELETE", f"/instances/{told['instance']['id']}")[0] == 204
    assert run(asked).state == "waiting"
    with pytest.raises(NotAuthorized):
        northgate.approves("Ada", stored(asked))
    transitions.sweep()
    assert run(asked).state == "cancelled"


def test_a_deletion_and_a_request_at_once_leave_nothing_behind(northgate, factory, race):
    """Whatever was written before the deletion it finds; after it nothing is written."""
    _, told = makes(factory)
    token, path = told["credential"]["token"], f"/instances/{told['instance']['id']}"
    calls = [lambda n=n: Agent(token).asks(key=str(n)) for n in range(6)]
    answers = race(*calls[:3], lambda: Agent(factory.token).call("DELETE", path), *calls[3:])
    assert {answer[0] for answer in answers} <= {201, 204, 401}, answers
    assert not Run.objects.exclude(state="cancelled").exists()
    assert not Request.objects.filter(state="pending").exists()


def test_another_provisioners_instance_does_not_exist(northgate, harbour, factory):
    """R07."""
    _, told = makes(factory)
    path = f"/instances/{told['instance']['id']}"
    others = [provisioner_of(northgate, name="other"), provisioner_of(northgate, "production"), provisioner_of(harbour)]
    hosted = Instance.objects.filter(hosted=True).first()
    for agent, where in [(each, path) for each in others] + [(factory, f"/instances/{pk}") for pk in (hosted.pk, "x")]:
        renamed = agent.call("PATCH", where, {"instance_name": "x"}, "1")
        for answer in (agent.call("GET", where), renamed, agent.call("DELETE", where)):
            refused(answer, 404, "not_found")
    assert Credential.objects.filter(kind="instance", revoked_at=None).exists()


def test_a_rotated_token_manages_what_the_one_before_it_made(northgate, factory):
    """Two live at once; of its name, in its environment, and of no other."""
    _, told = makes(factory)
    made = transitions.rotate_credential(northgate.context("Ann"), credential_id=factory.credential.pk)
    path, rotated = f"/instances/{told['instance']['id']}", Agent(made.token)
    transitions.revoke_credential(northgate.context("Ann"), credential_id=factory.credential.pk)
    refused(factory.call("GET", path), 401, "unauthenticated")
    assert rotated.call("GET", path) == (200, told["instance"]) and rotated.call("DELETE", path)[0] == 204


def test_a_revoked_provisioner_makes_nothing(factory):
    Credential.objects.update(revoked_at=Now())
    refused(makes(factory), 401, "unauthenticated")
