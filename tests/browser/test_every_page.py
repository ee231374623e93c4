"""Every page, in both themes, on a desk and on a phone (ux checks 1, 2, 8, 11)."""

import pytest

from runtime_app import transitions
from tests import cast
from tests.browser import gallery, looking

WIDTHS = {1280: 900, 360: 740, 320: 640}


@pytest.mark.parametrize("width", [1280, 360])
def test_every_page_can_be_read_by_everybody(northgate, harbour, browse, request, width):
    """axe finds nothing, nothing scrolls sideways, no fact is cut, nothing that decides has the focus."""
    northgate.join("Jo")
    addresses = gallery.build(northgate)
    folder, found, pages = request.config.getoption("--screenshots"), [], {}
    for name, who, address in addresses:
        if who not in pages:
            user = northgate.people[who] if who else None
            pages[who] = browse(user, "/help/", viewport={"width": width, "height": WIDTHS[width]})
        page = pages[who]
        transitions.beat(cast.WORKER, "worker", [])  # else the pages say that none is alive
        page.goto(address)
        for theme, rules in (("light", looking.TAGS), ("dark", ["color-contrast"])):
            page.emulate_media(color_scheme=theme)
            found += [f"{name}, {width}, {theme}: {fault}" for fault in looking.faults(page, axe=rules)]
            if folder:
                page.screenshot(path=f"{folder}/{name}-{width}-{theme}.png", full_page=True)
    assert not found, "\n".join(found)


def test_no_page_scrolls_sideways_at_320_pixels_or_with_large_text(northgate, harbour, browse):
    """Check 2: 400 % zoom of a 1280 pixel window, and text at twice its size."""
    addresses, found, pages = gallery.build(northgate), [], {}
    for name, who, address in addresses:
        if who not in pages:
            user = northgate.people[who] if who else None
            pages[who] = browse(user, "/help/", viewport={"width": 320, "height": 640})
        pages[who].goto(address)
        found += [f"{name}: {fault}" for fault in looking.faults(pages[who], axe=None)]
    assert not found, "\n".join(found)
