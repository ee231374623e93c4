"""What the scripted agent says: plainly what happened, and plainly what nobody knows."""

import pytest

from examples.harbor import script

RELEASE = ("deploy_release", {"service": "card-api", "version": "0.8.8"})


def test_a_message_may_ask_for_several_deployments_and_a_question_at_once():
    _, calls = script.first("Please deploy card-api 0.8.8 and deploy ledger 4.2.1, then ask for the key's name.")
    assert [name for name, _ in calls] == ["deploy_release", "deploy_release", "ask_person"]
    assert calls[1][1] == {"service": "ledger", "version": "4.2.1"}


def test_a_message_it_cannot_read_does_nothing():
    says, calls = script.first("Hello")
    assert not calls and "Nothing was done" in says


@pytest.mark.parametrize(
    "came, said",
    [
        ({"outcome": "committed", "reference": "harbor-1"}, "is deployed. Harbor calls it harbor-1"),
        ({"outcome": "not_committed", "statement": "No room."}, "was not deployed: Harbor says no. No room."),
        ({"outcome": "unknown"}, "Nobody knows whether card-api 0.8.8 was deployed"),
        ({"outcome": "denied", "message": "Not on a Friday."}, "it was denied. Not on a Friday."),
        ({"outcome": "expired"}, "nobody decided in time"),
        ({"outcome": "void"}, "taken back before it was sent"),
        ({"outcome": "refused", "message": "No such action."}, "No such action."),
    ],
)
def test_each_outcome_has_its_own_words(came, said):
    says, calls = script.then([(*RELEASE, came)])
    assert said in says and not calls


def test_a_suggestion_is_asked_for_anew():
    """R19: a new Request under its own key."""
    suggestion = {"service": "card-api", "version": "0.8.7"}
    _, calls = script.then([(*RELEASE, {"outcome": "denied", "suggestion": suggestion})])
    assert calls == [("deploy_release", suggestion)]


def test_an_answer_arrives_as_it_was_typed():
    says, _ = script.then([("ask_person", {}, {"outcome": "answered", "values": {"name": "ci", "rotate": True}})])
    assert says == "card-api signs with the API key named ci; the old one is to be withdrawn."
