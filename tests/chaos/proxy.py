"""A line to PostgreSQL that can be cut at a chosen byte: `python -m tests.chaos.proxy SOCKET`, told what to do on its
standard input, one word a line; it answers each with one line.

    pass          forward everything
    cut           drop every connection, now, and forward what comes later
    before N      drop the connection in place of forwarding the Nth COMMIT from now on
    after N       forward that COMMIT, and drop the connection in place of its reply
    hole          swallow everything, the end of a connection too, and say nothing
    delay S       forward everything S seconds later
    fired         yes, if a COMMIT was met since `before` or `after`
"""

import asyncio
import subprocess
import sys
from pathlib import Path

COMMIT = b"COMMIT\0"


class Proxy:
    def __init__(self, server: str):
        self.server = server
        self.lines: set[asyncio.StreamWriter] = set()
        self.heard = asyncio.Event()  # not while everything vanishes
        self.told("pass")

    def told(self, word: str, number: str = "1") -> str:
        if word == "fired":
            return "yes" if self.left == 0 else "no"
        if word == "cut":
            self.told("pass")
            for line in self.lines:
                line.transport.abort()
            return "ok"
        self.heard.clear() if word == "hole" else self.heard.set()
        self.deed, self.left, self.seconds = word, int(number) if word in ("before", "after") else -1, float(number)
        return "ok"

    async def connect(self, reader, writer) -> None:
        try:
            theirs = await asyncio.open_unix_connection(self.server)
        except OSError:
            writer.transport.abort()
            return
        cut = asyncio.Event()
        self.lines |= {writer, theirs[1]}
        await asyncio.gather(
            self.forward(reader, theirs[1], cut, True), self.forward(theirs[0], writer, cut, False),
            return_exceptions=True,
        )  # fmt: skip
        for each in (writer, theirs[1]):
            self.lines.discard(each)
            each.transport.abort()

    async def forward(self, reader, writer, cut, from_client: bool) -> None:
        try:
            while some := await reader.read(65_536):
                if self.deed == "hole" or cut.is_set() and not from_client:
                    continue
                if self.deed == "delay":
                    await held(self.seconds)
                if from_client and self.left > 0 and COMMIT in some:
                    self.left -= 1
                    if self.left == 0:
                        cut.set()
                        if self.deed == "before":
                            return
                writer.write(some)
                await writer.drain()
                if cut.is_set():  # it is at the server: its reply goes nowhere
                    await asyncio.sleep(0.2)
                    return
            await self.heard.wait()
        finally:
            writer.transport.abort()


def held(seconds: float) -> asyncio.Future:
    """Bytes that arrive late."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_later(seconds, future.set_result, None)
    return future


async def main(server: str) -> None:
    proxy = Proxy(server)
    listening = await asyncio.start_server(proxy.connect, "127.0.0.1", 0)
    print(listening.sockets[0].getsockname()[1], flush=True)
    told = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(told), sys.stdin)
    while words := (await told.readline()).decode().split():
        print(proxy.told(*words), flush=True)


class Line:
    """The proxy in a process of its own."""

    def __init__(self, server: Path):
        command = [sys.executable, "-m", "tests.chaos.proxy", str(server)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.port = int(self.process.stdout.readline())

    def tell(self, words: str) -> str:
        self.process.stdin.write(words + "\n")
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait(5)
        self.process.stdout.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
