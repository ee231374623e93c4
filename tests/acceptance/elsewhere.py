"""Agents elsewhere as processes of their own, and where they find the installation."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from console.environ import ROOT
from runtime_app import transitions


class Agent:
    """A process that speaks to Sayso as anybody's would: it knows addresses and tokens, and no database."""

    def __init__(self, folder: Path, name: str, *words: str, **environment: str):
        self.said = folder / f"{name}.log"
        ours = ("DATABASE", "SAYSO", "DJANGO")
        known = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        places = {
            "PYTHONPATH": str(ROOT),
            "OUTBOX": str(folder / "outbox"),
            "SAYSO_DEMO": str(folder / "var/demo.json"),
        }
        command = list(words) if words[0] == "sh" else [sys.executable, *words]
        with open(self.said, "ab") as log:
            self.running = subprocess.Popen(
                command, cwd=folder, env=known | places | environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def ended(self, within: float = 60) -> str:
        """What it said, once it has ended well."""
        assert self.running.wait(within) == 0, self.said.read_text()
        return self.said.read_text()

    def kill(self) -> None:
        self.running.send_signal(signal.SIGKILL)
        self.running.wait(5)

    def end(self) -> None:
        if self.running.poll() is None:
            self.kill()


def write_demo(folder: Path, url: str, house) -> dict:
    """demo.json as `./run demo` writes it, with tokens that Ann made for staging."""
    ann = house.context("Ann")
    tokens = {
        kind: transitions.make_credential(
            ann, kind=kind, name=f"demo {kind}", environment="staging", scopes=["aap", "api"], agent="scribe"
        ).token
        for kind in ("provisioner", "instance")
    }
    facts = {
        "aap": {"base_url": f"{url}/api/aap", "provisioner_token": tokens["provisioner"]},
        "api": {"base_url": f"{url}/api/v1", "instance_token": tokens["instance"]},
    }
    (folder / "var").mkdir()
    (folder / "var/demo.json").write_text(json.dumps(facts))
    return facts


def outbox(folder: Path) -> list[str]:
    path = folder / "outbox"
    return path.read_text().splitlines() if path.exists() else []


def ten_lines() -> str:
    """The code block of README's section on agents from anywhere that asks through AAP."""
    section = (ROOT / "README.md").read_text().partition("## Agents from anywhere")[2].partition("\n## ")[0]
    return next(block for block in section.split("```python\n")[1:] if "agentapprovalprotocol" in block).split("```")[0]
