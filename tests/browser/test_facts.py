"""What the card shows is what would be done: whole, in order, whatever it holds (R03, R15, T54, T56, T58, B126)."""

import json
import random
import re

import pytest
from playwright.sync_api import expect

from runtime_app import canonical, transitions
from runtime_app.models import Request
from tests.browser import looking
from tests.cast import Answer, NotCommitted, deployment, intend

HIDDEN = [
    *range(0x200B, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2065),
    *range(0x2066, 0x206A),
    0x061C,
    0xFEFF,
    0x00AD,
    0x00A0,
    0x2028,
    0x2029,
    0x3000,
    0x115F,
    0x3164,
    0xFE0F,
    0xE0041,
    0xE000,
    0x7F,
    0x85,
]
POLYGLOTS = [
    '<img src=x onerror="window.pwned=1">',
    "<svg/onload=window.pwned=1>",
    "</script><script>window.pwned=1</script>",
    "\"><a hx-get='/sign-out/' hx-trigger='load'>x</a>",
    "' onmouseover='window.pwned=1",
    "javascript:window.pwned=1",
    "[click](javascript:window.pwned=1)",
    "{{7*7}}",
    "{% raw %}",
    "{{ constructor.constructor('window.pwned=1')() }}",
    "<iframe srcdoc='<script>parent.pwned=1</script>'>",
    "<base href=//evil.example>",
    "<style>*{display:none}</style>",
    "<form action=//evil.example><button>Approve</button></form>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "--><!--<script>window.pwned=1</script>",
    "&lt;b&gt;",
    "<main id=main data-topic='/ws/evil/'></main>",
]


def card(browse, northgate, request: Request, who: str = "Ada"):
    return browse(northgate.people[who], f"/t/northgate/requests/{request.pk}/")


def facts(page) -> dict[str, str]:
    """Path and value of each fact, as they can be read."""
    rows = page.locator(".values dl").first.locator(":scope > div")
    return {row.locator("dt").inner_text().strip(): row.locator("dd").inner_text() for row in rows.all()}


def test_every_value_of_many_is_there_and_counted(northgate, browse):
    """Check 10: the heading's number is the number of rows; every service and version is read as it is bound."""
    dice = random.Random(7)
    letters = "abcxyzÄöΩяש٣漢字 .,;:'`/\\|<>&%$#@!?()[]{}=+-_*~^\t\n"
    sets = []
    for number in range(10):
        service = "".join(dice.choice(letters) for _ in range(dice.randint(1, 60))).strip() or "x"
        sets.append({"service": service, "version": f"{number}.{dice.randint(0, 10**12)}"})
    asks = [
        transitions.Ask(f"d{at}", "deploy", json.dumps(values, ensure_ascii=dice.choice([True, False])))
        for at, values in enumerate(sets)
    ]
    northgate.ask(*asks)
    page = browse(northgate.people["Ada"], "/t/northgate/inbox/")
    for at, values in enumerate(sets):
        request = Request.objects.get(key=f"d{at}")
        page.goto(f"/t/northgate/requests/{request.pk}/")
        shown, leaves = facts(page), list(canonical.leaves(canonical.parse(request.parameters)))
        assert len(shown) == len(leaves) == 3
        expect(page.locator("#values")).to_contain_text("3 values")
        assert values["version"] in shown["version"]
        assert "1" in shown["replicas"]
        assert request.digest in page.locator(".digest").inner_text().replace(" ", "").replace("\n", "")


def test_no_character_hides(northgate, client):
    """T54, B126: each printed as its code point, with words beside it; the bound value is what it was."""
    value = "".join(f"x{chr(code)}y" for code in HIDDEN)
    asked = northgate.ask({"service": json.dumps(value)[1:-1]})[0]
    assert canonical.parse(asked.parameters)["service"] == value
    client.force_login(northgate.people["Ada"])
    page = client.get(f"/t/northgate/requests/{asked.pk}/").content.decode()
    tokens = re.findall(r"U\+([0-9A-F]{4,6})", page.partition('class="part values"')[2])
    assert tokens[: len(HIDDEN)] == [f"{code:04X}" for code in HIDDEN]
    assert "hidden or look-alike" in page
    assert not {chr(code) for code in HIDDEN} & set(page)


def test_hidden_and_look_alike_characters_are_read_in_the_order_of_the_bytes(northgate, browse):
    """Check 12: a right-to-left override turns nothing round; Cyrillic in a Latin word stands out."""
    asked = northgate.ask({"service": "card\u202eipa\u202c-p\u0430y", "version": "0.8.8"})[0]
    page = card(browse, northgate, asked)
    shown = facts(page)["service"]
    order = [shown.index(part) for part in ("card", "202E", "ipa", "202C", "0430")]
    assert order == sorted(order)
    boxes = [
        page.locator(".values .token", has_text=code).first.bounding_box()["x"] for code in ("202E", "202C", "0430")
    ]
    assert boxes == sorted(boxes)
    expect(page.locator("#notice")).to_be_visible()


def test_a_token_is_unmistakable_from_the_same_text_typed(northgate, browse):
    """R03: `U+202E` as seven letters is letters."""
    asked = northgate.ask({"service": "card U+202E api"})[0]
    page = card(browse, northgate, asked)
    assert page.locator(".values .token").count() == 0
    assert "card U+202E api" in facts(page)["service"]
    assert page.locator("#notice").count() == 0


def test_the_last_character_of_a_long_value_can_be_read(northgate, browse):
    """T56, B128: nothing is cut, on a phone neither."""
    tail = "&& curl x | sh"
    asked = northgate.ask({"service": "harmless " * 900 + "x" * 5_000 + tail})[0]
    page = browse(northgate.people["Ada"], f"/t/northgate/requests/{asked.pk}/", viewport={"width": 360, "height": 740})
    assert facts(page)["service"].replace("\n", "").rstrip("\"' ").find(tail) > 0
    assert not looking.faults(page, axe=None)
    at = page.evaluate(
        """tail => { const walk = document.createTreeWalker(document.querySelector(".values"), NodeFilter.SHOW_TEXT);
        let node; while (node = walk.nextNode()) { const at = node.data.indexOf(tail); if (at < 0) continue;
        const range = document.createRange(); range.setStart(node, at + tail.length - 1);
        range.setEnd(node, at + tail.length); const box = range.getBoundingClientRect();
        return [box.left, box.right, box.width] } }""",
        tail,
    )
    assert at and 0 <= at[0] < at[1] <= 360 and at[2] > 0


@pytest.mark.parametrize("part", range(3))
def test_text_of_others_is_text(northgate, browse, part):
    """T58, B132, check 13: in every place software or people can write to, on every page that shows it."""
    text = "\n".join(POLYGLOTS[part::3])
    schema = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string", "title": text[:200], "description": text, "maxLength": 900}},
    }
    run = northgate.start(message=text, title=text[:100])
    service = json.dumps(text)[1:-1]
    asked, question = northgate.ask(
        deployment(service=service, claim=text, key="a"), transitions.Question("q", text, schema), run=run
    )
    northgate.says("Sam", question, Answer({"name": text}), message=text)
    page = browse(northgate.people["Ada"], f"/t/northgate/requests/{asked.pk}/")
    buttons = page.locator("button").count()
    suggestion = json.dumps({"service": text})
    page.get_by_text("Suggest a change with a denial").click()
    page.locator("#f-suggestion").fill(suggestion)
    page.locator("#f-message").fill(text)
    page.get_by_role("button", name="Deny", exact=True).click()
    expect(page.locator("#act")).to_have_count(0)
    for path in (
        f"requests/{asked.pk}/",
        f"requests/{question.pk}/",
        f"runs/{run.pk}/",
        f"sessions/{run.session_id}/",
        "runs/",
        "sessions/",
        "inbox/?tab=decided",
    ):
        page.goto(f"/t/northgate/{path}")
        assert page.evaluate("window.pwned") is None, path
        ours = (
            "[hx-get]:not([data-ours]), main [onclick], main [onerror], main iframe, main script, main style, main base"
        )
        assert page.locator(ours).count() == 0, path
        assert page.locator("main").count() == 1, path
    assert buttons


def test_the_agents_words_stand_apart(northgate, browse):
    """R03, check 14: quoted, marked unchecked, never a title, a button or the page's title."""
    claim = "APPROVED BY SECURITY. Only staging."
    asked = northgate.ask(deployment(claim=claim), environment="production")[0]
    page = card(browse, northgate, asked)
    expect(page.locator("section", has_text=claim).locator(".unchecked").first).to_be_visible()
    assert "SECURITY" not in page.title()
    for part in page.locator("main :is(h1, h2, button, label)").all():
        assert "SECURITY" not in part.inner_text()
    order = page.evaluate("[...document.querySelectorAll('main h2')].map(e => e.innerText.split('\\n')[0])")
    assert order.index(next(each for each in order if each.startswith("Exactly"))) < order.index(
        next(each for each in order if each.startswith("What the agent says"))
    )


def test_production_is_said_three_times_and_staging_is_not_production(northgate, browse):
    """Check 14: in the band, in the page's title, on the button."""
    northgate.policy("deploy", klass="production", typed_environment=True)
    production, staging = northgate.approval(environment="production"), northgate.approval()
    page = card(browse, northgate, production)
    expect(page.locator(".band")).to_contain_text(re.compile("production", re.IGNORECASE))
    expect(page).to_have_title(re.compile("Production"))
    expect(page.locator("#approve")).to_contain_text("in production")
    expect(page.locator("label[for=f-confirm]")).to_contain_text("production")
    page = card(browse, northgate, staging)
    expect(page).not_to_have_title(re.compile("production", re.IGNORECASE))
    expect(page.locator("main")).not_to_contain_text(re.compile("production", re.IGNORECASE))


def test_an_unknown_outcome_offers_nothing_that_sends(northgate, browse):
    """Check 26, R24: three choices of one size; look it up; accept."""
    page = card(browse, northgate, northgate.unknown(version="4.2.1"), "Olga")
    for control in page.locator("main :is(button, a)").all():
        assert not re.search("retry|again|resend|redispatch|send", control.inner_text(), re.IGNORECASE)
    boxes = [each.bounding_box() for each in page.locator(".choices.equal .choice").all()]
    assert len(boxes) == 3
    assert len({round(box["width"]) for box in boxes}) == len({round(box["height"]) for box in boxes}) == 1


def test_a_clear_no_is_not_an_unknown(northgate, browse):
    """R23: not committed, observed, and the page says so."""
    effect = northgate.granted(version="0.8.9")
    transitions.record(intend(), NotCommitted(statement="The version does not exist."))
    page = browse(northgate.people["Olga"], f"/t/northgate/effects/{effect.pk}/")
    expect(page.locator("main")).to_contain_text("Did not happen")
    expect(page.locator("main")).to_contain_text("The version does not exist.")
    expect(page.locator(".grade.observed").first).to_be_visible()


def test_pages_are_light_and_come_from_here_alone(northgate, browse):
    """Check 38: under 150 kB for the inbox, nothing from elsewhere (which `browse` watches on every page)."""
    for version in "12345":
        northgate.approval(version)
    page = browse(northgate.people["Ada"], "/t/northgate/inbox/")
    size = page.evaluate(
        "performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))"
        ".reduce((sum, each) => sum + each.transferSize, 0)"
    )
    assert 10_000 < size < 220_000, size


def test_nothing_moves_and_borders_stay_for_who_asks_for_it(northgate, browse):
    """Check 30: no animation over 0.01 s with reduced motion; edges and signs in forced colours."""
    asked = northgate.approval()
    page = browse(northgate.people["Ada"], f"/t/northgate/requests/{asked.pk}/", forced_colors="active")
    slow = page.evaluate(
        "[...document.querySelectorAll('*')].filter(e => { const s = getComputedStyle(e);"
        " return `${s.transitionDuration}, ${s.animationDuration}`.split(', ').some(d => parseFloat(d) > 0.01) })"
        ".map(e => e.outerHTML.slice(0, 80))"
    )
    assert slow == []
    assert page.locator("#approve").evaluate("e => getComputedStyle(e).borderTopStyle") != "none"
    assert not looking.faults(page)
