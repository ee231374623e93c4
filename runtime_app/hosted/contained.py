"""A tool that runs a command for an agent, contained: namespaces, a folder and an environment of its own (bubblewrap).

    count = command("count_words", "wc", "-w", description="Counts the words of `input`.")
    shell = command("shell", "sh", "-c", description="Runs a shell script.", limits=Limits(seconds=10))
    agent("librarian", tools=[count, shell], model=…)

The model appends arguments and may give standard input. The command sees /usr and what `reads` names, may write only
into /tmp, which is its own and vanishes, and reaches no network unless it is granted. Where bubblewrap is missing, or
cannot make namespaces, the tool is refused, with what to do. It never runs bare unless SAYSO_RUN_BARE says so.
"""

import asyncio
import codecs
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.conf import settings

from .. import transitions
from ..transitions import Turn

if TYPE_CHECKING:
    from .steps import Steps

STRANGER = 65_533  # whom a worker that is root has it run as: nobody's account, owner of nothing
TOLD = 20_000  # characters of output that go back to the model: the last ones
EVERY = 0.2  # seconds between two chunks of a stream, while it is slow
CHUNK = 16_384  # bytes
INSTALL = "Install bubblewrap (on Debian and Ubuntu: apt-get install bubblewrap)"


@dataclass(frozen=True)
class Limits:
    """What one command may use. `memory`: bytes of address space, of each of its processes; `files`: bytes of all that
    it writes; `output`: bytes; `processes`: at once; `seconds`: of the clock, and of processor time a process."""

    seconds: float = 60
    memory: int = 1 << 30
    processes: int = 64
    output: int = 1 << 20
    files: int = 64 << 20


@dataclass(frozen=True)
class Command:
    """A tool of an agent; a loop of one's own awaits `run`."""

    name: str
    argv: tuple[str, ...]
    description: str
    limits: Limits
    network: bool
    reads: tuple[str, ...]

    @property
    def __name__(self) -> str:
        return self.name

    async def run(self, steps: "Steps", key: str, arguments: Sequence[str] = (), input: str = "") -> dict:
        """What came of it: `exit`, the end of its `output`, and `ended`, why it was stopped, if it was. Or refused.

        `key` names its stream beside the Run.
        """
        if any("\0" in each for each in arguments):
            return _refused("An argument holds a NUL.")
        if why := await asyncio.to_thread(refusal):
            return _refused(why)
        stream = _Stream(steps.turn, f"{key}#{steps.turn.lease_number}", steps.call)
        return await _Running(self, stream).through([*self.argv, *arguments], input.encode(errors="replace"))


def command(
    name: str, *argv: str, description: str, limits: Limits = Limits(), network: bool = False, reads: Sequence[str] = ()
) -> Command:
    """A contained command as a tool. `network`: whether it reaches the worker's. `reads`: folders that it may read
    beside /usr, at their own place; where the worker is root, those that everybody may read."""
    if not argv:
        raise TypeError(f"Command {name!r} has nothing to run.")
    for folder in reads:
        if not os.path.isabs(folder):
            raise TypeError(f"Command {name!r} reads {folder!r}, which is no absolute path.")
    return Command(name, argv, description, limits, network, tuple(reads))


def refusal() -> str | None:
    """Why commands cannot run contained here, and what to do about it; None where they can, or where SAYSO_RUN_BARE
    says that they run bare."""
    if settings.SAYSO_RUN_BARE:
        return None
    if not shutil.which("bwrap") or not shutil.which("prlimit"):
        return f"This command can only run contained, and bubblewrap is not there. {INSTALL}."
    tried = subprocess.run([*_walls(Limits(), False, ()), "true"], capture_output=True, **_stranger())
    if tried.returncode:
        said = tried.stderr.decode(errors="replace").strip()[-300:]
        return (
            f"This command can only run contained, and bubblewrap cannot make namespaces here ({said}). Let"
            " unprivileged users make user namespaces: sysctl kernel.unprivileged_userns_clone=1, on Ubuntu also"
            " kernel.apparmor_restrict_unprivileged_userns=0, in a container a seccomp profile that allows it."
        )
    return None


def _refused(why: str) -> dict:
    return {"outcome": "refused", "message": why}


def _stranger() -> dict:
    """As another user, if we are root: the limit on processes counts no root, and PostgreSQL's files are not theirs."""
    return {"user": STRANGER, "group": STRANGER, "extra_groups": [], "cwd": "/"} if os.geteuid() == 0 else {"cwd": "/"}


def _walls(limits: Limits, network: bool, reads: Sequence[str], *more: str) -> list[str]:
    walls = [shutil.which("bwrap"), *more, "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]
    walls.append("--clearenv")
    for name, value in {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}.items():
        walls += ["--setenv", name, value]
    walls += ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        if os.path.islink(f"/{name}"):
            walls += ["--symlink", os.readlink(f"/{name}"), f"/{name}"]
        else:
            walls += ["--ro-bind-try", f"/{name}", f"/{name}"]
    for file in ("/etc/ld.so.cache", "/etc/alternatives"):
        walls += ["--ro-bind-try", file, file]
    if network:
        walls.append("--share-net")
        for file in ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl", "/etc/ca-certificates"):
            walls += ["--ro-bind-try", file, file]
    for folder in reads:
        walls += ["--ro-bind", folder, folder]
    walls += ["--size", str(limits.files), "--tmpfs", "/tmp", "--chdir", "/tmp"]
    walls += ["--remount-ro", "/dev", "--remount-ro", "/", "--"]
    return walls + _limited(limits)  # within the walls: its processes are counted, and nobody else's


def _limited(limits: Limits) -> list[str]:
    return [
        *("prlimit", f"--as={limits.memory}", f"--fsize={limits.files}", f"--nproc={limits.processes}", "--core=0"),
        *(f"--cpu={max(1, round(limits.seconds))}", "--nofile=256", "--"),
    ]


class _Stream:
    """Text as it comes, cut at whole characters, in chunks by offset."""

    def __init__(self, turn: Turn, key: str, call: Callable[..., Awaitable]):
        self.turn, self.key, self.call = turn, key, call
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.waiting, self.offset, self.told = "", 0, ""

    def take(self, data: bytes, last: bool = False) -> None:
        text = self.decoder.decode(data, last).replace("\0", "\ufffd")
        self.waiting += text
        self.told = (self.told + text)[-TOLD:]

    async def write(self) -> None:
        text, self.waiting = self.waiting, ""
        if text:
            await self.call(transitions.output, self.turn, self.key, self.offset, text)
            self.offset += len(text)


class _Running:
    """One command under way. However it ends, and whoever cancels us, all its processes are gone afterwards (R29)."""

    def __init__(self, command: Command, stream: _Stream):
        self.command, self.stream = command, stream
        self.started: asyncio.subprocess.Process | None = None
        self.told: asyncio.Future[int | None] | None = None  # a handle of the process whose end is the end of all
        self.folder: str | None = None

    async def through(self, argv: list[str], input: bytes) -> dict:
        limits, ended = self.command.limits, None
        try:
            async with asyncio.timeout(limits.seconds):
                await self._start(argv)
                feeding = asyncio.create_task(self._feed(input))
                try:
                    if not await self._listen(limits.output):
                        ended = f"It wrote more than {limits.output:,} bytes."
                finally:
                    feeding.cancel()
                    await asyncio.wait({feeding})
        except TimeoutError:
            ended = f"It ran for longer than {limits.seconds:g} seconds."
        finally:
            await self._end()
        self.stream.take(b"", last=True)
        await self.stream.write()
        came = {"exit": None if ended else self.started.returncode, "output": self.stream.told}
        return came | {"ended": ended} if ended else came

    async def _start(self, argv: list[str]) -> None:
        if settings.SAYSO_RUN_BARE:
            self.folder = tempfile.mkdtemp(prefix="sayso-")
            bare = {"PATH": os.defpath, "HOME": self.folder, "TMPDIR": self.folder, "LANG": "C.UTF-8"}
            options = {"cwd": self.folder, "env": bare, "start_new_session": True}
            limited = _limited(self.command.limits) if shutil.which("prlimit") else []
            self.started = await _spawn([*limited, *argv], options)
            return
        told, tells = os.pipe()
        try:
            walls = _walls(self.command.limits, self.command.network, self.command.reads, "--info-fd", str(tells))
            options = _stranger() | {"env": {}, "pass_fds": [tells], "start_new_session": True}
            self.started = await _spawn([*walls, *argv], options)
        except BaseException:
            os.close(told)
            raise
        finally:
            os.close(tells)
        self.told = asyncio.get_running_loop().run_in_executor(None, _pidfd, told)

    async def _feed(self, input: bytes) -> None:
        try:
            self.started.stdin.write(input)
            await self.started.stdin.drain()
        except ConnectionError:
            pass  # it ended without reading all of it
        finally:
            self.started.stdin.close()

    async def _listen(self, most: int) -> bool:
        """Read until the command ends. False: it wrote too much."""
        read = 0
        while True:
            try:
                async with asyncio.timeout(EVERY if self.stream.waiting else None):
                    data = await self.started.stdout.read(CHUNK)
            except TimeoutError:
                await self.stream.write()
                continue
            read += len(data)
            self.stream.take(data[: max(0, len(data) - max(0, read - most))])
            if read > most:
                return False
            if not data:
                await self.started.wait()
                return True
            if len(self.stream.waiting) >= CHUNK:
                await self.stream.write()

    async def _end(self) -> None:
        """Kill what is left, and wait until it is gone, whoever interrupts."""
        if self.started is not None:
            await asyncio.shield(asyncio.ensure_future(self._kill()))

    async def _kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.started.pid, signal.SIGKILL)  # bubblewrap, and thereby its namespace with all that is in it
        if self.told and (init := await self.told):
            await _gone(init)
        with suppress(TimeoutError):
            async with asyncio.timeout(1):  # bare, somebody may still hold the other end
                while await self.started.stdout.read(CHUNK):
                    pass
        await self.started.wait()
        if self.folder:
            await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)


async def _gone(handle: int) -> None:
    """The first process of a namespace ends after all the others."""
    loop = asyncio.get_running_loop()
    gone = loop.create_future()
    loop.add_reader(handle, lambda: gone.done() or gone.set_result(None))
    try:
        await gone
    finally:
        loop.remove_reader(handle)
        os.close(handle)


async def _spawn(argv: list[str], options: dict) -> asyncio.subprocess.Process:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return await asyncio.create_subprocess_exec(*argv, **pipes, **options)


def _pidfd(told: int) -> int | None:
    """Of the namespace's first process, when bubblewrap has said which it is. None: it is gone already."""
    with open(told) as file:
        said = file.read(1000)
    try:
        return os.pidfd_open(json.loads(said)["child-pid"])
    except (ValueError, KeyError, ProcessLookupError):
        return None
