"""Every ended Run as a trace, judged by the real `agentack check`: settled is PASS, not known is INCOMPLETE."""

import contextlib
import io
import json

import pytest
from agentack import cli as agentack
from django.test import Client

from runtime_app import selectors, transitions
from runtime_app.models import Effect, Grant, Registration, Request, Run
from runtime_app.responses import Deny, Finding, Recover
from tests.cast import claim, deployment, intend, send
from tests.console.stage import visitor
from tests.runtime.test_reality import shipped

pytestmark = pytest.mark.django_db(transaction=True)


def judged(lines: list[dict], path) -> str:
    """PASS, FAIL or INCOMPLETE, by the exit status of `agentack check`, and what it printed."""
    path.write_text(selectors.as_lines(lines))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        status = agentack.main(["check", str(path)])
    told = {0: "PASS", 1: "FAIL", 2: "INPUT", 3: "INCOMPLETE"}[status]
    return told if told == "PASS" else f"{told} {printed.getvalue()}"


@pytest.fixture
def check(tmp_path):
    def check(run) -> str:
        run = Run.objects.get(pk=getattr(run, "run_id", run.pk))
        return judged(selectors.trace(run), tmp_path / "trace.jsonl")

    return check


def approved(northgate, mailer, **more) -> Request:
    asked = mailer.proposes(**more)
    northgate.approves("Ada", asked)
    mailer.dispatches(asked)
    return asked


def types(request) -> list[str]:
    return [line["type"] for line in selectors.trace(Run.objects.get(pk=request.run_id))]


def test_approved_done_and_reported_passes(northgate, mailer, check):
    """R15: what was proposed, shown and executed is one text, with every digit."""
    asked = approved(northgate, mailer, arguments='{"to":"a@b.c","times":1.0,"n":1e300}')
    mailer.reports(asked)
    assert check(asked) == "PASS"
    assert types(asked) == [
        "action_proposed", "approval_requested", "approval_decision", "action_executed", "session_end",
    ]  # fmt: skip
    shown = selectors.trace(Run.objects.get(pk=asked.run_id))[0]["action"]
    assert (shown["tool"], shown["operation"]) == ("mail", "send")
    assert shown["parameters"]["canonical"] == '{"n":1e300,"times":1.0,"to":"a@b.c"}'


def test_denied_expired_cancelled_and_failed_pass_with_nothing_executed(northgate, mailer, clock, check):
    """R08: whatever was not granted was blocked."""
    northgate.policy("rm/*", verdict="deny")
    denied, cancelled, never = mailer.proposes(), mailer.proposes("a/b"), mailer.proposes("rm/all")
    failed = approved(northgate, mailer, action="c/d")
    northgate.says("Ada", denied, Deny(digest=denied.digest), message="No.")
    northgate.cancels("Olga", Run.objects.get(pk=cancelled.run_id))
    mailer.reports(failed, status="failed")
    expired, unused = mailer.proposes("e/f"), mailer.proposes("g/h")
    northgate.approves("Ada", unused)
    clock.move(days=8)
    transitions.sweep()
    for asked in (denied, cancelled, never, failed, expired, unused):
        assert check(asked) == "PASS"
        assert "action_blocked" in types(asked) and "action_executed" not in types(asked)


def test_an_unsettled_effect_is_incomplete_until_evidence_settles_it(northgate, mailer, clock, check):
    """R26: consumed and silent. Nobody knows, so the trace does not say."""
    asked = approved(northgate, mailer)
    assert check(asked).startswith("INCOMPLETE"), "it has not ended"
    northgate.cancels("Olga", Run.objects.get(pk=asked.run_id))
    assert "no terminal execution" in check(asked)
    clock.move(seconds=601)
    transitions.sweep()
    assert check(asked).startswith("INCOMPLETE")
    about = Request.objects.get(kind="wait_effect")
    northgate.says("Olga", about, Finding("committed", "mail-9"))
    assert check(asked) == "PASS"


def test_an_accepted_uncertainty_stays_incomplete(northgate, mailer, clock, check):
    """R24: it was accepted, not established."""
    asked = approved(northgate, mailer)
    clock.move(seconds=601)
    transitions.sweep()
    about = Request.objects.get(kind="wait_effect")
    northgate.says("Olga", about, Recover("accept"), message="We cannot find out.")
    assert Run.objects.get(pk=asked.run_id).state == "failed"
    assert check(asked).startswith("INCOMPLETE")


def test_what_changes_nothing_outside_passes(northgate, mailer, check):
    Registration.objects.create(tenant=northgate.tenant, pattern="mail/*", title="Mail", changes=False)
    asked = approved(northgate, mailer)
    mailer.reports(asked)
    assert check(asked) == "PASS" and not Effect.objects.exists()


def test_a_hosted_run_with_several_actions_passes(northgate, check):
    """One approved and sent, one denied, one withdrawn by the cancel."""
    run = northgate.start()
    transitions.suspend(claim(run), waits=[deployment("1"), deployment("2", key="e"), deployment("3", key="f")])
    sent, denied, unsent = Request.objects.order_by("key")
    northgate.says("Bob", denied, Deny(digest=denied.digest), message="No.")
    northgate.approves("Ada", sent)
    send(intend())
    northgate.approves("Ada", unsent)
    northgate.cancels("Olga", run)
    assert (Grant.objects.get(request=unsent).state, Effect.objects.get(request=unsent).state) == ("void", "withdrawn")
    assert check(run) == "PASS"
    assert types(sent).count("interrupt") == 1


def test_what_was_sent_again_passes_in_both_of_its_runs(northgate, check):
    """R24: the redispatch has an approval of its own."""
    effect = shipped(northgate, TimeoutError())
    northgate.says("Olga", Request.objects.get(effect=effect, kind="wait_effect"), Recover("redispatch"))
    again = Run.objects.get(recovers=effect)
    northgate.approves("Ada", Request.objects.get(run=again))
    send(intend())
    northgate.cancels("Olga", again)
    northgate.cancels("Olga", effect.run)
    assert (check(again), check(effect)) == ("PASS", "PASS")
    assert [types(each).count("action_executed") for each in (effect, Request.objects.get(run=again))] == [1, 1]


def test_a_blocked_run_passes_with_nothing_executed(northgate, check):
    """R33."""
    run = northgate.start(interactive=False)
    transitions.suspend(claim(run), waits=[deployment("1")])
    assert Run.objects.get(pk=run.pk).state == "blocked"
    assert check(run) == "PASS"


def test_drift_is_no_bypass(northgate, mailer, check):
    """R16: an approval that no longer holds executes nothing."""
    run = mailer.begins()
    asked = mailer.asks(run, transitions.Ask("m", "mail/send", "{}"))
    northgate.approves("Ada", asked)
    northgate.take("Ada", "approver")
    with pytest.raises(Exception, match="void"):
        mailer.dispatches(asked)
    northgate.cancels("Olga", run)
    assert check(run) == "PASS"


def test_a_run_without_actions_passes(mailer, check):
    run = mailer.begins()
    transitions.conclude_run(mailer.context, run_id=run.pk, lease=1, state="succeeded")
    assert check(run) == "PASS"


def test_the_page_offers_it_and_a_stranger_gets_nothing(northgate, harbour, mailer):
    """R07."""
    asked = approved(northgate, mailer)
    mailer.reports(asked)
    olga = visitor(northgate.people["Olga"])
    address = f"/t/northgate/runs/{asked.run_id}/trace.jsonl"
    assert address in olga.get(f"/t/northgate/runs/{asked.run_id}/").content.decode()
    signed = {"Authorization": f"Bearer {mailer.token}"}
    mine = Client().get(f"/api/v1/runs/{asked.run_id}/trace", headers=signed)
    answer = olga.get(address)
    assert mine.content == answer.content and mine["Content-Type"] == "application/x-ndjson"
    assert answer["Content-Type"] == "application/x-ndjson"
    assert [json.loads(line)["type"] for line in answer.content.splitlines()][-1] == "session_end"
    assert visitor(harbour.people["Mallory"]).get(address.replace("northgate", "harbour")).status_code == 404


def test_the_judge_finds_another_digest(northgate, mailer, tmp_path):
    """Otherwise its PASS would say nothing."""
    asked = approved(northgate, mailer)
    mailer.reports(asked)
    lines = selectors.trace(Run.objects.get(pk=asked.run_id))
    lines[3]["action"]["parameters"]["digest"] = "0" * 64
    told = judged(lines, tmp_path / "trace.jsonl")
    assert told.startswith("FAIL") and "ACK003" in told
