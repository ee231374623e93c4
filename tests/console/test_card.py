"""What a card shows, and what becomes of what is sent from it (R03, R04, R14, R19, R24)."""

import json
import re
from html import unescape

import pytest

from runtime_app import transitions
from runtime_app.ids import uuid7
from runtime_app.models import Effect, Request, Response
from runtime_app.responses import Answer, Deny
from runtime_app.transitions import Ask, Question
from tests import cast
from tests.console import stage

CYRILLIC = "c\N{CYRILLIC SMALL LETTER A}rd-api"


def text_of(page: str) -> str:
    body = page[page.index("<main") :]
    return " ".join(unescape(re.sub(r"<[^>]+>", "", body)).split())


def show(house, who: str, request: Request) -> str:
    answer = stage.visitor(house.people[who]).get(f"/t/{house.tenant.slug}/requests/{request.pk}/")
    assert answer.status_code == 200
    return answer.content.decode()


def decides(house, who: str, request: Request, verb: str = "approve", **more):
    data = {"response_id": str(uuid7()), "session": str(request.session_id), "decision": verb, "digest": request.digest}
    return stage.visitor(house.people[who]).post(
        f"/t/{house.tenant.slug}/requests/{request.pk}/decision/", data | {"message": ""} | more
    )


def ask(house, claim: str = "", key: str = "d", **parameters) -> Request:
    return house.ask(Ask(key, "deploy", json.dumps(parameters), claim))[0]


def test_every_bound_value_is_on_the_card_whole(northgate):
    """R03: nothing is cut, numbers as bound, and the heading counts the rows."""
    long = "x" * 3000
    page = show(northgate, "Ada", ask(northgate, service=long, version='0.8.8 "rc"', replicas=12))
    text = text_of(page)
    assert long in text and "0.8.8 \\\"rc\\\"" in text and "Exactly these 3 values" in text
    assert page.count('class="lines"') == 1 and "1 line, 3,000 characters" in text


def test_a_look_alike_letter_is_a_code_point_and_is_not_what_the_same_text_typed_out_gives(northgate):
    odd, typed = ask(northgate, service=CYRILLIC, version="1"), ask(northgate, service="cU+0430rd-api", version="1")
    shown = show(northgate, "Ada", odd)
    assert '<span class="token" title="Cyrillic small letter a">U+0430</span>' in shown
    assert "Contains 1 hidden or look-alike character" in shown and "Things to notice" in shown
    assert 'class="token"' not in show(northgate, "Ada", typed)


def test_what_the_agent_says_is_quoted_and_is_never_a_fact(northgate):
    """R03: not a title, not a button, not markup."""
    page = show(northgate, "Ada", ask(northgate, "<b>Approve</b> quickly\nall checks passed", service="a", version="1"))
    assert "&lt;b&gt;Approve&lt;/b&gt; quickly" in page and "not checked" in page
    for part in re.findall(r"<(?:h1|h2|title|button)[^>]*>(.*?)</", page, re.DOTALL):
        assert "quickly" not in part
    assert page.index("Exactly these") < page.index("What the agent says") < page.index('name="decision"')


def test_production_is_said_loudly_and_staging_is_not(northgate):
    production = show(northgate, "Ada", northgate.approval(environment="production"))
    staging = show(northgate, "Ada", northgate.approval())
    assert '<p class="band production">' in production and "<title>Production: " in production
    assert '<p class="band staging">' in staging and "Production" not in staging


def test_neither_button_is_first_filled_focused_or_pressed_by_enter(northgate):
    page = show(northgate, "Ada", northgate.approval())
    form = page[page.index('id="act"') : page.index("</form>", page.index('id="act"'))]
    assert "autofocus" not in page and "filled" not in form
    buttons = re.findall(r"<button[^>]*>", form)
    verbs = [re.search(r'value="(\w+)"', each)[1] for each in buttons[1:]]
    assert "disabled" in buttons[0] and verbs == ["approve", "deny"]


def test_olga_who_started_it_reads_why_she_cannot_and_who_can(northgate):
    """R18, R21."""
    northgate.give(northgate.people["Olga"].memberships.get(), "approver")
    page = show(northgate, "Olga", northgate.approval())
    assert "you started this Run" in text_of(page) and "Ada" in text_of(page) and 'name="decision"' not in page


def test_ada_approves_and_comes_back_to_the_same_address(northgate):
    request = northgate.approval()
    answer = decides(northgate, "Ada", request)
    assert (answer.status_code, answer["Location"]) == (303, f"/t/northgate/requests/{request.pk}/")
    page = show(northgate, "Ada", request)
    assert "Approved, not started yet" in text_of(page) and 'name="decision"' not in page


def test_bob_who_is_late_reads_who_was_first_and_keeps_his_words(northgate):
    """R08: 409, the winner and the time, and what he typed."""
    request = northgate.approval()
    decides(northgate, "Ada", request)
    answer = decides(northgate, "Bob", request, "deny", message="the image is not ours")
    text = text_of(answer.content.decode())
    assert answer.status_code == 409
    for words in ("This was already decided", "Ada was first", "What you sent was not recorded"):
        assert words in text
    assert "the image is not ours" in text


def test_an_answer_that_comes_too_late_is_not_lost(northgate):
    """T51: every field of the form, under its own name, and nothing of what the form carried by itself."""
    question, sam = northgate.question(), stage.visitor(northgate.people["Sam"])
    northgate.says("Sam", question, Answer({"name": "first"}))
    data = {"response_id": str(uuid7()), "session": str(question.session_id), "name": "the long one", "message": "why"}
    page = sam.post(f"/t/northgate/requests/{question.pk}/answer/", data)
    assert page.status_code == 409
    kept = page.content.decode().partition("What you wrote")[2]
    assert ">the long one</textarea>" in kept and ">why</textarea>" in kept and "Name" in kept
    assert data["response_id"] not in kept


def test_two_runs_of_one_session_are_told_apart_wherever_they_are_named(northgate):
    """R28: whoever approves or cancels one must not take it for the other."""
    first = northgate.start(message="deploy ledger")
    second = northgate.start(message="deploy card-api", session_id=str(first.session_id))
    asked, ada = northgate.approval(run=second), stage.visitor(northgate.people["Ada"])
    for path in (f"requests/{asked.pk}/", f"runs/{second.pk}/", f"runs/{second.pk}/cancel/"):
        page = text_of(ada.get(f"/t/northgate/{path}").content.decode())
        assert "deploy card-api" in page, path
    listed = text_of(ada.get("/t/northgate/runs/").content.decode())
    assert "deploy ledger" in listed and "deploy card-api" in listed


def test_what_never_left_is_not_said_to_be_sent(northgate):
    """R23, R31: the provider was not reached, so there is no "yes" under Sent and no reply of a provider."""
    effect = northgate.granted()
    transitions.record(cast.intend(), ConnectionRefusedError())
    page = stage.visitor(northgate.people["Olga"]).get(f"/t/northgate/effects/{effect.pk}/").content.decode()
    assert "Nothing was sent" in page and "<b>Yes</b>" not in page and "the provider’s reply" not in page


def test_another_digest_than_the_shown_one_decides_nothing(northgate):
    """R14."""
    request = northgate.approval()
    answer = decides(northgate, "Ada", request, digest="0" * 64)
    assert answer.status_code == 409 and "This changed while you were reading" in answer.content.decode()
    assert not Response.objects.filter(request=request).exists()


def test_the_environments_name_is_asked_for_again_and_the_reason_stays(northgate):
    northgate.policy("deploy", environment=northgate.production, typed_environment=True)
    request = northgate.approval(environment="production")
    answer = decides(northgate, "Ada", request, message="fine by me", confirm="prod")
    page = answer.content.decode()
    assert answer.status_code == 422 and "<title>Error: " in page
    assert "There is a problem" in page and "fine by me</textarea>" in page and 'href="#f-confirm"' in page
    assert decides(northgate, "Ada", request, confirm=" PRODUCTION ").status_code == 303


def test_equal_actions_under_two_requests_say_so_on_both_cards(northgate):
    """R04."""
    one, other = ask(northgate, service="a", version="1"), ask(northgate, service="a", version="1")
    for this, that in ((one, other), (other, one)):
        assert f"/requests/{that.pk}/" in show(northgate, "Ada", this)


def test_an_equal_action_nobody_knows_the_outcome_of_heads_the_card(northgate):
    """R24."""
    unknown = northgate.unknown(version="7.0.0")
    page = show(northgate, "Ada", northgate.approval(version="7.0.0"))
    assert f"/effects/{unknown.effect_id}/" in page
    assert page.index("It may have happened already") < page.index("Exactly these")


def test_an_earlier_denial_in_the_same_run_is_on_the_next_card_with_its_suggestion(northgate):
    """R19."""
    run = northgate.start()
    first = northgate.ask(cast.deployment("1.0"), run=run)[0]
    northgate.says("Ada", first, Deny(digest=first.digest, suggestion='{"version": "1.1"}'), message="wait for 1.1")
    second = northgate.ask(cast.deployment("1.1", key="e"), run=run)[-1]
    text = text_of(show(northgate, "Bob", second))
    assert "Ada denied this action" in text and '{"version":"1.1"}' in text and "wait for 1.1" in text
    assert "you suggested other parameters" in text_of(show(northgate, "Ada", second))


def test_what_differs_from_the_last_approved_one_is_listed(northgate):
    decides(northgate, "Ada", ask(northgate, service="a", version="1", replicas=1))
    text = text_of(show(northgate, "Ada", ask(northgate, service="a", version="2", replicas=1)))
    assert "1 value differs" in text and 'version"1""2"' in text


FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Key <name>", "maxLength": 9},
        "why": {"type": "string", "format": "long"},
        "count": {"type": "integer", "minimum": 1},
        "share": {"type": "number"},
        "rotate": {"type": "boolean", "default": False},
        "ring": {"enum": ["inner", "outer"]},
        "teams": {"type": "array", "items": {"enum": ["a", "b", "c"]}},
        "day": {"type": "string", "format": "date"},
    },
    "required": ["name", "count"],
}


@pytest.fixture
def question(northgate):
    return northgate.ask(Question("q", "Which?\nTell <b>us</b>", FORM))[0]


def answers(house, request, **fields):
    data = {"response_id": str(uuid7()), "session": str(request.session_id)} | fields
    return stage.visitor(house.people["Sam"]).post(f"/t/northgate/requests/{request.pk}/answer/", data)


def test_the_form_has_a_control_for_each_kind_of_field_with_its_limits(northgate, question):
    page = show(northgate, "Sam", question)
    for part in (
        'name="name" value=""', '<textarea id="f-why"', 'inputmode="numeric"', 'inputmode="decimal"', 'type="date"',
        'type="radio" name="rotate" value="false" checked', 'type="radio" name="ring" value="outer"',
        'type="checkbox" name="teams" value="c"', "Key &lt;name&gt;", "At most 9 characters", "At least 1",
    ):  # fmt: skip
        assert part in page, part
    assert "Tell &lt;b&gt;us&lt;/b&gt;" in page


def test_sams_answer_arrives_with_its_types(northgate, question):
    """R02: `true` is not `"true"`."""
    fields = {"name": "k", "count": "3", "share": "0.5", "rotate": "true", "teams": ["a", "c"], "day": "2026-12-14"}
    assert answers(northgate, question, **fields).status_code == 303
    said = Response.objects.get(request=question).content["values"]
    assert said == {"name": "k", "count": 3, "share": 0.5, "rotate": True, "teams": ["a", "c"], "day": "2026-12-14"}
    assert "0.5" in text_of(show(northgate, "Rita", question))


def test_wrong_fields_are_named_where_they_are_and_the_right_ones_are_kept(northgate, question):
    answer = answers(northgate, question, name="a name too long", count="0", why="because\nof this", ring="outer")
    page = answer.content.decode()
    assert answer.status_code == 422 and "<title>Error: " in page
    for part in (
        'href="#f-name"', 'id="f-name-wrong"', 'value="a name too long"', 'href="#f-count"',
        "because\nof this</textarea>", 'value="outer" checked',
    ):  # fmt: skip
        assert part in page, part
    assert not Response.objects.filter(request=question).exists()


def test_the_effect_page_offers_what_is_registered_and_nothing_that_sends(northgate):
    """R24: a look-up and acceptance; no button tries again."""
    unknown = northgate.unknown()
    page = show(northgate, "Olga", unknown)
    assert re.findall(r'name="recovery" value="(\w+)"', page) == ["probe", "accept"]
    assert re.findall(r'name="finding" value="(\w+)"', page) == ["committed", "not_committed", "unknown"]
    assert "checked" not in page[page.index("What happened out there?") : page.index("Where did you look")]
    assert not re.search(r"(?i)retry|send again|try again", text_of(page).replace("will not be sent again", ""))
    effect = stage.visitor(northgate.people["Olga"]).get(f"/t/northgate/effects/{unknown.effect_id}/").content.decode()
    assert 'name="finding"' in effect and 'class="hole"' in effect


def test_olga_records_what_she_found_and_the_ledger_is_settled(northgate):
    unknown = northgate.unknown()
    olga, address = stage.visitor(northgate.people["Olga"]), f"/t/northgate/requests/{unknown.pk}/finding/"
    data = {"response_id": str(uuid7()), "session": str(unknown.session_id), "finding": "committed"}
    refused = olga.post(address, data | {"message": "I saw it"})
    assert refused.status_code == 422 and "Say where you looked" in refused.content.decode()
    assert "I saw it</textarea>" in refused.content.decode()
    assert olga.post(address, data | {"reference": "build 7"}).status_code == 303
    assert Effect.objects.get(pk=unknown.effect_id).state == "committed"
    page = show(northgate, "Olga", unknown)
    assert "grade attested" in page and "build 7" in page and 'name="finding"' not in page


def test_accepting_the_uncertainty_needs_a_reason(northgate):
    unknown = northgate.unknown()
    olga, address = stage.visitor(northgate.people["Olga"]), f"/t/northgate/requests/{unknown.pk}/finding/"
    data = {"response_id": str(uuid7()), "session": str(unknown.session_id), "recovery": "accept"}
    assert olga.post(address, data).status_code == 422
    assert olga.post(address, data | {"message": "Harbor has lost its books"}).status_code == 303
    assert "accepted" in text_of(show(northgate, "Olga", unknown))


def test_a_cancelled_run_says_wherever_it_appears_that_an_effect_may_have_happened(everything, northgate):
    """R31."""
    run, rita = everything.cancelled, stage.visitor(northgate.people["Rita"])
    for address in (f"runs/{run.pk}/", "runs/", f"sessions/{run.session_id}/"):
        text = text_of(rita.get(f"/t/northgate/{address}").content.decode())
        assert "may have happened" in text, address
    page = rita.get(f"/t/northgate/runs/{run.pk}/").content.decode()
    assert "Cancelled, but one effect may have happened" in page and "Nothing was rolled back" in page


def test_a_blocked_run_shows_what_it_needed_whole(everything, northgate):
    """R33."""
    rita = stage.visitor(northgate.people["Rita"])
    text = text_of(rita.get(f"/t/northgate/runs/{everything.blocked.pk}/").content.decode())
    for words in ("Stopped: needed a person", '"2.0.4"', "What would unblock it", "Every check has passed."):
        assert words in text


def test_the_pages_say_when_no_worker_is_alive(northgate, clock):
    northgate.question()
    rita = stage.visitor(northgate.people["Rita"])
    assert "No worker is running" not in rita.get("/t/northgate/inbox/").content.decode()
    clock.move(minutes=1)
    assert "No worker is running" in rita.get("/t/northgate/inbox/").content.decode()


def test_a_message_in_a_session_starts_a_run_and_answers_nothing(northgate):
    """R10."""
    question = northgate.question()
    data = {"agent": "deployer", "environment": "staging", "message": "The key is ci-october", "start_id": str(uuid7())}
    olga, address = stage.visitor(northgate.people["Olga"]), f"/t/northgate/sessions/{question.session_id}/"
    first, again = olga.post(address, data), olga.post(address, data)
    assert first.status_code == again.status_code == 303 and first["Location"] == again["Location"]
    question.refresh_from_db()
    assert question.state == "pending"
    refused = olga.post(address, data | {"message": "", "start_id": str(uuid7())})
    assert refused.status_code == 422 and "Write what the agent is to do" in refused.content.decode()
