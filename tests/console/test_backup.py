"""Backup and restore by pg_dump and pg_restore: whole or not at all, and a restored database sends nothing (R27)."""

import os
import shutil
import subprocess
import sys
import tarfile
from contextlib import closing
from urllib.parse import urlsplit

import psycopg
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from psycopg import sql

from console import backup, postgres
from runtime_app import evidence_files
from runtime_app.models import Request, Worker
from runtime_app.responses import Finding
from runtime_app.transitions import epochs
from tests.database import NAME, owner
from tests.runtime.test_remedies import epoch  # noqa: F401

COPY = f"{NAME}_copy"


def manage(*words: str, database: str = NAME, **more: str) -> subprocess.CompletedProcess:
    urls = {name: of(os.environ[name], database) for name in ("DATABASE_URL", "DATABASE_OWNER_URL")}
    command = [sys.executable, "-m", "console.cli", "manage", *words]
    return subprocess.run(command, env=os.environ | urls | more, capture_output=True, text=True, timeout=120)


def of(url: str, database: str) -> str:
    return urlsplit(url)._replace(path=f"/{database}").geturl()


@pytest.fixture
def copy(tmp_path):
    """Another database, still empty, and its mark."""
    name = sql.Identifier(COPY)
    with closing(owner()) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
        connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
        yield asked
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))


def asked(query: str) -> list[tuple]:
    with psycopg.connect(of(os.environ["DATABASE_OWNER_URL"], COPY)) as connection:
        return connection.execute(query).fetchall()


def test_a_backup_comes_back_whole_and_sends_nothing_until_ann_says_so(northgate, tmp_path, copy):
    """T103, T104, R27: what was granted is void, what was prepared is uncertain and asks; then a person releases it."""
    northgate.granted()
    file, mark = tmp_path / "sayso.dump", str(tmp_path / "mark")
    call_command("backup", str(file))
    assert file.stat().st_mode & 0o777 == 0o600

    back = manage("restore", str(file), database=COPY, SAYSO_MARK=mark)
    assert back.returncode == 0 and "Epoch 2 began" in back.stdout, back.stderr
    assert copy("select count(*) from runtime_app_request") == [(Request.objects.count() + 1,)]
    assert copy("select state, void_why <> '' from runtime_app_grant") == [("void", True)]
    asks = "select e.state, r.state from runtime_app_effect e join runtime_app_request r on r.effect_id = e.id"
    assert copy(asks) == [("uncertain", "pending")]
    assert copy("select count(*) from runtime_app_run where held_at is null") == [(0,)]

    released = manage("release_epoch", "--by", "Ann Devlin", database=COPY, SAYSO_MARK=mark)
    assert released.returncode == 0 and "released by Ann Devlin" in released.stdout, released.stderr
    assert copy("select released_by from runtime_app_epoch where number = 2") == [("Ann Devlin",)]
    assert copy("select count(*) from runtime_app_run where held_at is null") == [(1,)]


def test_files_beside_statements_come_back_and_what_is_missing_is_said(northgate, tmp_path, copy):
    """R25: one artefact; what is no file of a statement is never written, wherever its name points."""
    asked = northgate.unknown()
    kept = [_file(f"{name}.txt", name.encode()) for name in ("one", "two")]
    northgate.says("Olga", asked, Finding("unknown", "", tuple(kept)))
    (evidence_files.folder() / kept[1].stored).unlink()
    (evidence_files.folder() / "coming-half").write_bytes(b"under way")
    file, elsewhere = tmp_path / "sayso.tar", tmp_path / "elsewhere"
    call_command("backup", str(file))
    with tarfile.open(file, "a") as tar:
        tar.add(tmp_path / "sayso.tar", "evidence/../../outside")
    elsewhere.mkdir()

    places = {"SAYSO_MARK": str(elsewhere / "mark"), "SAYSO_DATA": str(elsewhere)}
    back = manage("restore", str(file), database=COPY, **places)
    assert back.returncode == 0 and "1 put back, 1 missing" in back.stdout, back.stderr
    assert (elsewhere / "evidence" / kept[0].stored).read_bytes() == b"one"
    assert [path.name for path in (elsewhere / "evidence").iterdir()] == [kept[0].stored]
    assert not (tmp_path / "outside").exists()


def _file(name: str, content: bytes):
    coming = evidence_files.folder() / f"coming-{name}"
    coming.write_bytes(content)
    kept = evidence_files.keep(str(coming), name)
    coming.unlink()
    return kept


def test_a_file_of_pg_dumps_own_is_restored_as_it_is(northgate, tmp_path, copy):
    northgate.granted()
    call_command("backup", str(tmp_path / "sayso.tar"))
    with backup.opened(tmp_path / "sayso.tar") as dumped:
        shutil.copy(dumped, tmp_path / "plain")
    back = manage("restore", str(tmp_path / "plain"), database=COPY, SAYSO_MARK=str(tmp_path / "mark"))
    assert back.returncode == 0 and "0 put back" in back.stdout, back.stderr


def test_nothing_is_replaced_unasked_or_under_a_running_worker(northgate, tmp_path):
    northgate.granted()
    call_command("backup", str(tmp_path / "file"))
    with pytest.raises(CommandError, match="A worker is running"):
        call_command("restore", str(tmp_path / "file"), "--replace")
    Worker.objects.all().delete()
    with pytest.raises(CommandError, match="not empty"):
        call_command("restore", str(tmp_path / "file"))
    assert settings.SAYSO_MARK.exists()


def test_an_installation_that_is_what_it_was_needs_no_release(transactional_db, capsys):
    call_command("release_epoch", "--by", "Ann")
    assert "needs no release" in capsys.readouterr().out


def test_what_nobody_has_looked_at_is_not_released(northgate, epoch, capsys):  # noqa: F811
    """R27: a restore that this very command notices is told first, and released when it is said again."""
    epochs.mark(epochs._facts()[3] + 5)
    with pytest.raises(CommandError, match="(?s)began just now: the database is older.*say it again"):
        call_command("release_epoch", "--by", "Ann")
    assert not epochs.released(epochs.current())
    call_command("release_epoch", "--by", "Ann")
    assert epochs.current().released_by == "Ann" and "released by Ann" in capsys.readouterr().out


def test_what_is_no_backup_is_refused_before_anything_is_lost(northgate, tmp_path):
    (tmp_path / "poem").write_text("roses are red")
    with pytest.raises(backup.CannotCopy, match="pg_restore failed"):
        backup.check(os.environ["DATABASE_OWNER_URL"], tmp_path / "poem")
    with tarfile.open(tmp_path / "archive", "w") as tar:
        tar.add(tmp_path / "poem", "poem")
    with pytest.raises(backup.CannotCopy, match="no backup"), backup.opened(tmp_path / "archive"):
        pass
    with pytest.raises(backup.CannotCopy, match="cannot be written"):
        backup.write(os.environ["DATABASE_OWNER_URL"], tmp_path / "nowhere" / "file")


@pytest.mark.parametrize("left", [0.4, 0.97])
def test_a_backup_that_is_cut_off_is_refused_before_anything_is_lost(northgate, tmp_path, left):
    """R27: in the database, or in the files; the installation is what it was, and sends on."""
    kept = _file("one.txt", os.urandom(40_000))
    northgate.says("Olga", northgate.unknown(), Finding("unknown", "", (kept,)))
    file, folder = tmp_path / "sayso.tar", evidence_files.folder()
    call_command("backup", str(file))
    with tarfile.open(file) as tar:
        dump, *files = tar.getmembers()
        whole = max(files, key=lambda each: each.offset_data)
    end = dump.offset_data + int(dump.size * left) if left < 0.5 else whole.offset_data + int(whole.size * left)
    os.truncate(file, end)
    Worker.objects.all().delete()
    before, mark = sorted(folder.iterdir()), settings.SAYSO_MARK.stat().st_ino
    with pytest.raises(CommandError, match="cut off"):
        call_command("restore", str(file), "--replace")
    assert sorted(folder.iterdir()) == before and settings.SAYSO_MARK.stat().st_ino == mark


def test_a_restore_that_fails_says_what_stands(northgate, tmp_path, monkeypatch):
    """R27: where it may have begun, nothing is sent before a person says so."""
    call_command("backup", str(tmp_path / "sayso.tar"))
    Worker.objects.all().delete()

    def fails(*arguments):
        raise backup.CannotCopy("pg_restore failed: no space left on device")

    monkeypatch.setattr(backup, "restore", fails)
    kept = settings.SAYSO_MARK.rename(tmp_path / "mark")
    try:
        with pytest.raises(CommandError, match="(?s)no space left.*not restored.*release_epoch"):
            call_command("restore", str(tmp_path / "sayso.tar"), "--replace")
    finally:
        kept.rename(settings.SAYSO_MARK)


def test_without_the_programs_they_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(postgres, "program", lambda name, major: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(backup.CannotCopy, match="apt-get install postgresql-client"):
        backup.write(os.environ["DATABASE_OWNER_URL"], tmp_path / "file")
