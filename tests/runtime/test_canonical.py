"""R15: what is shown, what is digested and what the handler gets are parsed from the same bytes."""

import copy
import hashlib
import json
import time
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_app.canonical import Number, digest, dump, fault, fingerprint, leaves, parse, plain
from runtime_app.errors import InvalidInput

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,3})\.[0-9]{1,3}([eE][+-]?[0-9]{1,2})?", fullmatch=True).map(Number)
SCALARS = st.none() | st.booleans() | st.integers() | NUMBERS | TEXTS
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=20
)

PINNED = [
    ('{"b":1,"a":{"z":1.0,"y":100,"x":[3,1,2]}}', b'{"a":{"x":[3,1,2],"y":100,"z":1.0},"b":1}'),
    (' { "a" : [ 1E2 , 1e+2, -0.50, 100 ] } ', b'{"a":[1E2,1e+2,-0.50,100]}'),
    ('{"n": 12345678901234567890, "id": 9007199254740993}', b'{"id":9007199254740993,"n":12345678901234567890}'),
    ('"caf\\u00e9"', b'"caf\xc3\xa9"'),
    ('"cafe\\u0301"', b'"cafe\xcc\x81"'),
    ('"\\ud83d\\ude00"', b'"\xf0\x9f\x98\x80"'),
    (r'"\u000a\t\u001f\u007f\/\"\\\u2028"', b'"\\n\\t\\u001f\x7f/\\"\\\\\xe2\x80\xa8"'),
    ('{"\uffff":1,"\U00010000":2,"Z":3,"a":4}', '{"Z":3,"a":4,"\uffff":1,"\U00010000":2}'.encode()),
    ('[null,true,false,{},[],"",0]', b'[null,true,false,{},[],"",0]'),
]


@pytest.mark.parametrize(("text", "expected"), PINNED)
def test_canonical_bytes_are_pinned(text, expected):
    """R15, B36, B137, B144: key order goes, everything else stays as it was sent."""
    assert dump(parse(text)) == expected
    assert dump(parse(expected)) == expected


@given(JSON)
def test_what_is_written_reads_back_as_the_same_bytes(value):
    """R15"""
    assert dump(parse(dump(value), limit=10**7)) == dump(value)
    assert parse(dump(value), limit=10**7) == value


@given(st.text(st.sampled_from('{}[]",:\\u0dE8e+-.1truefalsn '), max_size=60) | st.text() | st.binary())
def test_any_text_is_parsed_or_refused_and_nothing_else(text):
    """R15"""
    try:
        value = parse(text)
    except InvalidInput as error:
        assert error.status in (400, 422) and error.message.encode()
    else:
        assert dump(parse(dump(value))) == dump(value)
        assert json.loads(text) == plain(value)


REFUSED = [
    ('{"amount":1,"amount":1000}', 'The key "amount" appears twice in the top level.'),
    ('{"amount":1,"\\u0061mount":1000}', 'The key "amount" appears twice in the top level.'),
    ('{"a":[{"b":{"x":1,"y":2,"x":3}}]}', 'The key "x" appears twice in `a[0].b`.'),
    ('{"a":NaN}', "NaN at `a` is not a JSON number."),
    ("[1,-Infinity]", "-Infinity at `[1]` is not a JSON number."),
    ('{"a b":[1e999]}', 'The number 1e999 at `["a b"][0]` is too large or too small to be kept.'),
    ("-1e400000", "The number -1e400000 at the top level is too large or too small to be kept."),
    ("1e-999", "The number 1e-999 at the top level is too large or too small to be kept."),
    ('{"a":"x\\u0000"}', "The text at `a` contains a NUL character (U+0000)."),
    ('{"\\u0000":1}', 'The key "\\u0000" in the top level contains a NUL character (U+0000).'),
    ('"\\ud83d"', "The text at the top level contains half of a surrogate pair (U+D83D)."),
    ('{"a":["\\udc00x"]}', "The text at `a[0]` contains half of a surrogate pair (U+DC00)."),
    ('{"\\ud83d":1}', 'The key "\\ud83d" in the top level contains half of a surrogate pair (U+D83D).'),
    ('"\ud83d"', "Character 1 is half of a surrogate pair."),
    (b'"\xed\xa0\xbd"', "This is not UTF-8: byte 1 cannot be read."),
    (b'"\xff"', "This is not UTF-8: byte 1 cannot be read."),
    ("1" * 1001, "The number at the top level has over 1,000 characters."),
    ("0." + "1" * 999, "The number at the top level has over 1,000 characters."),
    ("[" * 33 + "]" * 33, "Character 32 opens level 33; at most 32 are accepted."),
]


@pytest.mark.parametrize(("text", "sentence"), REFUSED)
def test_what_two_readers_could_read_differently_is_refused_with_a_sentence(text, sentence):
    """R15, T63-T67, B139, B141"""
    with pytest.raises(InvalidInput) as refused:
        parse(text)
    assert (refused.value.message, refused.value.status) == (sentence, 422)


@pytest.mark.parametrize(
    "text", ["", "{", '{"a":1,}', "[1,]", "1 2", "01", "1.", "+1", "'a'", '"a', '"\x01"', "\ufeff1", b"\xef\xbb\xbf1"]
)
def test_what_is_not_json_is_unparsable(text):
    """R15"""
    with pytest.raises(InvalidInput) as refused:
        parse(text)
    assert (refused.value.reason, refused.value.status) == ("unparsable", 400)
    assert refused.value.message.startswith("This is not JSON: ") and " line 1, column " in refused.value.message


def test_size_is_counted_in_bytes():
    """R15, T67"""
    assert parse('"' + "é" * 32_767 + '"')
    for text in ('"' + "é" * 32_768 + '"', b'"' + b"a" * 65_535 + b'"', '"' + "a" * 10**6):
        with pytest.raises(InvalidInput) as refused:
            parse(text)
        assert (refused.value.reason, refused.value.status) == ("too_large", 413)


def test_depth_is_counted_before_anything_recurses():
    """R15, T67: brackets inside a text are no depth, 20,000 levels are refused at the 33rd."""
    assert parse("[" * 32 + "]" * 32)
    assert parse(json.dumps("[{" * 1000 + '"')) == "[{" * 1000 + '"'
    with pytest.raises(InvalidInput, match="Character 32 opens level 33"):
        parse("[" * 20_000)
    with pytest.raises(InvalidInput, match="opens level 33"):
        parse('{"a":' * 10_000)


@pytest.mark.parametrize("text", ["[" * 65_536, '"' + '\\"' * 32_000, '"a' * 32_000, '{"a":[' * 10_000])
def test_hostile_text_costs_nothing(text):
    """T67"""
    began = time.process_time()
    with pytest.raises(InvalidInput):
        parse(text)
    assert time.process_time() - began < 0.1


def test_numbers_keep_their_text_and_handlers_get_plain_ones():
    """R15, T66"""
    value = parse('{"a":1.0,"b":1E2,"c":9007199254740993,"d":[0.10]}')
    assert [value["a"].text, str(value["b"]), value["c"]] == ["1.0", "1E2", 9007199254740993]
    assert dump(copy.deepcopy(value)) == b'{"a":1.0,"b":1E2,"c":9007199254740993,"d":[0.10]}'
    assert plain(value) == {"a": 1.0, "b": 100.0, "c": 9007199254740993, "d": [0.1]}
    assert [type(number) for number in (plain(value["a"]), plain(value["c"]), plain(Number("7")))] == [float, int, int]


def test_a_number_may_have_a_thousand_characters():
    """R15"""
    assert dump(parse("9" * 1000)) == b"9" * 1000
    with pytest.raises(InvalidInput, match="over 1,000"):
        dump(10**1000)
    with pytest.raises(InvalidInput, match="over 1,000"):
        dump(1 << 100_000)


def test_floats_made_by_an_actions_own_validation_are_written_as_python_writes_them():
    """R15"""
    assert dump([1.0, 0.1, 1e16, 1e-7, -0.0]) == b"[1.0,0.1,1e+16,1e-07,-0.0]"


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), (1,), {1}, b"a", Decimal("1"), {1: 2}, {"a": object()}, "\0", ["\ud800"], {"\0": 1}],
)
def test_only_what_can_be_read_back_is_written(value):
    """R15"""
    with pytest.raises(InvalidInput):
        dump(value)


def test_what_is_too_deep_to_read_is_not_written():
    """R15"""
    deep = []
    for _ in range(31):
        deep = [deep]
    assert parse(dump(deep)) == deep
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidInput, match="opens level 33"):
        dump(deep)


def _count(value):
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(_count, inside)) if inside else 1


@given(JSON)
def test_every_leaf_is_there_once_under_its_own_path(value):
    """R03, T28"""
    found = leaves(value)
    assert len(found) == _count(value)
    assert len({leaf.path for leaf in found}) == len(found)
    assert [dump(leaf.value) for leaf in found] == list(map(dump, _walk(value)))


def _walk(value):
    if isinstance(value, dict | list) and value:
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _walk(inner)
    else:
        yield value


def test_leaves_come_in_document_order_with_readable_paths():
    """R03"""
    value = parse('{"strategy":{"kind":"canary","steps":[10,100]},"odd key":[{}],"a.b":[],"né":null,"x-y_1":{"z":""}}')
    assert [(leaf.path, leaf.value) for leaf in leaves(value)] == [
        ("strategy.kind", "canary"),
        ("strategy.steps[0]", 10),
        ("strategy.steps[1]", 100),
        ('["odd key"][0]', {}),
        ('["a.b"]', []),
        ('["né"]', None),
        ("x-y_1.z", ""),
    ]
    assert [leaf.path for leaf in leaves("alone")] == [""]


IDS = {name: UUID(int=number) for number, name in enumerate(("tenant", "session", "run", "request"), start=1)}


def test_the_digest_is_pinned():
    """R14, T29: the domain, four ids, the bytes, each after its length."""
    length = bytes([0, 0, 0, 0, 0, 0, 0, 16])
    by_hand = bytes(7) + b"\x0fsayso action v1"
    for number in (1, 2, 3, 4):
        by_hand += length + bytes(15) + bytes([number])
    by_hand += bytes(7) + b"\x07" + b'{"a":1}'
    found = digest(**IDS, action_bytes=b'{"a":1}')
    assert found == hashlib.sha256(by_hand).hexdigest()
    assert found == "e2d04dcdbee9d2649a50692a1086c8bd8d5cb535d5e808f544662ce714ed5f21"
    assert digest(**{name: str(id) for name, id in IDS.items()}, action_bytes=memoryview(b'{"a":1}')) == found


def test_the_digest_changes_with_each_of_its_parts():
    """R14: neither another Run's nor another Request's authority fits."""
    digests = {digest(**IDS, action_bytes=b"{}"), digest(**IDS, action_bytes=b"{ }")}
    digests |= {digest(**IDS | {name: UUID(int=9)}, action_bytes=b"{}") for name in IDS}
    digests.add(digest(**IDS | {"run": IDS["session"], "session": IDS["run"]}, action_bytes=b"{}"))
    assert len(digests) == 7


def test_the_fingerprint_is_two_words_and_four_digits():
    """R14: for people who compare two screens."""
    assert fingerprint("0" * 64) == "amber-ant-0000"
    assert fingerprint("f" * 64) == "moss-bear-9935"
    assert fingerprint(digest(**IDS, action_bytes=b'{"a":1}')) == "olive-moose-8049"


def test_text_that_cannot_be_kept_is_named():
    """R15"""
    assert fault("fine é 😀") is None
    assert fault("a\0") == "contains a NUL character (U+0000)"
    assert fault("a\udfff") == "contains half of a surrogate pair (U+DFFF)"
