"""Pages that stay open while others act: nothing moves, nothing typed is lost, nothing newer goes (R39, R40)."""

import re
import threading

import pytest
from playwright.sync_api import Page, expect

from runtime_app import transitions
from runtime_app.models import Event, Membership, Request, Response, Session
from tests.cast import Answer, Deny, claim, deployment

BOXES = """() => Object.fromEntries([...document.querySelectorAll("main dd, main h1, main button, main textarea")].map(
    (e, at) => [at, JSON.stringify(e.getBoundingClientRect())]))"""
SHIFTS = """() => { window.shifts = []; new PerformanceObserver(list => { for (const each of list.getEntries())
    for (const { node } of each.sources) if ((node?.closest ? node : node?.parentElement)?.closest("main"))
      window.shifts.push((node.outerHTML || node.textContent).slice(0, 90));
}).observe({ type: "layout-shift", buffered: false }) }"""


@pytest.fixture
def watch(browse, northgate):
    """`watch("Ada", path)`: her page, connected: the first word of its socket has come."""

    def watch(who: str, path: str, **options) -> Page:
        page = browse(northgate.people[who], "/help/", **options)
        with page.expect_websocket() as socket:
            page.goto(f"/t/northgate/{path}")
        assert not socket.value.is_closed()
        page.evaluate("document.fonts.ready.then(() => 1)")  # what they move, they have moved
        return page

    return watch


def refetched(page: Page, act):
    """Do this, and wait until the page has fetched what came of it."""
    with page.expect_response(lambda answer: answer.request.headers.get("hx-request") == "true") as answer:
        act()
    answer.value.finished()
    return answer.value


def busy_session(northgate, request: Request) -> None:
    """Another Run of the Session starts and is cancelled: news on the page's topic that does not concern the card."""
    run = northgate.start(session_id=request.session_id, message="beside")
    northgate.cancels("Olga", run)


# ---------------------------------------------------------------- the card one reads


def test_somebody_else_decides_while_ada_reads(northgate, watch):
    """Check 17: a note and inert buttons; every fact stays where it is, to the pixel."""
    asked = northgate.approval()
    page = watch("Ada", f"requests/{asked.pk}/")
    page.locator("#f-message").fill("Tested")
    before = page.evaluate(BOXES)
    northgate.says("Bob", asked, Deny(asked.digest))
    expect(page.locator("#note")).to_contain_text("denied")
    expect(page.locator("#note")).to_contain_text("Bob")
    expect(page.locator("#say-now")).to_contain_text("denied")
    after = page.evaluate(BOXES)
    assert {at: after[at] for at in before} == before
    expect(page.locator("#f-message")).to_have_value("Tested")
    page.locator("#approve").click(force=True)
    page.locator("#note").get_by_role("link", name="Show").click()
    expect(page.locator("#act")).to_have_count(0)
    expect(page.locator("main")).to_contain_text("Bob")
    assert Response.objects.count() == 1


def test_what_is_typed_survives_twenty_updates(northgate, watch):
    """B152: text, caret and selection; an open field is nobody else's."""
    asked = northgate.question()
    page = watch("Sam", f"requests/{asked.pk}/")
    page.locator("#f-name").focus()
    page.keyboard.type("ci-oct")
    for _ in range(20):
        busy_session(northgate, asked)
    page.keyboard.type("ober")
    seq = Session.objects.get(pk=asked.session_id).last_seq
    page.wait_for_function("seq => Number(document.getElementById('main').dataset.seq) >= seq", arg=seq)
    expect(page.locator("#f-name")).to_be_focused()
    expect(page.locator("#f-name")).to_have_value("ci-october")
    assert page.locator("#f-name").evaluate("e => [e.selectionStart, e.selectionEnd]") == [10, 10]
    page.locator("#send").click()
    expect(page.locator("#act")).to_have_count(0)
    assert Response.objects.get(request=asked).content == {"values": {"name": "ci-october"}}


def test_nothing_is_swapped_under_the_pointer(northgate, watch):
    """Check 20, T37: while the pointer rests on a control; what is then shown takes no click at once."""
    asked = northgate.approval()
    page = watch("Ada", f"requests/{asked.pk}/")
    page.locator("#approve").hover()
    northgate.says("Bob", asked, Deny(asked.digest))
    page.mouse.down()
    page.mouse.up()
    expect(page.locator("#act")).to_have_count(0, timeout=10_000)
    asked.refresh_from_db()
    assert asked.outcome == "denied"
    assert not Response.objects.filter(kind="approve").exists()


def test_the_page_of_a_run_goes_on_by_itself(northgate, watch):
    """Seen live in a second browser, without a reload."""
    asked = northgate.question()
    page = watch("Rita", f"runs/{asked.run_id}/")
    expect(page.locator("main")).to_contain_text(re.compile("wait", re.IGNORECASE))
    page.evaluate("window.same = true")
    northgate.says("Sam", asked, Answer({"name": "ci-october"}))
    transitions.finish(claim(), state="succeeded", result="The key is ci-october.")
    expect(page.locator("main")).to_contain_text("The key is ci-october.")
    assert page.evaluate("window.same")


# ---------------------------------------------------------------- lists


def test_new_requests_wait_behind_one_line(northgate, watch):
    """Check 19: row 3 does not move under the pointer; "5 new"; showing them keeps the place."""
    for version in "12345":
        northgate.approval(version)
    page = watch("Ada", "inbox/")
    rows = page.locator("a.row")
    expect(rows).to_have_count(5)
    rows.nth(2).hover()
    page.evaluate(SHIFTS)
    box = rows.nth(2).bounding_box()
    for version in "67890":
        northgate.approval(version)
    page.mouse.move(5, 5)
    expect(page.locator("#news")).to_contain_text("5 new")
    assert rows.nth(2).bounding_box() == box
    assert page.evaluate("window.shifts") == []
    expect(rows).to_have_count(5)
    expect(page).to_have_title(re.compile(r"^\(10\) Inbox"))
    page.locator("#news").click()
    expect(rows).to_have_count(10)


def test_a_row_that_was_decided_stays_and_says_so(northgate, watch):
    first, second = northgate.approval("1"), northgate.approval("2")
    page = watch("Ada", "inbox/")
    northgate.says("Bob", first, Deny(first.digest))
    row = page.locator(f"#r-{first.pk}")
    expect(row).to_contain_text(re.compile("no longer waits|denied", re.IGNORECASE))
    expect(page.locator("a.row")).to_have_count(2)
    expect(page.locator("#nav")).to_contain_text("1 request")
    assert second.state == "pending"


def test_a_hundred_pushes_move_nothing(northgate, watch):
    """Check 24: the layout does not shift, and the page asks at most about once a second."""
    asked = northgate.approval()
    page = watch("Ada", "inbox/")
    page.evaluate(SHIFTS)
    asks = []
    page.on("request", lambda request: asks.append(request.url) if "/inbox/" in request.url else None)
    began = page.evaluate("Date.now()")
    for _ in range(50):
        busy_session(northgate, asked)
    last = northgate.approval("9.9.9")
    expect(page.locator("#news")).to_contain_text("1 new")
    seconds = (page.evaluate("Date.now()") - began) / 1000
    assert page.evaluate("window.shifts") == []
    assert len(asks) <= seconds + 2
    assert last.state == "pending"


# ---------------------------------------------------------------- older and newer


def test_an_older_answer_never_overwrites_a_newer_one(northgate, watch):
    """B122: a fetch that began before the end of the Run comes back after it; the page stays at the newer."""
    asked = northgate.question()
    page = watch("Rita", f"runs/{asked.run_id}/")
    held = threading.Event()
    stale = {}

    def hold(route):
        if route.request.headers.get("hx-request") == "true" and not held.is_set():
            held.set()
            stale["answer"] = route.fetch()
            stale["route"] = route
        else:
            route.continue_()

    page.route("**/runs/**", hold)
    busy_session(northgate, asked)
    page.wait_for_function("performance.getEntriesByType('resource').length > 0")
    expect(page.locator("h1")).to_be_visible()
    for _ in range(100):
        if "route" in stale:
            break
        page.wait_for_function("new Promise(done => requestAnimationFrame(() => done(true)))")
    northgate.says("Sam", asked, Answer({"name": "ci-october"}))
    transitions.finish(claim(), state="succeeded", result="The key is ci-october.")
    stale["route"].fulfill(response=stale["answer"])
    expect(page.locator("main")).to_contain_text("The key is ci-october.")
    seq = Session.objects.get(pk=asked.session_id).last_seq
    assert int(page.locator("main").get_attribute("data-seq")) == seq


# ---------------------------------------------------------------- the line is cut


def test_the_server_goes_away_and_comes_back(northgate, watch, console, watched):
    """Check 22, R37: said after three seconds, deciding still possible afterwards; what was missed is there, once."""
    asked = northgate.question()
    page = watch("Rita", f"sessions/{asked.session_id}/")
    page.evaluate(SHIFTS)
    console.end()
    try:
        expect(page.locator("#connection")).to_contain_text("Reconnecting. What you see is from")
        for _ in range(10):
            busy_session(northgate, asked)
    finally:
        console.start()
    expect(page.locator("#connection")).to_contain_text("Up to date again", timeout=15_000)
    events = Event.objects.filter(session_id=asked.session_id)
    page.wait_for_function(
        "seq => Number(document.getElementById('main').dataset.seq) >= seq", arg=events.latest("seq").seq
    )
    expect(page.locator(".thread > li")).to_have_count(11)
    watched.complaints[:] = [
        each for each in watched.complaints if "ERR_CONNECTION" not in each and "WebSocket" not in each
    ]


def test_a_page_whose_membership_is_withdrawn_says_so_and_hears_no_more(northgate, watch):
    """Check 23, R40: at the next news; a reload is a page that does not exist."""
    asked = northgate.question()
    page = watch("Bob", f"runs/{asked.run_id}/")
    membership = Membership.objects.get(user=northgate.people["Bob"])
    membership.roles.all().delete()
    membership.delete()
    northgate.says("Sam", asked, Answer({"name": "the-secret-name"}))
    expect(page.locator("#connection")).to_contain_text("no longer have access")
    expect(page.locator("body")).not_to_contain_text("the-secret-name")
    assert page.reload().status == 404


def test_signed_out_in_another_tab_is_said(northgate, browse, watch):
    """T19: the page of the other tab says so at the next news, and leads back."""
    asked = northgate.approval()
    page = watch("Ada", f"requests/{asked.pk}/")
    other = page.context.new_page()
    other.goto("/t/northgate/inbox/")
    other.locator("details.person summary").click()
    other.get_by_role("button", name="Sign out").click()
    expect(other).to_have_url(re.compile("/sign-in/$"))
    busy_session(northgate, asked)
    expect(page.locator("#connection")).to_contain_text("Signed out in another tab")
    expect(page.locator("#connection").get_by_role("link")).to_have_attribute("href", re.compile("/sign-in/.next="))
    expect(page.locator("#approve")).to_have_attribute("aria-disabled", "true")


def test_pages_say_when_no_worker_is_alive(northgate, watch, clock):
    asked = northgate.approval()
    page = watch("Ada", f"requests/{asked.pk}/")
    expect(page.locator("main")).not_to_contain_text("No worker is running")
    clock.move(minutes=2)
    page.reload()
    expect(page.locator("main")).to_contain_text("No worker is running")


def test_two_waits_of_one_run_are_answered_in_two_browsers(northgate, watch):
    """R04: each by its own page; neither answers the other."""
    run = northgate.start()
    asked = northgate.ask(deployment("1", key="a"), deployment("2", key="b"), run=run)
    ada, bob = (watch(who, f"requests/{each.pk}/") for who, each in zip(("Ada", "Bob"), asked, strict=True))
    ada.locator("#approve").click()
    expect(ada.locator("#act")).to_have_count(0)
    expect(bob.locator("#approve")).not_to_have_attribute("aria-disabled", "true")
    bob.locator("#deny").click()
    expect(bob.locator("#act")).to_have_count(0)
    outcomes = [Request.objects.get(pk=each.pk).outcome for each in asked]
    assert outcomes == ["approved", "denied"]
