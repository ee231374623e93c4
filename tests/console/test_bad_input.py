"""What a form must not hold: the right status, a clear page, nothing recorded but the Refusal (R02, R13-R15, B39)."""

import json

import pytest
from django.http import QueryDict

from runtime_app.ids import uuid7
from runtime_app.models import Event, Grant, Refusal, Request, Response, Run
from tests.console import stage
from tests.console.stage import visitor


def facts() -> tuple:
    """What an accepted form would have added to."""
    pending = sorted(map(str, Request.objects.filter(state="pending").values_list("pk", flat=True)))
    return Response.objects.count(), Event.objects.count(), Grant.objects.count(), Run.objects.count(), pending


class Door:
    """One form, posted by somebody who could answer it."""

    def __init__(self, everything, name: str):
        self.name, self.data = name, stage.form(name, everything)
        who, asked = {
            "decision": ("Ada", everything.approval),
            "answer": ("Sam", everything.question),
            "finding": ("Olga", everything.unknown),
        }[name]
        self.data["session"] = str(asked.session_id)
        self.address = f"/t/northgate/requests/{asked.pk}/{name}/"
        self.client = visitor(everything.house.people[who])

    def post(self, changed: dict | None = None, without: str = "", **headers):
        data = self.data | (changed or {})
        data.pop(without, None)
        return self.client.post(self.address, data, **headers)

    def refuses(self, status: int, *words: str, changed: dict | None = None, without: str = ""):
        before = facts()
        answer = self.post(changed, without)
        assert answer.status_code == status, answer.content.decode()[:3000]
        for word in words:
            assert word in answer.content.decode(), word
        assert facts() == before
        return answer


@pytest.fixture
def decision(everything):
    return Door(everything, "decision")


@pytest.fixture
def answer(everything):
    return Door(everything, "answer")


@pytest.fixture
def finding(everything):
    return Door(everything, "finding")


WORDS = ["false", "no", "1", "true", "[]", "{}", "null", "APPROVE", "approve ", "Approve", "", "yes", "approve,deny"]


def test_only_the_exact_words_decide(decision):
    """B39: nothing is coerced, nothing is tested for "not false"."""
    for word in WORDS:
        decision.refuses(422, "There is a problem", changed={"decision": word})
    decision.refuses(422, without="decision")


def test_a_decision_names_what_it_was_shown(decision, everything):
    """R14: no digest, an empty one, a foreign one, an old one, one of another letter case."""
    digest = everything.approval.digest
    decision.refuses(422, "There is a problem", without="digest")
    decision.refuses(422, changed={"digest": ""})
    other = everything.house.approval("9.9.9").digest
    for wrong in (other, digest.upper(), digest[:-1], digest + " ", "0" * 64, "x", "%00", "null"):
        decision.refuses(409, "changed while you were reading", "not recorded", "because", changed={"digest": wrong})


def test_what_was_typed_is_kept(decision):
    """Beside the error, where the person is."""
    page = decision.refuses(422, "There is a problem", changed={"confirm": "productoin", "message": "tested twice"})
    assert "tested twice" in page.content.decode() and "productoin" in page.content.decode()
    page = decision.refuses(409, changed={"digest": "0" * 64, "message": "tested twice"})
    assert "tested twice" in page.content.decode()


@pytest.mark.parametrize("door", ["decision", "answer", "finding"])
def test_a_form_has_no_other_fields(everything, door):
    form = Door(everything, door)
    for name in ("environment", "approved", "parameters", "action_bytes", "tenant", "__proto__", "m[]", "x" * 500):
        form.refuses(422, changed={name: "1"})


def test_a_field_comes_once(decision, everything):
    """B139: two decisions in one form are none."""
    before = facts()
    for twice in (
        "decision=approve&decision=deny",
        f"digest={everything.approval.digest}&digest=0",
        "message=a&message=b",
    ):
        data = QueryDict(mutable=True)
        data.update(decision.data)
        body = data.urlencode() + "&" + twice
        answer = decision.client.post(decision.address, body, "application/x-www-form-urlencoded")
        assert answer.status_code == 422, twice
    assert facts() == before


@pytest.mark.parametrize("door", ["decision", "answer", "finding"])
def test_a_megabyte_is_too_much(everything, door):
    form = Door(everything, door)
    form.refuses(413, "larger", changed={"message": "x" * 1_000_000})
    form.refuses(413, changed={"message": "x" * 100_000})


def test_a_thousand_fields_are_too_many(decision):
    decision.refuses(413, changed={f"f{number}": "1" for number in range(1000)})


@pytest.mark.parametrize("door", ["decision", "answer", "finding"])
@pytest.mark.parametrize("text", ["a\0b", "\0"])
def test_nul_is_refused(everything, door, text):
    Door(everything, door).refuses(422, "There is a problem", changed={"message": text})


@pytest.mark.parametrize("body", [b"message=%ED%A0%BD", b"message=%ff%fe"])
def test_bytes_that_are_no_text_become_what_a_browser_makes_of_them(decision, body):
    """B141: half a surrogate pair is U+FFFD, visibly, before anything is recorded."""
    form = QueryDict(mutable=True)
    form.update({name: text for name, text in decision.data.items() if name != "message"})
    answer = decision.client.post(
        decision.address, form.urlencode().encode() + b"&" + body, "application/x-www-form-urlencoded"
    )
    assert answer.status_code == 303
    assert set(Response.objects.latest("at").message) == {"\N{REPLACEMENT CHARACTER}"}


def test_other_content_types_are_an_empty_form(decision):
    """Nothing is read from a body that is no form."""
    before = facts()
    for content_type in ("application/json", "text/plain", "application/octet-stream"):
        answer = decision.client.post(decision.address, json.dumps(decision.data), content_type)
        assert answer.status_code == 422
    assert decision.client.post(decision.address, b"--x", "multipart/form-data").status_code == 400
    assert facts() == before


@pytest.mark.parametrize("name", ["response_id", "session"])
@pytest.mark.parametrize("door", ["decision", "answer", "finding"])
def test_ids_are_ids(everything, door, name):
    form = Door(everything, door)
    for text in ("", "not-an-id", "1", "../../etc/passwd", "0" * 400, "٣" * 36):
        form.refuses(422, changed={name: text})
    form.refuses(422, without=name)


@pytest.mark.parametrize(
    "text", ["not-an-id", "1", "%00", "%ff", "..%2f..%2fadmin", "a" * 3000, "%F0%9F%92%A5", "None"]
)
def test_an_address_that_holds_no_id_is_a_page_that_does_not_exist(everything, northgate, text):
    ada = visitor(northgate.people["Ada"])
    for address in (
        f"/t/northgate/requests/{text}/",
        f"/t/northgate/runs/{text}/",
        f"/t/northgate/runs/{text}/cancel/",
        f"/t/northgate/sessions/{text}/",
        f"/t/northgate/effects/{text}/",
        f"/t/{text}/inbox/",
    ):
        assert ada.get(address).status_code == 404, address
        assert ada.post(address).status_code in (404, 405), address


@pytest.mark.parametrize(
    "query",
    [
        "before=x",
        "before=%00",
        "state=%00",
        "environment=%00",
        "tab=%ff",
        "before=" + "9" * 5000,
        "before=01890000-0000-7000-8000-000000000000",
        "state=waiting&state=x",
        "x=[]",
    ],
)
def test_a_list_is_asked_nonsense(everything, northgate, query):
    ada = visitor(northgate.people["Ada"])
    for page in ("inbox", "runs", "sessions", "effects"):
        assert ada.get(f"/t/northgate/{page}/?{query}").status_code in (200, 404), page
    assert ada.get(f"/t/northgate/sessions/{everything.question.session_id}/?{query}").status_code in (200, 404)


def test_a_form_for_another_kind_of_wait_is_refused(everything):
    """R02, B41: every form at every Request."""
    asked = {"decision": everything.approval, "answer": everything.question, "finding": everything.unknown}
    people = everything.house.people
    before = facts()
    for kind, request in asked.items():
        for name in asked.keys() - {kind}:
            data = stage.form(name, everything) | {"session": str(request.session_id)}
            for who in ("Ada", "Sam", "Olga"):
                answer = visitor(people[who]).post(f"/t/northgate/requests/{request.pk}/{name}/", data)
                assert answer.status_code == 422, (kind, name, who)
    assert facts() == before


def test_an_answer_has_the_schemas_fields(answer):
    """R02: too long, empty, missing."""
    answer.refuses(422, "There is a problem", changed={"name": "x" * 81})
    answer.refuses(422, changed={"name": ""})
    answer.refuses(422, without="name")


SUGGESTIONS = {
    "duplicate keys": '{"a":1,"a":2}',
    "hidden duplicate": '{"amount":1,"\\u0061mount":1000}',
    "NaN": '{"a":NaN}',
    "infinity": '{"a":-Infinity}',
    "NUL": '{"a":"\\u0000"}',
    "half a pair": '{"a":"\\ud83d"}',
    "deep": "[" * 33 + "]" * 33,
    "very deep": "[" * 20_000,
    "not an object": "[1]",
    "no JSON": "version: 2",
    "a long number": '{"a":' + "9" * 1001 + "}",
    "trailing": '{"a":1}x',
    "empty": "{",
    "too large": json.dumps({"a": "x" * 70_000}),
}


@pytest.mark.parametrize("name", SUGGESTIONS)
def test_a_suggestion_is_strict_json(decision, name):
    """R15: the reason is given, and the text is still there."""
    changed = {"decision": "deny", "suggestion": SUGGESTIONS[name]}
    before = facts()
    answer = decision.post(changed)
    assert answer.status_code in (400, 413, 422)
    assert facts() == before


def test_a_suggestion_goes_with_a_denial_only(decision):
    decision.refuses(422, "suggestion", changed={"suggestion": '{"version":"0.8.9"}'})


FINDINGS = [
    {"finding": "yes"},
    {"finding": "true"},
    {"finding": ""},
    {"finding": "committed"},
    {"recovery": "redispatch"},
    {"finding": "", "recovery": "compensate"},
    {"finding": "", "recovery": "probe; drop"},
    {"finding": "unknown", "recovery": "probe"},
    {"finding": "", "recovery": "accept", "message": " "},
    {"finding": "working"},
    {"finding": "Committed", "reference": "x"},
]


@pytest.mark.parametrize("changed", FINDINGS, ids=str)
def test_only_what_is_registered_can_be_tried(finding, changed):
    """R24: nothing that sends, nothing without a reference, nothing accepted without a reason."""
    finding.refuses(422, changed=changed)


def test_every_refusal_is_written_down_once_and_counted_without_content(decision):
    """R13: code, actor and the id as sent; nothing of what was typed."""
    for _ in range(3):
        decision.refuses(422, changed={"decision": "hunter2", "message": "hunter2"})
    refusal = Refusal.objects.get()
    assert (refusal.code, refusal.verb, refusal.count, refusal.actor_name) == ("invalid_response", "respond", 3, "Ada")
    assert "hunter2" not in str(vars(refusal))


def test_the_same_form_again_shows_the_same_outcome(decision):
    """R09, T42: a repeat is no error, and decides nothing twice."""
    for _ in range(3):
        assert decision.post().status_code == 303
    assert Response.objects.filter(kind="approve", request_id=decision.address.split("/")[4]).count() == 1
    answer = decision.post({"decision": "deny"})
    assert answer.status_code == 409
    assert "already sent, with something else in it" in answer.content.decode()


STARTS = [
    ("message", "", 422),
    ("message", "   ", 422),
    ("message", "x" * 1_000_000, 413),
    ("message", "a\0b", 422),
    ("agent", "nobody", 422),
    ("agent", "", 422),
    ("environment", "moon", 422),
    ("environment", "", 422),
    ("start_id", "1", 422),
    ("start_id", "", 422),
    ("interactive", "no", 422),
    ("title", "x" * 5_000, 422),
]


@pytest.mark.parametrize("name, text, status", STARTS)
def test_a_run_is_not_started_by_nonsense(everything, northgate, name, text, status):
    olga = visitor(northgate.people["Olga"])
    before = facts()
    for route in ("sessions/new/", f"sessions/{everything.question.session_id}/"):
        data = stage.form("begin", everything) | {name: text}
        answer = olga.post(f"/t/northgate/{route}", data)
        assert answer.status_code == status, route
        assert b"<h1" in answer.content
    assert facts() == before


@pytest.mark.parametrize(
    "changed", [{"response_id": "x"}, {"response_id": ""}, {"force": "1"}, {"reason": "a\0b"}], ids=str
)
def test_a_run_is_not_cancelled_by_nonsense(everything, northgate, changed):
    before = facts()
    data = {"response_id": str(uuid7()), "reason": ""} | changed
    answer = visitor(northgate.people["Olga"]).post(f"/t/northgate/runs/{everything.question.run_id}/cancel/", data)
    assert answer.status_code == 422
    assert facts() == before
