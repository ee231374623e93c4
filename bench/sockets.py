"""Many small websocket readers in a process of their own: a hundred of them cost as much as the server they measure.

Given an address, headers and a number of sockets on the command line, as JSON. Prints `ready`, then a line `<number>
<seconds>` for every piece of news that the last socket got, with the moment it did.
"""

import asyncio
import json
import sys
import time
from collections import Counter

AT_ONCE = 20  # sockets that connect in a tenth of a second


async def read(port: int, path: str, headers: dict[str, str], heard) -> None:
    """One socket on bare streams: a package for websockets would cost more than what it reads."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    asked = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
             "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", **headers}  # fmt: skip
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in asked.items()), "", ""]
    writer.write("\r\n".join(lines).encode())
    answer = await reader.readuntil(b"\r\n\r\n")
    if b" 101 " not in answer.split(b"\r\n")[0]:
        raise ConnectionError(answer.decode())
    heard(None)
    while True:
        head = await reader.readexactly(2)
        size = head[1] & 127
        if size == 126:
            size = int.from_bytes(await reader.readexactly(2))
        at = time.monotonic()
        body = await reader.readexactly(size)
        if head[0] & 15 == 8:
            raise ConnectionError(f"closed: {int.from_bytes(body[:2])}")
        number = body.rpartition(b" ")[2]
        if head[0] & 15 == 1 and number.isdigit():  # without one it says only: look again
            heard(int(number), at)


async def watch(port: int, path: str, headers: dict[str, str], count: int) -> None:
    connected, arrived = 0, Counter()

    def heard(number: int | None, at: float = 0.0) -> None:
        nonlocal connected
        if number is None:
            connected += 1
            if connected == count:
                print("ready", flush=True)
            return
        arrived[number] += 1
        if arrived[number] == count:
            print(number, at, flush=True)

    async with asyncio.TaskGroup() as readers:
        for number in range(count):
            readers.create_task(read(port, path, headers, heard))
            if number % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(watch(**json.loads(sys.argv[1])))
