"""The embedded PostgreSQL survives what happens to processes: kill -9, crowds, left-over files, closed folders."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psycopg
import pytest

from console import postgres
from console.environ import ROOT
from console.postgres import APP, OWNER, SUPER, Cluster

HOLDER = """
    import sys
    from console.postgres import Cluster
    cluster = Cluster(sys.argv[1], fast=True).acquire()
    print(cluster.url("sayso_app"), flush=True)
    sys.stdin.read()
"""


def hold(folder: Path) -> subprocess.Popen:
    """Another process that holds the cluster until its standard input closes."""
    command = [sys.executable, "-c", textwrap.dedent(HOLDER), str(folder)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def leave(holder: subprocess.Popen) -> None:
    holder.communicate()
    assert holder.returncode == 0


def postmaster(cluster: Cluster) -> int:
    return int((cluster.data / "postmaster.pid").read_text().split()[0])


def ask(cluster: Cluster, question: str, role: str = APP):
    with psycopg.connect(cluster.url(role), autocommit=True) as connection:
        cursor = connection.execute(question)
        return cursor.fetchone()[0] if cursor.description else None


@pytest.fixture
def cluster(tmp_path):
    """In a folder closed to everybody else, as pytest makes them: root has to put the data elsewhere."""
    one = Cluster(tmp_path / "pg", fast=True).acquire()
    yield one
    one.destroy()
    assert not one.home.exists()


def test_eight_processes_start_at_once_on_a_fresh_folder(tmp_path):
    folder = tmp_path / "pg"
    holders = [hold(folder) for _ in range(8)]
    urls = {holder.stdout.readline() for holder in holders}
    assert len(urls) == 1 and urls.pop().startswith("postgresql://")
    cluster = Cluster(folder, fast=True).acquire()
    assert ask(cluster, "SELECT current_user::text") == APP
    for holder in holders:
        leave(holder)
    assert cluster.is_up(), "one holder is left"
    cluster.release()
    assert not cluster.is_up(), "the last one out stops it"
    cluster.destroy()


def test_everything_is_there_again_after_kill_9(cluster):
    """One story, since a start costs half a second: holder killed, server killed, its pid taken by a stranger."""
    # the tests' server commits before its log is written; this one is waited for
    ask(cluster, "SET synchronous_commit = on; CREATE TABLE kept AS SELECT 42 AS answer", OWNER)
    holder = hold(cluster.folder)
    holder.stdout.readline()
    holder.kill()
    holder.communicate()
    assert cluster.is_up()

    os.kill(postmaster(cluster), signal.SIGKILL)
    cluster.acquire()
    assert ask(cluster, "SELECT answer FROM kept", OWNER) == 42

    pid_file = cluster.data / "postmaster.pid"
    written = pid_file.read_text()
    stale = written.replace(str(postmaster(cluster)), str(os.getpid()), 1)
    os.kill(postmaster(cluster), signal.SIGKILL)
    cluster._server.wait()
    pid_file.write_text(stale)
    (cluster.socket / f".s.PGSQL.{postgres.PORT}.lock").write_text(stale)
    cluster.acquire()
    assert postmaster(cluster) != os.getpid()
    assert ask(cluster, "SELECT answer FROM kept", OWNER) == 42


def test_a_server_left_behind_is_taken_over_and_stopped(tmp_path):
    folder = tmp_path / "pg"
    holder = hold(folder)
    holder.stdout.readline()
    holder.kill()
    holder.communicate()
    cluster = Cluster(folder, fast=True).acquire()
    assert ask(cluster, "SELECT 1") == 1 and cluster._server is None
    cluster.release()
    assert not cluster.is_up()
    cluster.destroy()


def test_a_start_that_was_cut_short_is_made_good(cluster):
    """Killed after initdb, before the roles were made."""
    (cluster.data / "sayso-roles").unlink()
    cluster.acquire()
    assert (cluster.data / "sayso-roles").exists()
    assert ask(cluster, "SELECT pg_get_userbyid(datdba)::text FROM pg_database WHERE datname = 'sayso'") == OWNER


def test_passwords_and_data_are_nobody_elses_to_read(cluster):
    for role in (SUPER, OWNER, APP):
        assert (cluster.folder / f"{role}-password").stat().st_mode & 0o777 == 0o600
    assert cluster.data.stat().st_mode & 0o777 == 0o700
    assert cluster.socket.stat().st_mode & 0o777 == 0o700
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(cluster.url(APP).replace(cluster._password(APP), "wrong"))


def test_no_folder_that_was_there_is_opened_up(tmp_path):
    tmp_path.chmod(0o700)
    cluster = Cluster(tmp_path / "below" / "pg", fast=True).acquire()
    assert tmp_path.stat().st_mode & 0o777 == 0o700
    cluster.destroy()


def test_a_deleted_folder_does_not_come_back_to_life(tmp_path):
    first = Cluster(tmp_path / "pg", fast=True).acquire()
    ask(first, "CREATE TABLE old ()", OWNER)
    first.destroy()
    second = Cluster(tmp_path / "pg", fast=True).acquire()
    assert ask(second, "SELECT to_regclass('old') IS NULL", OWNER)
    second.destroy()


def test_data_of_another_major_version_is_left_alone(cluster):
    cluster.release()
    (cluster.data / "PG_VERSION").write_text("17\n")
    with pytest.raises(postgres.CannotStart, match="was made by PostgreSQL 17, and this is 18"):
        cluster.acquire()


def test_a_machine_without_binaries_is_told_about_DATABASE_URL(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(postgres.CannotStart, match="Set DATABASE_URL"):
        Cluster(tmp_path / "pg").acquire()


def test_a_uid_without_a_name_is_told_about_DATABASE_URL(tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 54321)
    with pytest.raises(postgres.CannotStart, match="User id 54321 has no entry in /etc/passwd.* Set DATABASE_URL"):
        Cluster(tmp_path / "pg").acquire()
