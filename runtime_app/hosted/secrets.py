"""Secret answers for the code of tools: the model has a reference, the tool opens it (R12).

    from runtime_app.hosted.secrets import open_secret

    def call_provider(key: str) -> str:          # the model gives the reference that the answer had
        return provider.call(token=open_secret(key))

What was opened is destroyed when the result of that call is journaled, and is blotted out in it.
"""

import json
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import UUID

from ..models import Secret
from ..selectors.secrets import text_of

BLOT = "[secret]"
SHORT = 4  # characters: a shorter secret is blotted out only where it is the whole value


class NoSuchSecret(LookupError):
    """The reference names no secret that this Run may still open, or nothing may be opened here."""


class ToldASecret(Exception):
    """A tool failed with words that held a secret. They are not repeated."""


class Opened:
    """What one call of a tool may open, and what it did open."""

    def __init__(self, kept: list[Secret]):
        self._kept = {secret.reference: secret for secret in kept}
        self._texts: dict[UUID, str] = {}

    @property
    def used(self) -> list[UUID]:
        return list(self._texts)

    def text(self, reference: str) -> str:
        if (secret := self._kept.get(reference)) is None:
            raise NoSuchSecret("This names no secret that can still be opened.")
        self._texts[secret.pk] = text_of(secret)
        return self._texts[secret.pk]

    def blotted(self, written: str) -> str:
        """JSON without what was opened."""
        return json.dumps(self._blot(json.loads(written)), ensure_ascii=False) if self._texts else written

    def tells(self, words: str) -> bool:
        return any(text in words for text in self._texts.values() if text)

    def _blot(self, value):
        match value:
            case dict():
                return {self._blot(name): self._blot(each) for name, each in value.items()}
            case list():
                return [self._blot(each) for each in value]
            case None | bool():
                return value
        text = told = str(value)
        for secret in sorted(self._texts.values(), key=len, reverse=True):
            if secret == told or len(secret) >= SHORT:
                told = told.replace(secret, BLOT) if secret else told
        return value if told == text else told


_within: ContextVar[Opened | None] = ContextVar("sayso_secrets", default=None)


def open_secret(reference: str) -> str:
    """The secret behind a reference that a person's answer had. In the code of a tool alone, within the Run that asked;
    again and again within one call, and never after its result was journaled. Raises NoSuchSecret."""
    opened = _within.get()
    if opened is None:
        raise NoSuchSecret("A secret is opened by the code of a tool, while it is called.")
    return opened.text(reference)


@contextmanager
def within(kept: list[Secret]) -> Iterator[Opened]:
    """One call of a tool. Raises ToldASecret in the place of an exception whose words hold what was opened."""
    opened = Opened(kept)
    before = _within.set(opened)
    try:
        yield opened
    except Exception as error:
        if opened.used and opened.tells("".join(traceback.format_exception(error))):
            raise ToldASecret from None
        raise
    finally:
        _within.reset(before)
