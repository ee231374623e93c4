"""A receiver of decisions that outlives its process: what it needs for its next start is kept in a folder."""

import asyncio
import json
import pathlib
from contextlib import asynccontextmanager
from dataclasses import asdict

import uvicorn
from agentapprovalprotocol import AsyncClient, Provisioned, Receiver

from examples.elsewhere import installation


@asynccontextmanager
async def receiver(folder: str, port: int, **resumers):
    """Listens meanwhile. Gives the base URL and the credential of its Instance, which is made at its first start."""
    url, token = installation.provisioner()
    kept = pathlib.Path(folder, "instance.json")
    mine = Provisioned(**json.loads(kept.read_text())) if kept.exists() else None
    known = {name: getattr(mine, name) for name in ("secret", "registration_id", "instance_id")} if mine else {}
    client = AsyncClient(url, mine.token) if mine else None
    listening = Receiver(resumers=resumers, client=client, **known)
    server = uvicorn.Server(uvicorn.Config(listening.asgi(), port=port, log_level="warning", lifespan="off"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.05)
    if mine is None:
        here = {"url": f"http://127.0.0.1:{port}/", "instance_name": "graph"}
        mine = await listening.provision(provider_url=url, provisioner_token=token, **here)
        kept.touch(0o600)
        kept.write_text(json.dumps(asdict(mine)))
    yield url, mine.token
    server.should_exit = True
    await serving
