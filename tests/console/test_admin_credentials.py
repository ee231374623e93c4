"""The administration of agents elsewhere: Root makes and revokes credentials, and reads nothing secret."""

import re

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.urls import reverse

from runtime_app import credentials, sealed, transitions
from runtime_app.errors import NotSignedIn
from runtime_app.ids import uuid7
from runtime_app.models import Credential, Delivery, Event, Receiver, Registration, Response, Secret
from tests import cast

MARKER = "hunter2-correct-horse"


@pytest.fixture
def root(client, northgate):
    root = get_user_model().objects.create_superuser("root", password=cast.PASSWORD)
    client.force_login(root, backend="allauth.account.auth_backends.AuthenticationBackend")
    return client


def to(model, page="changelist", *arguments) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=arguments)


def reads(response) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode()))


def agent_elsewhere(northgate) -> None:
    """An agent elsewhere that is told, asked for a secret and was answered."""
    Registration.objects.create(tenant=northgate.tenant, pattern="mail/*", title="Send a mail")
    mailer = cast.elsewhere(northgate)
    kept = {"tenant": northgate.tenant, "instance": mailer.instance, "url": "https://agent.example/"}
    receiver = Receiver.objects.create(**kept, registration_id=uuid7(), secret=sealed.seal(MARKER.encode(), "test"))
    form = {"type": "object", "properties": {"token": {"type": "string", "format": "password"}}}
    asked = mailer.asks(mailer.begins(), transitions.Question("q", "Token?", form))
    northgate.says("Sam", asked, cast.Answer({"token": MARKER}))
    Delivery.objects.create(tenant=northgate.tenant, receiver=receiver, request=asked, body="{}")


def test_no_page_shows_what_is_secret_not_even_sealed(root, northgate):
    """R12, T81."""
    agent_elsewhere(northgate)
    kept = [bytes(Secret.objects.get().sealed), bytes(Receiver.objects.get().secret), MARKER.encode()]
    hidden = [each.decode() for each in kept] + [Credential.objects.get().hash]
    for model in (Secret, Receiver, Delivery, Credential, Response, Event):
        for page in (root.get(to(model)), root.get(to(model, "change", model._base_manager.first().pk))):
            assert page.status_code == 200
            assert not [each for each in hidden if each in page.content.decode()]


def test_root_makes_a_credential_and_revokes_it(root, northgate):
    """The token is on the page that answers, and nowhere else; the log says who."""
    form = {"tenant": northgate.tenant.pk, "environment": northgate.staging.pk, "kind": "instance", "name": "Billing",
            "agent": "billing", "scopes": ["aap"], "expires_at": ""}  # fmt: skip
    page = root.post(to(Credential, "add"), form)
    (token,) = re.findall(r"sayso_i_[0-9a-f]{64}", page.content.decode())
    made, _ = credentials.authenticate(token, scope="aap", kind="instance")
    assert (made.made_by.username, made.instance.agent) == ("root", "billing")
    change = to(Credential, "change", made.pk)
    shown = root.get(change).content.decode()
    assert token not in shown and "Revoke this credential" in shown
    assert root.post(change, {"name": "forged"}).status_code == 403
    assert root.post(change, {"_revoke": "1"}).status_code == 302
    with pytest.raises(NotSignedIn):
        credentials.authenticate(token, scope="aap", kind="instance")
    said = LogEntry.objects.filter(object_id=str(made.pk)).values_list("user__username", "change_message")
    assert sorted(said) == [("root", "Made."), ("root", "Revoked.")]
    assert "Revoke it instead" in reads(root.post(to(Credential, "delete", made.pk), {"post": "yes"}))


@pytest.mark.parametrize(
    "changed, sentence",
    [
        ({"environment": "foreign"}, "This environment belongs to another tenant, Harbour."),
        ({"agent": "no slug"}, "1 to 80 letters"),
        ({"scopes": []}, "This field is required."),
        ({"expires_at": "2020-01-01 12:00"}, "choose a time to come"),
    ],
)
def test_a_credential_that_makes_no_sense_is_refused_in_words(changed, sentence, root, northgate, harbour):
    places = {"foreign": harbour.staging.pk}
    form = {"tenant": northgate.tenant.pk, "environment": northgate.staging.pk, "kind": "instance", "name": "Billing",
            "agent": "billing", "scopes": ["aap"], "expires_at": ""}  # fmt: skip
    form |= {name: places.get(value, value) if isinstance(value, str) else value for name, value in changed.items()}
    page = root.post(to(Credential, "add"), form)
    assert page.status_code == 200 and sentence in reads(page)
    assert not Credential.objects.exists()
