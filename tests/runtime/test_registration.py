"""An action's registration that contradicts itself stops the start, by name; recoveries say what they will do."""

from datetime import timedelta

import pytest
from pydantic import BaseModel

from runtime_app import actions
from runtime_app.actions import Action, Committed, NotCommitted


@pytest.fixture(autouse=True)
def forgets(monkeypatch):
    monkeypatch.setattr(actions, "_registered", {})


def action(name: str = "brew", **more) -> type[Action]:
    class Parameters(BaseModel):
        cups: int

    def dispatch(self, key, parameters, environment):
        return Committed()

    made = {"name": name, "title": "Brew", "Parameters": Parameters, "dispatch": dispatch}
    return type("Brew", (Action,), made | more)


@pytest.mark.parametrize(
    "registration, told",
    [
        ({"title": ""}, "Action Brew has no title"),
        ({"name": ""}, "Action Brew has no name"),
        ({"dispatch": Action.dispatch}, "Action brew cannot be dispatched"),
        ({"redispatch": True}, "Action brew may be sent again, but its provider does not do a key at most once"),
        ({"compensation": "brew"}, "Action brew compensates itself"),
        ({"version": "2", "continues": ("1", "2")}, "Action brew continues its own version"),
        ({"send_within": timedelta(minutes=5)}, "Action brew may be sent after its own deadline"),
        ({"deadline": timedelta(0), "send_within": timedelta(0)}, "Action brew has no time to reply"),
        ({"lag": timedelta(seconds=-1)}, "Action brew has a lag below zero"),
        ({"nothing_sent": (Exception,)}, "Action brew takes every error as a proof that nothing was sent"),
        ({"nothing_sent": ("ConnectionError",)}, "Action brew names what is no exception"),
        ({"risky": ("sugar",)}, "Action brew calls risky what is no parameter of it: sugar"),
    ],
)
def test_a_contradiction_is_refused_by_name(registration, told):
    with pytest.raises(TypeError, match=told):
        actions.register(action(**registration))
    assert actions.names() == []


def test_two_actions_of_one_name_are_refused():
    actions.register(action())
    with pytest.raises(TypeError, match="Two actions are registered as brew"):
        actions.register(type("Other", (action(),), {}))


def test_a_compensation_nobody_registered_stops_the_start():
    actions.register(action(compensation="pour_out"))
    with pytest.raises(TypeError, match="Action brew is compensated by pour_out, which is not registered"):
        actions.check_compensations()
    actions.register(action("pour_out"))
    actions.check_compensations()


def test_what_a_compensation_is_compensated_by_is_refused():
    """R24: no compensation of a compensation is offered, so none is registered in a circle."""
    actions.register(action(compensation="pour_out"))
    actions.register(action("pour_out", compensation="brew"))
    offered = [each["name"] for each in actions.recoveries(actions.registered("pour_out"), compensates=True)]
    assert offered == ["accept"]


def test_a_recovery_says_what_it_will_do_and_what_it_takes():
    """R24: title, what it looks at or changes, its permission, whether it needs an approval of its own."""
    actions.register(action("pour_out", consequence="Empties the pot."))
    probe = {"probe": lambda self, key, parameters, environment: NotCommitted()}
    actions.register(action(idempotent=True, redispatch=True, compensation="pour_out", **probe))
    told = {each["name"]: each for each in actions.recoveries(actions.registered("brew"))}
    assert list(told) == ["probe", "redispatch", "compensate", "accept"]
    assert {name: (each["sends"], each["approval"]) for name, each in told.items()} == {
        "probe": (False, False), "redispatch": (True, True), "compensate": (True, True), "accept": (False, False),
    }  # fmt: skip
    assert "Empties the pot" in told["compensate"]["does"]
    assert all(each["title"] and each["does"] and each["role"] == "operator" for each in told.values())
