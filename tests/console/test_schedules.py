"""Jobs by the clock on a page: what starts when, as whom, what came of it; operators pause it (R33)."""

from datetime import UTC, datetime

import pytest

from console.templatetags.times import cron_words
from runtime_app import jobs, transitions
from runtime_app.errors import IdempotencyConflict, NotFound
from runtime_app.ids import uuid7
from runtime_app.models import Blocker, Event, Refusal, Response, Run, Schedule
from tests.cast import claim, deployment
from tests.console.stage import visitor

SIX = datetime(2030, 1, 7, 6, 0, tzinfo=UTC)  # a Monday
PAGE = "/t/northgate/schedules/"


@pytest.fixture
def weekly(northgate) -> Schedule:
    return Schedule.objects.create(
        tenant=northgate.tenant, agent="deployer", environment=northgate.staging, message="weekly report",
        cron="0 6 * * 1", set_by=northgate.people["Olga"],
    )  # fmt: skip


def text(answer) -> str:
    return answer.content.decode()


def due(at: datetime = SIX) -> None:
    jobs.start_due(timestamp=int(at.timestamp()))


def why(**more) -> dict:
    return {"response_id": str(uuid7()), "message": "because"} | more


def test_everybody_sees_what_starts_when_and_as_whom(northgate, weekly):
    page = text(visitor(northgate.people["Rita"]).get(PAGE))
    for said in ("weekly report", "Every Monday at 06:00 UTC", "0 6 * * 1", "Olga", "None yet", "staging"):
        assert said in page, said
    assert "<button" not in page.split("<main")[1] and "takes the role operator" in page


def test_from_a_blocked_run_to_its_schedule_and_from_there_to_its_runs(northgate, weekly):
    due()
    run = Run.objects.get()
    transitions.suspend(claim(run), waits=[deployment()])
    due(SIX.replace(day=14))
    ada = visitor(northgate.people["Ada"])
    page = text(ada.get(f"/t/northgate/runs/{run.pk}/"))
    assert f"{PAGE}#s-{weekly.pk}" in page and "needed a person" in page
    blocker = text(ada.get(f"/t/northgate/blockers/{Blocker.objects.get().pk}/"))
    assert f"{PAGE}#s-{weekly.pk}" in blocker and f"?schedule={weekly.pk}" in blocker
    page = text(ada.get(PAGE))
    newest = Run.objects.exclude(pk=run.pk).get()
    assert f'id="s-{weekly.pk}"' in page and f"/runs/{newest.pk}/" in page and "All 2 Runs" in page
    other = northgate.start()
    listed = text(ada.get(f"/t/northgate/runs/?schedule={weekly.pk}"))
    assert f"r-{run.pk}" in listed and f"r-{newest.pk}" in listed and f"r-{other.pk}" not in listed
    for odd in (uuid7(), "no-id"):
        assert "No Run with these filters" in text(ada.get("/t/northgate/runs/", {"schedule": odd}))


def test_why_it_did_not_start_is_said(northgate, weekly):
    """R06."""
    northgate.take("Olga", "operator")
    due()
    assert "Did not start" in text(visitor(northgate.people["Ada"]).get(PAGE))


def test_an_operator_pauses_it_and_starts_it_again(northgate, weekly):
    """R05: by a Response and an Event; whose it is stays."""
    stan = visitor(northgate.people["Stan"])
    assert stan.post(f"{PAGE}{weekly.pk}/pause/", why()).status_code == 303
    page = text(stan.get(PAGE))
    assert "Paused" in page and "by Stan" in page and "None while it is paused" in page
    due()
    assert not Run.objects.exists()
    again = stan.post(f"{PAGE}{weekly.pk}/pause/", why(message="keep this"))
    assert again.status_code == 422 and "paused already" in text(again) and "keep this" in text(again)
    assert stan.post(f"{PAGE}{weekly.pk}/unpause/", why()).status_code == 303
    due()
    assert Run.objects.get().initiator_name == "Olga"
    told = Event.objects.filter(kind__startswith="schedule").order_by("seq").values_list("kind", "actor_name")
    assert list(told) == [("schedule.paused", "Stan"), ("schedule.unpaused", "Stan")]


@pytest.mark.parametrize("who", ["Rita", "Ada", "Ann"])
def test_whoever_does_not_operate_there_pauses_nothing(northgate, weekly, who):
    """R06, R13."""
    assert visitor(northgate.people[who]).post(f"{PAGE}{weekly.pk}/pause/", why()).status_code == 403
    weekly.refresh_from_db()
    assert weekly.active and Refusal.objects.get().verb == "pause"


def test_an_operator_of_staging_pauses_nothing_in_production(northgate, weekly):
    other = Schedule.objects.create(
        tenant=northgate.tenant, agent="deployer", environment=northgate.production, message="x", cron="0 6 * * 1",
        set_by=northgate.people["Olga"],
    )  # fmt: skip
    stan = visitor(northgate.people["Stan"])
    assert stan.post(f"{PAGE}{other.pk}/pause/", why()).status_code == 403
    assert text(stan.get(PAGE)).count(">Pause</button>") == 1


def test_the_same_pause_again_is_the_recorded_one(northgate, harbour, weekly):
    """R07, R09."""
    said, olga = uuid7(), northgate.context("Olga")
    first = transitions.pause(olga, schedule_id=weekly.pk, response_id=said)
    assert transitions.pause(olga, schedule_id=weekly.pk, response_id=said).pk == first.pk
    with pytest.raises(IdempotencyConflict):
        transitions.unpause(olga, schedule_id=weekly.pk, response_id=said)
    with pytest.raises(NotFound):
        transitions.unpause(harbour.context("Mallory"), schedule_id=weekly.pk, response_id=uuid7())
    assert Response.objects.count() == 1


def test_of_two_who_pause_at_once_one_does(northgate, weekly, race):
    results = race(
        *(
            lambda who=who: transitions.pause(northgate.context(who), schedule_id=weekly.pk, response_id=uuid7())
            for who in ("Olga", "Stan")
        )
    )
    assert sorted(type(each).__name__ for each in results) == ["InvalidInput", "Response"]
    assert Event.objects.filter(kind="schedule.paused").count() == 1


WORDS = {
    "0 6 * * 1": "every Monday at 06:00 UTC",
    "30 5 * * *": "every day at 05:30 UTC",
    "0 9 * * 1-5": "Monday to Friday at 09:00 UTC",
    "0 9 * * 0,6": "every Sunday, Saturday at 09:00 UTC",
    "0 9 1 * *": "on day 1 of the month at 09:00 UTC",
    "0 9 1 1 1": "every Monday or on day 1 of the month in month 1 at 09:00 UTC",
    "*/5 * * * *": "every 5 minutes, every day",
    "* * * * *": "every minute, every day",
    "7 * * * *": "every hour at minute 7, every day",
    "0 8-18 * * MON": "on weekday MON at minute 0 of hour 8-18 UTC",
    "*/15 8-18 * * *": "every 15 minutes of hour 8-18 UTC, every day",
    "@daily": "@daily",
}


@pytest.mark.parametrize("cron", WORDS)
def test_a_cron_is_said_in_words(cron):
    assert cron_words(cron) == WORDS[cron]


def test_a_minute_that_never_comes_is_no_next_time(transactional_db):
    assert jobs.next_time("0 6 31 2 *") is None and jobs.next_time("at six") is None
    assert jobs.next_time("0 6 * * 1").weekday() == 0
