"""What waits for whom: the inbox, the numbers in the header, the clock (R08, R18, R21)."""

from datetime import timedelta

import pytest

from runtime_app import permissions, selectors
from runtime_app.models import Request
from runtime_app.responses import Deny
from tests.cast import elsewhere
from tests.console import stage

EVERYBODY = ["Ada", "Bob", "Sam", "Olga", "Ann", "Rita", "Omar", "Jo", "Stan"]


@pytest.fixture
def many(northgate):
    """Requests of every kind in both environments, some with a stake, some under odd policies."""
    staging = {"environment": "staging"}
    northgate.question(), northgate.approval(), northgate.approval(environment="production")
    northgate.unknown(version="1.0.0")
    northgate.policy("deploy", environment=northgate.staging, role="operator", allow_stake=True)
    northgate.approval(version="2.0.0", **staging)
    northgate.policy("deploy", environment=northgate.production, approvals=2, denials=2, role="admin")
    suggested = northgate.approval(version="3.0.0", environment="production")
    northgate.give(northgate.people["Bob"].memberships.get(), "admin")
    northgate.says("Bob", suggested, Deny(digest=suggested.digest, suggestion='{"version": "3.0.1"}'))
    northgate.policy("other*", fresh_sign_in=True)
    return northgate


@pytest.mark.parametrize("name", EVERYBODY)
def test_the_inbox_and_the_card_agree_on_who_may_respond(many, name):
    """R21: the list asks the database what the card asks `why_not`, and both say the same of every Request."""
    context = many.context(name)
    held = permissions.roles(context)
    found = selectors.inbox(context, held)
    listed = {row.pk: row.mine for row in [*found.for_you, *found.rest]}
    assert set(listed) == set(Request.objects.filter(state="pending").values_list("pk", flat=True))
    for request in Request.objects.filter(state="pending"):
        card = selectors.card(context, request.pk, held)
        assert listed[request.pk] == (card.why_not is None and card.voted is None), (name, request.kind, request.policy)


@pytest.mark.parametrize("name", EVERYBODY)
def test_the_badge_counts_what_is_theirs(many, name):
    """Debts apart: who may establish them owes them with everybody else."""
    context = many.context(name)
    held = permissions.roles(context)
    shell = selectors.shell(context, held)
    found = selectors.inbox(context, held)
    requests = [each for each in found.for_you if each.kind != "wait_effect"]
    assert (shell.requests, shell.debts) == (len(requests), len(found.unknown))


def test_what_one_agent_asks_hides_nobody_elses_and_no_debt(northgate, monkeypatch):
    """T93, R26: of more than the inbox lists, with the soonest deadlines, what is for the reader to answer is listed,
    some of each agent, and a question without a deadline too."""
    monkeypatch.setitem(selectors.inbox.__globals__, "MOST", 4)
    mallory, mailer = elsewhere(northgate, "mallory"), elsewhere(northgate)
    for number in range(9):
        mallory.proposes(arguments=f'{{"to":"{number}"}}', within=timedelta(minutes=5))
    honest, debt, question = mailer.proposes(), northgate.unknown(version="1.0.0"), northgate.question()

    def listed(name):
        context = northgate.context(name)
        found = selectors.inbox(context, permissions.roles(context))
        assert found.more and found.all == 4
        return [row.pk for row in [*found.for_you, *found.rest]]

    assert {honest.pk, debt.pk} <= set(listed("Olga")), "the debt is hers, and has no deadline"
    assert honest.pk in listed("Ada")[1:], "after those with an earlier deadline"
    assert question.pk == listed("Sam")[0]


def test_the_inbox_shows_all_that_waits_and_what_is_for_rita_to_answer_is_nothing(everything, northgate):
    page = stage.visitor(northgate.people["Rita"]).get("/t/northgate/inbox/").content.decode()
    for request in Request.objects.filter(state="pending"):
        assert f"/requests/{request.pk}/" in page
    assert "Nothing is waiting for you." in page
    for word in ("Answer", "Decide", "Establish", "row edge ask", "row edge decide", "row edge unknown"):
        assert word in page


def test_what_expired_waits_for_nobody_though_no_sweep_has_run(northgate, clock):
    """R08: expired is read from the clock."""
    question = northgate.question()
    sam = stage.visitor(northgate.people["Sam"])
    assert f"/requests/{question.pk}/" in sam.get("/t/northgate/inbox/").content.decode()
    clock.move(days=8)
    assert f"/requests/{question.pk}/" not in sam.get("/t/northgate/inbox/").content.decode()
    page = sam.get(f"/t/northgate/requests/{question.pk}/").content.decode()
    assert "Expired, nothing was done" in page and "Send answer" not in page
    question.refresh_from_db()
    assert question.state == "pending"


def test_what_mallory_waits_for_is_in_no_inbox_of_northgate(northgate, harbour):
    """T01: another tenant's Requests are not counted either."""
    harbour.question(by="Mallory")
    ada = stage.visitor(northgate.people["Sam"]).get("/t/northgate/inbox/").content.decode()
    assert "Question from" not in ada and 'class="count"' not in ada
