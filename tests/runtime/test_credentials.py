"""Credentials of agents elsewhere: who may make, rotate and revoke them, and what is kept of them."""

from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model

from runtime_app import credentials, permissions, transitions
from runtime_app.errors import IdempotencyConflict, InvalidInput, NotAuthorized, NotFound, NotSignedIn
from runtime_app.events import NEWS
from runtime_app.ids import uuid7
from runtime_app.models import Credential, Effect, Instance, Refusal, Request, Run
from tests.cast import Approve, elsewhere
from tests.database import everything

pytestmark = pytest.mark.django_db(transaction=True)


def make(house, who="Ann", kind="instance", name="billing", environment="staging", **more):
    return transitions.make_credential(house.context(who), kind=kind, name=name, environment=environment, **more)


def lives(made, scope="api", kind="instance") -> bool:
    try:
        return credentials.authenticate(made.token, scope=scope, kind=kind)[0].pk == made.credential.pk
    except NotSignedIn:
        return False


# ---------------------------------------------------------------- made


def test_ann_makes_one_and_its_token_is_kept_nowhere(northgate):
    """T81: 256 random bits, shown once, a hash and a short prefix kept; bound to tenant, environment and scopes."""
    made = make(northgate, agent="billing", scopes=["api"])
    assert len(bytes.fromhex(made.token.removeprefix("sayso_i_"))) * 8 == 256
    kept = everything()
    assert made.credential.prefix in kept and made.token not in kept
    assert made.token.removeprefix("sayso_i_") not in kept
    assert lives(made) and not lives(made, scope="aap") and not lives(made, kind="provisioner")
    instance = made.credential.instance
    assert (instance.agent, instance.environment.name, instance.hosted) == ("billing", "staging", False)
    assert instance.owner == northgate.people["Ann"] == made.credential.made_by


def test_who_made_it_is_in_the_log_of_the_administration(northgate):
    made = make(northgate)
    transitions.revoke_credential(northgate.context("Ann"), credential_id=made.credential.pk)
    said = LogEntry.objects.filter(object_id=str(made.credential.pk)).values_list("user__username", "change_message")
    assert sorted(said) == [("ann", "Made."), ("ann", "Revoked.")]
    assert made.token not in str(list(LogEntry.objects.values()))


@pytest.mark.parametrize("who", ["Ada", "Sam", "Olga", "Rita", "Omar", "Stan"])
def test_only_an_admin_makes_rotates_revokes_and_deletes(who, northgate):
    """R06: no other role implies it; who owns agents does not either."""
    made = make(northgate)
    for attempt in attempts(northgate.context(who), made):
        with pytest.raises(NotAuthorized) as refused:
            attempt()
        assert refused.value.facts["permission"] == "admin"
    assert lives(made) and Credential.objects.count() == 1
    assert set(Refusal.objects.values_list("verb", flat=True)) == {
        "make_credential", "rotate_credential", "revoke_credential", "delete_instance",
    }  # fmt: skip


def test_to_another_tenants_admin_it_does_not_exist(northgate, harbour):
    """R07."""
    made = make(northgate)
    for attempt in attempts(harbour.context("Mallory"), made)[1:]:
        with pytest.raises(NotFound):
            attempt()
    assert lives(made)


def test_no_credential_makes_credentials(northgate):
    """T21, T80: an Instance acts as itself, and a provisioner token makes Instances only."""
    agent, made = elsewhere(northgate), make(northgate)
    token = make(northgate, kind="provisioner", name="fleet")
    for context in (agent.context, credentials.context_of(token.credential)):
        for attempt in attempts(context, made):
            with pytest.raises((NotAuthorized, NotFound)):
                attempt()
    assert lives(made)


def attempts(context, made):
    return [
        lambda: transitions.make_credential(context, kind="instance", name="x", environment="staging"),
        lambda: transitions.rotate_credential(context, credential_id=made.credential.pk),
        lambda: transitions.revoke_credential(context, credential_id=made.credential.pk),
        lambda: transitions.delete_instance(context, instance_id=made.credential.instance_id),
    ]


def test_whoever_administers_the_installation_may_too(northgate):
    root = get_user_model().objects.create_superuser("root")
    context = permissions.Context(northgate.tenant.pk, permissions.person(root))
    made = transitions.make_credential(context, kind="provisioner", name="fleet", environment="staging")
    transitions.revoke_credential(context, credential_id=made.credential.pk)
    assert not lives(made, kind="provisioner")
    root.is_active = False
    root.save()
    with pytest.raises(NotFound):
        transitions.revoke_credential(context, credential_id=made.credential.pk)


@pytest.mark.parametrize(
    "wrong, field",
    [
        ({"kind": "root"}, "kind"),
        ({"name": " "}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "\ud800"}, "name"),
        ({"environment": "moon"}, "environment"),
        ({"environment": "\0"}, "environment"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["everything"]}, "scopes"),
        ({"kind": "provisioner", "scopes": ["api"]}, "scopes"),
        ({"agent": "no slug"}, "agent"),
        ({"agent": "x" * 81}, "agent"),
        ({"credential_id": "x"}, "credential_id"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, field, northgate):
    with pytest.raises(InvalidInput) as refused:
        make(northgate, **wrong)
    assert field in refused.value.facts["fields"]
    assert not Credential.objects.exists()


def test_an_environment_of_another_tenant_is_none(northgate, harbour):
    """R07, R20."""
    with pytest.raises(InvalidInput):
        make(northgate, environment=harbour.staging.pk)


def test_a_form_sent_twice_makes_one(northgate, race):
    """R09: the token is not told again; whoever lost it makes another."""
    pk = uuid7()
    came = race(*[lambda: make(northgate, kind="provisioner", credential_id=pk)] * 2)
    assert sorted(type(each).__name__ for each in came) == ["IdempotencyConflict", "Made"]
    with pytest.raises(IdempotencyConflict):
        make(northgate, credential_id=pk)
    assert Credential.objects.count() == 1


# ---------------------------------------------------------------- rotated, expired


def test_two_are_live_until_the_overlap_ends(northgate, clock):
    old = make(northgate)
    new = transitions.rotate_credential(
        northgate.context("Ann"), credential_id=old.credential.pk, overlap=timedelta(hours=1)
    )
    assert lives(old) and lives(new) and new.credential.instance_id == old.credential.instance_id
    clock.move(hours=1, seconds=1)
    assert not lives(old) and lives(new)


def test_without_an_overlap_the_old_one_stays_until_it_is_revoked(northgate):
    ann, old = northgate.context("Ann"), make(northgate)
    new = transitions.rotate_credential(ann, credential_id=old.credential.pk)
    for each in (old, new):
        with pytest.raises(InvalidInput, match="2 live credentials"):
            transitions.rotate_credential(ann, credential_id=each.credential.pk)
    transitions.revoke_credential(ann, credential_id=old.credential.pk)
    assert not lives(old) and lives(new)
    with pytest.raises(InvalidInput, match="revoked"):
        transitions.rotate_credential(ann, credential_id=old.credential.pk)
    assert lives(make(northgate, instance_id=new.credential.instance_id)), "one may be made for the same agent"


def test_an_overlap_makes_nothing_live_longer(northgate, clock):
    old = make(northgate, expires_at=clock.now() + timedelta(minutes=5))
    transitions.rotate_credential(northgate.context("Ann"), credential_id=old.credential.pk, overlap=timedelta(days=1))
    clock.move(minutes=6)
    assert not lives(old)
    with pytest.raises(InvalidInput):
        make(northgate, expires_at=clock.now() - timedelta(days=1))


def test_two_rotations_at_once_leave_two_live(northgate, race):
    old = make(northgate).credential.pk
    came = race(*[lambda: transitions.rotate_credential(northgate.context("Ann"), credential_id=old)] * 2)
    assert sorted(type(each).__name__ for each in came) == ["InvalidInput", "Made"]
    assert credentials.live().count() == 2


# ---------------------------------------------------------------- revoked, deleted


def test_a_revocation_is_heard_by_whoever_waits(northgate, owner):
    """R40, T83: at its commit, in the topics of its tenant and of itself."""
    made = make(northgate)
    owner.autocommit = True
    owner.execute(f"listen {NEWS}")
    transitions.revoke_credential(northgate.context("Ann"), credential_id=made.credential.pk)
    heard = [notice.payload for notice in owner.notifies(timeout=5, stop_after=1)]
    assert heard == [f"{northgate.tenant.pk} {made.credential.pk}"]
    assert not lives(made)


def test_revoked_again_is_calm_and_says_who_was_first(northgate):
    made = make(northgate)
    northgate.join("Abe", "admin")
    for who in ("Ann", "Abe"):
        kept = transitions.revoke_credential(northgate.context(who), credential_id=made.credential.pk)
    assert kept.revoked_by == "Ann"
    assert LogEntry.objects.filter(change_message="Revoked.").count() == 1


def test_deleting_an_instance_ends_all_it_had(northgate):
    """From the commit that revokes, nothing of it is approved; what is in flight is asked about at once."""
    mailer = elsewhere(northgate)
    flying, waiting = mailer.proposes(key="a"), mailer.proposes(key="b", arguments="{}")
    northgate.approves("Ada", flying)
    mailer.dispatches(flying)
    for _ in range(2):
        transitions.delete_instance(northgate.context("Ann"), instance_id=mailer.instance.pk)
    assert set(Run.objects.values_list("state", flat=True)) == {"cancelled"}
    assert Effect.objects.get().state == "uncertain"
    assert Request.objects.get(pk=waiting.pk).state == "cancelled"
    with pytest.raises(NotSignedIn):
        credentials.authenticate(mailer.token, scope="api", kind="instance")


def test_nothing_of_a_deleted_instance_is_approved_while_its_runs_still_end(northgate, monkeypatch):
    mailer = elsewhere(northgate)
    waiting = mailer.proposes()
    monkeypatch.setattr("runtime_app.transitions.credentials.end_instance", lambda context, instance: None)
    transitions.delete_instance(northgate.context("Ann"), instance_id=mailer.instance.pk)
    with pytest.raises(NotAuthorized, match="deleted"):
        northgate.says("Ada", waiting, Approve(digest=waiting.digest))


def test_the_token_that_made_it_deletes_it_and_no_other_does(northgate):
    """AAP: by the provisioner token of that Instance."""
    fleet, other = (make(northgate, kind="provisioner", name=name).credential for name in ("fleet", "other"))
    mailer = elsewhere(northgate)
    Instance.objects.filter(pk=mailer.instance.pk).update(provisioner=fleet)
    with pytest.raises(NotFound):
        transitions.delete_instance(credentials.context_of(other), instance_id=mailer.instance.pk)
    transitions.delete_instance(credentials.context_of(fleet), instance_id=mailer.instance.pk)
    assert Credential.objects.get(instance=mailer.instance).revoked_by == "fleet"


def test_a_hosted_agent_has_no_credential(northgate):
    hosted = Instance.objects.filter(tenant=northgate.tenant).first()
    ann = northgate.context("Ann")
    with pytest.raises(InvalidInput):
        make(northgate, instance_id=hosted.pk, environment=hosted.environment.name)
    with pytest.raises(InvalidInput):
        transitions.delete_instance(ann, instance_id=hosted.pk)
