"""One field of a question form: what it accepts, as a typed value or as a form's strings (R02)."""

import re
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

from . import canonical
from .canonical import Number
from .errors import InvalidInput

CHOICES = 200
TEXT = 20_000  # characters of a text answer

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")


@dataclass(frozen=True)
class Choice:
    """`text` is what a form posts for it: the plain text of a string, canonical JSON of anything else."""

    value: Any
    label: str

    @property
    def text(self) -> str:
        return written(self.value)


@dataclass(frozen=True)
class Field:
    """One field of a form. `limits` has the schema's own keywords; `default` is None where there is none."""

    name: str
    title: str
    kind: str
    hint: str = ""
    choices: list[Choice] = field(default_factory=list)
    default: Any = None
    required: bool = False
    limits: dict[str, Any] = field(default_factory=dict)

    @property
    def initial(self) -> list[str]:
        """The default as a form would post it."""
        if self.default is None:
            return []
        return [written(each) for each in (self.default if self.kind == "several" else [self.default])]


class Wrong(Exception):
    """What is wrong with one field, as a sentence."""


def legal(each: Field, value: Any) -> Any:
    """The value if this field accepts it, with any `Number` made plain; else `Wrong`."""
    match each.kind:
        case "text" | "long":
            return _text(each, value)
        case "secret":
            return _secret(each, value)
        case "date":
            return _day(value)
        case "integer" | "number":
            return _number(each, value)
        case "several":
            return _some(each, value)
    return _one(each, value)


def _text(each: Field, value: Any) -> str:
    if not isinstance(value, str):
        raise Wrong("Must be text.")
    if wrong := canonical.fault(value):
        raise Wrong(f"The text {wrong}.")
    least, most = each.limits.get("minLength", 0), each.limits["maxLength"]
    if len(value) < least:
        raise Wrong(f"Must have {least:,} characters or more; it has {len(value):,}.")
    if len(value) > most:
        raise Wrong(f"Must have {most:,} characters or fewer; it has {len(value):,}.")
    return value


def _secret(each: Field, value: Any) -> str:
    """As a text; what is wrong with it says nothing about it, its length included (R12)."""
    try:
        return _text(each, value)
    except Wrong:
        low, high = each.limits.get("minLength", 0), each.limits["maxLength"]
        raise Wrong(f"Must be a text of {low:,} to {high:,} characters.") from None


def _day(value: Any) -> str:
    try:
        if isinstance(value, str) and _DATE.fullmatch(value):
            return date.fromisoformat(value).isoformat()
    except ValueError:
        pass
    raise Wrong("Must be a day of the calendar, written as 2026-12-14.")


def _number(each: Field, value: Any) -> int | float:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if each.kind == "integer" and not whole:
        raise Wrong("Must be a whole number.")
    if not whole and not isinstance(value, float | Number):
        raise Wrong("Must be a number.")
    number = unchanged(value)
    low, high = each.limits.get("minimum"), each.limits.get("maximum")
    if low is not None and exact(number) < exact(low):
        raise Wrong(f"Must be {written(low)} or more.")
    if high is not None and exact(number) > exact(high):
        raise Wrong(f"Must be {written(high)} or less.")
    return number


def _one(each: Field, value: Any) -> Any:
    value = canonical.plain(value)
    for choice in each.choices:
        if type(choice.value) is type(value) and choice.value == value:
            return choice.value
    raise Wrong("Must be one of the choices.")


def _some(each: Field, value: Any) -> list:
    if not isinstance(value, list):
        raise Wrong("Must be a list of choices.")
    chosen = [_one(each, one) for one in value]
    if len({written(one) for one in chosen}) != len(chosen):
        raise Wrong("Each choice can be taken once.")
    least, most = each.limits.get("minItems", 0), each.limits.get("maxItems", CHOICES)
    if len(chosen) < least:
        raise Wrong(f"Choose {least} or more.")
    if len(chosen) > most:
        raise Wrong(f"Choose {most} or fewer.")
    return chosen


def typed(each: Field, texts: list[str]) -> Any:
    match each.kind:
        case "text" | "long":
            return texts[0].replace("\r\n", "\n")
        case "secret":
            return texts[0]
        case "date":
            return texts[0].strip()
        case "integer" | "number":
            return _numeral(each.kind, texts[0].strip())
    chosen = [_chosen(each, text) for text in texts]
    return chosen if each.kind == "several" else chosen[0]


def _numeral(kind: str, text: str) -> Any:
    try:
        number = canonical.parse(text) if kind == "number" or _INTEGER.fullmatch(text) else None
    except InvalidInput:
        number = None
    if isinstance(number, int | Number) and not isinstance(number, bool):
        return number
    raise Wrong("Must be a whole number, such as 12." if kind == "integer" else "Must be a number, such as 12.5.")


def _chosen(each: Field, text: str) -> Any:
    for choice in each.choices:
        if choice.text == text:
            return choice.value
    raise Wrong("Must be one of the choices.")


def unchanged(number: int | float | Number) -> int | float:
    """The plain number if it is the same number, else `Wrong`."""
    try:
        found = canonical.plain(number)
        canonical.dump(found)
    except InvalidInput:
        raise Wrong("Is not a number that can be kept.") from None
    if isinstance(number, Number) and exact(found) != number:
        raise Wrong("Has more digits than can be kept exactly.")
    return found


def exact(number: int | float) -> Decimal:
    """A float as it is written: 0.1 is a tenth, not the nearest power of two."""
    return Decimal(repr(number))


def written(value: Any) -> str:
    """A value as a form shows and posts it."""
    return value if isinstance(value, str) else canonical.dump(value).decode()
