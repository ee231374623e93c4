"""Files beside people's statements (T70): on disk under random names, never looked into, never unpacked."""

import os
import secrets
from hashlib import file_digest
from pathlib import Path

from django.conf import settings

from .responses import File

SIZE = 10 * 1024 * 1024  # bytes of one file
COUNT = 5
NAME = 200  # characters kept of what a file was called
TYPES = frozenset(
    "csv doc docx eml gif heic jpeg jpg json log md mp4 odt pdf png txt webp xls xlsx xml zip".split()
)  # by the end of the name; whatever is inside, it is served as bytes to be saved


def folder() -> Path:
    """Where they are, and where those under way are written: a file is kept by a link, without a copy."""
    path = Path(settings.SAYSO_DATA) / "evidence"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def wrong_type(name: str) -> bool:
    return Path(name).suffix.removeprefix(".").lower() not in TYPES


def keep(temporary: str, name: str) -> File:
    """Keep the file at this path of `folder`, before the statement it belongs to is written."""
    stored = secrets.token_hex(16)
    with open(temporary, "rb") as file:
        os.fsync(file.fileno())
        size, digest = os.fstat(file.fileno()).st_size, file_digest(file, "sha256").hexdigest()
    os.link(temporary, folder() / stored)
    return File(name[-NAME:], size, digest, stored)


def forget(files) -> None:
    """Nothing was written that names these."""
    for file in files:
        (folder() / file.stored).unlink(missing_ok=True)


def there(stored: str) -> bool:
    return (folder() / stored).is_file()


def read(stored: str) -> bytes | None:
    """What was kept, or None if it is not there any more."""
    try:
        return (folder() / stored).read_bytes()
    except OSError:
        return None
