"""Sayso as an installation runs it: the web server, workers and Harbor as processes, on the tests' database."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

from console.environ import ROOT
from tests.hosted.processes import Workers, soon

AGENTS = "examples.harbor.agents,tests.cast"
QUICK = {"SAYSO_LOOK_SECONDS": "1", "SAYSO_BEAT_SECONDS": "0.5", "SAYSO_LEASE_SECONDS": "3",
         "SAYSO_WEBHOOK_LOOPBACK": "yes"}  # fmt: skip


class Web:
    """The ASGI server at `url`. It can be ended and started again at the same address."""

    def __init__(self, folder: Path):
        self.log = folder / "web.log"
        self.port = free_port()
        self.url = f"http://localhost:{self.port}"
        self.running: subprocess.Popen | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "console.cli", "serve", "--port", str(self.port)]
        with open(self.log, "ab") as log:
            self.running = subprocess.Popen(
                command, cwd=ROOT, env=os.environ | QUICK | {"SAYSO_AGENTS": AGENTS}, stdout=log, stderr=log
            )
        soon(self.is_up, within=120)

    def is_up(self) -> bool:
        assert self.running.poll() is None, self.log.read_text()
        try:
            return urllib.request.urlopen(f"{self.url}/health/", timeout=5).status == 200
        except OSError:
            return False

    def end(self, number: int = signal.SIGTERM) -> None:
        self.running.send_signal(number)
        try:
            self.running.wait(6)
        except subprocess.TimeoutExpired:
            self.running.kill()
            self.running.wait()
            raise


class Harbor:
    """The pretend provider in its own process; `deliveries()` is the judge of what was sent."""

    def __init__(self, folder: Path):
        command = [sys.executable, "-m", "examples.harbor", "--port", "0", "--log", str(folder / "harbor.log")]
        self.running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        self.url = self.running.stdout.readline().split()[-1]

    def mode(self, mode: str, **more) -> None:
        body = json.dumps({"mode": mode, **more}).encode()
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/mode", body, method="PUT"), timeout=5).close()

    def deliveries(self) -> list[dict]:
        with urllib.request.urlopen(f"{self.url}/log", timeout=5) as answer:
            return [line for line in json.load(answer) if line["what"] in ("committed", "repeat")]

    def end(self) -> None:
        self.running.terminate()
        self.running.wait(6)
        self.running.stdout.close()


def workers(folder: Path, harbor: Harbor) -> Workers:
    os.environ["HARBOR_URL"] = harbor.url
    return Workers(folder)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]
