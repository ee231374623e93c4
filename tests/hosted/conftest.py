import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from examples.harbor import agents as _deployer  # noqa: F401
from examples.harbor.provider import Harbor
from runtime_app.hosted.steps import take
from runtime_app.models import Instance, Run
from tests import cast
from tests.hosted import agents, loops  # noqa: F401
from tests.hosted.processes import Workers


@pytest.fixture(autouse=True)
def ran(tmp_path, monkeypatch):
    monkeypatch.setenv("RAN", str(tmp_path / "ran"))


@pytest.fixture
def northgate(transactional_db):
    northgate, _ = cast.assemble()
    for agent in ("scripted", "plain", "stubborn", "asks", "twice"):
        for environment in (northgate.staging, northgate.production):
            Instance.objects.create(
                tenant=northgate.tenant, agent=agent, environment=environment, owner=northgate.people["Omar"]
            )
    return northgate


class Hand:
    """A worker's hand: `worked(run)` takes the Run's next turn, here and now, and gives the Run as it stands then."""

    def __init__(self):
        self.threads = ThreadPoolExecutor(1)
        self.turn = None

    def __call__(self, run: Run | None = None, *, turn=None, until=None) -> Run:
        """`until()`: the turn is cut off when this is so."""
        self.turn = turn or cast.claim(run)
        asyncio.run(self._take(until))
        return Run.objects.get(pk=self.turn.run.pk)

    async def _take(self, until) -> None:
        task = asyncio.create_task(take(self.turn, self.call))
        while until and not await self.call(until):
            await asyncio.sleep(0)
        if until:
            task.cancel()
        await task

    async def call(self, function, *arguments, **named):
        return await asyncio.get_running_loop().run_in_executor(
            self.threads, lambda: function(*arguments, **named)
        )


@pytest.fixture
def worked():
    hand = Hand()
    yield hand
    hand.threads.submit(connections.close_all).result()
    hand.threads.shutdown()


@pytest.fixture
def told():
    """What the model was told at last: the outcomes of its calls, in order."""

    def told(run: Run) -> list:
        return json.loads(run.result)

    return told


@pytest.fixture
def workers(tmp_path):
    """Real worker processes: `workers.start()`. All are told to end afterwards, and have to."""
    workers = Workers(tmp_path)
    yield workers
    workers.end()


@pytest.fixture
def harbor(tmp_path, monkeypatch):
    """A Harbor of this test's own: a real HTTP server whose log is the judge of what was sent."""
    harbor = Harbor(0, tmp_path / "harbor.log")
    serving = threading.Thread(target=harbor.serve_forever, kwargs={"poll_interval": 0.02})
    serving.start()
    monkeypatch.setenv("HARBOR_URL", harbor.url)
    yield harbor
    harbor.stop()
    serving.join()
