"""A sample of the kill matrix, drawn by a seed: all of it is `./run chaos matrix`."""

import os
import random
import subprocess
import sys
from pathlib import Path


def test_whatever_is_killed_nothing_is_sent_twice_and_every_run_ends_or_asks(tmp_path):
    """T105, T106, R05, R09, R16, R22, R23, R27, R30. `SAYSO_CHAOS_SEED` draws the same cells again."""
    seed = os.environ.get("SAYSO_CHAOS_SEED") or str(random.randrange(10_000))
    command = [sys.executable, "-m", "tests.chaos", "matrix", "sample", "6", "seed", seed]
    kept = {name: each for name, each in os.environ.items() if not name.startswith(("DATABASE_", "SAYSO_"))}
    played = subprocess.run(
        command, cwd=Path(__file__).parents[2], env=kept, capture_output=True, text=True, timeout=300
    )
    assert played.returncode == 0, f"seed {seed}\n{played.stdout}\n{played.stderr[-3000:]}"
