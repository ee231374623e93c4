"""What callers write: refused, by name, where a column could not hold it or a page could not show it (R15)."""

from .. import canonical
from ..errors import InvalidInput

MESSAGE_BYTES = 65_536


def legal_texts(longest: int | None = None, **texts: str) -> None:
    """Raises InvalidInput that names the text, for what is no text or is longer than so many bytes."""
    for name, text in texts.items():
        if wrong := canonical.fault(text):
            raise InvalidInput(f"The {name} {wrong}.", fields={name: wrong})
        if longest is not None and len(text.encode()) > longest:
            raise InvalidInput(f"The {name} is longer than {longest:,} bytes.", reason="too_large")


def legal_message(message: str) -> None:
    """What an agent works from: not empty, and of a bounded size."""
    if not message.strip():
        raise InvalidInput("Write a message: it is what the agent works from.", fields={"message": "empty"})
    legal_texts(MESSAGE_BYTES, message=message)
