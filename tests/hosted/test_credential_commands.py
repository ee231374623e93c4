"""`./run manage create_credential` and `revoke_credential`: a token on standard output, once."""

import pytest
from django.core.management import CommandError, call_command

from runtime_app import credentials
from runtime_app.errors import NotSignedIn
from runtime_app.models import Credential
from tests import cast
from tests.database import everything

GIVEN = {"environment": "staging", "kind": "instance", "name": "billing", "by": "ann"}


@pytest.fixture
def northgate(transactional_db):
    return cast.assemble()[0]


def test_a_token_is_printed_once_and_revoked_by_its_prefix(northgate, capsys):
    call_command("create_credential", "northgate", **GIVEN, scopes="api", expires_days=30)
    said = capsys.readouterr()
    token = said.out.strip()
    made, _ = credentials.authenticate(token, scope="api", kind="instance")
    assert (made.name, made.made_by.username, made.environment.name) == ("billing", "ann", "staging")
    assert made.expires_at and token not in said.err and token not in everything()
    call_command("revoke_credential", made.prefix)
    assert token not in capsys.readouterr().out
    with pytest.raises(NotSignedIn):
        credentials.authenticate(token, scope="api", kind="instance")
    assert Credential.objects.get().revoked_by == "Ann"


def test_a_provisioner_token_is_revoked_by_another_admin_with_the_whole_of_it(northgate, capsys):
    northgate.join("Abe", "admin")
    call_command("create_credential", "northgate", **GIVEN | {"kind": "provisioner"})
    token = capsys.readouterr().out.strip()
    assert credentials.authenticate(token, scope="aap", kind="provisioner")
    call_command("revoke_credential", token, by="abe")
    assert Credential.objects.get().revoked_by == "Abe"


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        ({"by": "nobody"}, "no account 'nobody'"),
        ({"by": "mallory"}, "that mallory is a member of"),
        ({"by": "ada"}, "takes the role admin"),
        ({"environment": "moon"}, "no such environment"),
        ({"scopes": "everything"}, "A scope is aap or api"),
        ({"expires_days": 0}, "1 to 3650 days"),
        ({"name": "not a slug"}, "1 to 80 letters"),
    ],
)
def test_what_makes_no_sense_is_said(wrong, sentence, northgate):
    with pytest.raises(CommandError, match=sentence):
        call_command("create_credential", "northgate", **GIVEN | wrong)
    assert not Credential.objects.exists()


def test_nothing_has_another_prefix_and_only_an_admin_revokes(northgate, capsys):
    call_command("create_credential", "northgate", **GIVEN)
    with pytest.raises(CommandError, match="no credential with this prefix"):
        call_command("revoke_credential", "i_000000000000")
    with pytest.raises(CommandError, match="takes the role admin"):
        call_command("revoke_credential", Credential.objects.get().prefix, by="ada")
    assert credentials.live().count() == 1
