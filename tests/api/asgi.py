"""The whole ASGI application, called in this process, as a server calls it."""

import asyncio
import contextlib
import json

from asgiref.sync import async_to_sync

from console.asgi import application
from runtime_app.hub import hub


class Call:
    """One call under way: what it sent so far, and its end."""

    def __init__(self, path: str, headers: dict[str, str], type: str):
        path, _, query = path.partition("?")
        self.type = type
        scope = {
            "type": type, "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "client": ["127.0.0.1", 1], "server": ["localhost", 8000], "scheme": type.replace("socket", ""),
        }  # fmt: skip
        scope |= {"method": "GET", "http_version": "1.1"} if type == "http" else {"subprotocols": []}
        self.sent, self.given = asyncio.Queue(), asyncio.Queue()
        first = {"type": "http.request", "body": b"", "more_body": False}
        self.given.put_nowait(first if type == "http" else {"type": "websocket.connect"})
        self.task = asyncio.ensure_future(application(scope, self.given.get, self.sent.put))

    async def message(self, within: float = 10) -> dict:
        return await asyncio.wait_for(self.sent.get(), within)

    async def answer(self, within: float = 10) -> tuple[int, dict, dict]:
        """Status, headers and JSON, once all of it came."""
        start, body = await self.message(within), b""
        while True:
            part = await self.message(within)
            body += part.get("body", b"")
            if not part.get("more_body"):
                headers = {name.decode(): value.decode() for name, value in start["headers"]}
                return start["status"], headers, json.loads(body)

    def leaves(self, type: str = "http.disconnect") -> None:
        self.given.put_nowait({"type": type, "code": 1000})

    async def end(self) -> None:
        """Goes away; what does not end by itself is cancelled."""
        self.leaves(f"{self.type}.disconnect")
        await asyncio.wait({self.task}, timeout=2)
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def staged(scene) -> None:
    """Run a coroutine function that is given a way to call; whatever it left open is ended, in the same loop."""

    async def run():
        async with contextlib.AsyncExitStack() as open_calls:

            def call(path: str, token: str = "", type: str = "http", **headers: str) -> Call:
                bearer = {"Authorization": f"Bearer {token}"} if token else {}
                made = Call(f"/api/v1{path}" if path.startswith("/") else path, bearer | headers, type)
                open_calls.push_async_callback(made.end)
                return made

            try:
                await scene(call)
            finally:
                await open_calls.aclose()
                await hub.close()

    async_to_sync(run)()
