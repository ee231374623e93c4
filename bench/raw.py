"""The floor of a live page: a bare ASGI socket on the same server, one LISTEN, one query for all that it wakes."""

import asyncio
import os
import sys

import psycopg
from daphne.server import Server, twisted_loop

from console.serve import end_what_is_left

sockets: set = set()
listening: list[asyncio.Task] = []


async def listen(ready: asyncio.Event) -> None:
    async with await psycopg.AsyncConnection.connect(os.environ["BENCH_URL"], autocommit=True) as connection:
        await connection.execute("LISTEN event")
        ready.set()
        while True:
            async for _ in connection.notifies(stop_after=1):  # the connection is free for a query only after it
                pass
            found = await connection.execute("SELECT max(id) FROM event")
            news = {"type": "websocket.send", "text": f"news {(await found.fetchone())[0]}"}
            await asyncio.gather(*(send(news) for send in list(sockets)), return_exceptions=True)


async def application(scope, receive, send):
    if scope["type"] != "websocket":
        return
    await receive()
    if not listening:
        ready = asyncio.Event()
        listening.append(asyncio.create_task(listen(ready)))
        await ready.wait()
    await send({"type": "websocket.accept"})
    sockets.add(send)
    while (await receive())["type"] != "websocket.disconnect":
        pass
    sockets.discard(send)


if __name__ == "__main__":
    endpoint = f"tcp:port={int(sys.argv[1])}:interface=127.0.0.1:backlog=1024"
    Server(
        application=application, endpoints=[endpoint], signal_handlers=True, application_close_timeout=0.3, verbosity=0
    ).run()
    end_what_is_left(twisted_loop)
