"""The one clock: `sayso_now()` in the database (R05). No process compares its own time with a deadline."""

from datetime import datetime

from django.db import connection


def now() -> datetime:
    """What the database's clock says at this statement, not at the transaction's start."""
    with connection.cursor() as cursor:
        cursor.execute("select sayso_now()")
        return cursor.fetchone()[0]
