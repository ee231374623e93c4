"""What the stories move: three actions whose provider writes down what it did, in this process."""

from datetime import timedelta

from pydantic import BaseModel

from runtime_app.actions import Action, Committed, NotCommitted, register

PROVIDER: list[dict] = []  # what it wrote down


class Carry(Action):
    deadline, send_within = timedelta(seconds=60), timedelta(seconds=30)

    class Parameters(BaseModel):
        what: str

    def dispatch(self, key, parameters, environment):
        raise NotImplementedError  # the story plays the provider

    def probe(self, key, parameters, environment):
        found = any(line["key"] == key and line["what"] == "committed" for line in PROVIDER)
        return Committed("found") if found else NotCommitted(statement="no such key")


@register
class Haul(Carry):
    name, title = "haul", "Haul"
    idempotent = redispatch = True
    compensation = "unhaul"


@register
class Unhaul(Carry):
    name, title = "unhaul", "Haul it back"


@register
class Toss(Carry):
    name, title = "toss", "Toss"
    probe = None
