"""The one clock: `sayso_now()` in the database (R05). No process compares its own time with a deadline."""

from datetime import UTC, datetime

from django.db import connection


def now() -> datetime:
    """What the database's clock says at this statement, not at the transaction's start."""
    with connection.cursor() as cursor:
        cursor.execute("select sayso_now()")
        return cursor.fetchone()[0]


def stamp(at: datetime) -> str:
    """RFC 3339, in UTC, ending in Z, with every digit there is."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
