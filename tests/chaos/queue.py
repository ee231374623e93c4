"""Everything that is queued is late, comes twice, in another order, or never: the hints to the workers and the jobs of
the clock. Hints are hints and jobs say only that a minute has come, so it costs seconds and nothing else (R09, R39)."""

import random
import time
from collections import Counter
from datetime import UTC, datetime, timedelta

from runtime_app import jobs
from runtime_app.ids import uuid7
from runtime_app.models import Attempt, Environment, Request, Run, Schedule
from tests.cast import Answer
from tests.chaos import invariants
from tests.chaos.installation import Actor, Installation, until
from tests.chaos.outage import expect, fail, say
from tests.chaos.shim import FATES, Shim

COUNT = 40  # Runs of each way
THREE = datetime(2026, 1, 1, 3, tzinfo=UTC)  # no minute of now: these jobs are told by us alone
MINUTES = 20


def main(here: Installation, words: list[str]) -> None:
    seed = int(words[0]) if words else random.randrange(10_000)
    print(f"seed {seed}")
    hints(here, "every fate", seed, FATES)
    hints(here, "no hint at all", seed, ("dropped",))
    clock(here, seed)
    if wrong := invariants.whole(here.harbor.lines()):
        fail("\n".join(wrong))
    print("every invariant holds")


def worker(here: Installation, seed: int, fates=FATES) -> Actor:
    from runtime_app import worker

    def work():
        shim, hear = Shim(seed, fates), worker.Worker._hear
        worker.Worker._hear = lambda self, hint: shim.pass_on(lambda each: hear(self, each), hint)
        worker.main()

    return here.fork(work, through_the_proxy=False)


def hints(here: Installation, way: str, seed: int, fates) -> None:
    """Questions, releases and Runs that are cancelled, by two workers whose hints go astray."""
    print(f"hints: {way}")
    workers = [worker(here, seed + number, fates) for number in range(2)]
    before, sent, began = set(Run.objects.values_list("pk", flat=True)), len(here.harbor.lines()), time.monotonic()
    what = [("release", "ask", "hang")[number % 3] for number in range(COUNT)]
    runs = [here.northgate.start(message=f"{each} {way} {number}") for number, each in enumerate(what)]
    mine = Run.objects.exclude(pk__in=before)

    def ended() -> bool:
        for request in Request.objects.filter(state="pending", run__in=mine):
            if request.kind == "wait_user":
                here.northgate.says("Sam", request, Answer({"name": "x"}))
            else:
                here.northgate.approves("Ada", request)
        for run in mine.filter(state="running", message__startswith="hang", cancel_requested_at=None):
            here.northgate.cancels("Olga", run)
        return mine.filter(ended_at=None).count() == 0

    if not until(ended, 120, pause=0.1):
        fail(f"they do not end: {Counter(mine.values_list('state', flat=True))}")
    took = time.monotonic() - began
    met = Counter(line.split()[1] for each in workers for line in each.told().splitlines() if line.startswith("hint "))
    for each in workers:
        each.end()
    say("hints", ", ".join(f"{met[fate]} {fate}" for fate in FATES if met[fate]))
    expect("Runs ended", mine.exclude(ended_at=None).count(), len(runs))
    expect("deliveries", len(here.harbor.lines()) - sent, what.count("release"))
    expect("intents", Attempt.objects.filter(effect__run__in=mine).count(), what.count("release"))
    say("seconds", f"{took:.1f}")


def clock(here: Installation, seed: int) -> None:
    """The minutes of three Schedules: some are told late, twice, before their turn, never, or by a worker that died."""
    print("the clock")
    drawn = random.Random(seed)
    house = here.northgate
    for number in range(3):
        Schedule.objects.create(
            tenant=house.tenant, environment=Environment.objects.get(tenant=house.tenant, name="staging"),
            agent="deployer", message=f"ask job {number}", cron="* 3 1 1 *", set_by=house.people["Olga"],
        )  # fmt: skip
    minutes = [THREE + timedelta(minutes=number) for number in range(MINUTES)]
    told = [(minute, drawn.choice([*FATES, "taken"])) for minute in minutes]
    drawn.shuffle(told)  # every one before or after its turn
    for minute, fate in told:
        tell(here, minute, fate)
    jobs.take_up.configure(lock=f"chaos {uuid7()}").defer(timestamp=int(THREE.timestamp()))
    one = here.worker(through_the_proxy=False)
    wanted = 3 * sum(fate != "dropped" for _, fate in told)
    started = Run.objects.exclude(schedule=None)
    until(lambda: started.count() >= wanted, 60, pause=0.1)
    until(lambda: not left_over(here), 30, pause=0.1)
    here.quiet()
    one.end()
    met = Counter(fate for _, fate in told)
    say("minutes told", ", ".join(f"{met[fate]} {fate}" for fate in [*FATES, "taken"] if met[fate]))
    expect("jobs left over", left_over(here), 0)
    expect("Runs started", started.count(), wanted)
    expect("Runs started twice", wanted - started.values("schedule", "start_id").distinct().count(), 0)
    expect("Runs blocked, as nobody is there", started.filter(state="blocked").count(), wanted)


def tell(here: Installation, minute: datetime, fate: str) -> None:
    if fate == "dropped":
        return
    later = {"schedule_in": {"milliseconds": 2000}} if fate == "late" else {}
    for _ in range(2 if fate == "doubled" else 1):
        job = jobs.start_due.configure(**later).defer(timestamp=int(minute.timestamp()))
    if fate == "taken":  # by a worker that said nothing since
        here.reconnected().execute(
            "with gone as (insert into procrastinate_workers (last_heartbeat) values (now() - interval '1 hour')"
            " returning id) update procrastinate_jobs set status = 'doing', worker_id = gone.id from gone"
            " where procrastinate_jobs.id = %s",
            [job],
        )


def left_over(here: Installation) -> int:
    """Jobs of ours that are not done; what succeeded is deleted."""
    ours = "select count(*) from procrastinate_jobs where task_name = 'sayso.start_due' and args->>'timestamp' < %s"
    return here.reconnected().execute(ours, [str(int(THREE.timestamp()) + 86_400)]).fetchone()[0]
