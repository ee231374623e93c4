"""The same verbs from Python: each stands on the transition that the pages use (spec section 3)."""

from asgiref.sync import async_to_sync

from runtime_app import agent, transitions
from runtime_app.models import Blocker, Effect, Environment, Evidence, Grant, Request, Run
from runtime_app.responses import Finding
from tests.cast import Approve, claim, deployment
from tests.runtime.test_reality import shipped


def test_hold_release_and_void(northgate):
    """R16."""
    olga, effect = northgate.context("Olga"), northgate.granted()
    async_to_sync(agent.hold)("staging", olga, reason="freeze")
    assert Environment.objects.get(pk=northgate.staging.pk).held_why == "freeze"
    async_to_sync(agent.release)("staging", olga)
    async_to_sync(agent.void)(effect.request_id, northgate.context("Ada"), reason="wrong one")
    assert Grant.objects.get().state == "void"


def test_compensate(northgate):
    """R24."""
    effect = shipped(northgate)
    async_to_sync(agent.compensate)(effect.pk, northgate.context("Olga"), message="wrong parcel")
    assert Request.objects.filter(action_name="recall").count() == 1
    assert Run.objects.get(recovers_id=effect.pk).recovery == "compensate"


def test_supply(northgate):
    """R34."""
    job = northgate.start(interactive=False)
    transitions.suspend(claim(job), waits=[deployment("2")])
    blocker = Blocker.objects.get()
    async_to_sync(agent.supply)(blocker.pk, Approve(blocker.digest), northgate.context("Ada"))
    assert Run.objects.get(follows_id=job.pk).state == "queued"


def test_add_evidence(northgate):
    """R25."""
    asked = northgate.unknown()
    northgate.says("Olga", asked, Finding("committed", "build 1"))
    said = async_to_sync(agent.add_evidence)(
        asked.effect_id, Finding("committed", "build 1"), northgate.context("Stan"), message="seen too"
    )
    assert Evidence.objects.get(pk=said.pk).late and not Effect.objects.get().disputed
