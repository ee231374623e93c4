"""`./run manage create_tenant`: the first tenant and its administrator, without the demo."""

import io

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from runtime_app import permissions
from runtime_app.models import Environment, Instance, Tenant
from tests.hosted import agents  # noqa: F401


@pytest.fixture(autouse=True)
def typed(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("correct horse battery\n"))


def test_ann_gets_a_tenant_she_can_sign_in_to(transactional_db, capsys):
    call_command("create_tenant", "northgate", "Northgate Payments", "ann")
    tenant, context = permissions.member(User.objects.get(username="ann"), "northgate")
    assert permissions.roles(context).names == {"admin", "operator", "responder", "approver"}
    assert User.objects.get().check_password("correct horse battery")
    assert set(Environment.objects.values_list("name", "protected")) == {("staging", False), ("production", True)}
    assert Instance.objects.filter(tenant=tenant, agent="scripted").count() == 2
    assert not User.objects.get().is_superuser, "the tenant role admin opens no door to the Django admin"
    assert "/t/northgate/" in capsys.readouterr().out


def test_ann_may_have_two_tenants_and_one_password(transactional_db):
    call_command("create_tenant", "northgate", "Northgate Payments", "ann")
    call_command("create_tenant", "harbour", "Harbour Logistics", "ann")
    assert User.objects.count() == 1


@pytest.mark.parametrize(
    "arguments, password, told",
    [
        (("nor th", "Northgate", "ann"), "correct horse battery", "part of an address"),
        (("northgate", " ", "ann"), "correct horse battery", "needs a name"),
        (("n" * 300, "Northgate", "ann"), "correct horse battery", "at most"),
        (("northgate", "N" * 300, "ann"), "correct horse battery", "at most"),
        (("northgate", "Northgate", "ann"), "short", "too short"),
        (("northgate", "Northgate", "an n"), "correct horse battery", "valid username"),
    ],
)
def test_what_cannot_be_made_is_refused_in_words_and_nothing_is_left(
    transactional_db, monkeypatch, arguments, password, told
):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{password}\n"))
    with pytest.raises(CommandError, match=told):
        call_command("create_tenant", *arguments)
    assert not Tenant.objects.exists() and not User.objects.exists()


def test_a_tenant_is_not_made_twice(transactional_db):
    call_command("create_tenant", "northgate", "Northgate Payments", "ann")
    with pytest.raises(CommandError, match="already"):
        call_command("create_tenant", "northgate", "Northgate Payments", "bob")
    assert User.objects.count() == 1
