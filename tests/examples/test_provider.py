"""Harbor, the example's provider: real sockets, and a log that tells what happened whatever the caller was told."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from examples.harbor.provider import Harbor

ORDER = {"service": "card-api", "version": "0.8.8", "environment": "production"}
ROOT = Path(__file__).parents[2]


@pytest.fixture
def harbor(tmp_path):
    with _serving(tmp_path / "harbor.log") as running:
        yield running


class _serving:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.harbor = Harbor(0, self.log)
        self.thread = threading.Thread(target=self.harbor.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        return self.harbor

    def __exit__(self, *_):
        self.harbor.stop()
        self.thread.join()


def call(port, method, path, body=None, key=None):
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        headers = {"Idempotency-Key": key} if key else {}
        sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        line.request(method, path, sent, headers | {"Connection": "close"})
        reply = line.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        line.close()


def deploy(harbor, key="k1", **other):
    return call(harbor.server_port, "POST", "/deployments", ORDER | other, key)


def told(harbor, **mode):
    assert call(harbor.server_port, "PUT", "/mode", mode)[0] == 200


def looked_up(harbor, key="k1"):
    return call(harbor.server_port, "GET", f"/deployments/{key}")


def happened(harbor):
    return [(line["what"], line["key"]) for line in call(harbor.server_port, "GET", "/log")[1]]


def test_a_deployment_is_made_found_and_written_down(harbor):
    status, deployment = deploy(harbor)
    assert (status, deployment) == (201, {"id": "harbor-1", "key": "k1", "status": "deployed"} | ORDER)
    assert looked_up(harbor) == (200, deployment)
    assert looked_up(harbor, "k2")[0] == 404
    (line,) = call(harbor.server_port, "GET", "/log")[1]
    assert line | {"at": ""} == {
        "n": 1, "at": "", "what": "committed", "key": "k1", "order": ORDER, "mode": "commit", "status": 201,
        "body": deployment,
    }  # fmt: skip


def test_the_same_key_again_gives_the_first_result_and_deploys_nothing(harbor):
    first = deploy(harbor)
    assert deploy(harbor) == first
    assert deploy(harbor, version="0.8.9")[0] == 409
    assert deploy(harbor, "k2")[1]["id"] == "harbor-2"
    assert happened(harbor) == [("committed", "k1"), ("repeat", "k1"), ("conflict", "k1"), ("committed", "k2")]


def test_of_twenty_at_once_one_is_the_deployment(harbor):
    with ThreadPoolExecutor(20) as pool:
        replies = list(pool.map(lambda _: deploy(harbor), range(20)))
    assert replies == [replies[0]] * 20
    assert sorted(what for what, _ in happened(harbor)) == ["committed"] + ["repeat"] * 19


def test_dropping_the_reply_commits_all_the_same(harbor):
    told(harbor, mode="drop", times=1)
    with pytest.raises(http.client.RemoteDisconnected):
        deploy(harbor)
    assert looked_up(harbor)[1]["id"] == "harbor-1"
    assert deploy(harbor)[0] == 201
    assert happened(harbor) == [("committed", "k1"), ("repeat", "k1")]


def test_refusing_is_a_clear_no_and_stays_one(harbor):
    told(harbor, mode="refuse", times=1)
    assert deploy(harbor) == (422, {"reason": "Harbor does not deploy card-api now."})
    assert looked_up(harbor)[0] == 404
    assert deploy(harbor)[0] == 422
    assert happened(harbor) == [("refused", "k1"), ("repeat", "k1")]


def test_a_late_reply_comes_after_the_commit(harbor):
    told(harbor, mode="late", seconds=60)
    with ThreadPoolExecutor(1) as pool:
        reply = pool.submit(deploy, harbor)
        while not happened(harbor):
            pass
        assert looked_up(harbor)[0] == 200 and not reply.done()
        harbor.stopping.set()
        with pytest.raises(http.client.RemoteDisconnected):
            reply.result()


def test_a_late_reply_is_the_same_reply(harbor):
    told(harbor, mode="late", seconds=0.01)
    assert deploy(harbor)[0] == 201


def test_when_down_nothing_is_committed_and_nothing_answers(harbor):
    told(harbor, mode="down")
    for try_it in (deploy, looked_up):
        with pytest.raises(http.client.RemoteDisconnected):
            try_it(harbor)
    told(harbor, mode="commit")
    assert looked_up(harbor)[0] == 404
    assert happened(harbor) == [("down", "k1")]


def test_a_look_up_may_lag_behind_the_commit(harbor):
    told(harbor, mode="drop", lag=3600)
    with pytest.raises(http.client.RemoteDisconnected):
        deploy(harbor)
    assert looked_up(harbor)[0] == 404
    harbor.results["k1"].found_from = 0
    assert looked_up(harbor)[0] == 200


def test_a_mode_may_hold_for_one_service(harbor):
    told(harbor, mode="refuse", service="card-api", times=1)
    assert deploy(harbor, "k1", service="ledger")[0] == 201
    assert call(harbor.server_port, "GET", "/mode")[1]["services"]["card-api"]["mode"] == "refuse"
    assert deploy(harbor, "k2")[0] == 422
    told(harbor, mode="drop")
    with pytest.raises(http.client.RemoteDisconnected):
        deploy(harbor, "k3")


@pytest.mark.parametrize(
    "mode", [{}, {"mode": "explode"}, {"mode": "late", "seconds": "5"}, {"mode": "drop", "times": 0}, {"mood": "drop"}]
)
def test_an_unknown_mode_changes_nothing(harbor, mode):
    assert call(harbor.server_port, "PUT", "/mode", mode)[0] == 422
    assert deploy(harbor)[0] == 201


@pytest.mark.parametrize(
    ("body", "key", "status"),
    [
        (ORDER, None, 400),
        (b"not json", "k1", 422),
        (b"[" * 60_000, "k1", 422),
        (ORDER | {"force": True}, "k1", 422),
        (ORDER | {"version": 8}, "k1", 422),
        (b"x" * 65_537, "k1", 413),
    ],
)
def test_what_is_no_deployment_is_refused_and_written_down(harbor, body, key, status):
    assert call(harbor.server_port, "POST", "/deployments", body, key)[0] == status
    assert [what for what, _ in happened(harbor)] == ["invalid"]
    assert looked_up(harbor)[0] == 404


def test_a_restart_remembers_every_key(tmp_path):
    log = tmp_path / "harbor.log"
    with _serving(log) as harbor:
        first = deploy(harbor)
        told(harbor, mode="refuse")
        deploy(harbor, "k2")
    with log.open("ab") as file:
        file.write(b'{"n": 3, "what": "comm')  # killed in the middle of a line
    with _serving(log) as harbor:
        assert deploy(harbor) == first
        assert deploy(harbor, "k2")[0] == 422
        assert deploy(harbor, "k3")[1]["id"] == "harbor-2"
        assert [what for what, _ in happened(harbor)] == ["committed", "refused", "repeat", "repeat", "committed"]
    assert [json.loads(line)["n"] for line in log.read_bytes().splitlines()] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGKILL, -signal.SIGKILL)])
def test_its_own_process_ends_cleanly_and_loses_nothing_when_killed(tmp_path, sent, code):
    log = tmp_path / "harbor.log"
    command = [sys.executable, "-m", "examples.harbor", "--port", "0", "--log", str(log)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        port = int(process.stdout.readline().rpartition(":")[2])
        idle = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        idle.request("GET", "/log")
        assert idle.getresponse().read() == b"[]"
        assert call(port, "POST", "/deployments", ORDER, "k1")[0] == 201
        os.kill(process.pid, sent)
        assert process.wait(timeout=5) == code
        assert process.stderr.read() == ""
        idle.close()
    assert [json.loads(line)["what"] for line in log.read_bytes().splitlines()] == ["committed"]
