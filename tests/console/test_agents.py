"""The pages of agents and of what is known of their actions: Ann administers, everybody looks."""

import re

import pytest

from runtime_app import credentials, selectors
from runtime_app.errors import NotSignedIn
from runtime_app.ids import uuid7
from runtime_app.models import Credential, Effect, Instance, Now, Refusal, Registration, Request
from tests.cast import Approve, elsewhere
from tests.console.stage import visitor
from tests.database import everything

ROOT = "/t/northgate/"
FORM = {"kind": "instance", "name": "Billing, on the mail server", "agent": "billing", "environment": "staging",
        "aap": "on", "api": "on", "lives": "90"}  # fmt: skip
MAIL = {"pattern": "mail/*", "title": "Send a mail", "consequence": "Somebody reads it.", "reversible": "No.",
        "minutes": "2", "changes": "on", "conclusive": "on", "risky": "to\r\n\r\n cc \r\n"}  # fmt: skip


@pytest.fixture
def ann(northgate):
    return visitor(northgate.people["Ann"])


def reads(page) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.content.decode()))


def token_in(page) -> str:
    (token,) = re.findall(r"sayso_[pi]_[0-9a-f]{64}", page.content.decode())
    return token


def makes(ann, **more):
    return ann.post(f"{ROOT}agents/new/", {"credential_id": str(uuid7())} | FORM | more)


# ---------------------------------------------------------------- credentials


def test_ann_makes_a_credential_and_sees_its_token_once(ann):
    """T82: in no address, in no other page, in no cache."""
    page = makes(ann)
    token = token_in(page)
    assert page.status_code == 200 and page["Cache-Control"] == "no-store" and "Location" not in page
    credential, context = credentials.authenticate(token, scope="aap", kind="instance", address="10.1.2.3")
    assert (credential.name, credential.expires_at is not None) == ("Billing, on the mail server", True)
    listed = ann.get(f"{ROOT}agents/")
    assert token not in listed.content.decode() and credential.prefix in reads(listed)
    assert "Ann" in reads(listed) and "10.1.2.3" in reads(listed) and "Live" in reads(listed)
    assert token not in everything()


def test_the_same_form_again_makes_nothing_and_says_so(ann):
    """R09: a reload of the page with the token sends the form again."""
    once = str(uuid7())
    token_in(makes(ann, credential_id=once))
    again = makes(ann, credential_id=once)
    assert again.status_code == 409 and "shown once" in reads(again)
    assert Credential.objects.count() == 1


def test_a_provisioner_token_and_one_that_lives_until_revoked(ann):
    token = token_in(makes(ann, kind="provisioner", lives=""))
    assert credentials.authenticate(token, scope="aap", kind="provisioner")[0].expires_at is None
    assert "Provisioner tokens" in reads(ann.get(f"{ROOT}agents/"))
    assert "for the agents it makes; not for this token" in reads(makes(ann, kind="provisioner", api="on"))


def test_a_token_that_lives_is_revoked_however_many_were_made_since(ann, monkeypatch):
    """R06: what can be revoked is not crowded out by what was revoked, or has expired."""
    monkeypatch.setitem(selectors.agents.__globals__, "TOKENS", 3)
    old = _made(makes(ann, kind="provisioner", lives=""))
    for _ in range(3):
        ann.post(f"{ROOT}credentials/{_made(makes(ann, kind='provisioner'))}/revoke/", {})
    assert f"credentials/{old}/revoke/" in ann.get(f"{ROOT}agents/").content.decode()


@pytest.mark.parametrize(
    "wrong, word",
    [
        ({"kind": ""}, "Choose what it is for."),
        ({"name": " "}, "Write what people call it."),
        ({"agent": "no slug"}, "1 to 80 letters"),
        ({"environment": "moon"}, "choose one of the tenant"),
        ({"aap": "", "api": ""}, "Choose at least one interface."),
        ({"lives": "5000"}, "Choose how long it lives."),
        ({"credential_id": "x"}, "lost its id"),
        ({"scopes": "aap"}, "no such field"),
    ],
)
def test_a_form_that_makes_no_sense_comes_back_as_it_was(ann, wrong, word):
    page = makes(ann, **wrong)
    assert page.status_code == 422 and word in reads(page)
    assert wrong.keys() & {"name"} or "Billing, on the mail server" in page.content.decode()
    assert not Credential.objects.exists() and Refusal.objects.filter(verb="make_credential").exists()


def test_rotated_there_are_two_and_revoked_there_is_none(ann, northgate):
    old = Credential.objects.get(pk=_made(makes(ann)))
    page = ann.post(
        f"{ROOT}credentials/{old.pk}/rotate/", {"credential_id": str(uuid7()), "overlap": "24", "lives": "30"}
    )
    new = Credential.objects.get(pk=_made(page))
    old.refresh_from_db()
    assert credentials.live().count() == 2 and new.instance_id == old.instance_id and old.expires_at
    for each in (old, new):
        assert ann.post(f"{ROOT}credentials/{each.pk}/revoke/", {}).status_code == 303
    with pytest.raises(NotSignedIn):
        credentials.authenticate(token_in(page), scope="aap", kind="instance")
    assert "no credential of it is live" in reads(ann.get(f"{ROOT}agents/"))
    form = ann.get(f"{ROOT}agents/new/?agent={old.instance_id}")
    assert str(old.instance_id) in form.content.decode()
    third = makes(ann, instance=str(old.instance_id), agent="")
    assert Credential.objects.get(pk=_made(third)).instance_id == old.instance_id
    assert Instance.objects.filter(hosted=False).count() == 1


def _made(page):
    prefix = credentials.stored(token_in(page))["prefix"]
    return Credential.objects.values_list("pk", flat=True).get(prefix=prefix)


def test_a_third_live_one_is_refused_on_the_page(ann):
    old = _made(makes(ann))
    for expected in (200, 422):
        page = ann.post(f"{ROOT}credentials/{old}/rotate/", {"credential_id": str(uuid7()), "lives": "30"})
        assert page.status_code == expected
    assert "2 live credentials already" in reads(page)


def test_a_deleted_agent_is_listed_apart_and_asks_nothing_more(ann, northgate):
    mailer = elsewhere(northgate)
    asked = mailer.proposes()
    assert "1 Run not ended" in reads(ann.get(f"{ROOT}agents/"))
    assert ann.post(f"{ROOT}agents/{mailer.instance.pk}/delete/", {}).status_code == 303
    assert Request.objects.get(pk=asked.pk).state == "cancelled"
    assert "mailer" not in reads(ann.get(f"{ROOT}agents/"))
    assert "mailer" in reads(ann.get(f"{ROOT}agents/?show=deleted"))
    hosted = Instance.objects.filter(tenant=northgate.tenant, hosted=True).first()
    refused = ann.post(f"{ROOT}agents/{hosted.pk}/delete/", {})
    assert refused.status_code == 422 and "hosted here" in reads(refused)


@pytest.mark.parametrize("who", ["Rita", "Ada", "Olga", "Omar"])
def test_who_is_no_admin_looks_and_changes_nothing(who, northgate):
    """R06, R21: no dead buttons; who sends the form all the same is refused, and that is written down."""
    mailer, client = elsewhere(northgate), visitor(northgate.people[who])
    described = Registration.objects.create(tenant=northgate.tenant, pattern="mail/*", title="Send a mail")
    credential = Credential.objects.get()
    for address in ("agents/", "agents/new/", "actions/", "actions/new/", f"actions/{described.pk}/"):
        page = client.get(ROOT + address)
        assert page.status_code == 200 and "role admin" in reads(page), address
        buttons = re.findall(r'<form(?![^>]*sign-out)[^>]*method="post"', page.content.decode())
        assert not buttons or "disabled" in page.content.decode(), address
    posts = {
        "agents/new/": FORM | {"credential_id": str(uuid7())},
        f"credentials/{credential.pk}/rotate/": {"credential_id": str(uuid7()), "lives": "30"},
        f"credentials/{credential.pk}/revoke/": {}, f"agents/{mailer.instance.pk}/delete/": {},
        "actions/new/": MAIL | {"pattern": "x"}, f"actions/{described.pk}/": MAIL,
        f"actions/{described.pk}/remove/": {},
    }  # fmt: skip
    for address, data in posts.items():
        assert client.post(ROOT + address, data).status_code == 403, address
    assert Refusal.objects.count() == len(posts)
    assert credentials.live().count() == 1 and Registration.objects.count() == 1


def test_many_agents_come_page_by_page(ann, northgate):
    for number in range(23):
        elsewhere(northgate, f"agent-{number:02}")
    first = ann.get(f"{ROOT}agents/")
    (after,) = re.findall(r"\?before=([0-9a-f-]{36})", first.content.decode())
    second = ann.get(f"{ROOT}agents/?before={after}")
    for page, here, gone in ((first, "agent-22", "agent-02"), (second, "agent-02", "agent-22")):
        assert here in reads(page) and gone not in reads(page)


# ---------------------------------------------------------------- the registry


def test_an_action_is_described_edited_and_removed(ann, northgate):
    mailer = elsewhere(northgate)
    mailer.proposes()
    page = ann.get(f"{ROOT}actions/")
    assert "mail/send" in reads(page) and "Asked for lately" in reads(page)
    assert "mail/send" in ann.get(f"{ROOT}actions/new/?name=mail/send").content.decode()
    assert ann.post(f"{ROOT}actions/new/", MAIL).status_code == 303
    row = Registration.objects.get()
    assert (row.risky, row.deadline.total_seconds(), row.changes) == (["to", "cc"], 120, True)
    assert "Asked for lately" not in reads(ann.get(f"{ROOT}actions/"))
    edited = {name: text for name, text in MAIL.items() if name not in ("changes", "conclusive")}
    assert ann.post(f"{ROOT}actions/{row.pk}/", edited).status_code == 303
    row.refresh_from_db()
    assert (row.changes, row.failure_conclusive) == (False, False)
    form = ann.get(f"{ROOT}actions/{row.pk}/").content.decode()
    assert "Somebody reads it." in form and "to\ncc" in form
    assert ann.post(f"{ROOT}actions/{row.pk}/remove/", {}).status_code == 303
    assert not Registration.objects.exists()


@pytest.mark.parametrize(
    "wrong, word",
    [
        ({"pattern": ""}, "Write the action"),
        ({"title": ""}, "in a few words"),
        ({"pattern": "deploy"}, "described by its code here"),
        ({"minutes": "soon"}, "whole number of minutes"),
        ({"minutes": "0"}, "whole number of minutes"),
        ({"minutes": "999999"}, "30 days or less"),
        ({"risky": "\n".join("x" * 51)}, "At most 50 names"),
        ({"consequence": "x" * 2_001}, "At most 2,000 characters"),
        ({"tenant": "harbour"}, "no such field"),
    ],
)
def test_a_description_that_makes_no_sense_comes_back(ann, northgate, wrong, word):
    page = ann.post(f"{ROOT}actions/new/", MAIL | wrong)
    assert page.status_code == 422 and word in reads(page)
    assert "reversible" in wrong or "No." in page.content.decode()
    assert not Registration.objects.exists()


# ---------------------------------------------------------------- what was asked from elsewhere, on pages


def test_the_card_says_that_nobody_described_it_and_keeps_what_is_claimed_apart(northgate):
    """R03: server and tool as they were sent; what the agent says is no fact, and no title."""
    mailer = elsewhere(northgate)
    sent = '{"tool":"send","server":"mail","timeout":"5m","agent_reasoning":"Totally safe.","context":{}}'
    asked = mailer.proposes(claim="Totally safe.", sent=sent)
    page = visitor(northgate.people["Ada"]).get(f"{ROOT}requests/{asked.pk}/")
    said = reads(page)
    assert "Unregistered action." in said and "Server" in said and "Tool" in said
    assert "What the agent says not checked Totally safe." in said
    assert "Totally safe" not in re.search(r"<title>.*?</title>", page.content.decode(), re.DOTALL)[0]
    inbox = reads(visitor(northgate.people["Ada"]).get(f"{ROOT}inbox/"))
    assert "mail/send" in inbox and "Unregistered" in inbox and "Totally" not in inbox


def test_a_run_that_is_one_request_is_told_from_its_first_to_its_last(northgate):
    """R25, R31: what its agent reported is called that."""
    mailer = elsewhere(northgate)
    asked = mailer.proposes()
    olga = visitor(northgate.people["Olga"])
    assert "One request" in reads(olga.get(f"{ROOT}runs/{asked.run_id}/"))
    northgate.says("Ada", asked, Approve(digest=asked.digest))
    mailer.dispatches(asked)
    mailer.reports(asked, reference="mail-7", note="sent")
    run = reads(olga.get(f"{ROOT}runs/{asked.run_id}/"))
    assert "Succeeded" in run and "reported by its agent" in run
    effect = Effect.objects.get(request=asked)
    assert "reported by its agent" in reads(olga.get(f"{ROOT}effects/{effect.pk}/"))


def test_an_expired_credential_is_said_to_be(ann, northgate):
    elsewhere(northgate)
    Credential.objects.update(expires_at=Now())
    assert "Expired" in reads(ann.get(f"{ROOT}agents/"))
