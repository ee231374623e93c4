"""How Runs that recover an Effect end (R24), and what a worker leaves alone because it has not the code for it."""

import pytest
from pydantic import BaseModel

from runtime_app import transitions
from runtime_app.actions import Action, Committed, NotCommitted, register
from runtime_app.hosted import registry
from runtime_app.ids import uuid7
from runtime_app.models import Blocker, Effect, Epoch, Grant, Now, Request, Run, Worker
from runtime_app.transitions import Ask, epochs
from tests.cast import KEY_NAME, WORKER, Answer, Deny, Finding, Recover, intend, send
from tests.hosted.processes import beside_a_worker, soon
from tests.hosted.test_loop import start


@register
class Order(Action):
    """Its provider does a key at most once, and what it did can be undone."""

    name, title = "order", "Order a part"
    idempotent = redispatch = True
    compensation = "return"

    class Parameters(BaseModel):
        part: str

    def dispatch(self, key, parameters, environment):
        return Committed(reference="ordered")


@register
class Return(Order):
    name, title = "return", "Return a part"
    idempotent = redispatch = False
    compensation = ""


def ordered(northgate, reply=None) -> Effect:
    request = northgate.ask(Ask("o", "order", '{"part":"p1"}'))[0]
    northgate.approves("Ada", request)
    transitions.record(intend(), reply or Committed(reference="ordered"))
    return Effect.objects.get(request_id=request.pk)


def sent_again(northgate) -> tuple[Effect, Run, Request]:
    effect = ordered(northgate, TimeoutError())
    northgate.says("Olga", Request.objects.get(effect=effect, kind="wait_effect"), Recover("redispatch"))
    run = Run.objects.get(recovers=effect)
    return effect, run, Request.objects.get(run=run)


@pytest.mark.parametrize(
    "reply, state, word",
    [
        (Committed(reference="order 7"), "succeeded", "it happened. order 7"),
        (NotCommitted(statement="sold out"), "failed", "did not happen. sold out"),
        (TimeoutError(), "failed", "nobody knows"),
    ],
)
def test_what_was_sent_again_ends_as_reality_says(northgate, worked, reply, state, word):
    """R24: succeeded is what is known to have happened, and nothing less."""
    _, run, request = sent_again(northgate)
    northgate.approves("Ada", request)
    transitions.record(intend(), reply)
    run = worked(run)
    assert run.state == state and word in run.result + run.reason


def test_what_was_denied_was_not_sent_and_the_effect_may_be_recovered_anew(northgate, worked):
    effect, run, request = sent_again(northgate)
    northgate.says("Ada", request, Deny(request.digest))
    run = worked(run)
    assert run.state == "failed" and "nothing was sent. It was denied by Ada" in run.reason
    effect.refresh_from_db()
    assert (effect.state, effect.recovering) == ("uncertain", "")
    northgate.says("Olga", Request.objects.get(effect=effect, kind="wait_effect"), Recover("redispatch"))


def test_what_ran_out_of_time_was_not_sent(northgate, worked, clock):
    _, run, _ = sent_again(northgate)
    clock.move(days=8)
    transitions.sweep()
    run = worked(run)
    assert run.state == "failed" and "nothing was sent. Its approval ran out of time" in run.reason


def test_what_was_established_meanwhile_is_not_sent_again(northgate, worked, clock):
    """R16: the drift is found before the intent."""
    effect, run, request = sent_again(northgate)
    northgate.approves("Ada", request)
    clock.move(seconds=10)
    asked = Request.objects.get(effect=effect, kind="wait_effect")
    northgate.says("Olga", asked, Finding("committed", "ticket 1"))
    assert intend() is None
    run = worked(run)
    assert run.state == "failed" and "established meanwhile" in run.reason


def test_a_compensation_ends_as_its_own_effect_does(northgate, worked):
    effect = ordered(northgate)
    transitions.compensate(northgate.context("Olga"), effect_id=effect.pk, response_id=uuid7())
    run = Run.objects.get(recovers=effect)
    northgate.approves("Ada", Request.objects.get(run=run))
    send(intend())
    run = worked(run)
    assert (run.state, run.result) == ("succeeded", "Return a part: it was sent, and by evidence it happened. ordered")


def test_cancelling_a_recovery_voids_its_grant_and_leaves_the_effect(northgate):
    """R30: what was not sent again is not; the Effect is as uncertain as it was."""
    effect, run, request = sent_again(northgate)
    northgate.approves("Ada", request)
    northgate.cancels("Olga", run)
    assert Grant.objects.get(request=request).state == "void" and intend() is None
    effect.refresh_from_db()
    assert (effect.state, effect.recovering) == ("uncertain", "")


# ---------------------------------------------------------------- whose code is missing


def test_a_run_of_an_agent_that_no_worker_has_waits(northgate):
    """A deploy may bring it; a recovery needs no agent at all."""
    _, recovery, request = sent_again(northgate)
    northgate.says("Ada", request, Deny(request.digest))
    gone = start(northgate, "go", agent="asks")
    Run.objects.filter(pk=gone.pk).update(agent="gone")

    def people():
        soon(lambda: Run.objects.get(pk=recovery.pk).state == "failed")
        assert Worker.objects.get(name__contains=" ").knows["actions"]["order"] == ["1"]

    Run.objects.filter(pk=recovery.pk).update(agent="gone")
    beside_a_worker(people)
    assert Run.objects.get(pk=gone.pk).state == "queued"


def test_a_run_goes_on_only_with_the_version_that_began_it_or_one_that_continues_it(northgate):
    """A Run remembers the version of its agent."""
    run = start(northgate, "go", agent="asks")
    turn = transitions.claim(_beating(), {"asks": ["1"]})
    assert turn.run.agent_version == "1"
    transitions.give_back(turn)
    assert transitions.claim(WORKER, {"asks": ["2"]}) is None
    assert transitions.claim(WORKER, {"asks": ["2", "1"]}).run.pk == run.pk


def test_what_is_given_to_a_job_is_taken_by_the_version_there_is_then(northgate):
    """R34: its next run begins anew; a deploy meanwhile does not leave it behind."""
    run = start(northgate, "go", agent="asks", interactive=False)
    turn = transitions.claim(_beating(), {"asks": ["1"]})
    transitions.suspend(turn, waits=[transitions.Question("q", "Which?", KEY_NAME)])
    given = {"response": Answer({"name": "x"}), "response_id": uuid7()}
    transitions.supply(northgate.context("Sam"), blocker_id=Blocker.objects.get(run=run).pk, **given)
    successor = transitions.claim(WORKER, {"asks": ["2"]}).run
    assert (successor.follows_id, successor.agent_version) == (run.pk, "2")


def test_a_run_that_an_epoch_holds_is_not_claimed_by_whoever_waited_for_it(northgate, monkeypatch):
    """R27: it was chosen before the epoch began, and is looked at again after the lock."""
    run = start(northgate, "go", agent="asks")
    chosen = transitions.runs._queued(None)
    Run.objects.filter(pk=run.pk).update(held_at=Now())
    looks = iter([chosen])
    monkeypatch.setattr(transitions.runs, "_queued", lambda knows: next(looks, []))
    assert transitions.claim(_beating()) is None
    assert Run.objects.get(pk=run.pk).state == "queued"


def _beating():
    transitions.beat(WORKER, "worker", [])
    return WORKER


def test_a_version_does_not_continue_itself(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    with pytest.raises(TypeError, match="Agent 'a' continues its own version"):
        registry.agent("a", version="2", continues=["1", "2"], loop=sent_again)


# ---------------------------------------------------------------- probes by the clock


def test_a_jobs_lost_reply_is_looked_up_and_the_job_succeeds(northgate, harbor):
    """R35: nobody is on the line, so the provider is asked again and again until the deadline."""
    northgate.policy("deploy_release", verdict="allow")
    harbor.set_mode({"mode": "drop", "service": "card-api", "lag": 2})

    def people():
        run = start(northgate, "deploy card-api 0.8.8", agent="deployer", interactive=False)
        soon(lambda: Run.objects.get(pk=run.pk).state == "succeeded", within=25)

    beside_a_worker(people, SAYSO_LOOK_SECONDS=0.5)
    effect = Effect.objects.get()
    assert effect.state == "committed" and effect.probes >= 1
    assert [line["what"] for line in harbor.log.lines] == ["committed"], "and sent once"


# ---------------------------------------------------------------- epochs


def test_what_is_granted_in_a_new_epoch_waits_for_its_release_too(northgate, monkeypatch):
    """R27: nothing is sent until a person says so, whenever it was started and approved."""
    effect = northgate.granted()
    with monkeypatch.context() as restored:
        restored.setattr(epochs, "current", lambda: Epoch(number=2))
        assert intend() is None
        assert Effect.objects.get().state == "prepared", "and nothing is void: it goes when it may"
    assert intend().effect_id == effect.pk
