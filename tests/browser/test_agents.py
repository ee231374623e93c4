"""Agents elsewhere, on a desk and on a phone: their pages, a token that is shown once, a secret that is never shown."""

import pytest
from playwright.sync_api import expect

from runtime_app import credentials
from runtime_app.models import Response, Secret
from runtime_app.transitions import Question
from tests.browser import elsewhere, looking
from tests.browser.test_every_page import WIDTHS
from tests.database import everything

MARKER = "hunter2-correct-horse"


@pytest.mark.parametrize("width", [1280, 360, 320])
def test_every_page_about_them_can_be_read_by_everybody(northgate, harbour, browse, request, width):
    """Both themes (ux checks 1, 2, 8, 11); at 320 pixels nothing scrolls sideways."""
    folder, found, pages = request.config.getoption("--screenshots"), [], {}
    themes = (("light", looking.TAGS), ("dark", ["color-contrast"])) if width != 320 else (("light", None),)
    for name, who, address in elsewhere.build(northgate):
        if who not in pages:
            size = {"width": width, "height": WIDTHS[width]}
            pages[who] = browse(northgate.people[who], "/help/", viewport=size)
        page = pages[who]
        page.goto(address)
        for theme, rules in themes:
            page.emulate_media(color_scheme=theme)
            found += [f"{name}, {width}, {theme}: {fault}" for fault in looking.faults(page, axe=rules)]
            if folder:
                page.screenshot(path=f"{folder}/{name}-{width}-{theme}.png", full_page=True)
    assert not found, "\n".join(found)


def test_ann_sees_a_token_once(northgate, browse, request):
    """T82: not after a reload, not by going back, in no address."""
    page = browse(northgate.people["Ann"], "/t/northgate/agents/new/", viewport={"width": 360, "height": 740})
    page.get_by_role("textbox", name="Name", exact=True).fill("Billing")
    page.get_by_role("button", name="Make it and show its token").click()
    token = page.locator("#token").inner_text()
    assert credentials.authenticate(token, scope="api", kind="instance") and token not in page.url
    assert not looking.faults(page, axe=looking.TAGS)
    if folder := request.config.getoption("--screenshots"):
        page.screenshot(path=f"{folder}/token-360-light.png", full_page=True)
    page.get_by_role("link", name="I have it").click()
    expect(page.get_by_role("heading", name="Agents", exact=True)).to_be_visible()
    assert token not in page.content()
    page.go_back()
    page.wait_for_load_state()
    assert token not in page.content()


def test_sam_types_a_secret_that_no_page_has_again(northgate, browse):
    """R12: refused, the field is empty again; answered, the card says when and by whom."""
    (asked,) = northgate.ask(Question("key", "Which key?", elsewhere.SECRET))
    page = browse(northgate.people["Sam"], f"/t/northgate/requests/{asked.pk}/")
    secret = page.get_by_label("The key itself")
    assert secret.get_attribute("type") == "password"
    secret.fill(MARKER)
    page.get_by_role("button", name="Send answer").click()
    expect(page.get_by_role("heading", name="There is a problem")).to_be_visible()
    assert secret.input_value() == "" and MARKER not in page.content()
    page.get_by_label("Name of the key").fill("ci")
    secret.fill(MARKER)
    page.get_by_role("button", name="Send answer").click()
    expect(page.get_by_text("Secret, set")).to_be_visible()
    assert MARKER not in page.content()
    stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert MARKER not in stored and MARKER not in everything()
    assert Secret.objects.get().sealed and Response.objects.get().content["values"]["name"] == "ci"
