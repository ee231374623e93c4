"""Files beside statements: cut at their limits, kept under random names, served inert (T70)."""

import resource
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from runtime_app import evidence_files
from runtime_app.ids import uuid7
from runtime_app.models import Effect, Evidence, EvidenceFile
from runtime_app.responses import Finding
from tests.console.stage import visitor


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.SAYSO_DATA = tmp_path
    return evidence_files.folder()


@pytest.fixture
def asked(northgate):
    return northgate.unknown()


@pytest.fixture
def olga(northgate):
    return visitor(northgate.people["Olga"])


def post(client, asked, *files, **more):
    said = {"response_id": str(uuid7()), "session": str(asked.session_id), "finding": "committed"}
    said |= {"reference": "ticket 7", "message": "see file", "files": list(files)} | more
    return client.post(f"/t/northgate/requests/{asked.pk}/finding/", said)


def sent(name: str, content: bytes = b"seen", kind: str = "text/plain") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content, kind)


def on_disk(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_kept_with_the_statement_it_belongs_to(olga, asked, folder):
    assert post(olga, asked, sent("screen.png", b"\x89PNG"), sent("log.txt")).status_code == 303
    kept = list(EvidenceFile.objects.order_by("name"))
    assert [(each.name, each.size) for each in kept] == [("log.txt", 4), ("screen.png", 4)]
    assert {each.evidence.finding for each in kept} == {"committed"} and Effect.objects.get().state == "committed"
    assert on_disk(folder) == sorted(each.stored for each in kept)
    page = olga.get(f"/t/northgate/effects/{asked.effect_id}/").content.decode()
    assert "screen.png" in page and kept[0].sha256[:16] in page


@pytest.mark.parametrize(
    "name", ["page.html.txt", "picture.xml", "../../../etc/passwd.txt", "a; b=c.txt", "“quoted”.pdf"]
)
def test_it_is_served_as_bytes_to_be_saved_whatever_it_is(olga, asked, folder, name):
    """T70: attachment, nosniff, sandbox; no name of it is ever a path."""
    content = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    assert post(olga, asked, sent(name, content, "text/html")).status_code == 303
    kept = EvidenceFile.objects.get()
    assert on_disk(folder) == [kept.stored] and len(kept.stored) == 32 and "/" not in kept.name
    answer = olga.get(f"/t/northgate/effects/{asked.effect_id}/files/{kept.pk}/")
    assert answer.content == content
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert answer["Content-Disposition"].startswith("attachment")
    assert "\n" not in answer["Content-Disposition"]


def test_without_room_for_a_file_nothing_is_recorded_and_olga_reads_why(olga, asked, folder):
    """T70: the disk is full in the middle of it, and what she wrote is still there."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        answer = post(olga, asked, sent("log.txt", b"x" * 300_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert answer.status_code == 422
    assert "There is no room to keep it" in answer.content.decode() and "ticket 7" in answer.content.decode()
    assert not on_disk(folder) and not Evidence.objects.filter(grade="attested").exists()


def test_a_file_that_was_not_chosen_is_none(olga, asked, folder):
    """As browsers send it: a part without a name and with nothing in it."""
    assert post(olga, asked, "").status_code == 303
    assert not on_disk(folder) and Effect.objects.get().state == "committed"


def test_a_text_is_no_file(olga, asked):
    assert post(olga, asked, "text").status_code == 422


def test_the_same_form_again_keeps_the_files_once(olga, asked, folder):
    """R09."""
    again = {"response_id": str(uuid7())}
    for _ in range(2):
        assert post(olga, asked, sent("log.txt"), **again).status_code == 303
    assert EvidenceFile.objects.count() == 1 == len(on_disk(folder))
    assert post(olga, asked, sent("log.txt", b"other"), **again).status_code == 409
    assert len(on_disk(folder)) == 1


def test_a_file_that_is_too_large_is_refused_where_the_person_is(olga, asked, folder, monkeypatch):
    monkeypatch.setattr(evidence_files, "SIZE", 1000)
    answer = post(olga, asked, sent("big.txt", b"x" * 1001), sent("log.txt"))
    assert answer.status_code == 413
    assert "larger than" in answer.content.decode() and "see file" in answer.content.decode()
    assert not on_disk(folder) and not Evidence.objects.filter(user__isnull=False).exists()


@pytest.mark.parametrize("name", ["run.exe", "page.html", "picture.svg", "noending", "twice.pdf.js", "." * 9])
def test_a_file_of_another_type_is_refused(olga, asked, folder, name):
    answer = post(olga, asked, sent(name))
    assert answer.status_code == 422 and "It is none of" in answer.content.decode()
    assert not on_disk(folder) and not EvidenceFile.objects.exists()


def test_six_files_are_too_many(olga, asked, folder):
    assert post(olga, asked, *(sent(f"{n}.txt") for n in range(6))).status_code == 413
    assert not on_disk(folder) and not EvidenceFile.objects.exists()


def test_what_comes_on_and_on_is_cut(olga, asked, folder, monkeypatch):
    """2 GB would be read to the end by nobody: the upload ends at the cap, and nothing is left of it."""
    from console import uploads

    monkeypatch.setattr(uploads, "ALL", 100_000)
    monkeypatch.setattr(uploads, "ROOM", 0)
    answer = post(olga, asked, sent("log.txt"), sent("big.txt", b"x" * 5_000_000))
    assert answer.status_code == 413 and "larger" in answer.content.decode()
    assert not on_disk(folder) and not EvidenceFile.objects.exists()


def test_nothing_is_kept_of_a_statement_that_is_refused(northgate, olga, asked, folder):
    rita = visitor(northgate.people["Rita"])
    assert post(rita, asked, sent("log.txt")).status_code == 403
    assert post(olga, asked, sent("log.txt"), reference="").status_code == 422
    assert post(olga, asked, sent("log.txt"), session=str(uuid7())).status_code == 404
    csrf = Client(enforce_csrf_checks=True)
    csrf.force_login(northgate.people["Olga"])
    assert post(csrf, asked, sent("log.txt")).status_code == 403
    northgate.says("Olga", asked, Finding("committed", "seen"))
    assert post(olga, asked, sent("log.txt")).status_code == 409
    assert not on_disk(folder) and not EvidenceFile.objects.exists()


def test_of_strangers_and_of_forms_that_take_none_nothing_is_written(northgate, olga, asked, folder, monkeypatch):
    written = []
    monkeypatch.setattr("console.uploads.Sent.take", lambda *args: written.append(args))
    assert post(visitor(), asked, sent("log.txt")).status_code == 302
    answer = olga.post(f"/t/northgate/runs/{asked.run_id}/cancel/", {"response_id": str(uuid7()), "f": sent("log.txt")})
    assert answer.status_code == 422 and "takes no file" in answer.content.decode()
    assert not written and not on_disk(folder)


def test_a_file_is_for_members_alone_and_for_its_own_effect(northgate, harbour, olga, asked):
    """R07."""
    post(olga, asked, sent("log.txt"))
    other = northgate.unknown(version="2")
    kept = EvidenceFile.objects.get()
    address, rita = "/t/{}/effects/{}/files/{}/", visitor(northgate.people["Rita"])
    assert rita.get(address.format("northgate", asked.effect_id, kept.pk)).status_code == 200
    for who, slug, effect, file in (
        (harbour.people["Mallory"], "northgate", asked.effect_id, kept.pk),
        (harbour.people["Mallory"], "harbour", asked.effect_id, kept.pk),
        (northgate.people["Olga"], "northgate", other.effect_id, kept.pk),
        (northgate.people["Olga"], "northgate", asked.effect_id, uuid7()),
        (northgate.people["Olga"], "northgate", asked.effect_id, "../../mark"),
    ):
        assert visitor(who).get(address.format(slug, effect, file)).status_code == 404
    (evidence_files.folder() / kept.stored).unlink()
    gone = olga.get(address.format("northgate", asked.effect_id, kept.pk))
    assert gone.status_code == 404 and "is not among this installation" in gone.content.decode()
    page = olga.get(f"/t/northgate/effects/{asked.effect_id}/").content.decode()
    assert "log.txt <b>is missing from this installation" in page
