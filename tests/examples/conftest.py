import threading

import pytest

from examples.harbor.provider import Harbor


@pytest.fixture
def harbor(tmp_path, monkeypatch):
    """A Harbor of this test's own, and the agents' way to it."""
    harbor = Harbor(0, tmp_path / "deliveries.log")
    serving = threading.Thread(target=harbor.serve_forever, kwargs={"poll_interval": 0.02})
    serving.start()
    monkeypatch.setenv("HARBOR_URL", harbor.url)
    yield harbor
    harbor.stop()
    serving.join()
