"""The administration: Root sets the installation up and reads what happened. It is no way round the transitions."""

import re

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from runtime_app import transitions
from runtime_app.admin import Kept, site
from runtime_app.errors import SaysoError
from runtime_app.models import (
    Effect,
    Entry,
    Environment,
    Event,
    Instance,
    Membership,
    Policy,
    Request,
    Role,
    Run,
    Schedule,
    Session,
    Tenant,
)
from tests import cast
from tests.console.test_admin_credentials import agent_elsewhere

KEPT = sorted((model for model, page in site._registry.items() if isinstance(page, Kept)), key=lambda m: m.__name__)
SETUP = sorted((model for model in site._registry if model not in KEPT), key=lambda m: m.__name__)
HIDDEN = "deploy\u202ecard-api"  # reads backwards from here on


@pytest.fixture
def northgate(transactional_db):
    return cast.assemble()[0]


@pytest.fixture
def harbour(northgate):
    return Tenant.objects.get(slug="harbour")


@pytest.fixture
def root(client, northgate):
    """Root's browser."""
    root = get_user_model().objects.create_superuser("root", password=cast.PASSWORD)
    client.force_login(root, backend="allauth.account.auth_backends.AuthenticationBackend")
    return client


@pytest.fixture
def history(northgate):
    """At least one row of everything that happens."""
    northgate.unknown(message=HIDDEN)
    turn = cast.claim(northgate.start(message=HIDDEN))
    transitions.journal(turn, transitions.NewEntry("reply", 0, f'{{"said": "{HIDDEN}"}}'))
    transitions.finish(turn, state="succeeded")
    northgate.ask({}, interactive=False)
    northgate.policy()
    agent_elsewhere(northgate)
    Schedule.objects.create(
        tenant=northgate.tenant, agent="deployer", environment=northgate.staging, message=HIDDEN, cron="0 6 * * 1",
        set_by=northgate.people["Olga"],
    )  # fmt: skip
    with pytest.raises(SaysoError):
        northgate.start(by="Rita")
    LogEntry.objects.log_actions(
        northgate.people["Ann"].pk, [northgate.tenant], action_flag=2, change_message=[], single_object=True
    )


def to(model, page="changelist", *arguments) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=arguments)


def reads(response) -> str:
    """The page's words, without tags."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode()))


def inline(count=0, **rows) -> dict:
    """The forms of the roles on a membership's page."""
    numbers = {"roles-TOTAL_FORMS": count or len(rows.get("roles", [])), "roles-INITIAL_FORMS": 0}
    for number, role in enumerate(rows.get("roles", [])):
        numbers |= {f"roles-{number}-{name}": value for name, value in role.items()}
    return numbers


# ---------------------------------------------------------------- the door


def test_no_role_of_a_tenant_opens_the_door(client, northgate):
    """R07: Ann is admin of Northgate, and finds nothing here; a stranger is asked to sign in."""
    assert client.get("/admin/", follow=True).redirect_chain[-1][0].startswith("/sign-in/?next=")
    client.force_login(northgate.people["Ann"], backend="allauth.account.auth_backends.AuthenticationBackend")
    for url in ("/admin/", to(Run), to(Tenant, "add"), to(Tenant, "delete", northgate.tenant.pk)):
        assert client.get(url, follow=True).status_code == 404
        assert client.post(url, {"post": "yes"}, follow=True).status_code == 404
    assert Tenant.objects.filter(pk=northgate.tenant.pk).exists()


def test_being_staff_opens_nothing_either(client, northgate):
    northgate.people["Bob"].is_staff = True
    northgate.people["Bob"].save()
    client.force_login(northgate.people["Bob"], backend="allauth.account.auth_backends.AuthenticationBackend")
    assert client.get("/admin/", follow=True).status_code == 404


def test_a_superuser_has_no_role_in_any_tenant(root, northgate):
    """R06, R07: Root administers the installation, and is nobody in Northgate."""
    request = northgate.question()
    assert root.get("/t/northgate/inbox/").status_code == 404
    assert root.get(f"/t/northgate/requests/{request.pk}/").status_code == 404


def test_the_index_says_where_one_is(root):
    page = root.get("/admin/")
    assert "This installation | Sayso" in page.content.decode()
    assert "counts for every tenant" in reads(page)


# ---------------------------------------------------------------- what happened is read, and nothing else


@pytest.mark.parametrize("model", KEPT, ids=lambda model: model.__name__)
def test_history_is_read_and_never_written(model, root, history):
    """B159, B100: no adding, changing, deleting, no action on many, for any table of the runtime."""
    before = list(model._base_manager.order_by("pk").values())
    assert before, "the fixture has none of these"
    row = before[0][model._meta.pk.attname]
    assert root.get(to(model)).status_code == 200
    assert root.get(to(model, "change", row)).status_code == 200
    marked = {"action": "delete_selected", "_selected_action": [str(row)], "post": "yes"}
    root.post(to(model), marked)
    for url in (to(model, "add"), to(model, "change", row), to(model, "delete", row)):
        assert root.post(url, {"post": "yes", "state": "succeeded", "name": "forged"}).status_code == 403
    assert list(model._base_manager.order_by("pk").values()) == before


@pytest.mark.parametrize("model", [*KEPT, *SETUP], ids=lambda model: model.__name__)
def test_pages_hold_nothing_that_the_content_policy_refuses(model, root, history):
    """T36: no inline script, style or handler."""
    pages = [root.get(to(model)), root.get(to(model, "change", model._base_manager.first().pk))]
    if model in SETUP:
        pages.append(root.get(to(model, "add")))
        pages.append(root.get(to(model, "delete", model._base_manager.first().pk)))
    for page in pages:
        text = page.content.decode()
        assert page.status_code == 200
        assert "script-src 'self'" in page.headers["Content-Security-Policy"]
        assert not re.findall(r"<script(?![^>]*\bsrc=)(?![^>]*json)[^>]*>|\sstyle=|\son[a-z]+=|javascript:", text)


def test_untrusted_words_hide_nothing(root, history):
    """R03: what an agent, a person or a model wrote is shown with code points; bytes are shown as their text."""
    run = Run.objects.get(state="succeeded")
    for page in (root.get(to(Run)), root.get(to(Run, "change", run.pk))):
        assert "\u202e" not in page.content.decode()
        assert "deploy⟦U+202E⟧card-api" in reads(page)
    assert "deploy⟦U+202E⟧card-api" in reads(root.get(to(Entry, "change", Entry.objects.get().pk)))
    bound = Request.objects.filter(kind="wait_approval").first()
    assert "card-api" in reads(root.get(to(Request, "change", bound.pk)))


def test_a_row_is_found_by_a_whole_id(root, history):
    run = Run.objects.get(state="succeeded")
    found = root.get(to(Run), {"q": str(run.session_id)}).context["cl"].result_list
    assert [each.pk for each in found] == [run.pk]
    missed = root.get(to(Run), {"q": "deploy"}, follow=True)
    assert not missed.context["cl"].result_list and "This is no id." in reads(missed)


def test_no_list_counts_or_joins_more_than_it_shows(root, history):
    """B161, goal 16: whatever has piled up, a list is a page of rows and a count that stops."""
    for model in KEPT:
        with CaptureQueriesContext(
            connection,
        ) as few:
            root.get(to(model))
        counts = [each["sql"] for each in few if "COUNT(" in each["sql"] and model._meta.db_table in each["sql"]]
        assert counts and all("LIMIT 1000" in sql for sql in counts)
        assert len(few) <= 8


@pytest.mark.parametrize("wrong", ["x", "00000000-0000-0000-0000-000000000000", "%00", "9" * 40, "a" * 2000])
def test_an_id_of_nothing_is_a_clear_answer(wrong, root):
    for model in (Run, Event, Tenant):
        page = root.get(f"{to(model)}{wrong}/change/", follow=True)
        assert page.status_code in (200, 404)
    assert root.get(to(Run), {"q": "\0", "p": "99999", "o": "1.-9", "e": "1"}, follow=True).status_code == 200


# ---------------------------------------------------------------- what history names is not deleted


def test_a_person_in_history_is_not_deleted(root, northgate):
    """B161: Ada decided. She can be shut out; she cannot be removed."""
    northgate.granted()
    ada = northgate.people["Ada"]
    for page in (
        root.get(to(type(ada), "delete", ada.pk)),
        root.post(to(type(ada), "delete", ada.pk), {"post": "yes"}),
    ):
        assert page.status_code == 200
        said = reads(page)
        assert "ada cannot be deleted" in said and "responses" in said and "memberships" in said
        assert "Take away the tick at Active" in said
    ada.refresh_from_db()


def test_who_administered_is_in_history_too(root, northgate):
    """B161: the log of the administration goes with nobody."""
    boss = get_user_model().objects.create_superuser("boss", password=cast.PASSWORD)
    LogEntry.objects.log_actions(boss.pk, [northgate.tenant], action_flag=2, change_message=[], single_object=True)
    assert "log entries" in reads(root.post(to(type(boss), "delete", boss.pk), {"post": "yes"}))
    assert LogEntry.objects.filter(user=boss).exists()


def test_a_person_nobody_has_heard_of_is_deleted(root, northgate):
    nobody = get_user_model().objects.create_user("nobody")
    assert root.post(to(type(nobody), "delete", nobody.pk), {"post": "yes"}).status_code == 302
    assert not get_user_model().objects.filter(pk=nobody.pk).exists()


@pytest.mark.parametrize("model", [Tenant, Environment, Instance], ids=lambda model: model.__name__)
def test_what_runs_refer_to_is_not_deleted(model, root, northgate):
    """B161: a tenant, an environment or an agent takes no history with it."""
    run = northgate.start()
    row = {Tenant: run.tenant_id, Environment: run.environment_id, Instance: run.instance_id}[model]
    page = root.post(to(model, "delete", row), {"post": "yes"})
    assert page.status_code == 200 and "cannot be deleted, because these refer to it" in reads(page)
    assert "runs" in reads(page)
    assert model.objects.filter(pk=row).exists()


def test_a_membership_goes_with_its_roles_and_leaves_history(root, northgate):
    request = northgate.approval()
    northgate.approves("Ada", request)
    membership = Membership.objects.get(tenant=northgate.tenant, user=northgate.people["Ada"])
    assert root.post(to(Membership, "delete", membership.pk), {"post": "yes"}).status_code == 302
    assert not Role.objects.filter(membership_id=membership.pk).exists()
    assert Request.objects.get(pk=request.pk).resolved_by == "Ada"


def test_a_row_that_somebody_used_meanwhile_is_kept_with_a_sentence(root, northgate, monkeypatch):
    """The check saw nothing; the database did."""
    run = northgate.start()
    monkeypatch.setattr("runtime_app.admin.setup.referring", lambda obj, except_for: [])
    page = root.post(to(Environment, "delete", run.environment_id), {"post": "yes"}, follow=True)
    assert "Nothing was changed" in reads(page)
    assert Environment.objects.filter(pk=run.environment_id).exists()


# ---------------------------------------------------------------- set-up is checked in words


def test_a_tenant_is_set_up_from_nothing(root, northgate):
    root.post(to(Tenant, "add"), {"slug": "quay", "name": "Quay"})
    quay = Tenant.objects.get(slug="quay")
    root.post(to(Environment, "add"), {"tenant": quay.pk, "name": "staging", "klass": "staging"})
    staging = Environment.objects.get(tenant=quay)
    root.post(
        to(get_user_model(), "add"),
        {"username": "una", "usable_password": "true", "password1": cast.PASSWORD, "password2": cast.PASSWORD},
    )
    una = get_user_model().objects.get(username="una")
    roles = [{"name": "approver", "environment": staging.pk}, {"name": "responder"}]
    root.post(to(Membership, "add"), {"tenant": quay.pk, "user": una.pk, **inline(roles=roles)})
    assert sorted(map(str, Role.objects.filter(membership__user=una))) == ["approver@staging", "responder"]
    agent = {"tenant": quay.pk, "agent": "deployer", "environment": staging.pk, "owner": una.pk, "hosted": "on"}
    root.post(to(Instance, "add"), agent)
    rule = {"tenant": quay.pk, "action": "deploy_*", "environment": staging.pk, "verdict": "ask", "approvals": 2,
            "role": "approver", "denials": 1, "request_for": "2 00:00:00", "grant_for": "01:00:00"}  # fmt: skip
    root.post(to(Policy, "add"), rule)
    assert Instance.objects.get(tenant=quay).owner == una
    assert Policy.objects.get(tenant=quay).approvals == 2
    said = list(LogEntry.objects.filter(user__username="root").values_list("content_type__model", flat=True))
    assert {"tenant", "environment", "user", "membership", "instance", "policy"} <= set(said), "the log says who did it"
    assert LogEntry.objects.filter(object_id=str(quay.pk)).exists()


@pytest.mark.parametrize(
    "roles, sentence",
    [
        ([{"name": "approver", "environment": "foreign"}], "Choose an environment of this tenant."),
        ([{"name": "viewer", "environment": "own"}], "Only approver and operator can be limited to an environment."),
        ([{"name": "viewer"}, {"name": "viewer"}], "The same role is given twice."),
        ([{"name": "emperor"}], "Select a valid choice."),
        ([{"name": "approver", "environment": "\0"}], "Null characters are not allowed."),
    ],
)
def test_a_wrong_role_is_refused_in_words(roles, sentence, root, northgate, harbour):
    places = {"own": northgate.staging.pk, "foreign": Environment.objects.get(tenant=harbour, name="staging").pk}
    roles = [{name: places.get(value, value) for name, value in role.items()} for role in roles]
    una = get_user_model().objects.create_user("una")
    page = root.post(to(Membership, "add"), {"tenant": northgate.tenant.pk, "user": una.pk, **inline(roles=roles)})
    assert page.status_code == 200 and sentence in reads(page)
    assert not Membership.objects.filter(user=una).exists()


def test_a_role_given_again_is_refused_in_words(root, northgate):
    ada = Membership.objects.get(user=northgate.people["Ada"])
    held = {"id": ada.roles.get().pk, "membership": ada.pk, "name": "approver"}
    form = inline(roles=[held, {"membership": ada.pk, "name": "approver"}])
    page = root.post(to(Membership, "change", ada.pk), form | {"roles-INITIAL_FORMS": 1})
    assert page.status_code == 200 and "The same role is given twice." in reads(page)
    stale = root.post(to(Membership, "change", ada.pk), inline(roles=[held | {"id": ""}]), follow=True)
    assert "Nothing was changed" in reads(stale)
    assert Role.objects.filter(membership=ada).count() == 1


@pytest.mark.parametrize(
    "changed, sentence",
    [
        ({"environment": "foreign"}, "This environment belongs to another tenant, Harbour."),
        ({"environment": "guarded", "klass": "production"}, "The environment already says its class"),
        ({"environment": "guarded", "allow_stake": "on"}, "production is protected"),
        ({"approvals": 0}, "Must be 1 or more."),
        ({"denials": 0}, "Must be 1 or more."),
        ({"approvals": 40000}, "less than or equal to 32767"),
        ({"grant_for": "0"}, "Must be longer than nothing"),
        ({"request_for": "999999999 00:00:00"}, "ten years or less"),
        ({"request_for": "soon"}, "Enter a valid duration."),
        ({"verdict": "perhaps"}, "Select a valid choice."),
        ({"action": ""}, "This field is required."),
        ({"action": "deploy\0"}, "Null characters are not allowed."),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_in_words(changed, sentence, root, northgate, harbour):
    """R17, R18."""
    places = {
        "foreign": Environment.objects.get(tenant=harbour, name="staging").pk,
        "guarded": northgate.production.pk,
    }
    rule = {"tenant": northgate.tenant.pk, "action": "*", "verdict": "ask", "approvals": 1, "role": "approver",
            "denials": 1, "request_for": "1 00:00:00", "grant_for": "01:00:00"}  # fmt: skip
    page = root.post(to(Policy, "add"), rule | {name: places.get(value, value) for name, value in changed.items()})
    assert page.status_code == 200 and sentence in reads(page)
    assert not Policy.objects.exists()


def test_editing_a_policy_touches_no_request_and_no_grant(root, northgate, harbour):
    """R17."""
    policy = northgate.policy(approvals=1)
    request = northgate.approval()
    before = Request.objects.filter(pk=request.pk).values().get()
    rule = {"action": "*", "verdict": "deny", "approvals": 3, "role": "admin", "denials": 1,
            "request_for": "1 00:00:00", "grant_for": "01:00:00", "tenant": harbour.pk}  # fmt: skip
    assert root.post(to(Policy, "change", policy.pk), rule).status_code == 302
    policy.refresh_from_db()
    assert (policy.verdict, policy.tenant_id) == ("deny", northgate.tenant.pk), "a rule stays in its tenant"
    assert Request.objects.filter(pk=request.pk).values().get() == before


@pytest.mark.parametrize(
    "changed, sentence",
    [
        ({"environment": "foreign"}, "This environment belongs to another tenant, Harbour."),
        ({"owner": "Max"}, "max is not a member of Northgate."),
        ({"agent": "deployer"}, "This agent already has its hosted instance there."),
        ({"agent": "not a slug"}, "Enter a valid “slug”"),
    ],
)
def test_an_agent_that_makes_no_sense_is_refused_in_words(changed, sentence, root, northgate, harbour):
    places = {
        "foreign": Environment.objects.get(tenant=harbour, name="staging").pk,
        "Max": get_user_model().objects.get(username="max").pk,
    }
    agent = {"tenant": northgate.tenant.pk, "agent": "tester", "environment": northgate.staging.pk,
             "owner": northgate.people["Omar"].pk, "hosted": "on"}  # fmt: skip
    page = root.post(to(Instance, "add"), agent | {name: places.get(value, value) for name, value in changed.items()})
    assert page.status_code == 200 and sentence in reads(page)
    assert not Instance.objects.filter(agent="tester").exists()


def test_the_same_name_twice_is_refused_in_words(root, northgate, monkeypatch):
    twice = {"tenant": northgate.tenant.pk, "name": "staging", "klass": "staging"}
    assert "already exists" in reads(root.post(to(Environment, "add"), twice))
    assert "already exists" in reads(root.post(to(Tenant, "add"), {"slug": "northgate", "name": "Other"}))
    person = northgate.people["Ada"].pk
    again = root.post(to(Membership, "add"), {"tenant": northgate.tenant.pk, "user": person, **inline()})
    assert "ada is already a member of Northgate." in reads(again)
    # somebody was quicker: the check saw nothing, the database does
    monkeypatch.setattr(Environment, "validate_constraints", lambda environment, exclude: None)
    assert "Nothing was changed" in reads(root.post(to(Environment, "add"), twice, follow=True))
    assert Environment.objects.filter(tenant=northgate.tenant).count() == 2


def test_an_environment_keeps_its_tenant_and_its_name(root, northgate, harbour):
    """R15: what was approved is bound to the name."""
    form = {"tenant": harbour.pk, "name": "elsewhere", "klass": "production", "protected": "on"}
    assert root.post(to(Environment, "change", northgate.staging.pk), form).status_code == 302
    northgate.staging.refresh_from_db()
    assert (northgate.staging.tenant_id, northgate.staging.name) == (northgate.tenant.pk, "staging")
    assert northgate.staging.protected


def test_reading_changes_nothing(root, history):
    """R11."""
    before = (Event.objects.count(), Effect.objects.count(), Session.objects.count(), LogEntry.objects.count())
    for model in site._registry:
        root.get(to(model))
        root.get(to(model, "history", model._base_manager.first().pk))
    assert (Event.objects.count(), Effect.objects.count(), Session.objects.count(), LogEntry.objects.count()) == before
