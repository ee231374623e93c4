"""What the action makes of each way in which Harbor can behave (R23): a clear yes, a clear no, and everything else."""

import pytest

from examples.harbor.actions import DeployRelease, NotReached
from runtime_app import actions
from runtime_app.actions import Committed, NotCommitted

DEPLOY = actions.registered("deploy_release")
CARD_API = DeployRelease.Parameters(service="card-api", version="0.8.8")


def deploy(key="k"):
    return DEPLOY.dispatch(key, CARD_API, "staging")


def test_harbors_yes_is_committed_under_its_reference(harbor):
    assert deploy() == Committed(reference="harbor-1")
    assert DEPLOY.probe("k", CARD_API, "staging") == Committed(reference="harbor-1")


def test_harbors_no_is_not_committed_with_its_reason(harbor):
    harbor.set_mode({"mode": "refuse"})
    assert deploy() == NotCommitted(statement="Harbor does not deploy card-api now.")
    assert isinstance(DEPLOY.probe("k", CARD_API, "staging"), NotCommitted)


@pytest.mark.parametrize("mode, committed", [("drop", True), ("down", False)])
def test_a_cut_line_proves_nothing(harbor, mode, committed):
    harbor.set_mode({"mode": mode, "times": 1})
    with pytest.raises(ConnectionError) as cut:
        deploy()
    assert not isinstance(cut.value, DEPLOY.nothing_sent)
    assert isinstance(DEPLOY.probe("k", CARD_API, "staging"), Committed) is committed


def test_a_key_used_for_something_else_proves_nothing(harbor):
    deploy()
    with pytest.raises(RuntimeError, match="409"):
        DEPLOY.dispatch("k", DeployRelease.Parameters(service="ledger", version="1"), "staging")


def test_no_connection_proves_that_nothing_was_sent(monkeypatch):
    monkeypatch.setenv("HARBOR_URL", "http://127.0.0.1:9")
    with pytest.raises(NotReached):
        deploy()
    assert DEPLOY.nothing_sent == (NotReached,)
