"""Every page in every state: addresses with names, for who should look at them."""

from runtime_app import transitions
from runtime_app.ids import uuid7
from runtime_app.models import Blocker, Effect, Request, Run, Schedule
from tests import cast
from tests.cast import Deny, Finding, House, Recover
from tests.console import stage
from tests.runtime.test_reality import shipped

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name of the key", "description": "Not the key itself.", "maxLength": 80},
        "why": {"type": "string", "title": "Why this one", "format": "long", "maxLength": 500},
        "count": {"type": "integer", "title": "How many", "minimum": 1, "maximum": 9, "default": 2},
        "share": {"type": "number", "title": "Share of traffic"},
        "rotate": {"type": "boolean", "title": "Withdraw the old key"},
        "where": {"type": "string", "title": "Region", "enum": ["eu", "us", "Ελλάδα"]},
        "days": {"type": "array", "title": "Days", "items": {"type": "string", "enum": ["mon", "tue"]}},
        "on": {"type": "string", "title": "On which day", "format": "date"},
    },
    "required": ["name"],
}
ODD = "card\u200b-\u202eipa\u202c \u0440aypal"
CLAIM = "Tested twice.\n\n**Bold**, <b>no</b>, see http://example.invalid/ and card\u202eipa."


def build(house: House) -> list[tuple[str, str, str]]:
    """Pairs of who looks and where, each with a name."""
    root = f"/t/{house.tenant.slug}/"

    def request(each) -> str:
        return f"{root}requests/{each.pk}/"

    def effect(pk) -> str:
        return f"{root}effects/{pk}/"

    found = Effect.objects.get(pk=house.unknown(version="1.0.0").effect_id)
    house.says("Olga", Request.objects.get(effect_id=found.pk), Finding("committed", "ticket 7"), message="saw it")
    accepted = house.unknown(version="1.0.1")
    house.says("Olga", accepted, Recover("accept"), message="nobody can tell any more")
    denied = house.approval("1.0.2")
    suggested = '{"service":"card-api","version":"1.0.3"}'
    house.says("Ada", denied, Deny(denied.digest, suggested), message="not on a Friday")
    answered = house.question()
    house.says("Sam", answered, cast.Answer({"name": "ci-october"}))
    all_ = stage.everything(house)
    disputed, again, recalled = disputes(house), sent_again(house), undone(house)
    prepared = house.granted(version="1.0.4")
    odd = house.ask({"version": "0.8.9", "service": ODD, "claim": CLAIM}, environment="production")[0]
    long = house.ask({"version": "0.9.0", "service": "very-long-name-" * 12, "claim": "why " * 300})[0]
    form = house.ask(transitions.Question("form", CLAIM, FORM))[0]
    ended = house.start(message="finish")
    transitions.finish(cast.claim(ended), state="succeeded", result="All done.\nHarbor calls it build-1.")
    failed = house.start(message="fail")
    transitions.finish(cast.claim(failed), state="failed", reason="The model could not be reached.")
    nobody = f"{root}requests/{uuid7()}/"
    parent = house.start(message="with a helper")
    waits = [cast.deployment("1.0.5"), transitions.Child("look", "deployer", "look around")]
    transitions.suspend(cast.claim(parent), waits=waits)
    job = house.start(message="weekly report", interactive=False)
    transitions.suspend(cast.claim(job), waits=[transitions.Question("q", "Which key signs the report?", FORM)])
    asked = Blocker.objects.get(run_id=job.pk)
    voted, refused, risen = blockers(house)
    held = house.context("Olga")
    transitions.hold(held, environment="staging", response_id=uuid7(), reason="Nothing goes out before the audit ends.")
    return [
        ("effects-open", "Olga", f"{root}effects/?open={all_.unknown.effect_id}"),
        ("effects-not-you", "Rita", f"{root}effects/?open={all_.unknown.effect_id}"),
        ("effect-disputed", "Stan", effect(disputed.pk)),
        ("effect-undone", "Olga", effect(recalled.pk)),
        ("effect-undoing", "Olga", effect(Effect.objects.get(compensates_id=recalled.pk).pk)),
        ("effect-sent-again", "Olga", effect(again.pk)),
        ("schedules", "Olga", f"{root}schedules/"),
        ("schedules-not-you", "Rita", f"{root}schedules/"),
        ("blocker-votes", "Bob", f"{root}blockers/{voted.pk}/"),
        ("blocker-parent", "Ada", f"{root}blockers/{risen.pk}/"),
        ("blocker-denied", "Ada", f"{root}blockers/{refused.pk}/"),
        ("environments", "Olga", f"{root}environments/"),
        ("blockers", "Ada", f"{root}blockers/"),
        ("blocker-approval", "Ada", f"{root}blockers/{all_.blocker.pk}/"),
        ("blocker-question", "Sam", f"{root}blockers/{asked.pk}/"),
        ("blocker-not-you", "Rita", f"{root}blockers/{asked.pk}/"),
        ("run-held", "Olga", f"{root}runs/{prepared.run_id}/"),
        ("run-parent", "Olga", f"{root}runs/{parent.pk}/"),
        ("cancel-parent", "Olga", f"{root}runs/{parent.pk}/cancel/"),
        ("inbox", "Ada", f"{root}inbox/"),
        ("inbox-others", "Ada", f"{root}inbox/?tab=others"),
        ("inbox-unknown", "Olga", f"{root}inbox/?tab=unknown"),
        ("inbox-decided", "Ada", f"{root}inbox/?tab=decided"),
        ("inbox-empty", "Rita", f"{root}inbox/"),
        ("question", "Sam", request(all_.question)),
        ("question-form", "Sam", request(form)),
        ("question-not-you", "Rita", request(all_.question)),
        ("question-answered", "Sam", request(answered)),
        ("decision-production", "Ada", request(all_.approval)),
        ("decision-odd", "Ada", request(odd)),
        ("decision-long", "Ada", request(long)),
        ("decision-not-you", "Olga", request(all_.approval)),
        ("decision-denied", "Ada", request(denied)),
        ("decision-approved", "Ada", request(prepared.request)),
        ("unknown", "Olga", request(all_.unknown)),
        ("unknown-not-you", "Ada", request(all_.unknown)),
        ("unknown-accepted", "Olga", request(accepted)),
        ("sessions", "Olga", f"{root}sessions/"),
        ("session-new", "Olga", f"{root}sessions/new/"),
        ("session", "Olga", f"{root}sessions/{all_.cancelled.session_id}/"),
        ("runs", "Olga", f"{root}runs/"),
        ("run-waiting", "Olga", f"{root}runs/{all_.approval.run_id}/"),
        ("run-cancelled", "Olga", f"{root}runs/{all_.cancelled.pk}/"),
        ("run-blocked", "Olga", f"{root}runs/{all_.blocked.pk}/"),
        ("run-succeeded", "Olga", f"{root}runs/{ended.pk}/"),
        ("run-failed", "Olga", f"{root}runs/{failed.pk}/"),
        ("cancel", "Olga", f"{root}runs/{all_.unknown.run_id}/cancel/"),
        ("cancel-ended", "Olga", f"{root}runs/{ended.pk}/cancel/"),
        ("effects", "Olga", f"{root}effects/"),
        ("effect-unknown", "Olga", effect(all_.unknown.effect_id)),
        ("effect-cancelled", "Olga", effect(Effect.objects.get(run_id=all_.cancelled.pk).pk)),
        ("effect-committed", "Olga", effect(found.pk)),
        ("effect-accepted", "Olga", effect(accepted.effect_id)),
        ("effect-prepared", "Olga", effect(prepared.pk)),
        ("choose", "Jo", "/"),
        ("sign-in", "", "/sign-in/"),
        ("help", "", "/help/"),
        ("not-found", "Ada", nobody),
    ]


def blockers(house: House) -> tuple[Blocker, Blocker, Blocker]:
    """One with one vote of two, one that was denied, and a parent's; two schedules, one paused, one refused."""
    sunday = Schedule.objects.create(
        tenant=house.tenant, agent="deployer", environment=house.staging, message="Clean up what nobody uses.",
        cron="30 3 * * 0", set_by=house.people["Olga"],
    )  # fmt: skip
    transitions.pause(house.context("Stan"), schedule_id=sunday.pk, response_id=uuid7(), reason="Until the audit ends.")
    Schedule.objects.create(
        tenant=house.tenant, agent="deployer", environment=house.staging, message="Tell who is on call.",
        cron="*/15 8-18 * * *", set_by=house.people["Stan"], refused="Stan is no active member any more.",
        refused_at=sunday.created_at,
    )  # fmt: skip
    house.policy("deploy", environment=house.staging, approvals=2)
    made = []
    for version in ("1.0.7", "1.0.8"):
        job = house.start(message=f"roll out {version}", interactive=False)
        transitions.suspend(cast.claim(job), waits=[cast.deployment(version)])
        made.append(Blocker.objects.get(run_id=job.pk))
    for blocker, verb in zip(made, (cast.Approve, Deny), strict=True):
        transitions.supply(
            house.context("Ada"), blocker_id=blocker.pk, response=verb(blocker.digest), response_id=uuid7(),
            message="as agreed on Monday",
        )  # fmt: skip
    parent = house.start(message="roll out by a helper", interactive=False)
    transitions.suspend(cast.claim(parent), waits=[transitions.Child("c", "deployer", "roll out 1.0.9")])
    child = Run.objects.get(parent_id=parent.pk)
    transitions.suspend(cast.claim(child), waits=[cast.deployment("1.0.9")])
    return *made, Blocker.objects.get(run_id=parent.pk)


def disputes(house: House) -> Effect:
    """Olga saw it, Stan did not."""
    asked = house.unknown(version="1.0.6")
    house.says("Olga", asked, Finding("committed", "build 7"), message="The page shows it.")
    transitions.add_evidence(
        house.context("Stan"), effect_id=asked.effect_id, finding="not_committed", reference="https://status.example/41",
        response_id=uuid7(), message="Not in the list of builds.",
    )  # fmt: skip
    return Effect.objects.get(pk=asked.effect_id)


def undone(house: House) -> Effect:
    """A parcel that was shipped, and is being recalled."""
    effect = shipped(house)
    transitions.compensate(house.context("Olga"), effect_id=effect.pk, response_id=uuid7(), message="wrong parcel")
    house.approves("Ada", Request.objects.get(action_name="recall"))
    return effect


def sent_again(house: House) -> Effect:
    """Nobody knew; it is sent again under its key, and nobody knows still."""
    effect = shipped(house, TimeoutError())
    house.says("Olga", Request.objects.get(effect_id=effect.pk, kind="wait_effect"), Recover("redispatch"))
    house.approves("Ada", Request.objects.get(effect_id=effect.pk, kind="wait_approval"))
    transitions.record(cast.intend(), TimeoutError())
    return effect
