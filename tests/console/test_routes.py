"""Every route as somebody who has no business there (R07, T01)."""

import pytest

from runtime_app.ids import uuid7
from runtime_app.models import Refusal
from tests.console import stage
from tests.console.stage import PUBLIC, SIGNED, said, visitor

ROUTES = stage.routes()
TENANT = {name: path for name, path in ROUTES.items() if path.startswith("/t/{slug}/")}
OF_ONE_THING = {name: path for name, path in TENANT.items() if path.count("{") > 1}


def test_the_routes_are_these_and_no_others():
    """A new route has to be looked at here first; sign-up, password reset and the like are not among them."""
    assert {name for name, path in ROUTES.items() if not path.startswith("/t/")} == PUBLIC | SIGNED | {
        "choose",
        "account_logout",
    }
    assert set(OF_ONE_THING) == {
        "request", "answer", "decision", "finding", "void", "session", "run", "cancel", "result", "trace", "effect",
        "evidence", "compensate", "file", "blocker", "supply", "hold", "release", "pause", "unpause",
        "agent_delete", "rotate", "revoke", "action", "action_remove",
    }  # fmt: skip
    assert set(TENANT) - set(OF_ONE_THING) == {
        "inbox", "runs", "sessions", "begin", "effects", "blockers", "environments", "schedules", "agents",
        "credential_new", "actions", "action_new",
    }  # fmt: skip


def test_a_stranger_sees_the_public_pages_and_is_sent_to_sign_in_from_all_others(everything):
    for name, path in ROUTES.items():
        address = path.format(slug="northgate", **everything.ids())
        answer = visitor().get(address)
        if name in PUBLIC:
            assert answer.status_code == 200, name
        elif name in {"account_logout", *SIGNED}:
            assert answer.status_code == 405
        else:
            assert answer.status_code == 302, name
            assert answer["Location"].startswith("/sign-in/?next=/"), name


def test_a_stranger_posts_nothing(everything):
    for name, path in ROUTES.items():
        if name not in PUBLIC | SIGNED:
            answer = visitor().post(path.format(slug="northgate", **everything.ids()), stage.form(name, everything))
            assert answer.status_code in (302, 405), name
            if answer.status_code == 302:
                assert answer["Location"].startswith("/sign-in/"), name
    assert not Refusal.objects.exclude(code="not_signed_in").exists()


@pytest.mark.parametrize("name", sorted(OF_ONE_THING))
def test_mallory_gets_for_a_real_id_what_she_gets_for_a_random_one(everything, harbour, name):
    """R07, T01: byte for byte, under northgate's address, under her own tenant's, and under one that does not exist."""
    mallory, real, data = visitor(harbour.people["Mallory"]), everything.ids(), stage.form(name, everything)

    def ask(method: str, slug: str, ids: dict):
        follow = {"follow": method != "post"}  # an address of a form leads back to its page
        return said(getattr(mallory, method)(OF_ONE_THING[name].format(slug=slug, **ids), data, **follow))

    for method in ("get", "head", "options", "post", "put", "patch", "delete"):
        answers = [
            ask(method, slug, ids)
            for slug in ("northgate", "harbour", "no-such-tenant")
            for ids in (real, {key: str(uuid7()) for key in real}, dict.fromkeys(real, "not-an-id"))
        ]
        for answer in answers:
            assert answer[:2] == answers[0][:2], method
            assert answer[2] == answers[0][2] or method == "head", method
        assert answers[0][0] == 404 or answers[0][0] == 405 and method not in ("get", "head"), method


@pytest.mark.parametrize("name", sorted(set(TENANT) - set(OF_ONE_THING)))
def test_a_tenant_of_others_is_as_one_that_does_not_exist(everything, harbour, name):
    mallory = visitor(harbour.people["Mallory"])
    for method in (mallory.get, mallory.post):
        answers = [said(method(TENANT[name].format(slug=slug))) for slug in ("northgate", "no-such-tenant")]
        assert answers[0] == answers[1]
        assert answers[0][0] == 404 or answers[0][0] == 405 and method == mallory.post


def test_an_outsiders_attempt_is_written_down_without_the_tenant(everything, harbour):
    """R13: by actor, verb and the id as sent; looking is no attempt."""
    mallory = visitor(harbour.people["Mallory"])
    asked = everything.approval
    mallory.get(f"/t/northgate/requests/{asked.pk}/")
    assert not Refusal.objects.exists()
    mallory.post(f"/t/northgate/requests/{asked.pk}/decision/", stage.form("decision", everything))
    mallory.post(f"/t/northgate/runs/{asked.run_id}/cancel/", stage.form("cancel", everything))
    mallory.post("/t/no-such-tenant/sessions/new/", stage.form("begin", everything))
    written = set(Refusal.objects.values_list("tenant_id", "actor_name", "verb", "code", "target"))
    assert written == {
        (None, "Mallory", "respond", "not_found", str(asked.pk)),
        (None, "Mallory", "cancel", "not_found", str(asked.run_id)),
        (None, "Mallory", "start", "not_found", ""),
    }


def test_an_id_of_another_session_of_ones_own_tenant_answers_nothing(everything, northgate):
    """R07: the Session named in the form has to be the Request's."""
    ada = visitor(northgate.people["Ada"])
    data = stage.form("decision", everything)
    for session in (everything.question.session_id, uuid7()):
        answer = ada.post(f"/t/northgate/requests/{everything.approval.pk}/decision/", data | {"session": str(session)})
        assert answer.status_code == 404
    everything.approval.refresh_from_db()
    assert everything.approval.state == "pending"


@pytest.mark.parametrize("leave", ["membership", "account"])
def test_who_is_no_member_any_more_is_an_outsider_at_once(everything, northgate, leave):
    """R06: the same cookie, the next page."""
    bob = visitor(northgate.people["Bob"])
    assert bob.get("/t/northgate/inbox/").status_code == 200
    if leave == "membership":
        northgate.people["Bob"].memberships.get().roles.all().delete()
        northgate.people["Bob"].memberships.all().delete()
    else:
        northgate.people["Bob"].is_active = False
        northgate.people["Bob"].save()
    answer = bob.get("/t/northgate/inbox/")
    assert answer.status_code == (404 if leave == "membership" else 302)


def test_the_administration_is_not_for_a_tenants_admin(northgate):
    """The role admin opens no door to it."""
    assert visitor(northgate.people["Ann"]).get("/admin/").status_code == 302


def test_a_superuser_is_no_member_by_being_one(everything, django_user_model):
    root = django_user_model.objects.create_superuser("root")
    assert visitor(root).get("/t/northgate/inbox/").status_code == 404


def test_jo_belongs_to_both_and_sees_each_tenants_own(everything, northgate, harbour):
    """Same-named roles in two tenants: what Jo may do in one she may not do in the other."""
    jo = visitor(northgate.people["Jo"])
    asked = harbour.approval(by="Mallory")
    assert b"/t/harbour/" in jo.get("/").content and b"/t/northgate/" in jo.get("/").content
    assert jo.get(f"/t/harbour/requests/{asked.pk}/").status_code == 200
    assert jo.get(f"/t/northgate/requests/{asked.pk}/").status_code == 404
    data = stage.form("decision", everything) | {"session": str(asked.session_id), "digest": asked.digest}
    assert jo.post(f"/t/harbour/requests/{asked.pk}/decision/", data).status_code == 403
    asked.refresh_from_db()
    assert asked.state == "pending"
