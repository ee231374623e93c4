"""Looking changes nothing (R11, T34, B154), and a form of elsewhere posts nothing (T35)."""

import pytest
from psycopg import sql

from runtime_app.models import Refusal
from tests.console import stage
from tests.console.stage import visitor

ROUTES = stage.routes()
TABLES = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY relname"
HASH = "SELECT {}, md5(coalesce(string_agg(md5(t::text), '' ORDER BY md5(t::text)), '')) FROM {} t"
CAST = ["Ada", "Sam", "Olga", "Ann", "Rita"]


def rows(owner) -> dict:
    """A hash of every row of every table, the sessions' and the accounts' too."""
    names = [name for (name,) in owner.execute(TABLES)]
    hashes = [sql.SQL(HASH).format(sql.Literal(name), sql.Identifier(name)) for name in names]
    return dict(owner.execute(sql.SQL(" UNION ALL ").join(hashes)).fetchall())


@pytest.mark.parametrize("who", [*CAST, "Mallory", None])
def test_get_head_and_options_change_nothing(everything, northgate, harbour, owner, who):
    """R11: whoever asks, whatever page, as a browser, a prefetch or a preview asks."""
    people = harbour.people | northgate.people
    client = visitor(people[who] if who else None)
    before = rows(owner)
    assert len(before) > 20
    for address in everything.addresses():
        for headers in ({"Purpose": "prefetch"}, {"HX-Request": "true"}):
            assert client.get(address, headers=headers).status_code < 500, address
    for path in ROUTES.values():
        for method in (client.get, client.head, client.options):
            assert method(path.format(slug="northgate", **everything.ids())).status_code < 500, path
    assert rows(owner) == before


def test_a_query_string_decides_nothing(everything, northgate, owner):
    """B154: the fields of a form, put into an address."""
    ada = visitor(northgate.people["Ada"])
    before = rows(owner)
    for name, path in ROUTES.items():
        ada.get(path.format(slug="northgate", **everything.ids()), stage.form(name, everything))
    assert rows(owner) == before


@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "text/plain", "application/json"])
def test_a_post_without_this_sites_token_is_refused_in_plain_words(everything, northgate, owner, content_type):
    """T35: every route, also as a form of elsewhere can send it."""
    client = visitor(northgate.people["Ada"], enforce_csrf_checks=True)
    before = rows(owner)
    for name, path in ROUTES.items():
        if name in stage.SIGNED:
            continue
        for method in (client.post, client.put, client.patch, client.delete):
            answer = method(path.format(slug="northgate", **everything.ids()), b"decision=approve", content_type)
            assert answer.status_code in (403, 405), name
            if answer.status_code == 403:
                assert b"<h1" in answer.content and b"Nothing" in answer.content, name
    assert rows(owner) == before


def test_a_token_of_another_page_is_refused(everything, northgate):
    client = visitor(northgate.people["Ada"], enforce_csrf_checks=True)
    client.get("/t/northgate/inbox/")
    data = stage.form("decision", everything) | {"csrfmiddlewaretoken": "a" * 64}
    answer = client.post(f"/t/northgate/requests/{everything.approval.pk}/decision/", data)
    assert answer.status_code == 403
    assert not Refusal.objects.exists()


def test_the_pages_that_only_show_take_no_post(everything, northgate):
    ada = visitor(northgate.people["Ada"])
    takes = {"answer", "decision", "finding", "cancel", "session", "begin", "account_login", "account_logout"}
    takes |= {"void", "evidence", "compensate", "supply", "hold", "release", "pause", "unpause"}
    takes |= stage.SIGNED
    takes |= {"credential_new", "rotate", "revoke", "agent_delete", "action_new", "action", "action_remove"}
    for name, path in ROUTES.items():
        if name not in takes:
            assert ada.post(path.format(slug="northgate", **everything.ids())).status_code == 405, name
