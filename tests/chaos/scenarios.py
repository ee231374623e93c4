"""What is set up for one cell of the kill matrix, and where it can break."""

from collections.abc import Callable
from dataclasses import dataclass, field

from runtime_app import permissions, transitions
from runtime_app.actions import Committed
from runtime_app.errors import InvalidInput
from runtime_app.ids import uuid7
from runtime_app.models import Blocker, Effect, Request, Run
from runtime_app.transitions import epochs
from tests import cast
from tests.cast import Answer, Approve, Finding, Recover
from tests.chaos.agents import question, release
from tests.chaos.installation import Installation, until

FOUR = ("locked", "written", "events", "committed")
DISPATCH = ["dispatch.claim", "dispatch.intent_committed", "dispatch.before_send", "dispatch.after_send"]


def places(*verbs: str, also: tuple = (), but: tuple = ()) -> list[str]:
    return [place for verb in verbs for place in (f"{verb}.{each}" for each in FOUR) if place not in but] + [*also]


@dataclass
class Stage:
    """One cell's own Session, Run and people. `say` is what a person or a provider says, and says again if it is not
    known whether it was heard."""

    here: Installation
    service: str
    facts: dict = field(default_factory=dict)
    say: Callable | None = None
    meanwhile: Callable | None = None

    @property
    def house(self):
        return self.here.northgate

    def parked(self, what: str = "release", **more):
        run = self.house.start(message=f"{what} {self.service}", **more)
        asked = self.house.ask(question() if what == "ask" else release(self.service, what), run=run)
        return asked[0] if asked else run

    def granted(self, what: str = "release"):
        request = self.parked(what)
        self.house.approves("Ada", request)
        return request

    def sent(self, mode: str = "drop", what: str = "release"):
        """An Effect that was sent, and what came of it: by hand, before anything breaks."""
        self.here.harbor.mode(mode, service=self.service)
        request = self.granted(what)
        dispatch = cast.intend()
        try:
            reply = dispatch.action.dispatch(dispatch.key, dispatch.parameters, dispatch.environment)
        except Exception as error:
            reply = error
        transitions.record(dispatch, reply)
        self.here.harbor.mode("commit", service=self.service)
        return Effect.objects.get(request_id=request.pk)

    def question_about(self, effect):
        return Request.objects.get(effect_id=effect.pk, state="pending")

    def says(self, who: str, request, response):
        said = uuid7()
        self.say = lambda: self.house.says(who, request, response, response_id=said)


def dispatch(stage):
    stage.granted()


def turn(stage):
    stage.house.start(message=f"release {stage.service}")


def approve(stage):
    request = stage.parked()
    stage.says("Ada", request, Approve(request.digest))


def answer(stage):
    stage.says("Sam", stage.parked("ask"), Answer({"name": "x"}))


def cancel(stage):
    run, said = Run.objects.get(pk=stage.granted().run_id), uuid7()
    stage.say = lambda: stage.house.cancels("Olga", run, said)


def stop(stage):
    """A worker has to stop: the Run is cancelled while its loop hangs."""
    run = stage.house.start(message="hang")

    def meanwhile():
        assert until(lambda: Run.objects.get(pk=run.pk).state == "running", 10)
        stage.house.cancels("Olga", run)

    stage.meanwhile = meanwhile


def finding(stage):
    effect = stage.sent()
    stage.says("Olga", stage.question_about(effect), Finding("committed", "harbor's own page"))


def callback(stage):
    effect = stage.sent()
    provider = permissions.Context(effect.tenant_id, permissions.Actor("system", "provider", "harbor"))
    stage.say = lambda: transitions.provider_says(
        provider, action="release", key=effect.key, message_id=f"msg {stage.service}", reply=Committed("harbor")
    )


def probe(stage):
    effect = stage.sent()
    stage.house.says("Olga", stage.question_about(effect), Recover("probe"))


def late(stage):
    """Evidence about what is settled already, which contradicts it."""
    effect, said = stage.sent("commit"), uuid7()
    stage.say = lambda: transitions.add_evidence(
        stage.house.context("Stan"), effect_id=effect.pk, finding="not_committed", reference="mail", response_id=said
    )


def expiry(stage):
    stage.parked()
    stage.here.move(days=8)


def lapse(stage):
    cast.claim(stage.house.start(message=f"release {stage.service}"))
    stage.here.move(minutes=1)


def silence(stage):
    """A dispatch whose worker is gone."""
    stage.granted()
    cast.intend()
    stage.here.move(minutes=1)


def hold(stage):
    stage.granted()
    first, said = uuid7(), uuid7()
    context = stage.house.context("Olga")

    def hold_and_release():
        try:
            transitions.hold(context, environment="staging", response_id=first)
        except InvalidInput:
            pass
        transitions.release(context, environment="staging", response_id=said)

    stage.say = hold_and_release


def void(stage):
    request, said = stage.granted(), uuid7()
    stage.say = lambda: transitions.void(stage.house.context("Ada"), request_id=request.pk, response_id=said)


def supply(stage):
    run = stage.parked(interactive=False)
    blocker, said = Blocker.objects.get(run_id=run.pk), uuid7()
    stage.say = lambda: transitions.supply(
        stage.house.context("Ada"), blocker_id=blocker.pk, response=Approve(blocker.digest), response_id=said
    )


def compensate(stage):
    effect, said = stage.sent("commit"), uuid7()
    stage.say = lambda: transitions.compensate(stage.house.context("Olga"), effect_id=effect.pk, response_id=said)


def redispatch(stage):
    effect = stage.sent("down")
    stage.says("Olga", stage.question_about(effect), Recover("redispatch"))


def again(stage):
    """The second Attempt of an uncertain Effect, on its way."""
    effect = stage.sent("drop")
    stage.house.says("Olga", stage.question_about(effect), Recover("redispatch"))
    asked = Request.objects.get(run_id=Run.objects.get(recovers_id=effect.pk).pk)
    stage.house.approves("Ada", asked)


def restore(stage):
    """The database is older than its mark: five intents were sent that it does not know."""
    stage.granted()
    stage.facts["nothing more is sent"] = True
    epochs.mark(epochs._facts()[3] + 5, uuid7())
    stage.say = epochs.watch


def release_epoch(stage):
    stage.granted()
    epochs.mark(epochs._facts()[3] + 5, uuid7())
    epochs.watch()
    stage.facts["nothing more is sent"] = True
    stage.say = lambda: epochs.release_epoch("Root")


# what is prepared, and where it breaks. With a `say` a person breaks, else a worker.
SCENARIOS = {
    dispatch: places("intend", "record", "claim", "finish", also=(*DISPATCH, "dispatch.result_committed")),
    turn: places("claim", "suspend", also=("turn.claimed", "turn.suspended")),
    approve: places("respond"),
    answer: places("respond"),
    cancel: places("cancel"),
    stop: places("stopped"),
    finding: places("respond"),
    callback: places("provider_says"),
    probe: places("recovering", "recovered"),
    late: places("add_evidence"),
    expiry: places("expire"),
    lapse: places("lapse"),
    silence: places("doubt"),
    hold: places("hold", "release"),
    void: places("void"),
    supply: places("supply"),
    compensate: places("compensate"),
    redispatch: places("respond"),
    again: places("intend", "record", also=tuple(DISPATCH)),
    restore: places("watch"),
    release_epoch: places("release_epoch"),
}
# a COMMIT whose reply is lost, and one that never arrives: whoever spoke does not know, and says it again
LOST = ("before 1", "after 1")
WHO_SPEAKS = [approve, answer, cancel, finding, callback, late, void, supply, compensate, redispatch, release_epoch]
