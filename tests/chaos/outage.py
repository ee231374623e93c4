"""The provider is down for a minute with fifty dispatches in flight: fifty are uncertain and none is sent again;
look-ups settle those that happened, people the rest, and the totals are the provider's own."""

import random
import sys
from collections import Counter
from datetime import timedelta

from django.conf import settings

from runtime_app.models import Attempt, Effect, Evidence, Request, Run
from tests.cast import Finding, Recover
from tests.chaos import agents, invariants
from tests.chaos.agents import release
from tests.chaos.installation import Installation, until

COUNT = 50
ENDINGS = ("late", "silent")  # it happened, or it did not; the caller waits, and is told nothing either way


def main(here: Installation, words: list[str]) -> None:
    seed = int(words[0]) if words else random.randrange(10_000)
    drawn = random.Random(seed)
    settings.SAYSO_WORKER_TURNS, agents.PATIENCE = COUNT, 12.0
    agents.Release.lag = timedelta(minutes=10)  # what Harbor does not find yet proves nothing
    print(f"{COUNT} dispatches, seed {seed}")
    for number in range(COUNT):
        service = f"s{number}"
        here.harbor.mode(drawn.choice(ENDINGS), service=service, seconds=14)
        run = here.northgate.start(message=f"release {service}")
        [asked] = here.northgate.ask(release(service), run=run)
        here.northgate.approves("Ada", asked)
    worker, most = here.worker(), 0
    here.harbor.mode("down")

    def all_uncertain() -> bool:
        nonlocal most
        found = states()
        most = max(most, found["in_flight"])
        return found["uncertain"] == COUNT

    if not until(all_uncertain, 60):
        fail(f"not all became uncertain: {states()}")
    say("uncertain", f"{COUNT}, at most {most} in flight at once")
    look_up(here)  # Harbor is still down
    expect("settled while it is down", sum(states()[each] for each in ("committed", "not_committed")), 0)
    here.move(minutes=1)
    for number in range(COUNT):
        here.harbor.mode("commit", service=f"s{number}")
    here.harbor.mode("commit")
    look_up(here)
    done = {line["key"] for line in here.harbor.lines() if line["what"] == "committed"}
    expect("settled by look-ups", states()["committed"], len(done))
    expect("left to people", states()["uncertain"], COUNT - len(done))
    here.move(minutes=11)
    for request in Request.objects.filter(kind="wait_effect", state="pending").select_related("effect"):
        found = "committed" if request.effect.key in done else "not_committed"
        here.northgate.says("Olga", request, Finding(found, "Harbor's own page"))
    here.quiet(60)
    worker.end()
    expect("settled by people", Evidence.objects.filter(grade="attested").count(), COUNT - len(done))
    expect("deliveries, as Harbor counts them", len(here.harbor.lines()), COUNT)
    expect("intents", Attempt.objects.count(), COUNT)
    expect("committed, as Harbor counts them", states()["committed"], len(done))
    expect("Runs succeeded", Run.objects.filter(state="succeeded").count(), COUNT)
    if wrong := invariants.whole(here.harbor.lines()):
        fail("\n".join(wrong))
    print("every invariant holds")


def states() -> Counter:
    return Counter(Effect.objects.values_list("state", flat=True))


def look_up(here: Installation) -> None:
    for request in Request.objects.filter(kind="wait_effect", state="pending"):
        here.northgate.says("Olga", request, Recover("probe"))
    if not until(lambda: not Effect.objects.filter(recovering="probe").exists(), 60):
        fail("the look-ups did not end")


def say(what: str, found) -> None:
    print(f"  {what:36} {found}", flush=True)


def expect(what: str, found: int, wanted: int) -> None:
    say(what, found)
    if found != wanted:
        fail(f"{what}: {found}, and not {wanted}")


def fail(why: str) -> None:
    sys.exit(f"WRONG: {why}")
