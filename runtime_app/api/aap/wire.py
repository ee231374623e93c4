"""What comes in as AAP objects, and nothing else: unknown fields, nulls and other types are refused by name."""

import re
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from ... import canonical
from ...errors import InvalidInput
from .. import doors

DURATION = re.compile(r"([1-9][0-9]*)(s|m|h)")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours"}
VISIBLE = re.compile(r"[!-~]")
SECRET = re.compile(r"whsec_[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=")
OUTCOMES = ("succeeded", "failed")


def body(request) -> dict[str, Any]:
    """The object that was sent. Raises InvalidInput."""
    found = doors.body(request)
    if not isinstance(found, dict):
        raise InvalidInput("The body is a JSON object.")
    return found


def no_body(request) -> None:
    """This call takes none; an empty object is none."""
    sent = doors.read(request).strip()
    if sent and canonical.parse(sent) != {}:
        raise InvalidInput("This call takes no body.")


def fields(found: dict, required: tuple[str, ...], optional: tuple[str, ...] = (), nullable: tuple[str, ...] = ()):
    """Exactly these, and no null. Raises InvalidInput, naming the field."""
    for name in found:
        if name not in (*required, *optional):
            raise wrong(name[:60], "no such field")
        if found[name] is None and name not in nullable:
            raise wrong(name, "null is no value here; leave it out")
    for name in required:
        if name not in found:
            raise wrong(name, "missing")


def text(found: dict, name: str, longest: int | None = None, *, empty: bool = False) -> str | None:
    if name not in found:
        return None
    value = found[name]
    if not isinstance(value, str) or not value and not empty:
        raise wrong(name, "a text that is not empty" if not empty else "a text")
    if longest and len(value) > longest:
        raise wrong(name, f"a text of at most {longest} characters")
    return value


def document(found: dict, name: str) -> dict | None:
    if name in found and not isinstance(found[name], dict):
        raise wrong(name, "a JSON object")
    return found.get(name)


def duration(found: dict, name: str) -> timedelta:
    told = DURATION.fullmatch(text(found, name))
    if told is None:
        raise wrong(name, "a whole number and s, m or h: 30m")
    return timedelta(**{UNITS[told[2]]: min(int(told[1][:8]), 10**7)})  # a thousand years are as good as more


def identifier(found: dict, name: str) -> UUID:
    try:
        return UUID(text(found, name))
    except ValueError:
        raise wrong(name, "a UUID") from None


def key(request, *operation) -> str:
    """The Idempotency-Key, which counts within its operation: of any length there, of one length here."""
    sent = request.headers.get("Idempotency-Key", "")
    if not VISIBLE.search(sent):
        raise InvalidInput(
            "This call takes an Idempotency-Key.",
            reason="missing_idempotency_key",
            fields={"Idempotency-Key": "missing"},
        )
    return "aap " + sha256("\0".join((*map(str, operation), sent)).encode("utf-8", "surrogatepass")).hexdigest()


def wrong(name: str, why: str) -> InvalidInput:
    return InvalidInput(f"`{name}`: {why}.", fields={name: why})
