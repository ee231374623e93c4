"""`./run chaos`: breaks an installation, or the code, and shows what stands.

    ./run chaos                       all of it, in this order
    ./run chaos matrix [word ...]     every place of every scenario, met by every fault
    ./run chaos stateful [examples]   random stories against a plain model (2,000 examples)
    ./run chaos outage                the provider is down for a minute with fifty dispatches in flight
    ./run chaos queue                 hints and jobs come late, twice, in another order, or never
    ./run chaos disk                  the disk is full, and then the server itself is down
    ./run chaos restore               a backup from before five dispatches, a copy of the data, a promoted standby
    ./run chaos mutants [word ...]    one-line faults in the code, each caught by the test named for it

Everything is made for it in a folder of its own and deleted afterwards.
"""

import importlib
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

BROKEN = ("matrix", "outage", "queue", "disk", "restore")


def main(words: list[str]) -> None:
    part, *rest = words or [""]
    every = {**dict.fromkeys(BROKEN, broken), "matrix": matrix, "stateful": stateful, "mutants": mutants}
    if part and part not in every:
        sys.exit(f"./run chaos {part}: there is no such part.\n{__doc__}")
    for name in [part] if part else every:
        print(f"# {name}", flush=True)
        every[name](name, rest)


def broken(part: str, words: list[str]) -> None:
    from tests.chaos.installation import Installation

    with tempfile.TemporaryDirectory(prefix="sayso-chaos-") as folder, Installation(Path(folder)) as here:
        importlib.import_module(f"tests.chaos.{part}").main(here, words)


def matrix(part: str, words: list[str]) -> None:
    """All of it in as many shares as there are processors, each with an installation of its own; one sum at the end."""
    several = os.cpu_count() or 1
    if words or several == 1:
        return broken(part, words)
    command = [sys.executable, "-m", "tests.chaos", part, "share"]
    shares = [
        subprocess.Popen([*command, f"{number + 1}/{several}"], stdout=subprocess.PIPE, text=True)
        for number in range(several)
    ]
    sums = []

    def pass_on(share: subprocess.Popen) -> None:
        for line in share.stdout:
            if found := SUM.fullmatch(line.strip()):
                sums.append([int(number) for number in found.groups()])
            elif not line.startswith("#"):
                print(line, end="", flush=True)

    readers = [threading.Thread(target=pass_on, args=[share]) for share in shares]
    for each in readers:
        each.start()
    for each in readers:
        each.join()
    codes = [share.wait() for share in shares]
    cells, seconds, deliveries, intents, doubled, wrong = map(sum, zip(*sums, strict=True))
    print(
        f"\n{cells} cells in {seconds // several} s: {deliveries} deliveries, {intents} intents, "
        f"{doubled} double sends, {wrong} cells wrong"
    )
    if any(codes):
        sys.exit(1)


SUM = re.compile(
    r"(\d+) cells in (\d+) s: (\d+) deliveries, (\d+) intents, (\d+) double sends, (\d+) cells wrong"
)  # fmt: skip


def stateful(part: str, words: list[str]) -> None:
    """Two shares a processor, as most of a story is waiting for the database; each has a seed of its own."""
    examples = int(words[0]) if words else 2000
    seed = int(words[1]) if len(words) > 1 else random.randrange(10**6)
    several = min(2 * (os.cpu_count() or 1), examples)
    began = []
    for number in range(several):
        share = examples // several + (number < examples % several)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--hypothesis-seed={seed + number}"]
        environment = os.environ | {"SAYSO_STORIES": str(share)}
        print(f"{share} examples, seed {seed + number}", flush=True)
        began.append(
            subprocess.Popen(
                [*command, "tests/chaos/test_stories.py"], env=environment, stdout=subprocess.PIPE, text=True
            )
        )
    for number, each in enumerate(began):
        told = each.communicate()[0].strip()
        last = told.splitlines()[-1]
        print(told if each.returncode else f"seed {seed + number}: no violation ({last})", flush=True)
    if any(each.returncode for each in began):
        sys.exit(1)
    print(f"{examples} stories, no violation")


def mutants(part: str, words: list[str]) -> None:
    from bench.chaos import main

    main(words)
