"""What hints go through on their way, drawn by a seed."""

import asyncio
import random
import sys
from collections.abc import Callable

FATES = ("heard", "dropped", "doubled", "late", "swapped")
LATEST = 2.0  # seconds that a hint may be late


class Shim:
    """Stands before what hears of hints."""

    def __init__(self, seed: int, fates=FATES):
        self.drawn, self.fates, self.kept = random.Random(seed), fates, None

    def pass_on(self, hear: Callable, hint: str) -> None:
        fate = self.drawn.choice(self.fates)
        print(f"hint {fate}", flush=True, file=sys.stderr)
        if fate == "swapped" and self.kept is None:
            self.kept = hint  # the next one overtakes it
            return
        if fate == "late":
            asyncio.get_running_loop().call_later(self.drawn.uniform(0, LATEST), hear, hint)
        elif fate != "dropped":
            for _ in range(2 if fate == "doubled" else 1):
                hear(hint)
        if self.kept is not None:
            kept, self.kept = self.kept, None
            hear(kept)
