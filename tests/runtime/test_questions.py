"""R02: a Request says which answers it accepts; forms, the API and the agent all go by it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_app import questions
from runtime_app.canonical import Number, parse
from runtime_app.errors import InvalidInput, InvalidResponse
from runtime_app.questions import RESERVED, accept, check, fields, read_form

MERCHANT = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Legal name", "minLength": 2, "maxLength": 40},
        "address": {"type": "string", "format": "long", "description": "As in the contract, country last."},
        "currency": {"oneOf": [{"const": "EUR", "title": "Euro"}, {"const": "SEK", "title": "Swedish krona"}]},
        "networks": {"type": "array", "items": {"enum": ["visa", "girocard"]}, "maxItems": 2},
        "stores": {"type": "boolean"},
        "volume": {"type": "integer", "minimum": 1, "default": 500},
        "rate": {"type": "number", "minimum": 0, "maximum": 0.3},
        "first": {"type": "string", "format": "date"},
        "tier": {"enum": [1, 2.5, True, "gold"]},
    },
    "required": ["name", "currency", "stores"],
}
ANSWER = {"name": "Northwind", "currency": "EUR", "stores": False}


def form(**properties):
    return {"type": "object", "properties": properties}


def wrong(call, schema, given):
    with pytest.raises(InvalidResponse) as refused:
        call(schema, given)
    assert refused.value.status == 422
    return refused.value.facts["fields"]


def test_a_checked_form_says_all_that_a_page_needs():
    """R02"""
    name, address, currency, networks, stores, volume, rate, first, tier = fields(check(MERCHANT))
    assert (name.kind, name.title, name.required, name.limits) == (
        "text", "Legal name", True, {"minLength": 2, "maxLength": 40},
    )  # fmt: skip
    assert (address.kind, address.hint, address.limits) == (
        "long", "As in the contract, country last.", {"maxLength": 20_000},
    )  # fmt: skip
    assert [(each.value, each.label, each.text) for each in currency.choices] == [
        ("EUR", "Euro", "EUR"), ("SEK", "Swedish krona", "SEK"),
    ]  # fmt: skip
    assert (networks.kind, networks.limits) == ("several", {"maxItems": 2})
    assert [(each.label, each.text) for each in stores.choices] == [("Yes", "true"), ("No", "false")]
    assert (volume.title, volume.default, volume.initial) == ("Volume", 500, ["500"])
    assert (rate.limits, first.kind) == ({"minimum": 0, "maximum": 0.3}, "date")
    assert [each.text for each in tier.choices] == ["1", "2.5", "true", "gold"]


def test_the_order_of_the_fields_outlives_a_column_that_sorts_keys():
    """R02"""
    stored = json.loads(json.dumps(check(MERCHANT), sort_keys=True))
    assert [each.name for each in fields(stored)] == list(MERCHANT["properties"])
    assert check(stored) == check(MERCHANT)


HOSTILE = [
    [],
    "a form",
    {},
    {"type": "object"},
    {"type": "object", "properties": {}},
    {"type": "array", "properties": {"a": {"type": "string"}}},
    {"$ref": "#/$defs/x", "type": "object", "properties": {"a": {"type": "string"}}},
    form(a={"type": "string"}) | {"additionalProperties": True},
    form(a={"type": "string"}) | {"patternProperties": {}},
    form(a={"type": "string"}) | {"required": ["b"]},
    form(a={"type": "string"}) | {"required": ["a", "a"]},
    form(a={"type": "string"}) | {"required": "a"},
    form(a={"type": "string"}) | {"order": []},
    form(**{f"a{n}": {"type": "string"} for n in range(51)}),
    form(**{f"a{n}": {"type": "string"} for n in range(10_000)}),
    form(a={"$ref": "https://127.0.0.1/"}),
    form(a={"type": "string", "pattern": "(a+)+$"}),
    form(a={"type": "string", "format": "email"}),
    form(a={"type": "string", "format": ["date"]}),
    form(a={"type": ["string", "null"]}),
    form(a={"type": "null"}),
    form(a={"type": "object", "properties": {}}),
    form(a={"anyOf": [{"type": "string"}]}),
    form(a={"type": "string", "autocomplete": "current-password"}),
    form(a={"type": "string", "minLength": -1}),
    form(a={"type": "string", "minLength": 3, "maxLength": 2}),
    form(a={"type": "string", "minLength": "3"}),
    form(a={"type": "string", "maxLength": 20_001}),
    form(a={"type": "string", "maxLength": True}),
    form(a={"type": "string", "minimum": 1}),
    form(a={"type": "string", "format": "date", "minLength": 1}),
    form(a={"type": "integer", "minimum": 1.5}),
    form(a={"type": "integer", "minimum": 2, "maximum": 1}),
    form(a={"type": "number", "minimum": "0"}),
    form(a={"type": "number", "minimum": Number("0.12345678901234567890123")}),
    form(a={"type": "number", "maximum": float("inf")}),
    form(a={"enum": []}),
    form(a={"enum": ["x"] * 2}),
    form(a={"enum": [1, "1"]}),
    form(a={"enum": [True, "true"]}),
    form(a={"enum": [None]}),
    form(a={"enum": [["x"]]}),
    form(a={"enum": [""]}),
    form(a={"enum": ["two\nlines"]}),
    form(a={"enum": ["x" * 201]}),
    form(a={"enum": list(range(201))}),
    form(a={"enum": ["x"], "oneOf": [{"const": "x"}]}),
    form(a={"type": "string", "enum": [1]}),
    form(a={"type": "integer", "enum": [True]}),
    form(a={"oneOf": [{"title": "x"}]}),
    form(a={"oneOf": [{"const": "x", "pattern": "x"}]}),
    form(a={"oneOf": [{"const": "x", "title": "Same"}, {"const": "y", "title": "Same"}]}),
    form(a={"oneOf": ["x"]}),
    form(a={"type": "array"}),
    form(a={"type": "array", "items": {"type": "string"}}),
    form(a={"type": "array", "items": {"enum": ["x"], "title": "x"}}),
    form(a={"type": "array", "items": {"enum": ["x"]}, "uniqueItems": False}),
    form(a={"type": "array", "items": {"enum": ["x"]}, "minItems": 2, "maxItems": 1}),
    form(a={"type": "string", "title": 1}),
    form(a={"type": "string", "title": "x" * 201}),
    form(a={"type": "string", "description": "x" * 2_001}),
    form(a={"type": "string", "title": "\0"}),
    form(**{"a b": {"type": "string"}}),
    form(**{"": {"type": "string"}}),
    form(**{"a" * 65: {"type": "string"}}),
    form(a=True),
    *(form(**{name: {"type": "string"}}) for name in sorted(RESERVED)),
]


@pytest.mark.parametrize("schema", HOSTILE, ids=lambda schema: json.dumps(schema, default=str)[:70])
def test_a_form_outside_the_vocabulary_is_refused(schema):
    """R02, T68: no references, no patterns, nothing endless, no name the form itself uses."""
    with pytest.raises(InvalidInput) as refused:
        check(schema)
    assert refused.value.status == 422 and refused.value.message.endswith(".") and len(refused.value.message) < 600


@pytest.mark.parametrize(
    "schema",
    [
        form(a={"type": "string", "secret": True}),
        form(a={"type": "string", "writeOnly": False}),
        form(a={"type": "string", "writeOnly": 1}),
        form(a={"type": "integer", "format": "password"}),
        form(a={"type": "integer", "writeOnly": True}),
        form(a={"type": "string", "format": "long", "writeOnly": True}),
        form(a={"type": "string", "format": "password", "default": "hunter2"}),
        form(password={"type": "string"}),
        form(**{"current-password": {"type": "string"}}),
        form(otp={"type": "integer"}),
    ],
)
def test_a_secret_is_asked_for_as_one_or_not_at_all(schema):
    """R12, T69: a field that is named as a secret and would be kept in clear is refused."""
    with pytest.raises(InvalidInput):
        check(schema)


@pytest.mark.parametrize(
    "said", [{"format": "password"}, {"writeOnly": True}, {"format": "password", "writeOnly": True}]
)
def test_a_secret_field_has_one_normal_shape(said):
    """R12"""
    checked = check(form(password={"type": "string", "maxLength": 40} | said))
    assert checked["properties"]["password"] == {
        "title": "Password", "type": "string", "format": "password", "maxLength": 40,
    }  # fmt: skip
    assert check(checked) == checked and questions.secret(checked) == {"password"}


def test_what_is_wrong_with_a_secret_says_nothing_about_it():
    """R12: not even how long it is."""
    schema = check(form(password={"type": "string", "format": "password", "minLength": 8, "maxLength": 40}))
    for value in ("short", "x" * 41, "\0" * 9, 12345678, None):
        with pytest.raises(InvalidResponse) as refused:
            accept(schema, {"password": value})
        assert refused.value.facts["fields"] == {"password": "Must be a text of 8 to 40 characters."}
    assert read_form(schema, {"password": ["  spaces stay  "]}) == {"password": "  spaces stay  "}


@pytest.mark.parametrize(
    ("property", "default"),
    [
        ({"type": "string"}, 1),
        ({"type": "string", "maxLength": 1}, "xy"),
        ({"type": "integer", "minimum": 1}, 0),
        ({"type": "boolean"}, "true"),
        ({"type": "boolean"}, None),
        ({"enum": ["x"]}, "y"),
        ({"type": "array", "items": {"enum": ["x"]}}, "x"),
        ({"type": "string", "format": "date"}, "2026-02-30"),
    ],
)
def test_a_default_that_is_no_answer_is_refused(property, default):
    """R02"""
    with pytest.raises(InvalidInput, match="The default of `a` is not an answer it would accept"):
        check(form(a=property | {"default": default}))


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["array"])
KEYWORDS = st.sampled_from("type enum oneOf const items default format minimum maxLength".split())


@given(st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner)))
def test_whatever_an_agent_sends_is_checked_or_refused(property):
    """R02, T68"""
    try:
        checked = check(form(a=property))
    except InvalidInput:
        return
    assert check(checked) == checked


def test_ada_answers_and_the_types_arrive_as_they_are():
    """R02, B137"""
    answer = ANSWER | {
        "address": "Kaj 1\nOslo", "networks": ["girocard"], "volume": 9007199254740993, "rate": Number("0.30"),
        "first": "2026-12-14", "tier": True,
    }  # fmt: skip
    accepted = accept(MERCHANT, answer)
    assert accepted == answer | {"rate": 0.3}
    assert [type(accepted[name]) for name in ("stores", "volume", "rate", "tier")] == [bool, int, float, bool]


def test_an_absent_field_stays_absent_and_no_default_is_invented():
    """R02"""
    assert accept(MERCHANT, ANSWER) == ANSWER
    posted = {"name": ["Northwind"], "currency": ["EUR"], "stores": ["false"], "volume": [""]}
    assert read_form(MERCHANT, posted) == ANSWER


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("stores", "false", "Must be one of the choices."),
        ("stores", 0, "Must be one of the choices."),
        ("stores", None, "Must be one of the choices."),
        ("volume", "1", "Must be a whole number."),
        ("volume", True, "Must be a whole number."),
        ("volume", 1.0, "Must be a whole number."),
        ("volume", Number("1.0"), "Must be a whole number."),
        ("volume", 0, "Must be 1 or more."),
        ("rate", False, "Must be a number."),
        ("rate", "0.1", "Must be a number."),
        ("rate", float("nan"), "Is not a number that can be kept."),
        ("rate", Number("0.30000000000000001"), "Has more digits than can be kept exactly."),
        ("rate", 0.31, "Must be 0.3 or less."),
        ("name", 7, "Must be text."),
        ("name", "N", "Must have 2 characters or more; it has 1."),
        ("name", "N" * 41, "Must have 40 characters or fewer; it has 41."),
        ("address", "x" * 20_001, "Must have 20,000 characters or fewer; it has 20,001."),
        ("name", "No\0", "The text contains a NUL character (U+0000)."),
        ("name", "No\ud800", "The text contains half of a surrogate pair (U+D800)."),
        ("first", "2026-02-30", "Must be a day of the calendar, written as 2026-12-14."),
        ("first", "20261214", "Must be a day of the calendar, written as 2026-12-14."),
        ("first", "2026-W01-1", "Must be a day of the calendar, written as 2026-12-14."),
        ("currency", "Euro", "Must be one of the choices."),
        ("currency", ["EUR"], "Must be one of the choices."),
        ("tier", 1.0, "Must be one of the choices."),
        ("tier", "1", "Must be one of the choices."),
        ("networks", "visa", "Must be a list of choices."),
        ("networks", ["visa", "visa"], "Each choice can be taken once."),
        ("networks", ["amex"], "Must be one of the choices."),
        ("admin", True, "This form has no such field."),
    ],
)
def test_a_value_of_another_type_is_not_taken_for_the_right_one(name, value, sentence):
    """R02, B39: `"false"` is text, not a no."""
    assert wrong(accept, MERCHANT, ANSWER | {name: value}) == {name: sentence}


def test_all_wrong_fields_are_named_at_once():
    """R02"""
    assert wrong(accept, MERCHANT, {"volume": 0, "stores": "yes", "extra": 1}) == {
        "name": "Enter an answer.",
        "currency": "Choose one.",
        "stores": "Must be one of the choices.",
        "volume": "Must be 1 or more.",
        "extra": "This form has no such field.",
    }
    with pytest.raises(InvalidResponse, match="An answer is an object"):
        accept(MERCHANT, ["Northwind"])


def test_a_posted_form_becomes_typed_values():
    """R02: all the form's own names are passed over."""
    posted = {
        "name": ["  Northwind "], "address": ["Kaj 1\r\nOslo"], "currency": ["SEK"], "networks": ["visa", "girocard"],
        "stores": ["true"], "volume": [" 9007199254740993 "], "rate": ["0.30"], "first": ["2026-12-14"],
        "tier": ["2.5"], **{name: ["x"] for name in RESERVED},
    }  # fmt: skip
    assert read_form(check(MERCHANT), posted) == {
        "name": "  Northwind ", "address": "Kaj 1\nOslo", "currency": "SEK", "networks": ["visa", "girocard"],
        "stores": True, "volume": 9007199254740993, "rate": 0.3, "first": "2026-12-14", "tier": 2.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "texts", "sentence"),
    [
        ("stores", ["on"], "Must be one of the choices."),
        ("stores", ["TRUE"], "Must be one of the choices."),
        ("stores", ["true", "false"], "This was sent more than once."),
        ("stores", ["", "true"], "This was sent more than once."),
        ("stores", [""], "Choose one."),
        ("volume", ["1.0"], "Must be a whole number, such as 12."),
        ("volume", ["007"], "Must be a whole number, such as 12."),
        ("volume", ["٣"], "Must be a whole number, such as 12."),
        ("volume", ["9" * 5000], "Must be a whole number, such as 12."),
        ("rate", ["0,1"], "Must be a number, such as 12.5."),
        ("rate", ["NaN"], "Must be a number, such as 12.5."),
        ("rate", ["true"], "Must be a number, such as 12.5."),
        ("rate", ["1e999"], "Must be a number, such as 12.5."),
        ("currency", ["Euro"], "Must be one of the choices."),
        ("networks", ["visa", "visa"], "Each choice can be taken once."),
        ("admin", ["1"], "This form has no such field."),
        ("admin", [""], "This form has no such field."),
    ],
)
def test_a_posted_field_that_is_not_what_the_form_offered_is_refused(name, texts, sentence):
    """R02, B39, B139"""
    posted = {"name": ["Northwind"], "currency": ["EUR"], "stores": ["true"], name: texts}
    assert wrong(read_form, MERCHANT, posted) == {name: sentence}


def test_composed_and_decomposed_letters_are_two_choices():
    """B144: matched by their exact text."""
    schema = check(form(path={"enum": ["caf\u00e9", "cafe\u0301"]}))
    assert read_form(schema, {"path": ["cafe\u0301"]}) == {"path": "cafe\u0301"}
    assert accept(schema, {"path": "caf\u00e9"}) == {"path": "caf\u00e9"}


def test_several_with_nothing_chosen_is_an_absent_field():
    """R02"""
    several = form(tags={"type": "array", "items": {"enum": ["x", "y"]}, "minItems": 2})
    assert read_form(several, {}) == {}
    assert wrong(read_form, several | {"required": ["tags"]}, {}) == {"tags": "Choose at least one."}
    assert wrong(read_form, several, {"tags": ["x"]}) == {"tags": "Choose 2 or more."}


@given(st.dictionaries(st.sampled_from(list(MERCHANT["properties"])), st.lists(st.text(max_size=6), max_size=3)))
def test_whatever_is_posted_is_accepted_or_refused(posted):
    """R02: and what was accepted from a form is accepted as it stands."""
    try:
        values = read_form(MERCHANT, posted)
    except InvalidResponse:
        return
    assert accept(MERCHANT, values) == values


def test_a_form_parsed_from_canonical_bytes_is_the_same_form():
    """R02, R15"""
    text = '{"type":"object","properties":{"rate":{"type":"number","minimum":0.1,"default":0.10}}}'
    (rate,) = fields(parse(text))
    assert (rate.limits, rate.default) == ({"minimum": 0.1}, 0.1)
    assert accept(parse(text), {"rate": Number("0.1")}) == {"rate": 0.1}
