"""The story from start to end, through browsers, with a real worker and a real provider.

Three Runs stop moving. They are not the same wait: one lacks information, one authority, one reality.
"""

import re

import pytest
from playwright.sync_api import Page, expect

from runtime_app.models import Effect, Grant, Request, Run
from tests.browser import looking
from tests.hosted.processes import soon

QUESTION, PERMISSION, UNKNOWN = "ask for the API key", "deploy card-api 0.8.8 now", "deploy ledger 4.2.1 now"


@pytest.fixture
def story(northgate, harbor, hands):
    """Harbor commits the ledger's deployment and cuts the line; a worker is at work."""
    northgate.policy("deploy_*", klass="production", typed_environment=True)
    harbor.mode("drop", service="ledger")
    hands.start()
    return northgate


def starts(page: Page, message: str, environment: str = "production") -> Run:
    page.goto("/t/northgate/sessions/new/")
    page.get_by_role("textbox", name="Message").fill(message)
    page.locator("#f-environment").select_option(environment)
    page.get_by_role("button", name="Start a Run").click()
    expect(page).to_have_url(re.compile("/runs/[0-9a-f-]{36}/$"))
    return Run.objects.get(pk=page.url.rstrip("/").rpartition("/")[2])


def asked(run: Run, kind: str) -> Request:
    return soon(lambda: Request.objects.filter(run=run, kind=kind, state="pending").first())


def approves(page: Page, request: Request, reason: str = "Agreed in the release meeting.") -> None:
    page.goto(f"/t/northgate/requests/{request.pk}/")
    page.get_by_label("Reason").fill(reason)
    page.get_by_label(re.compile("To approve, type")).fill("production")
    page.get_by_role("button", name=re.compile("^Approve")).click()
    expect(page.locator("#act")).to_have_count(0)


def looks(row) -> tuple:
    """What tells a row from others: its word, its sign, its edge."""
    edge = "e => { const s = getComputedStyle(e, '::before'), t = getComputedStyle(e);"
    edge += " return [s.borderInlineStartStyle, s.borderInlineStartWidth, s.backgroundImage,"
    edge += " t.borderInlineStartStyle, t.borderInlineStartWidth, t.backgroundImage].join() }"
    kind = row.locator(".kind")
    return kind.inner_text().strip(), kind.locator("use").get_attribute("href"), row.evaluate(edge)


def test_three_runs_stop_for_three_reasons_and_go_on_once_each(story, browse, harbor):
    """Each is answered in its own way, by whom it asks; a second browser sees it without a reload; one send each."""
    people = story.people
    olga, ada, sam = (browse(people[who], "/t/northgate/inbox/") for who in ("Olga", "Ada", "Sam"))
    question, permission, unknown = (starts(olga, each) for each in (QUESTION, PERMISSION, UNKNOWN))
    approves(ada, asked(unknown, "wait_approval"))
    waits = [asked(question, "wait_user"), asked(permission, "wait_approval"), asked(unknown, "wait_effect")]

    ada.goto("/t/northgate/inbox/")
    rows = [ada.locator(f"#r-{each.pk} a.row") for each in waits]
    for at, each in enumerate(zip(*(looks(row) for row in rows), strict=True)):
        assert len(set(each)) == 3, f"{at}: {each}"
    expect(ada.locator("#nav")).to_contain_text("1 request")

    rita = {run.pk: browse(people["Rita"], f"/t/northgate/runs/{run.pk}/") for run in (question, permission, unknown)}
    for page in rita.values():
        page.evaluate("window.same = true")

    # information
    sam.goto(f"/t/northgate/requests/{waits[0].pk}/")
    sam.get_by_label("Name of the API key").fill("card-api-2026")
    sam.get_by_role("button", name="Send answer").click()
    expect(sam.locator("#act")).to_have_count(0)
    expect(rita[question.pk].locator("main")).to_contain_text("the API key named card-api-2026")

    # authority
    approves(ada, waits[1])
    expect(rita[permission.pk].locator("main")).to_contain_text("card-api 0.8.8 is deployed")

    # reality
    olga.goto(f"/t/northgate/requests/{waits[2].pk}/")
    expect(olga.locator("main")).not_to_contain_text(re.compile("retry|send again|try again", re.IGNORECASE))
    olga.get_by_role("button", name="Look it up at Harbor").click()
    expect(rita[unknown.pk].locator("main")).to_contain_text("ledger 4.2.1 is deployed")

    for run in (question, permission, unknown):
        run.refresh_from_db()
        assert run.state == "succeeded"
        assert rita[run.pk].evaluate("window.same"), "without a reload"
        assert not looking.faults(rita[run.pk])
    sent = [line["order"]["service"] for line in harbor.deliveries()]
    assert sorted(sent) == ["card-api", "ledger"]


def test_a_cancelled_run_says_everywhere_that_its_effect_may_have_happened(story, browse, harbor):
    """R30, R31: cancelled, with the effect uncertain; later evidence is later evidence; nothing is sent again."""
    olga, ada = (browse(story.people[who], "/t/northgate/inbox/") for who in ("Olga", "Ada"))
    run = starts(olga, UNKNOWN)
    approves(ada, asked(run, "wait_approval"))
    wait = asked(run, "wait_effect")
    effect = Effect.objects.get(pk=wait.effect_id)

    olga.goto(f"/t/northgate/runs/{run.pk}/cancel/")
    expect(olga.locator("main")).to_contain_text("What cannot be stopped")
    expect(olga.locator("main")).to_contain_text("May have happened")
    olga.get_by_label(re.compile("^Why")).fill("Wrong branch.")
    olga.get_by_role("button", name="Cancel this Run").click()
    expect(olga).to_have_url(re.compile(f"/runs/{run.pk}/$"))
    run.refresh_from_db()
    assert (run.state, run.cancelled_by) == ("cancelled", "Olga")

    said = {
        f"runs/{run.pk}/": ["Cancelled", "may have happened", "Olga", "Nothing was rolled back"],
        "runs/": ["Cancelled", "may have happened"],
        f"sessions/{run.session_id}/": ["Cancelled", "may have happened"],
        f"effects/{effect.pk}/": ["cancelled", "Outcome unknown"],
        "effects/": ["cancelled", "Outcome unknown"],
        f"requests/{wait.pk}/": ["cancelled", "Outcome unknown"],
        "inbox/?tab=unknown": ["Run cancelled"],
    }
    for path, words in said.items():
        olga.goto(f"/t/northgate/{path}")
        for word in words:
            expect(olga.locator("main")).to_contain_text(re.compile(re.escape(word), re.IGNORECASE))
        assert not looking.faults(olga), path
    expect(olga.locator("#nav")).to_contain_text("1 debt")

    olga.goto(f"/t/northgate/effects/{effect.pk}/")
    olga.get_by_role("button", name="Look it up at Harbor").click()
    soon(lambda: Effect.objects.get(pk=effect.pk).state == "committed")
    olga.goto(f"/t/northgate/effects/{effect.pk}/")
    expect(olga.locator(".evidence")).to_contain_text(["later evidence"])
    olga.goto(f"/t/northgate/runs/{run.pk}/")
    expect(olga.locator("main")).to_contain_text("Cancelled")
    expect(olga.locator("main")).to_contain_text("Happened")
    run.refresh_from_db()
    assert run.state == "cancelled"
    assert len(harbor.deliveries()) == 1


def test_a_worker_killed_between_the_send_and_the_record(northgate, browse, harbor, hands, clock):
    """R22, R23: the page asks; a look-up settles it; the Run goes on; one send."""
    killed = hands.start("dispatch.after_send:kill")
    olga, ada = (browse(northgate.people[who], "/t/northgate/inbox/") for who in ("Olga", "Ada"))
    run = starts(olga, PERMISSION, "staging")
    ada.goto(f"/t/northgate/requests/{asked(run, 'wait_approval').pk}/")
    ada.get_by_role("button", name=re.compile("^Approve")).click()
    expect(ada.locator("#act")).to_have_count(0)
    assert killed.wait(20) == -9
    assert len(harbor.deliveries()) == 1

    hands.start()
    clock.move(seconds=60)  # the dead worker is missed
    wait = asked(run, "wait_effect")
    olga.goto("/t/northgate/inbox/?tab=unknown")
    olga.locator(f"#r-{wait.pk} a").click()
    expect(olga.locator("h1")).to_contain_text("Did it happen")
    olga.get_by_role("button", name="Look it up at Harbor").click()
    soon(lambda: Run.objects.get(pk=run.pk).state == "succeeded")
    olga.goto(f"/t/northgate/effects/{wait.effect_id}/")
    expect(olga.locator("main")).to_contain_text("Happened")
    expect(olga.locator(".grade.observed").first).to_be_visible()
    assert len(harbor.deliveries()) == 1


def test_a_job_with_nobody_on_the_line_ends_blocked_and_says_on_what(northgate, browse, harbor, hands):
    """R33, check 27: the exact action, the digest, and what would unblock it; nothing waits."""
    hands.start()
    run = northgate.start(environment="production", message=PERMISSION, interactive=False)
    soon(lambda: Run.objects.get(pk=run.pk).state == "blocked")
    page = browse(northgate.people["Olga"], f"/t/northgate/runs/{run.pk}/")
    for words in ("Deploy a release", "0.8.8", "production", "Grant this exact"):
        expect(page.locator("main")).to_contain_text(words)
    assert not Request.objects.filter(state="pending").exists()
    assert not Grant.objects.exists() and not harbor.deliveries()


def test_denied_with_a_suggestion_the_agent_asks_again(northgate, browse, harbor, hands):
    """R19: nobody approves a changed action; the new card shows the denial, and who suggested it cannot approve it."""
    hands.start()
    olga, ada, bob = (browse(northgate.people[who], "/t/northgate/inbox/") for who in ("Olga", "Ada", "Bob"))
    run = starts(olga, PERMISSION, "staging")
    first = asked(run, "wait_approval")
    ada.goto(f"/t/northgate/requests/{first.pk}/")
    ada.get_by_text("Suggest a change with a denial").click()
    ada.locator("#f-suggestion").fill('{"service": "card-api", "version": "0.8.7"}')
    ada.get_by_role("button", name="Deny", exact=True).click()
    expect(ada.locator("#act")).to_have_count(0)
    second = asked(run, "wait_approval")
    assert second.pk != first.pk
    ada.goto(f"/t/northgate/requests/{second.pk}/")
    expect(ada.locator("main")).to_contain_text("you suggested other parameters")
    expect(ada.locator("#approve")).to_have_count(0)
    bob.goto(f"/t/northgate/requests/{second.pk}/")
    expect(bob.locator("main")).to_contain_text("Ada denied")
    bob.get_by_role("button", name=re.compile("^Approve")).click()
    soon(lambda: Run.objects.get(pk=run.pk).state == "succeeded")
    assert [line["order"]["version"] for line in harbor.deliveries()] == ["0.8.7"]
