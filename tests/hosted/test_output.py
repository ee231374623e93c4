"""Output of commands is kept for a time after its Run ended; what was removed is said to be (R36)."""

import pytest
from django.db import DatabaseError, transaction

from runtime_app import jobs, selectors, transitions
from runtime_app.models import Chunk, Run
from tests.cast import claim
from tests.hosted.test_loop import start


def wrote(northgate, *texts) -> Run:
    """A Run that ended and whose command wrote these, each in a chunk of its own."""
    run = start(northgate, "go", agent="asks")
    turn, offset = claim(run), 0
    for text in texts:
        transitions.output(turn, "0.0#1", offset, text)
        offset += len(text)
    transitions.finish(turn, state="succeeded")
    return Run.objects.get(pk=run.pk)


def text(run) -> list[str]:
    return [each.text for each in selectors.outputs(run)]


def test_output_goes_when_its_time_is_over_and_not_before(northgate, clock, settings):
    """R36: days after the end of its Run."""
    settings.SAYSO_OUTPUT_DAYS = 30
    run = wrote(northgate, "one", "two")
    clock.move(days=29)
    newer = wrote(northgate, "three")
    jobs.remove_output(0)
    assert text(run) == ["onetwo"]
    clock.move(days=2)
    jobs.remove_output(0)
    assert (text(run), text(newer)) == ([], ["three"])
    assert Run.objects.get(pk=run.pk).output_removed_at and not Run.objects.get(pk=newer.pk).output_removed_at


def test_it_goes_in_batches_and_a_reader_is_told_of_the_gap(northgate, clock, settings, monkeypatch):
    """R36, R37: an explicit gap, never silence, for who starts at the beginning and for who had read a part."""
    run = wrote(northgate, "one", "two", "three")
    first, second, third = Chunk.objects.order_by("offset")
    assert selectors.chunks(run, "0.0#1") == ([first, second, third], False)
    clock.move(days=31)
    monkeypatch.setitem(transitions.remove_output.__globals__, "BATCH", 2)
    assert transitions.remove_output() == 2
    assert selectors.chunks(run, "0.0#1") == ([third], True)
    assert selectors.chunks(run, "0.0#1", 3) == ([third], True)
    assert selectors.chunks(run, "0.0#1", 6) == ([third], False)
    assert [(each.text, each.cut) for each in selectors.outputs(run)] == [("three", 6)]
    assert (transitions.remove_output(), transitions.remove_output()) == (1, 0)
    assert selectors.chunks(run, "0.0#1", 6) == ([], True)


def test_a_stream_is_shown_in_the_order_it_was_written(northgate):
    """Ids that were made in one millisecond are in no order; offsets are."""
    run = wrote(northgate, *"abcdefghijklmnopqrstuvwxyz")
    assert text(run) == ["abcdefghijklmnopqrstuvwxyz"]


def test_the_output_of_a_run_that_goes_on_is_kept_for_as_long(northgate, clock):
    """Nobody removes it, by raw SQL either."""
    run = start(northgate, "go", agent="asks")
    transitions.output(claim(run), "0.0#1", 0, "one")
    clock.move(days=400)
    jobs.remove_output(0)
    assert text(run) == ["one"]
    with pytest.raises(DatabaseError, match="has not ended"), transaction.atomic():
        Chunk.objects.filter(run=run)._raw_delete("default")


def test_the_runs_page_says_that_older_output_was_removed(northgate, clock, client):
    run = wrote(northgate, "one")
    clock.move(days=31)
    jobs.remove_output(0)
    client.force_login(northgate.people["Rita"], backend="allauth.account.auth_backends.AuthenticationBackend")
    assert "Older output was removed" in client.get(f"/t/northgate/runs/{run.pk}/").content.decode()
