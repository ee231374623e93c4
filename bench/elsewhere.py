"""Agents elsewhere: how often a second one call can be asked for, approved and reported over AAP; and what a thousand
open long polls cost while nothing happens. The server is the console's own; who approves is in this process.

    python -m bench.elsewhere cycle
    python -m bench.elsewhere idle COUNT
"""

import asyncio
import json
import os
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from uuid import uuid4

import django
import httpx
import psycopg

from console import environ

django.setup()

from django.conf import settings  # noqa: E402

settings.DATABASES["default"].update(environ.database(settings.DATABASE_URL, pooled=False) | {"CONN_MAX_AGE": None})

from django.contrib.auth import get_user_model  # noqa: E402

from bench.cycle import loop  # noqa: E402
from bench.live import free_port, wait_for  # noqa: E402
from console.processes import Children  # noqa: E402
from runtime_app import credentials, permissions, transitions  # noqa: E402
from runtime_app.models import Credential, Environment, Instance, Membership, Request, Role, Tenant  # noqa: E402
from runtime_app.responses import Approve, Resume  # noqa: E402

AGENTS = 16
ASKED = {"tool": "send_mail", "arguments": {"to": "ada@example.com", "times": 1}, "timeout": "10m"}
AT_ONCE = 25  # polls that are opened in a tenth of a second
STANDS = 5  # seconds after the last was opened; a poll is held for 30


def agents() -> list[str]:
    """The credentials of 16 Instances in staging, which somebody without a say has made."""
    tenant = Tenant.objects.get(slug="bench")
    maker, _ = get_user_model().objects.get_or_create(username="maker")
    staging = Environment.objects.get(tenant=tenant, name="staging")
    made = []
    for number in range(AGENTS):
        name = f"elsewhere-{uuid4().hex[:8]}-{number}"
        instance = Instance.objects.create(tenant=tenant, agent=name, environment=staging, owner=maker, hosted=False)
        made.append(credentials.token("instance"))
        Credential.objects.create(
            tenant=tenant, kind="instance", name=name, environment=staging, instance=instance, made_by=maker,
            scopes=["aap"], **credentials.stored(made[-1]),
        )  # fmt: skip
    return made


def approver() -> permissions.Context:
    ada = get_user_model().objects.get(username="ada")
    tenant, context = permissions.member(ada, "bench")
    membership = Membership.objects.get(tenant=tenant, user=ada)
    Role.objects.get_or_create(tenant=tenant, membership=membership, name="approver", environment=None)
    return context


class Agent:
    """One agent with a line of its own, and who approves what it asks."""

    def __init__(self, url: str, token: str, ada: permissions.Context):
        self.http = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=40)
        self.ada, self.hand = ada, ThreadPoolExecutor(1)

    def call(self, method: str, path: str, **more) -> dict:
        more["headers"] = {"Idempotency-Key": str(uuid4())}
        return self.http.request(method, f"/api/aap/v1/requests{path}", **more).raise_for_status().json()

    def cycle(self) -> tuple[None, float]:
        """Create, wait, approved meanwhile, consume, outcome."""
        began = time.monotonic()
        asked = f"/{self.call('POST', '', json=ASKED)['id']}"
        approving = self.hand.submit(self.approve, asked[1:])
        told = self.call("GET", asked, params={"wait": "30s"})
        approving.result()
        assert told["status"] == "approved", told
        self.call("POST", f"{asked}/consume")
        self.call("POST", f"{asked}/outcome", json={"status": "succeeded"})
        return None, time.monotonic() - began

    def approve(self, request_id: str) -> None:
        """What Ada's page sends."""
        session_id, digest = Request.objects.values_list("session_id", "digest").get(pk=request_id)
        transitions.respond(self.ada, resume=Resume(session_id, request_id, Approve(digest)))


def cycle() -> dict:
    sizes, ada, tokens, found = json.loads(os.environ["BENCH_SIZES"]), approver(), agents(), {}
    with Children() as children:
        url, _ = serving(children)
        standing = [Agent(url, token, ada) for token in tokens]
        for each in standing:
            each.cycle()
        for drivers in (1, AGENTS):
            began = time.monotonic()
            until = began + sizes["seconds"]
            with ThreadPoolExecutor(drivers) as threads:
                calls = [each.cycle for each in standing[:drivers]]
                took = list(chain.from_iterable(threads.map(loop, calls, [until] * drivers)))
            found[f"loop{drivers}"] = len(took) / (time.monotonic() - began)
    return found


def idle(count: int) -> dict:
    """Threads, database connections and memory of the server: with nothing open, and with so many polls."""
    tokens = agents()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 3 * count + 1000), hard))  # each side has one for each
    with Children() as children:
        url, server = serving(children)
        ids = [(token, Agent(url, token, None).call("POST", "", json=ASKED)["id"]) for token in tokens]
        asyncio.run(hold(url, ids, AGENTS, lambda: None))  # what is made once is made
        found = {"before": spent(server.pid)}
        found["open"] = asyncio.run(hold(url, ids, count, lambda: found.update(during=spent(server.pid))))
    return found


async def hold(url: str, ids: list, count: int, look) -> int:
    """Open so many long polls, look at the server when all are held, close them. How many were still open."""
    lines = []
    for number in range(count):
        token, asked = ids[number % len(ids)]
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(
            f"GET /api/aap/v1/requests/{asked}?wait=30s HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {token}\r\n\r\n".encode()
        )
        lines.append((asyncio.ensure_future(reader.readline()), writer))
        if number % AT_ONCE == AT_ONCE - 1:
            await asyncio.sleep(0.1)
    await asyncio.sleep(STANDS)
    look()
    still = sum(not answer.done() for answer, _ in lines)
    for answer, writer in lines:
        answer.cancel()
        writer.close()
    return still


def serving(children: Children) -> tuple:
    port = free_port()
    command = [sys.executable, "-m", "console.cli", "serve", "--port", str(port)]
    server = children.start("serve", command, env={"SAYSO_PORT": str(port)})
    wait_for(port)
    return f"http://localhost:{port}", server


CONNECTED = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"


def spent(pid: int) -> dict[str, float]:
    with open(f"/proc/{pid}/status") as file:
        told = dict(line.split(":", 1) for line in file)
    with psycopg.connect(os.environ["BENCH_WATCH_URL"]) as watching:
        connections = watching.execute(CONNECTED, [os.environ["BENCH_DATABASE"]]).fetchone()[0]
    return {"threads": int(told["Threads"]), "connections": connections, "memory": int(told["VmRSS"].split()[0]) / 1024}


if __name__ == "__main__":
    which, *more = sys.argv[1:]
    print(json.dumps({"cycle": cycle, "idle": idle}[which](*map(int, more))), flush=True)
