"""Hints that come late, twice, in another order, or never: a few here, all of it in `./run chaos queue`."""

import os
import random

from runtime_app import transitions, worker
from runtime_app.models import Request, Run
from tests.cast import Answer
from tests.chaos.shim import Shim
from tests.hosted.conftest import northgate  # noqa: F401
from tests.hosted.processes import beside_a_worker, soon


def test_hints_that_go_astray_cost_seconds_and_nothing_else(northgate, monkeypatch):  # noqa: F811
    """R39. `SAYSO_CHAOS_SEED` lets the same hints go astray again."""
    seed = int(os.environ.get("SAYSO_CHAOS_SEED") or random.randrange(10_000))
    shim, hear = Shim(seed), worker.Worker._hear
    monkeypatch.setattr(worker.Worker, "_hear", lambda self, hint: shim.pass_on(lambda each: hear(self, each), hint))

    def people():
        for number in range(10):
            transitions.start(
                northgate.context("Olga"), agent="asks", environment="staging", message=f"go {number}",
                interactive=number % 2 == 0,
            )  # fmt: skip
        for request in soon(lambda: list(Request.objects.all()) if Request.objects.count() == 5 else []):
            northgate.says("Sam", request, Answer({"name": "x"}))
        soon(lambda: not Run.objects.filter(ended_at=None).exists())

    beside_a_worker(people, SAYSO_LOOK_SECONDS=0.3)
    told = dict(Run.objects.values_list("pk", "state"))
    assert sorted(told.values()) == ["blocked"] * 5 + ["succeeded"] * 5, f"seed {seed}"
