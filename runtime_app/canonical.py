"""Canonical bytes (R15): a strict JSON parser, one writer, the digest, and the leaves that a card shows.

What is shown, what is digested and what a handler is called with are all parsed from the same bytes.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from .errors import InvalidInput

LIMIT = 65_536  # bytes
DEPTH = 32  # containers inside one another
DIGITS = 1_000  # characters of one number

DOMAIN = b"sayso action v1"

# The closing quote is optional so that a text which never closes costs one pass, not one pass for each quote in it.
_STRINGS_AND_BRACKETS = re.compile(r'"(?:[^"\\]+|\\.)*"?|[\[\]{}]', re.DOTALL)
_INTEGER = re.compile(r"-?[0-9]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SIMPLE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class Number(Decimal):
    """A number written with a point or an exponent, or -0. `text` is what was sent: ``1.0`` and ``1E2`` stay so."""

    __slots__ = ("text",)

    def __new__(cls, text: str):
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __str__(self):
        return self.text

    def __repr__(self):
        return f"Number({self.text!r})"


@dataclass(frozen=True)
class Leaf:
    """One value without parts (an empty object or list counts), and its path: ``notify[0].to``, ``["odd key"]``."""

    path: str
    value: Any


def parse(text: str | bytes, *, limit: int = LIMIT) -> Any:
    """The value of one JSON text of at most `limit` bytes, or `InvalidInput` that says what is wrong and where (R15).

    Reason `too_large` (413) for the size, `unparsable` (400) for what is not JSON; everything else is 422.
    Integers are `int`, other numbers are `Number`. Never raises anything else.
    """
    text = _decoded(text, limit)
    _refuse_deep(text)
    try:
        return _settle(_DECODER.decode(text), "")
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"This is not JSON: {error.msg.lower().removesuffix(' at')} at line {error.lineno}, column {error.colno}.",
            reason="unparsable",
        ) from None


def dump(value: Any) -> bytes:
    """The canonical bytes: keys by code point, no insignificant space, UTF-8, numbers as they were written (R15).

    `InvalidInput` for whatever `parse` would refuse to read back, and for types JSON does not have.
    """
    return "".join(_written(value, "", 0)).encode()


def plain(value: Any) -> Any:
    """The same value for handlers and for columns: every `Number` an `int` or `float`."""
    match value:
        case Number():
            return int(value.text) if _INTEGER.fullmatch(value.text) else float(value.text)
        case dict():
            return {key: plain(inner) for key, inner in value.items()}
        case list():
            return [plain(inner) for inner in value]
    return value


def leaves(value: Any) -> list[Leaf]:
    """Every leaf, in document order, none left out (R03)."""
    return list(_leaves(value, ""))


def digest(*, tenant: UUID, session: UUID, run: UUID, request: UUID, action_bytes: bytes) -> str:
    """Hex SHA-256 over the domain, the four ids and the Action's stored bytes, each after its length in 8 bytes."""
    ids = [UUID(str(each)).bytes for each in (tenant, session, run, request)]
    hashed = hashlib.sha256()
    for part in (DOMAIN, *ids, bytes(action_bytes)):
        hashed.update(len(part).to_bytes(8, "big") + part)
    return hashed.hexdigest()


def fingerprint(digest: str) -> str:
    """``amber-otter-7731``: a digest for people who compare two screens. Never used for checking."""
    rest, digits = divmod(int(digest, 16), 10_000)
    rest, animal = divmod(rest, len(ANIMALS))
    return f"{COLOURS[rest % len(COLOURS)]}-{ANIMALS[animal]}-{digits:04}"


def fault(text: str) -> str | None:
    """Why this text cannot be kept (it holds a NUL or half a surrogate pair), or None."""
    if "\0" in text:
        return "contains a NUL character (U+0000)"
    if half := _SURROGATE.search(text):
        return f"contains half of a surrogate pair (U+{ord(half[0]):04X})"
    return None


class _Unread(str):
    """A number or constant as written; what becomes of it is decided where its path is known."""


class _Pairs(list):
    """The members of an object, repeats included."""


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Pairs, parse_int=_Unread, parse_float=_Unread, parse_constant=_Unread, strict=True
)


def _decoded(text: str | bytes, limit: int) -> str:
    too_large = InvalidInput(f"This is larger than the {limit:,} bytes accepted here.", reason="too_large", limit=limit)
    if len(text) > limit:
        raise too_large
    if not isinstance(text, str):
        try:
            return bytes(text).decode()
        except UnicodeDecodeError as error:
            raise InvalidInput(f"This is not UTF-8: byte {error.start} cannot be read.") from None
    if half := _SURROGATE.search(text):
        raise InvalidInput(f"Character {half.start()} is half of a surrogate pair.")
    if len(text.encode()) > limit:
        raise too_large
    return text


def _refuse_deep(text: str) -> None:
    """Count before anything recurses."""
    depth = 0
    for found in _STRINGS_AND_BRACKETS.finditer(text):
        if found[0] in "[{":
            depth += 1
            if depth > DEPTH:
                raise InvalidInput(f"Character {found.start()} opens level {depth}; at most {DEPTH} are accepted.")
        elif found[0] in "]}":
            depth -= 1


def _settle(value: Any, path: str) -> Any:
    match value:
        case _Pairs():
            return _object(value, path)
        case list():
            return [_settle(inner, f"{path}[{index}]") for index, inner in enumerate(value)]
        case _Unread():
            return _number(value, path)
        case str():
            return _text(value, path)
    return value


def _object(pairs: _Pairs, path: str) -> dict:
    settled = {}
    for key, inner in pairs:
        _key(key, path)
        if key in settled:
            raise InvalidInput(f"The key {_short(json.dumps(key))} appears twice in {_where(path)}.")
        settled[key] = _settle(inner, _member(path, key))
    return settled


def _number(text: str, path: str) -> int | Number:
    if len(text) > DIGITS:
        raise InvalidInput(f"The number at {_where(path)} has over {DIGITS:,} characters.")
    if _INTEGER.fullmatch(text) and text != "-0":  # an int would come back without its sign
        return int(text)
    if text.lstrip("-") in ("NaN", "Infinity"):
        raise InvalidInput(f"{text} at {_where(path)} is not a JSON number.")
    try:
        number, nearest = Number(str(text)), float(text)
    except InvalidOperation:
        nearest = float("inf")
    # What overflows, or is not zero and turns into zero, would reach a handler as another number than was shown.
    if nearest in (float("inf"), float("-inf")) or (nearest == 0) != number.is_zero():
        raise InvalidInput(f"The number {_short(text)} at {_where(path)} is too large or too small to be kept.")
    return number


def _text(text: str, path: str) -> str:
    if wrong := fault(text):
        raise InvalidInput(f"The text at {_where(path)} {wrong}.")
    return text


def _key(key: Any, path: str) -> None:
    if not isinstance(key, str):
        raise InvalidInput(f"A key in {_where(path)} is not text.")
    if wrong := fault(key):
        raise InvalidInput(f"The key {_short(json.dumps(key))} in {_where(path)} {wrong}.")


def _written(value: Any, path: str, depth: int) -> Iterator[str]:
    if depth > DEPTH or (depth == DEPTH and isinstance(value, dict | list)):
        raise InvalidInput(f"{_where(path)} opens level {depth + 1}; at most {DEPTH} are accepted.")
    match value:
        case None | True | False:
            yield {None: "null", True: "true", False: "false"}[value]
        case str():
            yield json.dumps(_text(value, path), ensure_ascii=False)
        case Number():
            yield value.text
        case int():
            yield _digits(value, path)
        case float():
            if value != value or value in (float("inf"), float("-inf")):
                raise InvalidInput(f"{value} at {_where(path)} is not a JSON number.")
            yield float.__repr__(value)
        case list():
            for index, inner in enumerate(value):
                yield "," if index else "["
                yield from _written(inner, f"{path}[{index}]", depth + 1)
            yield "]" if value else "[]"
        case dict():
            for key in value:
                _key(key, path)
            for index, key in enumerate(sorted(value)):
                yield ("," if index else "{") + json.dumps(key, ensure_ascii=False) + ":"
                yield from _written(value[key], _member(path, key), depth + 1)
            yield "}" if value else "{}"
        case _:
            raise InvalidInput(f"{_where(path)} is of a type JSON does not have ({type(value).__name__}).")


def _digits(value: int, path: str) -> str:
    if value.bit_length() <= DIGITS * 4:  # beyond that Python would refuse to write it
        text = int.__repr__(value)
        if len(text) <= DIGITS:
            return text
    raise InvalidInput(f"The number at {_where(path)} has over {DIGITS:,} characters.")


def _leaves(value: Any, path: str) -> Iterator[Leaf]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, _member(path, key))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{index}]")
    else:
        yield Leaf(path, value)


def _member(path: str, key: str) -> str:
    if not _SIMPLE_KEY.fullmatch(key):
        return f"{path}[{json.dumps(key, ensure_ascii=False)}]"
    return f"{path}.{key}" if path else key


def _where(path: str) -> str:
    return f"`{_short(path)}`" if path else "the top level"


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + "…"


COLOURS = """
amber apple ash azure birch blue brass brick bronze brown cedar chalk cherry clay coal cobalt copper coral cream
crimson denim ebony fern flax frost ginger gold granite grape green hazel honey indigo iron ivory jade lemon lilac
lime maple mint moss navy ochre olive onyx opal orange peach pearl pine pink plum quartz red rose ruby rust sand
silver slate teal umber violet
""".split()

ANIMALS = """
ant badger bat bear beaver bee bison boar camel cat cod cow crab crane crow deer dog dove duck eagle eel elk falcon
ferret finch fox frog gecko goat goose hare hawk heron horse ibis jay koala lark lion lizard llama lynx mole moose
moth mouse newt orca otter owl panda pike pony puffin raven robin seal shark sheep snail swan tiger toad trout
""".split()
