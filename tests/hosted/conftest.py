import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from runtime_app.hosted.steps import take
from runtime_app.models import Instance, Run
from tests import cast


@pytest.fixture(autouse=True)
def ran(tmp_path, monkeypatch):
    monkeypatch.setenv("RAN", str(tmp_path / "ran"))


@pytest.fixture
def northgate(transactional_db):
    from tests.hosted import agents  # noqa: F401

    northgate, _ = cast.assemble()
    for agent in ("scripted", "plain", "stubborn"):
        for environment in (northgate.staging, northgate.production):
            Instance.objects.create(
                tenant=northgate.tenant, agent=agent, environment=environment, owner=northgate.people["Omar"]
            )
    return northgate


@pytest.fixture
def worked():
    """`worked(run)`: a worker takes the Run's next turn, here and now. Returns the Run as it stands afterwards."""
    threads = ThreadPoolExecutor(1)

    async def call(function, *arguments, **named):
        return await asyncio.get_running_loop().run_in_executor(threads, lambda: function(*arguments, **named))

    def work(run: Run) -> Run:
        asyncio.run(take(cast.claim(run), call))
        return Run.objects.get(pk=run.pk)

    yield work
    from django.db import connections

    threads.submit(connections.close_all).result()
    threads.shutdown()


@pytest.fixture
def told():
    """What the model was told at last: the outcomes of its calls, in order."""

    def told(run: Run) -> list:
        return json.loads(run.result)

    return told
