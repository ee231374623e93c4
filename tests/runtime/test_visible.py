"""R03: nothing in untrusted text is hidden from the person who decides on it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_app.visible import Part, count, plain_visible, visible

ANY = st.text(st.characters(codec=None), max_size=30)
ODDITIES = "aA1 .-_/⟦⟧U+0430\n\t\r\u0430\u0301\u200b\u202e\ufe0f\u3164é手丨\U000e0041\ud800"
TRICKY = st.text(st.sampled_from(ODDITIES), max_size=30)

DIRECTION = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
ZERO_WIDTH = [0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0x00AD, 0x034F, 0x180E]
BLANK = [0x115F, 0x1160, 0x2800, 0x3164, 0xFFA0, 0x00A0, 0x1680, 0x2003, 0x202F, 0x205F, 0x3000, 0x2028, 0x2029]
CONTROL = [0x0000, 0x0007, 0x0009, 0x000A, 0x000D, 0x001B, 0x007F, 0x0085, 0x009B]
TAGS_AND_SELECTORS = [0xE0001, 0xE0041, 0xE007F, 0xFE00, 0xFE0F, 0x180B, 0x180F, 0xE0100, 0xE01EF]
NO_CHARACTER = [0xE000, 0x10FFFD, 0xFFFE, 0x0378, 0xD800, 0xDFFF]


@pytest.mark.parametrize(
    "code", DIRECTION + ZERO_WIDTH + BLANK + CONTROL + TAGS_AND_SELECTORS + NO_CHARACTER, ids="U+{:04X}".format
)
def test_what_cannot_be_seen_is_a_token_wherever_it_stands(code):
    """R03, T54, B126"""
    hidden, token = chr(code), f"U+{code:04X}"
    for text in (hidden, f"rm {hidden}-rf", f"{hidden}card", f"card{hidden}", f"שלום{hidden}"):
        (found,) = [part for part in visible(text) if part.token]
        assert found.text == token and found.name
        assert f"⟦{token}⟧" in plain_visible(text)


@pytest.mark.parametrize(
    "text",
    [
        "registry.example/card-api:0.8.8", "Łódź, Tiếng Việt, naïve groß", "привет, мир", "שלום עולם", "مرحبا بالعالم",
        "ελληνικά", "Հայերեն", "नमस्ते दुनिया", "น้ำใจ", "한국어", "日本語のテキスト", "中文，和标点。",
        "Hawaiʻi", "10 µs, 5 m²", "iPhone手机", "Tシャツ", "USB-кабель", "IT-специалист", "cafe\u0301",
        "№ 5 ½ ™ € → ✓ 😀", "الإصدار ١٢", "x = α + β",
    ],
)  # fmt: skip
def test_honest_words_stay_readable(text):
    """R03, T55, B126: every script, composed or decomposed."""
    assert visible(text) == [Part(text)]
    assert plain_visible(text) == text and count(text) == 0


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("c\u0430rd-api", "c⟦U+0430⟧rd-api"),
        ("p\u0430ypal", "p⟦U+0430⟧ypal"),
        ("g\u03bfogle", "g⟦U+03BF⟧ogle"),
        ("\u13aapple", "⟦U+13AA⟧pple"),
        ("\u0570ello", "⟦U+0570⟧ello"),
        ("r\u043e\u043et", "r⟦U+043E⟧⟦U+043E⟧t"),
        ("card-\u0430\u0440\u0456", "card-⟦U+0430⟧⟦U+0440⟧⟦U+0456⟧"),
        ("example.com/\u0430", "example.com/⟦U+0430⟧"),
        ("p\u200b\u0430", "p⟦U+200B⟧⟦U+0430⟧"),
        ("p\u0301\u0430\u0301", "p\u0301⟦U+0430⟧⟦U+0301⟧"),
        ("card\u4e28api", "card⟦U+4E28⟧api"),
        ("\uff50aypal", "⟦U+FF50⟧aypal"),
        ("\U0001d429ay", "⟦U+1D429⟧ay"),
        ("\ufb01le", "⟦U+FB01⟧le"),
        ("v\u216a", "v⟦U+216A⟧"),
        ("\u212aey", "⟦U+212A⟧ey"),
        ("v\u09ea", "v⟦U+09EA⟧"),
    ],
)
def test_letters_that_imitate_latin_ones_are_tokens(text, shown):
    """R03, T55"""
    assert plain_visible(text) == shown


def test_a_token_is_told_from_the_same_text_typed_literally():
    """R03"""
    assert visible("c\u0430rd") == [Part("c"), Part("U+0430", token=True, name="Cyrillic small letter a"), Part("rd")]
    assert visible("cU+0430rd") == [Part("cU+0430rd")]
    assert plain_visible("⟦U+0430⟧") == "⟦U+27E6⟧U+0430⟦U+27E7⟧"


def test_marks_belong_to_a_letter_and_are_not_piled_up():
    """R03, T54"""
    assert plain_visible("\u0301a") == "⟦U+0301⟧a"
    assert plain_visible("a \u0301") == "a ⟦U+0301⟧"
    assert plain_visible("a" + "\u0301" * 6) == "a" + "\u0301" * 4 + "⟦U+0301⟧" * 2
    assert plain_visible("a\u20dd") == "a⟦U+20DD⟧"


def test_lines_stay_lines_where_the_page_shows_lines():
    """R03: carriage returns and tabs are tokens there too, and one line shows the line feed itself."""
    text = "first\r\nsecond\n\tthird"
    assert visible(text, lines=True) == [
        Part("first"), Part("U+000D", True, "Carriage return"), Part("\nsecond\n"), Part("U+0009", True, "Tab"),
        Part("third"),
    ]  # fmt: skip
    assert plain_visible(text) == "first⟦U+000D⟧⟦U+000A⟧second⟦U+000A⟧⟦U+0009⟧third"
    assert (count(text), count(text, lines=True)) == (4, 2)


def test_a_terminal_is_not_written_to():
    """R03: a log line cannot be forged or recoloured."""
    assert plain_visible("ok\x1b[2K\rdenied\n") == "ok⟦U+001B⟧[2K⟦U+000D⟧denied⟦U+000A⟧"


def _back(line):
    return re.sub("⟦U\\+([0-9A-F]+)⟧", lambda token: chr(int(token[1], 16)), line)


@given(ANY | TRICKY)
def test_different_texts_are_never_shown_alike(text):
    """R03, T54: the line maps back to exactly the same characters, so no two texts share one."""
    assert _back(plain_visible(text)) == text
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b-\u200f]", plain_visible(text))


@given(ANY | TRICKY, st.booleans())
def test_the_parts_are_the_whole_text(text, lines):
    """R03, T56: nothing cut, nothing added."""
    parts = visible(text, lines=lines)
    assert "".join(chr(int(part.text[2:], 16)) if part.token else part.text for part in parts) == text
    assert all(part.text and bool(part.name) == part.token for part in parts)
    assert count(text, lines=lines) == sum(part.token for part in parts)


def test_the_last_character_of_a_long_value_is_there():
    """T56"""
    assert visible("é" * 65_535 + "Z")[-1].text.endswith("Z")
    assert visible("a" * 65_535 + "\u202e")[-1] == Part("U+202E", True, "Right-to-left override")
