"""UUID version 7: made anywhere, close together on disk. It orders nothing: `seq` and the database clock do."""

import os
import time
import uuid


def uuid7() -> uuid.UUID:
    """Milliseconds since 1970 in the first 48 bits, then 74 random ones."""
    bits = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    bits = bits & ~(0xF << 76) | 7 << 76
    return uuid.UUID(int=bits & ~(0x3 << 62) | 2 << 62)


def parse_id(text) -> uuid.UUID | None:
    """The id written in `text`, or None: what is not an id names nothing (R07)."""
    if isinstance(text, uuid.UUID):
        return text
    try:
        return uuid.UUID(str(text))
    except ValueError:
        return None
