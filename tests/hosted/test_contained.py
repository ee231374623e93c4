"""Commands that run for an agent: walls around them, limits on them, nothing of them left (R29)."""

import asyncio
import os
import time
from pathlib import Path

import pytest
from django.test import override_settings

from runtime_app import selectors, transitions
from runtime_app.errors import LeaseLost
from runtime_app.hosted import contained
from runtime_app.hosted.contained import Limits, command
from runtime_app.models import Chunk, Event, Run
from tests.cast import claim
from tests.hosted.processes import soon
from tests.hosted.test_loop import start


def shell(**more) -> contained.Command:
    return command("shell", "sh", "-c", description="Runs a script.", **more)


class Nobody:
    """Steps of no Run: what is streamed is kept in a list."""

    def __init__(self):
        self.chunks = []
        self.turn = type("Turn", (), {"lease_number": 1})

    async def call(self, verb, turn, stream, offset, text):
        self.chunks.append((stream, offset, text))

    def run(self, tool, *arguments, input="") -> dict:
        return asyncio.run(tool.run(self, "0.0", arguments, input))


@pytest.fixture
def nobody():
    return Nobody()


def test_it_runs_and_says_what_it_wrote(nobody):
    assert nobody.run(shell(), "cat; echo two >&2; exit 3", input="one\n") == {"exit": 3, "output": "one\ntwo\n"}
    assert nobody.run(command("count", "wc", "-c", description=""), input="grüße")["output"].strip() == "7"
    assert "".join(text for *_, text in nobody.chunks) == "one\ntwo\n7\n"


def test_it_sees_no_environment_and_none_of_our_files(nobody, tmp_path, monkeypatch):
    """T-kind: no key of the worker's, no data, no home, no other process."""
    monkeypatch.setenv("SECRET", "hunter2")
    (tmp_path / "secret").write_text("hunter2")
    look = f"env; cat {tmp_path}/secret /proc/*/environ; ls /home /root /etc/passwd; ls /proc | grep -c '^[0-9]'"
    seen = nobody.run(shell(), look)
    assert "hunter2" not in seen["output"] and "SAYSO" not in seen["output"] and "DATABASE" not in seen["output"]
    assert seen["output"].count("No such file") >= 4
    assert int(seen["output"].splitlines()[-1]) < 8


def test_it_writes_only_into_a_folder_of_its_own(nobody):
    wrote = nobody.run(shell(), "echo x > /usr/x; echo x > /x; echo x > mine && pwd && cat mine && id -u")
    assert wrote["output"].splitlines()[-3:-1] == ["/tmp", "x"]
    assert wrote["output"].count("cannot create") == 2
    assert wrote["output"].split()[-1] != "0"
    assert "mine" not in nobody.run(shell(), "ls /tmp")["output"]


def test_it_reads_what_it_may(nobody, tmp_path):
    (tmp_path / "book").write_text("a page")
    tmp_path.chmod(0o755)
    folder = Path("/usr/share")
    assert "No such file" in nobody.run(shell(), f"cat {tmp_path}/book")["output"]
    assert nobody.run(shell(reads=[str(folder)]), f"ls {folder}")["exit"] == 0


def test_it_reaches_no_network_unless_it_is_granted(nobody):
    asked = "cat /proc/net/dev | grep -v -e lo: -e Inter -e face | wc -l"
    assert nobody.run(shell(), asked)["output"].strip() == "0"
    granted = nobody.run(shell(network=True), "cat /proc/net/dev | wc -l")["output"]
    assert int(granted) == len(Path("/proc/net/dev").read_text().splitlines())


@pytest.mark.parametrize(
    "limits, script, told",
    [
        ({"seconds": 0.3}, "echo begun; sleep 600", "longer than 0.3 seconds"),
        ({"output": 10_000}, "yes", "more than 10,000 bytes"),
    ],
)
def test_what_takes_too_long_or_says_too_much_is_stopped(nobody, limits, script, told):
    began = time.monotonic()
    came = nobody.run(shell(limits=Limits(**limits)), script)
    assert came["exit"] is None and told in came["ended"] and time.monotonic() - began < 5
    assert sum(len(text) for *_, text in nobody.chunks) <= 10_000


@pytest.mark.parametrize(
    "limits, script",
    [
        ({"memory": 200 << 20}, "head -c 400000000 /dev/zero | tail -c 399999999 > /dev/null"),
        ({"files": 100_000}, "head -c 200000 /dev/zero > big"),
        ({"files": 100_000}, "for n in 1 2 3 4; do head -c 50000 /dev/zero > $n || exit 9; done"),
        ({"processes": 10}, "for n in 1 2 3 4 5 6 7 8 9 10 11; do sleep 60 & done"),
    ],
)
def test_what_it_may_use_is_bounded(nobody, limits, script):
    came = nobody.run(shell(limits=Limits(**limits)), f"set -e; {script}; echo done")
    assert came["exit"] != 0 and "done" not in came["output"]


def test_a_fork_bomb_stays_within_its_walls(nobody):
    bomb = "bomb() { bomb | bomb & }; bomb; sleep 1; echo over"
    came = nobody.run(shell(limits=Limits(processes=20, seconds=2)), bomb)
    assert "ended" not in came or "longer" in came["ended"]


def test_odd_bytes_become_text_cut_at_whole_characters(nobody):
    came = nobody.run(shell(), r"printf 'a\000b\377c\303'; sleep 0.3; printf '\274'")
    assert came["output"] == "a\ufffdb\ufffdcü"
    assert [offset for _, offset, _ in nobody.chunks] == [0, 5]
    assert nobody.run(shell(), "echo \0")["outcome"] == "refused"


# ---------------------------------------------------------------- where there are no walls


def test_without_bubblewrap_it_is_refused_with_what_to_install(nobody, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    came = nobody.run(shell(), "echo ran")
    assert came["outcome"] == "refused" and "apt-get install bubblewrap" in came["message"]
    assert not nobody.chunks


def test_where_namespaces_are_forbidden_it_is_refused_with_what_to_allow(nobody, monkeypatch, tmp_path):
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2; exit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        folder.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    came = nobody.run(shell(), "echo ran")
    assert came["outcome"] == "refused"
    assert "No permissions" in came["message"] and "unprivileged_userns_clone" in came["message"]


def test_bare_only_where_the_setting_says_so(nobody, monkeypatch, tmp_path):
    monkeypatch.setattr(contained.shutil, "which", lambda name: None)
    monkeypatch.setenv("SECRET", "hunter2")
    with override_settings(SAYSO_RUN_BARE=True):
        came = nobody.run(shell(), "env; pwd")
    assert came["exit"] == 0 and "hunter2" not in came["output"]
    assert not Path(came["output"].split()[-1]).exists()


def test_a_command_that_contradicts_itself_is_refused_by_name():
    with pytest.raises(TypeError, match="Command 'nothing' has nothing to run"):
        command("nothing", description="")
    with pytest.raises(TypeError, match="Command 'shell' reads 'here'"):
        shell(reads=["here"])


# ---------------------------------------------------------------- in a Run


def test_what_it_writes_streams_beside_the_run_and_its_result_is_journaled(northgate, worked, told):
    """R36: chunks by offset, no Event, nothing of it in the Session."""
    run = start(northgate, "two commands")
    before = Event.objects.count()
    run = worked(run)
    assert told(run) == [{"exit": 0, "output": "one\n"}, {"exit": 0, "output": "two\n"}]
    streams = {each.stream: each.text for each in selectors.outputs(run)}
    assert streams == {"0.0#1": "one\n", "0.1#1": "two\n"}
    assert Event.objects.count() == before + 2, "it ran, and it succeeded"
    assert Chunk.objects.filter(tenant=northgate.tenant).count() == 2
    assert [each.text for each in selectors.chunks(run, "0.1#1")[0]] == ["two\n"]


def test_whoever_lost_the_lease_streams_nothing_more(northgate, clock):
    """R29."""
    run = start(northgate, "go", agent="asks")
    turn = claim(run)
    transitions.output(turn, "0.0#1", 0, "mine")
    clock.move(seconds=60)
    transitions.sweep()
    with pytest.raises(LeaseLost):
        transitions.output(turn, "0.0#1", 4, "late")
    assert Chunk.objects.get().text == "mine"


def living(marker: str) -> int:
    """Processes on this machine with the marker in their command line."""
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found += f"sleep\0{marker}".encode() in (entry / "cmdline").read_bytes()
            except OSError:
                pass
    return found


def test_nothing_is_left_of_a_command_a_second_after_its_end_was_ordered(northgate, workers):
    """R28, R29: it forks, ignores SIGTERM, starts a session of its own and detaches. Cancelled, cancelled with its
    parent, or orphaned by a worker that was killed: all of it is gone."""
    worker = workers.start(SAYSO_LEASE_SECONDS="20", SAYSO_BEAT_SECONDS="8", SAYSO_LOOK_SECONDS="30")
    run = start(northgate, "a stubborn command")
    soon(lambda: living("86421") == 2, within=30)
    northgate.cancels("Olga", run)
    soon(lambda: living("86421") == 0 and Run.objects.get(pk=run.pk).state == "cancelled", within=1)

    parent = start(northgate, "a child with a stubborn command")
    soon(lambda: living("86421") == 2)
    child = Run.objects.get(parent_id=parent.pk)
    assert northgate.cancels("Olga", parent, reason="enough").recorded["children"] == [str(child.pk)]
    soon(lambda: living("86421") == 0 and Run.objects.filter(state="cancelled").count() == 3, within=1)

    start(northgate, "a stubborn command")
    soon(lambda: living("86421") == 2)
    worker.kill()
    soon(lambda: living("86421") == 0, within=1)


def test_what_a_command_wrote_is_shown_on_its_runs_page_with_nothing_hidden_in_it(northgate, client, clock):
    """R03: a terminal's tricks are printed, and no markup is made."""
    run = start(northgate, "go", agent="asks")
    transitions.output(claim(run), "0.0#1", 0, "one\n<b>two</b>\u202ethree")
    client.force_login(northgate.people["Rita"], backend="allauth.account.auth_backends.AuthenticationBackend")
    page = client.get(f"/t/northgate/runs/{run.pk}/").content.decode()
    assert "&lt;b&gt;two" in page and "<b>two" not in page and "\u202e" not in page and "U+202E" in page
