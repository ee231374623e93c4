"""The kill matrix: every place of a scenario, met once by each fault: kill -9, a connection that is cut, one in which
everything vanishes, one that is slow, the immediate stop of PostgreSQL. Then everything starts again, works until it is
quiet, and is judged by the provider's log."""

import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from runtime_app.errors import StaleRequest
from runtime_app.models import Attempt, Effect, Request, Run
from runtime_app.transitions import epochs
from tests.cast import Answer, Finding
from tests.chaos import invariants
from tests.chaos.installation import Actor, Installation
from tests.chaos.scenarios import LOST, SCENARIOS, WHO_SPEAKS, Stage

FAULTS = ("kill -9", "cut", "hole", "delay", "stop")
SLOW = 0.1  # seconds that every message takes, each way


@dataclass(frozen=True)
class Cell:
    scenario: Callable
    place: str
    fault: str

    def __str__(self):
        return f"{self.scenario.__name__:13} {self.place:26} {self.fault}"


def cells() -> list[Cell]:
    every = [Cell(each, place, fault) for each, named in SCENARIOS.items() for place in named for fault in FAULTS]
    return every + [Cell(each, f"commit, {how}", "lost") for each in WHO_SPEAKS for how in LOST]


@dataclass
class Verdict:
    cell: Cell
    wrong: list[str]
    stands: str


def play(here: Installation, cell: Cell, number: int) -> Verdict:
    stage = Stage(here, f"s{number}")
    before = set(Run.objects.values_list("pk", flat=True))
    cell.scenario(stage)
    sent_before = len(here.harbor.lines())
    actor, reached = strike(here, stage, cell)
    worker = actor if stage.say is None and cell.fault != "hole" and not actor.ended() else here.worker()
    wrong = recover(here, stage, gone=cell.fault == "kill -9") if reached else ["the place was never reached"]
    if stage.facts.get("nothing more is sent") and len(here.harbor.lines()) > sent_before:
        wrong.append("R27 something was sent after a restore")
    runs = Run.objects.exclude(pk__in=before)
    effects = Effect.objects.filter(run__in=runs).order_by("pk")
    stands = f"{', '.join(sorted(runs.values_list('state', flat=True)))}; {', '.join(each.state for each in effects)}"
    wrong += judged(here, truth=False)
    wrong += settle(here)
    wrong += judged(here)
    wrong += [f"does not end: {pk}" for pk in runs.exclude(ended_at__isnull=False).values_list("pk", flat=True)]
    worker.end()
    actor.end()
    return Verdict(cell, wrong, stands)


def strike(here: Installation, stage: Stage, cell: Cell) -> tuple[Actor, bool]:
    """Let it come to the place, and break it there. Returns who was broken, and whether the place was reached."""
    if cell.fault == "lost":
        here.line.tell(cell.place.removeprefix("commit, "))
        actor = here.fork(stage.say)
        actor.wait()
        fired = here.line.tell("fired") == "yes"
        here.line.tell("pass")
        return actor, fired
    deed = "kill" if cell.fault == "kill -9" else "hold"
    actor = here.fork(stage.say, f"{cell.place}:{deed}") if stage.say else here.worker(f"{cell.place}:{deed}")
    if stage.meanwhile:
        stage.meanwhile()
    reached = actor.reached()
    if cell.fault == "cut":
        here.line.tell("cut")
    elif cell.fault == "stop" and reached:
        here.stop_postgres()
        actor.go()
        here.start_postgres()
    elif cell.fault in MEANWHILE and reached:
        here.line.tell(MEANWHILE[cell.fault])
        actor.go()
        others_go_on(here, stage)
        here.line.tell("cut" if cell.fault == "hole" else "pass")
        here.rest(0 if stage.say else 1)  # it notices, and writes what it knows
    actor.go()
    if stage.say or deed == "kill":
        actor.wait()
    return actor, reached


MEANWHILE = {"hole": "hole", "delay": f"delay {SLOW}"}


def others_go_on(here: Installation, stage: Stage) -> None:
    """Whoever is not behind that line says the same, and another worker works; a minute passes. What they are told is
    theirs to judge later: a row may be locked still. Then the first one wakes, and its late writes are fenced."""
    other = here.worker(through_the_proxy=False)
    if stage.say:
        heard(stage.say)
    here.move(minutes=1)
    here.quiet(3)
    other.end()


def judged(here: Installation, **how) -> list[str]:
    """A reply that was under way may still come in: what is wrong is what is wrong at rest."""
    if invariants.whole(here.harbor.lines(), **how):
        here.rest(0.5)
        here.quiet()
    return invariants.whole(here.harbor.lines(), **how)


def recover(here: Installation, stage: Stage, gone: bool) -> list[str]:
    """Whoever spoke says it again; everything works on until it is quiet; what is silent for a minute is gone."""
    wrong = []
    if stage.say:
        wrong += heard(stage.say)
    if not gone:
        here.quiet(1.5)
    here.move(minutes=1)
    if not here.quiet():
        wrong.append("it does not come to rest")
    return wrong


def heard(say: Callable) -> list[str]:
    """Said twice: what is not known is settled by saying it again, and again changes nothing (R09)."""
    for _ in range(2):
        try:
            say()
        except Exception as error:
            return [f"said again, it is {type(error).__name__}: {error}"]
    return []


def settle(here: Installation) -> list[str]:
    """People do their part: approve, answer, look into Harbor's log, release. Then nothing is left to wait for."""
    house = here.northgate
    if Run.objects.exclude(held_at=None).exclude(state="cancelled").filter(ended_at=None).exists():
        epochs.release_epoch("Root")
    for _ in range(6):
        here.quiet()
        pending = list(Request.objects.filter(state="pending").select_related("effect"))
        if not pending:
            return []
        done = {line["key"] for line in here.harbor.lines() if line["what"] == "committed"}
        for request in pending:
            try:
                if request.kind == "wait_user":
                    house.says("Sam", request, Answer({"name": "x"}))
                elif request.kind == "wait_approval":
                    house.approves("Ada", request)
                else:
                    found = "committed" if request.effect.key in done else "not_committed"
                    house.says("Olga", request, Finding(found, "harbor's log"))
            except StaleRequest:
                pass  # the provider was heard meanwhile
            except Exception as error:
                return [f"nobody can answer {request.kind} {request.pk}: {type(error).__name__} {error}"]
    return ["people are asked without end"]


def main(here: Installation, words: list[str]) -> None:
    """`matrix [sample N] [seed S] [share K/N] [word …]`: all cells, or N of them drawn by a seed, or one share of them,
    or those with these words."""
    words, options = list(words), {"sample": "0", "seed": str(random.randrange(10_000)), "share": "1/1"}
    for name in options:
        if name in words:
            at = words.index(name)
            options[name] = words[at + 1]
            del words[at : at + 2]
    chosen = [cell for cell in cells() if all(word in str(cell) for word in words)]
    if sample := int(options["sample"]):
        chosen = random.Random(int(options["seed"])).sample(chosen, sample)
        print(f"{len(chosen)} of {len(cells())} cells, seed {options['seed']}", flush=True)
    which, of = map(int, options["share"].split("/"))
    chosen = chosen[which - 1 :: of]
    began, verdicts = time.monotonic(), []
    for number, cell in enumerate(chosen):
        verdict = play(here, cell, number)
        verdicts.append(verdict)
        print(told(verdict), flush=True)
    wrong = [verdict for verdict in verdicts if verdict.wrong]
    doubled = sum("I7" in each for verdict in verdicts for each in verdict.wrong)
    print(
        f"{len(verdicts)} cells in {time.monotonic() - began:.0f} s: {len(here.harbor.lines())} deliveries, "
        f"{Attempt.objects.count()} intents, {doubled} double sends, {len(wrong)} cells wrong",
        flush=True,
    )
    if wrong:
        sys.exit(1)


def told(verdict: Verdict) -> str:
    line = f"{verdict.cell!s:50} {'WRONG' if verdict.wrong else 'ok':6} {verdict.stands}"
    return "\n    ".join([line, *verdict.wrong])
