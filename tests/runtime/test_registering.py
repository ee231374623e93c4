"""The registry of actions that have no code here: who writes it, what it refuses, what it changes."""

from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry

from runtime_app import registrations, transitions
from runtime_app.errors import InvalidInput, NotAuthorized, NotFound
from runtime_app.models import Registration, Request
from tests.cast import elsewhere

pytestmark = pytest.mark.django_db(transaction=True)


def describe(house, who="Ann", pattern="mail/*", title="Send a mail", **more):
    return transitions.register_action(house.context(who), pattern=pattern, title=title, **more)


def test_a_card_keeps_what_was_said_when_it_was_raised(northgate):
    """R17: an edit changes no Request; the next one has the new words."""
    mailer = elsewhere(northgate)
    bare = mailer.proposes()
    row = describe(northgate, consequence="Somebody reads it.", risky=["to"], deadline=timedelta(minutes=2))
    told = mailer.proposes()
    describe(northgate, registration_id=row.pk, title="Write a letter", failure_conclusive=False)
    anew = mailer.proposes()
    kept = [Request.objects.get(pk=each.pk).described for each in (bare, told, anew)]
    assert [(each["title"], each["registered"]) for each in kept] == [
        ("mail/send", False), ("Send a mail", True), ("Write a letter", True),
    ]  # fmt: skip
    assert (kept[1]["risky"], kept[1]["deadline"], kept[2]["failure_conclusive"]) == (["to"], 120, False)
    transitions.unregister_action(northgate.context("Ann"), registration_id=row.pk)
    assert not Request.objects.get(pk=mailer.proposes().pk).described["registered"]
    said = LogEntry.objects.filter(object_id=str(row.pk)).order_by("pk").values_list("change_message", flat=True)
    assert list(said) == ["Described.", "Described in other words.", "No longer described."]


def test_an_exact_name_beats_a_pattern_and_a_longer_pattern_a_shorter(northgate, harbour):
    for pattern in ("*", "mail/*", "mail/send", "odd[1]*"):
        describe(northgate, pattern=pattern, title=f"by {pattern}")
    describe(harbour, "Mallory", pattern="mail/send/now", title="theirs")
    found = {name: registrations.declared(northgate.tenant.pk, name).title for name in
             ("mail/send", "mail/read", "mail/send/now", "rm", "odd[1]*")}  # fmt: skip
    assert found == {
        "mail/send": "by mail/send", "mail/read": "by mail/*", "mail/send/now": "by mail/*", "rm": "by *",
        "odd[1]*": "by odd[1]*",
    }  # fmt: skip


@pytest.mark.parametrize("who", ["Ada", "Olga", "Sam", "Rita"])
def test_only_an_admin_writes_it(who, northgate, harbour):
    """R06, R07."""
    row = describe(northgate)
    for attempt in (
        lambda context: transitions.register_action(context, pattern="x", title="x"),
        lambda context: transitions.register_action(context, pattern="x", title="x", registration_id=row.pk),
        lambda context: transitions.unregister_action(context, registration_id=row.pk),
    ):
        with pytest.raises(NotAuthorized):
            attempt(northgate.context(who))
    with pytest.raises(NotFound):
        transitions.unregister_action(harbour.context("Mallory"), registration_id=row.pk)
    assert Registration.objects.get().title == "Send a mail"


@pytest.mark.parametrize(
    "wrong, field",
    [
        ({"pattern": ""}, "pattern"),
        ({"pattern": " mail"}, "pattern"),
        ({"pattern": "m\nail"}, "pattern"),
        ({"pattern": "x" * 201}, "pattern"),
        ({"title": " "}, "title"),
        ({"title": "\0"}, "title"),
        ({"title": "x" * 121}, "title"),
        ({"consequence": "x" * 2_001}, "consequence"),
        ({"reversible": "\ud800"}, "reversible"),
        ({"deadline": timedelta(0)}, "deadline"),
        ({"deadline": timedelta(days=31)}, "deadline"),
        ({"risky": [""]}, "risky"),
        ({"risky": ["x"] * 51}, "risky"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, field, northgate):
    with pytest.raises(InvalidInput) as refused:
        describe(northgate, **wrong)
    assert list(refused.value.facts["fields"]) == [field]
    assert not Registration.objects.exists()


def test_one_name_is_described_once(northgate, harbour, race):
    describe(harbour, "Mallory")
    came = race(*[lambda: describe(northgate)] * 2)
    assert sorted(type(each).__name__ for each in came) == ["InvalidInput", "Registration"]
    with pytest.raises(InvalidInput, match="described already"):
        describe(northgate)
