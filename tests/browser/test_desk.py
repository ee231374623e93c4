"""The desk in a browser: an outage settled one by one, with files, with and without scripts (R24, T70)."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from runtime_app import transitions
from runtime_app.ids import uuid7
from runtime_app.models import Effect, EvidenceFile, Grant
from tests.cast import intend

SCREEN = {"name": "status page.png", "mimeType": "image/png", "buffer": b"\x89PNG not really"}


@pytest.mark.parametrize("scripts", [True, False])
def test_olga_settles_an_outage_one_by_one_each_with_its_own_evidence(northgate, browse, scripts):
    asked = [northgate.unknown(version=f"1.0.{n}") for n in range(2)]
    page = browse(northgate.people["Olga"], "/t/northgate/effects/", java_script_enabled=scripts)
    expect(page.locator("#debts")).to_contain_text("2 debts")
    page.get_by_role("link", name="Settle it here").first.click()
    page.get_by_label("It happened I have seen it").check()
    page.get_by_label("Where did you look?").fill("status page")
    page.locator("#f-files").set_input_files(SCREEN)
    page.get_by_role("button", name="Record this finding").click()
    expect(page).to_have_url(re.compile(rf"open={asked[1].effect_id}"))
    expect(page.locator("#debts")).to_contain_text("1 debt")
    assert [each.state for each in Effect.objects.order_by("pk")] == ["committed", "uncertain"]
    page.get_by_label("It did not happen").check()
    page.get_by_role("button", name="Record this finding").click()
    expect(page.locator("#f-reference-wrong, #f-finding-wrong").first).to_be_visible()
    page.goto(f"/t/northgate/effects/{asked[0].effect_id}/")
    with page.expect_download() as saved:
        page.get_by_role("link", name=SCREEN["name"]).click()
    assert Path(saved.value.path()).read_bytes() == SCREEN["buffer"]
    assert EvidenceFile.objects.get().size == len(SCREEN["buffer"])


def test_ada_takes_back_what_a_hold_kept_from_being_sent(northgate, browse):
    """R16."""
    effect = northgate.granted()
    page = browse(northgate.people["Olga"], "/t/northgate/environments/")
    staging = page.get_by_role("region", name=re.compile("staging"))
    staging.get_by_label("Why").fill("freeze")
    staging.get_by_role("button", name="Hold staging").click()
    expect(staging).to_contain_text("freeze")
    assert intend() is None
    page = browse(northgate.people["Ada"], f"/t/northgate/requests/{effect.request_id}/")
    expect(page.locator("main")).to_contain_text("staging is held")
    page.get_by_role("button", name="Take it back").click()
    expect(page.locator("main")).to_contain_text("Void")
    assert Grant.objects.get().state == "void"
    transitions.release(northgate.context("Olga"), environment="staging", response_id=uuid7())
    assert intend() is None
