"""`./run demo`: everything at once in one foreground process, with people, Runs and a pretend provider to try it on."""

import argparse
import fcntl
import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from console.processes import Children

PATIENCE = 120  # seconds a part has to come up, on a busy machine too
PARTS = ("harbor", "web", "worker")


def main(options: argparse.Namespace) -> None:
    """Run until Ctrl-C or SIGTERM. `options`: port, data (a folder). What an earlier demo left there goes on."""
    data = Path(options.data)
    data.mkdir(parents=True, exist_ok=True)
    alone = open(data / "demo.lock", "w")
    try:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"A demo is running in {data} already. --data DIR and --port N start another one beside it.")
    url = f"http://localhost:{options.port}"
    wait_for_port(options.port)
    say("the database: making the tables")
    migrate()
    from console import cli

    cli.set_up()
    from examples.harbor import seed

    password = kept_password(data)
    say("the people: two tenants, every role")
    seed.tenants(password)
    tokens = kept_tokens(data, seed.tokens)
    harbor = f"http://127.0.0.1:{free_port()}"
    with Children() as children:
        say("the parts: Harbor, web, worker")
        for part in PARTS:
            start(children, part, options.port, data, harbor)
        wait_until_up(f"{harbor}/mode", children)
        wait_until_up(f"{url}/health/", children)
        say("the stories: four Runs, until each has stopped")
        facts = {
            "url": url,
            "tenants": [{"slug": slug, "name": name} for slug, name in seed.TENANTS.items()],
            "people": seed.people(password),
            "runs": seed.stories(harbor),
            "requests": seed.requests(),
            "harbor": {"url": harbor},
            "aap": {"base_url": f"{url}/api/aap", "provisioner_token": tokens["provisioner"]},
            "api": {"base_url": f"{url}/api/v1", "instance_token": tokens["instance"]},
        }
        write(data / "demo.json", facts)
        print(table(facts), flush=True)
        watch(children, options.port, data, harbor)


def start(children: Children, part: str, port: int, data: Path, harbor: str) -> None:
    command = {
        "harbor": ["-m", "examples.harbor", "--port", harbor.rpartition(":")[2], "--log", str(data / "deliveries.log")],
        "web": ["-m", "console.cli", "serve", "--port", str(port)],
        "worker": ["-m", "console.cli", "worker"],
    }[part]
    with open(data / f"{part}.log", "ab") as log:
        children.start(
            part,
            [sys.executable, *command],
            env={"HARBOR_URL": harbor},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def watch(children: Children, port: int, data: Path, harbor: str) -> None:
    """Start again whatever ends by itself or is killed: the Runs go on where they were."""
    while True:
        time.sleep(0.5)
        for part in children.ended():
            say(f"the {part} ended; starting it again. Its last words are in {data / part}.log")
            time.sleep(0.5)
            start(children, part, port, data, harbor)


def migrate() -> None:
    command = [sys.executable, "-m", "console.cli", "manage", "migrate", "--no-input", "--skip-checks", "-v", "0"]
    if subprocess.run(command).returncode:
        sys.exit("The tables could not be made. The reason is above.")


def wait_until_up(url: str, children: Children) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                answer.read()
                return
        except OSError as failed:
            if ended := children.ended():
                sys.exit(f"The {ended[0]} did not start. Its log, beside the data, says why.")
            if time.monotonic() > deadline:
                sys.exit(f"Nothing answers at {url} after {PATIENCE} s: {failed}")
            time.sleep(0.1)


def wait_for_port(port: int) -> None:
    """A demo that was just killed may hold it for a moment."""
    deadline = time.monotonic() + 5
    while True:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                return
            except OSError:
                if time.monotonic() > deadline:
                    sys.exit(f"Port {port} is in use. ./run demo --port N takes another.")
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def kept_password(data: Path) -> str:
    """One for everybody, random for each data folder."""
    path = data / "demo-password"
    if not path.exists():
        write(path, secrets.token_urlsafe(9))
    return json.loads(path.read_text())


def kept_tokens(data: Path, make) -> dict[str, str]:
    """The same at every start, for each data folder."""
    path = data / "demo-tokens"
    tokens = make(json.loads(path.read_text()) if path.exists() else {})
    write(path, tokens)
    return tokens


def write(path: Path, facts) -> None:
    """Whole or not at all, and for its owner's eyes only."""
    half = path.with_name(path.name + ".new")
    half.unlink(missing_ok=True)
    with open(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(facts, file, indent=1)
    half.replace(path)


def table(facts: dict) -> str:
    names = {tenant["slug"]: tenant["name"] for tenant in facts["tenants"]}
    waiting = {request["run"]: request["kind"] for request in facts["requests"]}
    lines = ["", f"  {facts['url']}", "", f"  password of everybody: {facts['people'][0]['password']}", ""]
    for person in facts["people"]:
        lines.append(f"  {person['username']:<9} {names[person['tenant']]:<20} {', '.join(person['roles'])}")
    lines.append("")
    for run in facts["runs"]:
        kind = waiting.get(run["id"], "nothing pending")
        lines.append(f"  {run['story']:<12} {kind:<16} /t/{run['tenant']}/runs/{run['id']}/")
    lines += ["", f"  agents elsewhere: {facts['aap']['base_url']} and {facts['api']['base_url']}; tokens in demo.json"]
    return "\n".join([*lines, "", f"  Harbor: {facts['harbor']['url']}/log    Ctrl-C ends everything", ""])


def say(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)
