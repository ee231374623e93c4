"""`./run chaos`: breaks an installation, or the code, and shows what stands.

    ./run chaos                       all of it, in this order
    ./run chaos matrix [word ...]     every place of every scenario, met by every fault
    ./run chaos stateful [examples]   random stories against a plain model (2,000 examples)
    ./run chaos outage                the provider is down for a minute with fifty dispatches in flight
    ./run chaos queue                 hints and jobs come late, twice, in another order, or never
    ./run chaos restore               a backup from before five dispatches, a copy of the data, a promoted standby
    ./run chaos mutants [word ...]    one-line faults in the code, each caught by the test named for it

Everything is made for it in a folder of its own and deleted afterwards.
"""

import importlib
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

BROKEN = ("matrix", "outage", "queue", "restore")


def main(words: list[str]) -> None:
    part, *rest = words or [""]
    every = {**dict.fromkeys(BROKEN, broken), "stateful": stateful, "mutants": mutants}
    if part and part not in every:
        sys.exit(f"./run chaos {part}: there is no such part.\n{__doc__}")
    for name in [part] if part else every:
        print(f"# {name}", flush=True)
        every[name](name, rest)


def broken(part: str, words: list[str]) -> None:
    from tests.chaos.installation import Installation

    with tempfile.TemporaryDirectory(prefix="sayso-chaos-") as folder, Installation(Path(folder)) as here:
        importlib.import_module(f"tests.chaos.{part}").main(here, words)


def stateful(part: str, words: list[str]) -> None:
    examples = words[0] if words else "2000"
    seed = words[1] if len(words) > 1 else str(random.randrange(10**6))
    print(f"{examples} examples, seed {seed}", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--hypothesis-seed={seed}"]
    tried = subprocess.run([*command, "tests/chaos/test_stories.py"], env=os.environ | {"SAYSO_STORIES": examples})
    if tried.returncode:
        sys.exit(tried.returncode)


def mutants(part: str, words: list[str]) -> None:
    from bench.chaos import main

    main(words)
