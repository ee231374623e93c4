"""Which Policy applies, and one path for what it decides (R17)."""

from datetime import timedelta

import pytest

from runtime_app import permissions, policies, transitions
from runtime_app.models import Effect, Event, Grant, Policy, Run
from runtime_app.selectors import inbox
from tests.cast import Deploy, claim, deployment, intend, send

# Each row: rules (action, place, verdict) in the order they are made, and which one wins for `deploy` in production.
PRECEDENCE = {
    "an environment beats its class": ([("*", "env", "allow"), ("deploy", "class", "deny")], 0),
    "an environment beats neither": ([("deploy", "", "deny"), ("*", "env", "allow")], 1),
    "a class beats neither": ([("deploy", "", "deny"), ("d*", "class", "allow")], 1),
    "an exact name beats a pattern": ([("deplo*", "", "deny"), ("deploy", "", "allow")], 1),
    "an exact name beats a longer pattern": ([("[d]eploy*", "", "deny"), ("deploy", "", "allow")], 1),
    "a longer pattern beats a shorter": ([("d*", "", "deny"), ("dep*", "", "allow")], 1),
    "of equals deny beats ask": ([("deploy", "", "ask"), ("deploy", "", "deny")], 1),
    "of equals ask beats allow": ([("deploy", "", "allow"), ("deploy", "", "ask")], 1),
    "of equals deny beats allow, whatever was made first": ([("*", "env", "deny"), ("*", "env", "allow")], 0),
    "another action's rule does not match": ([("undeploy", "env", "deny"), ("deploy*", "", "allow")], 1),
    "another class does not match": ([("deploy", "staging", "deny"), ("*", "", "allow")], 1),
    "case counts": ([("Deploy", "env", "deny"), ("*", "", "allow")], 1),
}


@pytest.mark.parametrize("name", PRECEDENCE)
def test_precedence(northgate, name):
    """R17: place, then name, then verdict."""
    rules, winner = PRECEDENCE[name]
    places = {"env": {"environment": northgate.production}, "class": {"klass": "production"}, "": {}}
    made = [
        northgate.policy(action, verdict=verdict, **places.get(place, {"klass": place}))
        for action, place, verdict in rules
    ]
    northgate.policy("*", verdict="deny", environment=northgate.staging)
    assert policies.applying(northgate.production, "deploy")["id"] == str(made[winner].pk)


def test_without_a_policy_it_asks(northgate, harbour):
    """R17: one approval, seven days, a Grant of an hour; another tenant's policies are not ours."""
    harbour.policy(verdict="allow")
    request = northgate.approval()
    assert request.policy == policies.DEFAULT
    assert abs(request.expires_at - request.created_at - timedelta(days=7)) < timedelta(seconds=1)
    northgate.approves("Ada", request)
    made = Grant.objects.get()
    assert abs(made.expires_at - made.made_at - timedelta(hours=1)) < timedelta(seconds=1)


def test_a_policy_that_allows_takes_the_same_path(northgate):
    """R17: the Request is written resolved, the policy its decider, with digest, Grant and Effect, and in no inbox."""
    rule = northgate.policy(verdict="allow")
    request = northgate.approval()
    made = Grant.objects.get()
    assert (request.state, request.outcome, request.resolved_by) == ("resolved", "approved", f"policy {rule.pk}")
    assert (made.by_policy, made.digest, made.state) == (True, request.digest, "unused")
    assert Run.objects.get().state == "waiting"
    ada = northgate.context("Ada")
    assert not vars(inbox(ada, permissions.roles(ada)))["for_you"]
    send(intend())
    assert Deploy.sent and Run.objects.get().state == "queued"
    kinds = list(Event.objects.order_by("seq").values_list("kind", flat=True))
    assert [kind for kind in kinds if "request" in kind] == ["request.raised", "request.resolved"]


def test_a_policy_that_denies_lets_the_run_go_on_at_once(northgate):
    """R08, R17: nothing waits, nothing is granted, the turn goes on with the answer."""
    rule = northgate.policy(verdict="deny")
    turn = claim(northgate.start())
    [request] = transitions.suspend(turn, waits=[deployment()])
    assert (request.outcome, request.resolved_by) == ("denied", f"policy {rule.pk}")
    assert Run.objects.get().state == "running"
    assert not Grant.objects.exists() and not Effect.objects.exists()


def test_an_edit_of_a_policy_writes_no_request_and_no_grant(northgate):
    """R17."""
    request = northgate.approval()
    northgate.policy(verdict="allow")
    Policy.objects.update(verdict="deny")
    Policy.objects.all().delete()
    request.refresh_from_db()
    assert request.state == "pending" and not Grant.objects.exists()


def test_a_policys_request_expires_when_it_says(northgate, clock):
    """R08, R17."""
    northgate.policy(request_for=timedelta(minutes=1))
    request = northgate.approval()
    clock.move(seconds=61)
    transitions.sweep()
    request.refresh_from_db()
    assert (request.state, request.resolved_at) == ("expired", request.expires_at)
    assert Run.objects.get().state == "queued"
