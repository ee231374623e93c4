"""`./run chaos`: breaks an installation, or the code, and shows what stands.

    ./run chaos                       all of it, in this order
    ./run chaos matrix [word ...]     every place of every scenario, met by every fault
    ./run chaos stateful [examples]   random stories against a plain model (2,000 examples)
    ./run chaos outage                the provider is down for a minute with fifty dispatches in flight
    ./run chaos restore               a backup from before five dispatches, a copy of the data, a promoted standby
    ./run chaos mutants [word ...]    one-line faults in the code, each caught by the test named for it

Everything is made for it in a folder of its own and deleted afterwards.
"""

import importlib
import sys
import tempfile
from pathlib import Path

BROKEN = ("matrix", "outage", "restore")


def main(words: list[str]) -> None:
    part, *rest = words or [""]
    if not part:
        for each in (*BROKEN, "stateful", "mutants"):
            print(f"\n# {each}", flush=True)
            _part(each, [])
    elif part in (*BROKEN, "stateful", "mutants"):
        _part(part, rest)
    else:
        sys.exit(f"./run chaos {part}: there is no such part.\n{__doc__}")


def _part(part: str, words: list[str]) -> None:
    if part not in BROKEN:
        importlib.import_module({"stateful": "tests.chaos.stories", "mutants": "bench.chaos"}[part]).main(words)
        return
    from tests.chaos.installation import Installation

    with tempfile.TemporaryDirectory(prefix="sayso-chaos-") as folder, Installation(Path(folder)) as here:
        importlib.import_module(f"tests.chaos.{part}").main(here, words)
