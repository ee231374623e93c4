"""Untrusted text with nothing hidden in it (R03).

Characters that cannot be seen, that reorder what is seen, or that imitate a Latin letter become tokens, ``U+0430``.
Words wholly in another script stay as they are. The bound value is never changed: this is for showing only.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

# Shown as nothing, though their category says letter, mark or symbol: fillers, joiners, blanks.
_BLANK = frozenset(map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0x16FE4, 0x1D159)))
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_MARKS = 4  # marks one letter may carry; more are drawn over the neighbouring lines
_EAST_ASIAN = frozenset("CJK HIRAGANA KATAKANA KATAKANA-HIRAGANA HANGUL BOPOMOFO IDEOGRAPHIC HALFWIDTH".split())
_ANY_SCRIPT = frozenset("MODIFIER FEMININE MASCULINE MICRO SUPERSCRIPT SUBSCRIPT".split())
# Letters a reader takes for Latin ones: Cyrillic, Greek, Armenian. Every letter of the scripts named would be taken so.
_TWINS = frozenset("асеорхуіјѕһԁԛԝӏүѵАВСЕНІЈКМОРЅТХУԚԜҮӀονριΑΒΕΖΗΙΚΜΝΟΡΤΥΧօոսհյց")
_TWIN_SCRIPTS = frozenset({"CHEROKEE", "LISU"})
_UNNAMED = {"Cc": "Control character", "Cs": "Half of a surrogate pair", "Co": "Private use character"}
_CONTROLS = {"\0": "Null", "\t": "Tab", "\n": "Line feed", "\r": "Carriage return", "\x1b": "Escape", "\x7f": "Delete"}


@dataclass(frozen=True)
class Part:
    """A stretch of text as it is, or one token in place of a character, with that character's name."""

    text: str
    token: bool = False
    name: str = ""


def visible(text: str, *, lines: bool = False) -> list[Part]:
    """The text in parts; joined, with each token turned back into its character, they are the text.

    With `lines`, a line feed stays a line feed; without, it is the token ``U+000A``. A tab is always ``U+0009``.
    """
    parts, start = [], 0
    for index in _tokens(text):
        if lines and text[index] == "\n":
            continue
        if start < index:
            parts.append(Part(text[start:index]))
        parts.append(Part(f"U+{ord(text[index]):04X}", token=True, name=_name(text[index])))
        start = index + 1
    if start < len(text):
        parts.append(Part(text[start:]))
    return parts


def plain_visible(text: str) -> str:
    """One line for titles, logs and terminals: tokens as ``⟦U+0430⟧``. Different texts always give different lines."""
    bracketed = (f"⟦{part.text}⟧" if part.token else _escaped(part.text) for part in visible(text))
    return "".join(bracketed)


def count(text: str, *, lines: bool = False) -> int:
    """How many tokens `visible` gives."""
    return sum(part.token for part in visible(text, lines=lines))


def _escaped(text: str) -> str:
    return re.sub("[⟦⟧]", lambda bracket: f"⟦U+{ord(bracket[0]):04X}⟧", text)


def _tokens(text: str) -> list[int]:
    if text.isascii() and text.isprintable():
        return []
    foreign = set(_look_alikes(text))
    return sorted(foreign.union(_unseen(text, foreign)))


def _unseen(text: str, foreign: set[int]) -> Iterator[int]:
    room = 0  # for marks on the letter before
    for index, character in enumerate(text):
        category = unicodedata.category(character)
        if _is_unseen(character, category):
            room = 0
            yield index
        elif category[0] != "M":
            room = 0 if character == " " or index in foreign else _MARKS
        elif room and category != "Me":
            room -= 1
        else:
            yield index


def _is_unseen(character: str, category: str) -> bool:
    return (
        category in _HIDDEN
        or (category == "Zs" and character != " ")
        or character in _BLANK
        or "VARIATION SELECTOR" in unicodedata.name(character, "")
    )


def _look_alikes(text: str) -> Iterator[int]:
    for phrase in re.finditer(r"\S+", text):
        if phrase[0].isascii():
            continue
        scripts = {index: _script(text[index]) for index in range(*phrase.span())}
        beside_latin = "LATIN" in scripts.values()
        for word in _words(text, phrase.span()):
            yield from _foreign(text, {index: scripts[index] for index in word}, beside_latin)


def _words(text: str, span: tuple[int, int]) -> Iterator[list[int]]:
    """Runs of letters, digits and _, and of what hides between them: a joiner does not end a word."""
    for inside, run in groupby(range(*span), key=lambda index: _in_word(text[index])):
        if inside:
            yield list(run)


def _foreign(text: str, scripts: dict[int, str], beside_latin: bool) -> Iterator[int]:
    latin = [index for index, script in scripts.items() if script == "LATIN"]
    letters = [index for index, script in scripts.items() if script]
    twins = beside_latin and all(text[index] in _TWINS or scripts[index] in _TWIN_SCRIPTS for index in letters)
    for index in letters:
        script = scripts[index]
        if script == "LATIN":
            continue
        # East Asian words border on Latin ones without a space; only inside one are they odd.
        odd = latin[0] < index < latin[-1] if latin and script == "EAST ASIAN" else bool(latin)
        if odd or twins or script == "STYLED":
            yield index


def _in_word(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] in "LNM" or category == "Cf" or character == "_" or character in _BLANK


@lru_cache(maxsize=4096)
def _script(character: str) -> str:
    """LATIN, EAST ASIAN, any other script, STYLED for letters and digits in disguise, or "" where it tells nothing."""
    if character.isascii():
        return "LATIN" if character.isalpha() else ""
    if unicodedata.category(character) not in ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Nl"):
        return ""
    if _is_styled(character):
        return "STYLED"
    script = unicodedata.name(character, "").partition(" ")[0]
    if script in _ANY_SCRIPT:
        return ""
    return "EAST ASIAN" if script in _EAST_ASIAN else script


def _is_styled(character: str) -> bool:
    """Fullwidth, mathematical, ligature, Kelvin sign: plain letters and digits in disguise. Raised ones are not."""
    meant = unicodedata.normalize("NFKC", character)
    raised = unicodedata.decomposition(character).startswith(("<super>", "<sub>"))
    return meant != character and meant.isascii() and meant.isalnum() and not raised


def _name(character: str) -> str:
    if character in _CONTROLS:
        return _CONTROLS[character]
    unnamed = _UNNAMED.get(unicodedata.category(character), "Unassigned character")
    return unicodedata.name(character, unnamed).capitalize()
