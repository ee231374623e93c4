"""What a rule finds to act on, and picks from."""

import hypothesis.strategies as st
from hypothesis.stateful import precondition


def some(look):
    """A rule that needs something to act on: `look(machine)` lists it, `drawn(data, ...)` picks one."""
    return precondition(lambda self: bool(look(self)))


def drawn(data, things):
    return data.draw(st.sampled_from(list(things)))


def running(self):
    return [run for run in self.model.runs.values() if run.state == "running" and run.pk in self.turns]


def pending(self, what=None):
    found = [each for each in self.model.requests.values() if each.state == "pending"]
    return [each for each in found if what is None or (each.content == "question") == (what == "question")]


def asked(self):
    return [each for each in self.model.effects.values() if each.asked]


def settled(self):
    return [each for each in self.model.effects.values() if each.state in ("committed", "not_committed")]
