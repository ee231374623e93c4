"""The desk: what is uncertain, how much hangs on it, and each settled by itself (R23-R25)."""

import re
import sys

from runtime_app import transitions
from runtime_app.ids import uuid7
from runtime_app.models import Effect, Environment, Evidence, Grant, Refusal, Request, Run
from runtime_app.responses import Finding, Recover
from tests.console.stage import visitor
from tests.runtime.test_reality import Recall, Ship, shipped


def text(answer) -> str:
    return answer.content.decode()


def finding(request, **more) -> dict:
    said = {"response_id": str(uuid7()), "session": str(request.session_id), "message": "", "finding": "committed"}
    return said | {"reference": "ticket 7"} | more


def test_the_desk_says_how_long_what_hangs_on_it_what_was_tried_and_who_has_it(northgate):
    first, second = northgate.unknown(version="1.0.0"), northgate.unknown(version="1.0.1")
    northgate.ask({"version": "1.0.0"})  # somebody else wants the same
    northgate.says("Olga", second, Finding("unknown", "asked on the phone"))
    olga = visitor(northgate.people["Olga"])
    page = text(olga.get("/t/northgate/effects/"))
    assert "2 debts" in page
    rows = [page.split(f'id="e-{each.effect_id}"')[1].split("</tr>")[0] for each in (first, second)]
    assert "2 Runs" in rows[0] and "1 ask" in rows[0] and "nobody yet" in rows[0]
    assert "1 Run" in rows[1] and "1 attempt" in rows[1] and "Olga" in rows[1]


def test_several_of_one_outage_are_settled_one_by_one_from_the_list(northgate):
    """R24: each with its own evidence; the next one is open when the first is recorded."""
    asked = [northgate.unknown(version=f"1.0.{n}") for n in range(3)]
    olga = visitor(northgate.people["Olga"])
    page = text(olga.get(f"/t/northgate/effects/?open={asked[0].effect_id}"))
    assert page.count('name="reference"') == 1 and f"/requests/{asked[0].pk}/finding/" in page
    answer = olga.post(f"/t/northgate/requests/{asked[0].pk}/finding/", finding(asked[0], desk="1"))
    assert answer["Location"] == f"/t/northgate/effects/?open={asked[1].effect_id}#settle"
    states = dict(Effect.objects.values_list("pk", "state"))
    assert [states[each.effect_id] for each in asked] == ["committed", "uncertain", "uncertain"]
    page = text(olga.get(answer["Location"]))
    assert "2 debts" in page and f"/requests/{asked[1].pk}/finding/" in page


def test_a_finding_from_the_list_that_is_wrong_keeps_what_was_typed_and_comes_back_to_the_list(northgate):
    asked = northgate.unknown()
    olga = visitor(northgate.people["Olga"])
    answer = olga.post(
        f"/t/northgate/requests/{asked.pk}/finding/", finding(asked, desk="1", reference="", message="on the phone")
    )
    assert answer.status_code == 422
    assert "on the phone" in text(answer) and 'name="desk"' in text(answer)


def test_late_evidence_is_kept_marked_late_and_contradiction_disputes(northgate):
    """R25."""
    asked = northgate.unknown()
    northgate.says("Olga", asked, Finding("committed", "build 1"))
    address = f"/t/northgate/effects/{asked.effect_id}/"
    stan = visitor(northgate.people["Stan"])
    assert "Add late evidence" in text(stan.get(address))
    said = {"response_id": str(uuid7()), "finding": "not_committed", "reference": "ticket 2", "message": "not there"}
    assert stan.post(f"{address}evidence/", said)["Location"] == address
    assert stan.post(f"{address}evidence/", said)["Location"] == address, "the same again is the same (R09)"
    assert Evidence.objects.filter(late=True).count() == 1
    page = text(stan.get(address))
    assert '<span class="late">later evidence</span>' in page and "The dispute" in page
    assert "You attested one side" in page and 'id="record"' not in page
    assert "attested neither side settles it: nobody can now" in page.replace("\n", " ")
    northgate.join("Petra", "operator")
    petra = visitor(northgate.people["Petra"])
    assert 'id="record"' in text(petra.get(address)) and "settles it: Petra" in text(petra.get(address))
    pending = Request.objects.get(effect_id=asked.effect_id, state="pending")
    petra.post(f"/t/northgate/requests/{pending.pk}/finding/", finding(pending))
    assert (Effect.objects.get().state, Effect.objects.get().disputed) == ("committed", False)


def test_what_was_accepted_as_unknown_is_settled_by_later_evidence(northgate):
    """R24."""
    asked = northgate.unknown()
    northgate.says("Olga", asked, Recover("accept"), message="nobody can tell")
    olga = visitor(northgate.people["Olga"])
    said = {"response_id": str(uuid7()), "finding": "committed", "reference": "found it", "message": ""}
    olga.post(f"/t/northgate/effects/{asked.effect_id}/evidence/", said)
    assert Effect.objects.get().state == "committed" and Evidence.objects.get(user__isnull=False).late


def test_evidence_about_an_open_effect_or_one_never_sent_is_refused_in_words(northgate):
    asked = northgate.unknown()
    taken_back = northgate.granted(version="9")
    transitions.void(northgate.context("Ada"), request_id=taken_back.request_id, response_id=uuid7())
    olga = visitor(northgate.people["Olga"])
    said = {"response_id": str(uuid7()), "finding": "committed", "reference": "x", "message": ""}
    for pk, words in ((asked.effect_id, "answer its Request"), (taken_back.pk, "never sent")):
        answer = olga.post(f"/t/northgate/effects/{pk}/evidence/", said)
        assert answer.status_code == 422 and words in text(answer)
    assert not Evidence.objects.filter(user__isnull=False).exists()


def test_rita_cannot_add_evidence_and_is_told_why(northgate):
    asked = northgate.unknown()
    northgate.says("Olga", asked, Finding("committed", "build 1"))
    rita = visitor(northgate.people["Rita"])
    assert 'id="late"' not in text(rita.get(f"/t/northgate/effects/{asked.effect_id}/"))
    said = {"response_id": str(uuid7()), "finding": "committed", "reference": "x", "message": ""}
    assert rita.post(f"/t/northgate/effects/{asked.effect_id}/evidence/", said).status_code == 403
    assert Refusal.objects.get().verb == "add_evidence"


def test_what_happened_can_be_compensated_and_is_not_called_undone_before_its_evidence(northgate):
    """R24."""
    Ship.sent.clear(), Recall.sent.clear()
    effect = shipped(northgate)
    olga, address = visitor(northgate.people["Olga"]), f"/t/northgate/effects/{effect.pk}/"
    assert "Recall a parcel" in text(olga.get(address))
    said = {"response_id": str(uuid7()), "message": "wrong parcel"}
    assert olga.post(f"{address}compensate/", said)["Location"] == address
    assert olga.post(f"{address}compensate/", said | {"response_id": str(uuid7())}).status_code == 409
    northgate.approves("Ada", Request.objects.get(action_name="recall"))
    undone = Effect.objects.get(compensates_id=effect.pk)
    page = text(olga.get(address))
    assert "This effect stands" in page and f"/effects/{undone.pk}/" in page and "Compensated" not in page
    from tests.cast import intend, send

    send(intend())
    assert "Compensated: evidence says" in text(olga.get(address))
    back = text(olga.get(f"/t/northgate/effects/{undone.pk}/"))
    assert f"/effects/{effect.pk}/" in back and 'id="compensate"' not in back, "no compensation of a compensation"


def test_a_recovery_that_sends_is_linked_with_its_run(northgate):
    """R24."""
    Ship.sent.clear()
    effect = shipped(northgate, TimeoutError())
    asked = Request.objects.get(effect_id=effect.pk, kind="wait_effect")
    olga = visitor(northgate.people["Olga"])
    page = text(olga.get(f"/t/northgate/effects/{effect.pk}/"))
    assert "approval of its own</b> before anything is sent" in page
    said = {"response_id": str(uuid7()), "session": str(asked.session_id), "recovery": "redispatch"}
    olga.post(f"/t/northgate/requests/{asked.pk}/finding/", said)
    again = Run.objects.get(recovers_id=effect.pk)
    assert f"/runs/{again.pk}/" in text(olga.get(f"/t/northgate/effects/{effect.pk}/"))
    assert f"/effects/{effect.pk}/" in text(olga.get(f"/t/northgate/runs/{again.pk}/"))


# ---------------------------------------------------------------- hold and void


def test_an_approver_takes_back_what_was_not_sent(northgate):
    """R16."""
    effect = northgate.granted()
    ada, address = visitor(northgate.people["Ada"]), f"/t/northgate/requests/{effect.request_id}/"
    assert "Take it back" in text(ada.get(address))
    assert "Take it back" not in text(visitor(northgate.people["Bob"]).get(address))
    said = {"response_id": str(uuid7()), "message": "wrong version"}
    assert visitor(northgate.people["Bob"]).post(f"{address}void/", said).status_code == 403
    assert ada.post(f"{address}void/", said)["Location"] == address
    assert Grant.objects.get().state == "void"
    answer = ada.post(f"{address}void/", said | {"response_id": str(uuid7())})
    assert answer.status_code == 409 and "not recorded" in text(answer)


def test_a_held_environment_says_since_when_by_whom_why_and_what_waits(northgate):
    """R16."""
    effect = northgate.granted()
    olga, page = visitor(northgate.people["Olga"]), "/t/northgate/environments/"
    where = northgate.staging.pk
    said = {"response_id": str(uuid7()), "message": "freeze till noon"}
    assert olga.post(f"{page}{where}/hold/", said)["Location"] == page
    shown = text(olga.get(page))
    assert "freeze till noon" in shown and "1 approved action" in shown and f"/effects/{effect.pk}/" in shown
    for address in (f"requests/{effect.request_id}/", f"runs/{effect.run_id}/", f"effects/{effect.pk}/"):
        assert "staging is held" in text(olga.get(f"/t/northgate/{address}")), address
    assert "staging is held" in text(olga.get("/t/northgate/runs/"))
    answer = olga.post(f"{page}{where}/hold/", said | {"response_id": str(uuid7())})
    assert answer.status_code == 422 and "holds staging already" in text(answer)
    rita = visitor(northgate.people["Rita"])
    assert rita.post(f"{page}{where}/release/", said | {"response_id": str(uuid7())}).status_code == 403
    assert olga.post(f"{page}{where}/release/", {"response_id": str(uuid7())})["Location"] == page
    assert Environment.objects.get(pk=where).held_at is None


# ---------------------------------------------------------------- history


def test_history_is_paged_by_its_own_order_and_shows_each_once(northgate, monkeypatch):
    monkeypatch.setattr(sys.modules["runtime_app.selectors.ledger"], "PAGE", 3)
    made = {str(northgate.granted(version=f"1.0.{n}").pk) for n in range(8)}
    owed = northgate.approval(version="2")
    olga, address, seen = visitor(northgate.people["Olga"]), "/t/northgate/effects/", []
    while address:
        page = text(olga.get(address))
        seen += re.findall(r"/effects/([0-9a-f-]{36})/", page)
        older = re.search(r'href="(\?[^"]*before=[^"]*)">Older', page)
        address = older and f"/t/northgate/effects/{older[1]}"
    assert sorted(seen) == sorted(made) and owed


def test_debts_are_no_requests(northgate):
    """Counted apart: an operator with three unknowns to establish has no request."""
    for n in range(3):
        northgate.unknown(version=f"1.0.{n}")
    northgate.question()
    page = text(visitor(northgate.people["Olga"]).get("/t/northgate/runs/"))
    assert "3<i> debts" in page and " requests" not in page.split('id="nav"')[1].split("</nav>")[0]
