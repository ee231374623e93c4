"""How a person decides: without scripts, with the keyboard alone, twice, too late (R08, R11, T42, B146-B158)."""

import re

import pytest
from django.contrib.sessions.models import Session
from playwright.sync_api import Page, expect

from runtime_app.models import Grant, Membership, Request, Response, Run
from tests.browser import looking
from tests.cast import PASSWORD, Deny, House


def at(browse, house: House, who: str, request: Request, **options) -> Page:
    return browse(house.people[who], f"/t/{house.tenant.slug}/requests/{request.pk}/", **options)


def stands(request: Request) -> tuple[str, str | None]:
    request.refresh_from_db()
    return request.state, request.outcome


@pytest.fixture
def production(northgate) -> Request:
    """A deployment to production: the environment's name has to be typed."""
    northgate.policy("deploy", klass="production", typed_environment=True)
    return northgate.approval(environment="production")


@pytest.fixture
def staging(northgate) -> Request:
    return northgate.approval()


# ---------------------------------------------------------------- without scripts


def test_everything_can_be_done_without_scripts(northgate, browse, production):
    """Check 5: approve, deny with a suggestion, answer, establish, start, cancel: plain forms and 303."""
    plain = {"java_script_enabled": False}
    question, denied, unknown = northgate.question(), northgate.approval("0.8.9"), northgate.unknown(version="4.2.1")

    page = at(browse, northgate, "Ada", production, **plain)
    page.get_by_label("Reason").fill("Tested twice.")
    page.get_by_label(re.compile("To approve, type")).fill(" Production ")
    page.get_by_role("button", name=re.compile("^Approve")).click()
    expect(page).to_have_url(re.compile(f"/requests/{production.pk}/$"))
    assert stands(production) == ("resolved", "approved")
    expect(page.locator("main")).to_contain_text("Ada")

    page.goto(f"/t/northgate/requests/{denied.pk}/")
    page.get_by_text("Suggest a change with a denial").click()
    page.get_by_label("Parameters the agent might ask for instead").fill('{"service": "card-api", "version": "0.8.10"}')
    page.get_by_role("button", name="Deny", exact=True).click()
    assert stands(denied) == ("resolved", "denied")

    page = at(browse, northgate, "Sam", question, **plain)
    page.locator("#f-name").fill("ci-october")
    page.get_by_role("button", name="Send answer").click()
    assert stands(question) == ("resolved", "answered")

    page = at(browse, northgate, "Olga", unknown, **plain)
    page.get_by_label(re.compile("It happened")).check()
    page.get_by_label("Where did you look?").fill("build-7")
    page.get_by_role("button", name="Record this finding").click()
    assert stands(unknown) == ("resolved", "settled")

    page.goto("/t/northgate/sessions/new/")
    page.get_by_role("textbox", name="Message").fill("deploy card-api 0.9.0")
    page.get_by_role("button", name="Start a Run").click()
    run = Run.objects.latest("created_at")
    expect(page).to_have_url(re.compile(f"/runs/{run.pk}/$"))
    assert (run.message, run.initiator_name) == ("deploy card-api 0.9.0", "Olga")

    page.goto(f"/t/northgate/runs/{run.pk}/cancel/")
    page.get_by_role("button", name="Cancel this Run").click()
    expect(page).to_have_url(re.compile(f"/runs/{run.pk}/$"))
    run.refresh_from_db()
    assert run.state == "cancelled"

    page.goto("/t/northgate/inbox/")
    page.locator("details.person summary").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(re.compile("/sign-in/$"))


def test_signing_in_leads_back_to_the_page(northgate, browse, staging):
    """B158: the way back opens the page; it decides nothing."""
    ada = northgate.people["Ada"]
    ada.set_password("correct horse battery")
    ada.save()
    page = browse(None, f"/t/northgate/requests/{staging.pk}/")
    expect(page).to_have_url(re.compile("/sign-in/"))
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password").fill("a wrong horse")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".problem, [role=alert], .wrong").first).to_be_visible()
    assert not looking.faults(page) or "has focus after load" in looking.faults(page)[0]
    page.get_by_label("Password").fill("correct horse battery")
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(re.compile(f"/requests/{staging.pk}/$"))
    assert stands(staging) == ("pending", None)


# ---------------------------------------------------------------- the keyboard


def test_no_key_decides(northgate, browse, production):
    """Checks 7 and 8: every letter, Enter and Space on a fresh card; Enter in every field of it."""
    page = at(browse, northgate, "Ada", production)
    assert page.evaluate("document.activeElement.matches('body, h1')")
    for key in [*"abcdefghijklmnopqrstuvwxyz.?/", "Enter", "Space", "Control+Enter", "Shift+Enter"]:
        page.keyboard.press(key)
    page.get_by_text("Suggest a change with a denial").click()
    for field in ("#f-message", "#f-confirm", "#f-suggestion"):
        page.locator(field).fill("production")
        for key in ("Enter", "Control+Enter", "Meta+Enter"):
            page.locator(field).press(key)
    page.goto("/t/northgate/inbox/")  # whatever was sent has arrived by now
    assert stands(production) == ("pending", None)
    assert not Response.objects.exists()


def test_enter_in_a_form_without_scripts_decides_nothing_either(northgate, browse, production):
    page = at(browse, northgate, "Ada", production, java_script_enabled=False)
    page.locator("#f-confirm").fill("production")
    page.locator("#f-confirm").press("Enter")
    page.goto("/t/northgate/inbox/")
    assert not Response.objects.exists()


def test_the_keyboard_alone_is_enough(northgate, browse, production):
    """Check 6: in the order of the page, with the focus in sight and never under the header."""
    page = browse(northgate.people["Ada"], "/t/northgate/inbox/")
    focus = "e => [e.id, e.getBoundingClientRect().top, getComputedStyle(e).outlineStyle, e.closest('header') !== null]"

    def tab_to(selector: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            element = page.evaluate_handle("document.activeElement")
            _, top, outline, in_header = element.evaluate(focus)
            assert outline != "none", element.evaluate("e => e.outerHTML.slice(0, 200)")
            bottom = page.evaluate("(document.querySelector('header.shell')).getBoundingClientRect().bottom")
            fixed = page.evaluate("getComputedStyle(document.querySelector('header.shell')).position")
            assert in_header or fixed not in ("sticky", "fixed") or top >= bottom - 1
            if element.evaluate("(e, selector) => e.matches(selector)", selector):
                return
        raise AssertionError(f"{selector} is not reached")

    tab_to("a.row")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/requests/{production.pk}/$"))
    tab_to("#f-message")
    page.keyboard.type("Tested twice.")
    tab_to("#f-confirm")
    page.keyboard.type("production")
    tab_to("#approve")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_be_focused()
    assert stands(production) == ("resolved", "approved")


# ---------------------------------------------------------------- the two buttons


@pytest.mark.parametrize("width", [1280, 360])
def test_approve_and_deny_weigh_the_same(northgate, browse, production, width):
    """Check 9: same size, font and look, large enough, apart; neither stands out."""
    page = at(browse, northgate, "Ada", production, viewport={"width": width, "height": 800})
    approve, deny = page.locator("#approve").bounding_box(), page.locator("#deny").bounding_box()
    assert abs(approve["width"] - deny["width"]) <= 2 and abs(approve["height"] - deny["height"]) <= 2
    assert approve["height"] >= 44
    beside = deny["x"] - approve["x"] - approve["width"]
    below = deny["y"] - approve["y"] - approve["height"]
    assert max(beside, below) >= 12
    look = "e => ['color', 'backgroundColor', 'borderColor', 'fontSize', 'fontWeight'].map(n => getComputedStyle(e)[n])"
    assert page.locator("#approve").evaluate(look) == page.locator("#deny").evaluate(look)


@pytest.mark.parametrize("scripts", [True, False])
def test_a_double_click_decides_once(northgate, browse, staging, scripts):
    """Check 21, T42, B150: one vote, the one pressed, and no error."""
    page = at(browse, northgate, "Ada", staging, java_script_enabled=scripts)
    page.locator("#approve").dblclick(no_wait_after=True)
    expect(page.locator("#act")).to_have_count(0)
    expect(page.locator("h1")).to_have_text(re.compile("Deploy a version"))
    assert stands(staging) == ("resolved", "approved")
    assert list(Response.objects.values_list("kind", flat=True)) == ["approve"]
    assert Grant.objects.count() == 1


def test_approve_and_then_deny_at_once_is_what_was_pressed_first(northgate, browse, staging):
    page = at(browse, northgate, "Ada", staging)
    page.evaluate("document.getElementById('approve').click(); document.getElementById('deny').click()")
    expect(page.locator("#act")).to_have_count(0)
    assert stands(staging) == ("resolved", "approved")


def test_going_back_and_pressing_again_changes_nothing(northgate, browse, staging):
    """T42: Back shows the form or what stands; pressing it again is no second vote."""
    page = at(browse, northgate, "Ada", staging, java_script_enabled=False)
    page.locator("#deny").click()
    expect(page.locator("#act")).to_have_count(0)
    page.go_back(wait_until="commit")
    expect(page.locator("h1")).to_be_visible()
    if page.locator("#approve").count():
        page.locator("#approve").click()
    assert stands(staging) == ("resolved", "denied")
    assert Response.objects.count() == 1


# ---------------------------------------------------------------- what was typed wrong


def test_the_environment_is_typed_as_it_is_called(northgate, browse, production):
    """Check 15: the summary has the focus and leads to the field; paste, other case and spaces are as good."""
    page = at(browse, northgate, "Ada", production)
    page.locator("#f-message").fill("Tested twice.")
    page.locator("#f-confirm").fill("productoin")
    page.locator("#approve").click()
    problem = page.locator("#problem-box")
    expect(problem).to_be_focused()
    expect(problem).to_contain_text("productoin")
    expect(page).to_have_title(re.compile("^Error:"))
    expect(page.locator("#f-message")).to_have_value("Tested twice.")
    expect(page.locator("#f-confirm")).to_have_value("productoin")
    problem.get_by_role("link").click()
    expect(page.locator("#f-confirm")).to_be_focused()
    assert not looking.faults(page) or "has focus after load" in looking.faults(page)[0]
    assert stands(production) == ("pending", None)
    page.locator("#f-confirm").fill("  PRODUCTION ")
    page.locator("#approve").click()
    expect(page.locator("#act")).to_have_count(0)
    assert stands(production) == ("resolved", "approved")


def test_a_question_answered_wrong_says_where(northgate, browse):
    """Check 16: "Error:" first, each link leads to its field, values are kept."""
    question = northgate.question()
    page = at(browse, northgate, "Sam", question)
    page.locator("#f-name").fill("x" * 81)
    page.locator("#send").click()
    expect(page.locator("#problem-box")).to_be_focused()
    expect(page).to_have_title(re.compile("^Error:"))
    page.locator("#problem-box").get_by_role("link").click()
    expect(page.locator("#f-name")).to_be_focused()
    expect(page.locator("#f-name")).to_have_value("x" * 81)
    expect(page.locator("#f-name")).to_have_attribute("aria-invalid", "true")
    page.locator("#f-name").fill("ci-october")
    page.locator("#send").click()
    expect(page.locator("#act")).to_have_count(0)
    assert stands(question) == ("resolved", "answered")


# ---------------------------------------------------------------- too late, or not any more


def late(page: Page, *words: str) -> None:
    """The calm page of who was second: its heading has the focus, what was typed is there, nothing was recorded."""
    expect(page.locator("h1")).to_be_focused()
    for word in ("not recorded", *words):
        expect(page.locator("main")).to_contain_text(word)
    assert not looking.faults(page)


def test_who_is_second_is_told_who_was_first(northgate, browse, staging):
    """Check 18, R08: 409 with the name and the time; the text is kept; the Request is as it was."""
    page = at(browse, northgate, "Bob", staging, live=False)
    page.locator("#f-message").fill("I would rather not.")
    northgate.says("Ada", staging, Deny(staging.digest), message="Not on a Friday.")
    with page.expect_response(re.compile("/decision/$")) as answer:
        page.locator("#approve").click()
    assert answer.value.status == 409
    late(page, "already decided", "Ada was first", "Not on a Friday.")
    expect(page.locator("#typed")).to_have_value("I would rather not.")
    assert Response.objects.count() == 1


def test_the_same_without_scripts(northgate, browse, staging):
    page = at(browse, northgate, "Bob", staging, java_script_enabled=False)
    page.locator("#f-message").fill("I would rather not.")
    northgate.says("Ada", staging, Deny(staging.digest))
    with page.expect_response(re.compile("/decision/$")) as answer:
        page.locator("#approve").click()
    assert answer.value.status == 409
    expect(page.locator("h1")).to_have_text("This was already decided")
    expect(page.locator("#typed")).to_have_value("I would rather not.")


def test_it_expires_while_the_reason_is_typed(northgate, browse, staging, clock):
    """T51: said in words, with the text kept, before any sweep."""
    page = at(browse, northgate, "Ada", staging, java_script_enabled=False)
    page.locator("#f-message").fill("Tested twice.")
    clock.move(days=8)
    page.locator("#approve").click()
    expect(page.locator("h1")).to_have_text("This expired")
    expect(page.locator("main")).to_contain_text("Nothing was done")
    expect(page.locator("#typed")).to_have_value("Tested twice.")
    assert not Response.objects.exists()


def test_a_role_withdrawn_while_the_page_is_open(northgate, browse, staging):
    """R06: 403 says what is missing and who can now."""
    page = at(browse, northgate, "Ada", staging, live=False)
    northgate.take("Ada", "approver")
    page.locator("#approve").click()
    late(page, "You may not do this", "approver", "Bob")
    assert stands(staging) == ("pending", None)


def test_a_membership_withdrawn_while_the_page_is_open(northgate, browse, staging):
    page = at(browse, northgate, "Ada", staging, java_script_enabled=False)
    membership = Membership.objects.get(user=northgate.people["Ada"])
    membership.roles.all().delete()
    membership.delete()
    with page.expect_response(re.compile("/decision/$")) as answer:
        page.locator("#approve").click()
    assert answer.value.status == 404
    assert stands(staging) == ("pending", None)


def test_a_token_turned_over_in_another_tab_keeps_the_words(northgate, browse, staging):
    """B148: signed out and in again elsewhere; a plain page says so, and nothing is decided."""
    page = at(browse, northgate, "Ada", staging)
    page.locator("#f-message").fill("Tested twice.")
    page.context.clear_cookies(name="csrf")
    page.context.add_cookies([{"name": "csrf", "value": "b" * 32, "url": page.url}])
    with page.expect_response(re.compile("/decision/$")) as answer:
        page.locator("#approve").click()
    assert answer.value.status == 403
    expect(page.locator("h1")).to_be_visible()
    expect(page.locator("main")).to_contain_text("Nothing")
    assert stands(staging) == ("pending", None)


def test_signed_out_in_another_tab(northgate, browse, staging):
    """B158: nothing is decided by the way back through sign-in."""
    page = at(browse, northgate, "Ada", staging)
    page.locator("#f-message").fill("Tested twice.")
    page.context.clear_cookies(name="session")
    page.locator("#approve").click()
    expect(page).to_have_url(re.compile("/sign-in/"))
    assert stands(staging) == ("pending", None)


@pytest.mark.parametrize("fault", ["500", "cut", "503"])
def test_a_send_that_fails_is_never_drawn_as_done(northgate, browse, staging, fault, watched):
    """B146, B156: a message where the person is; the form is there and can be sent again."""
    page = at(browse, northgate, "Ada", staging)
    page.locator("#f-message").fill("Tested twice.")
    if fault == "cut":
        page.route("**/decision/", lambda route: route.abort())
    else:
        body = "<!doctype html><main id=main><h1 id=title tabindex=-1>Something failed here</h1></main>"
        page.route("**/decision/", lambda route: route.fulfill(status=int(fault), body=body, content_type="text/html"))
    page.locator("#approve").click()
    if fault == "cut":
        expect(page.locator("#connection")).to_contain_text("Not sent")
        expect(page.locator("#approve")).not_to_have_attribute("aria-disabled", "true")
        expect(page.locator("#f-message")).to_have_value("Tested twice.")
        page.unroute("**/decision/")
        page.locator("#approve").click()
        expect(page.locator("#act")).to_have_count(0)
        assert stands(staging) == ("resolved", "approved")
    else:
        expect(page.locator("h1")).to_have_text("Something failed here")
        assert stands(staging) == ("pending", None)
    watched.complaints.clear()  # the browser reports the fault we made


# ---------------------------------------------------------------- nobody else's page


def test_no_page_of_elsewhere_frames_ours(northgate, browse, staging, watched):
    """T36: the frame stays empty, so there is nothing to click through."""
    page = at(browse, northgate, "Ada", staging)
    page.evaluate(
        "path => new Promise(done => { const frame = document.createElement('iframe'); frame.onload = done;"
        " frame.src = path; document.body.append(frame) })",
        f"/t/northgate/requests/{staging.pk}/",
    )
    assert all(frame.locator("#approve").count() == 0 for frame in page.frames[1:])
    assert any("frame" in complaint for complaint in watched.complaints)
    watched.complaints.clear()


def test_every_post_of_the_page_carries_the_token(northgate, browse, staging):
    """T35: also those that htmx sends."""
    page = at(browse, northgate, "Ada", staging)
    with page.expect_request(re.compile("/decision/$")) as sent:
        page.locator("#deny").click()
    assert "csrfmiddlewaretoken=" in sent.value.post_data and "decision=deny" in sent.value.post_data
    assert sent.value.headers["hx-request"] == "true"
    expect(page.locator("#act")).to_have_count(0)


# ---------------------------------------------------------------- the sign-in ended meanwhile


@pytest.mark.parametrize("how", ["told", "sends", "without scripts"])
def test_who_was_signed_out_comes_back_to_the_page_and_nothing_was_sent(northgate, browse, how):
    """R09, spec 9: with scripts what was typed is there again; it is never sent by signing in."""
    question, scripted = northgate.question(), how != "without scripts"
    page = at(browse, northgate, "Sam", question, java_script_enabled=scripted, live=how == "told")
    page.locator("#f-name").fill("ci-october")
    northgate.people["Sam"].set_password(PASSWORD)
    northgate.people["Sam"].save()
    Session.objects.all().delete()
    if how == "told":  # by the page itself
        northgate.question()
        page.get_by_role("link", name="Sign in").click(timeout=30_000)
    else:
        page.get_by_role("button", name="Send answer").click()
    expect(page).to_have_url(re.compile("/sign-in/"))
    page.get_by_label("User name").fill("sam")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(re.compile(f"/requests/{question.pk}/$"))
    assert stands(question) == ("pending", None)
    expect(page.locator("#f-name")).to_have_value("ci-october" if scripted else "")
    if scripted:
        expect(page.locator("#connection")).to_contain_text("Nothing was sent")
        page.get_by_role("button", name="Send answer").click()
        expect(page.locator("main")).to_contain_text("ci-october")
        assert stands(question) == ("resolved", "answered")
        page.reload()
        assert page.evaluate("sessionStorage.getItem('sayso-typed')") is None
