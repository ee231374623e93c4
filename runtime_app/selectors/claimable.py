"""What a worker that was told nothing finds to do: one statement, so that looking costs next to nothing."""

from django.db import connection

_CLAIMABLE = """
select (select count(*) from (
            select 1 from runtime_app_run where state = 'queued' and hosted and held_at is null limit 100) queued),
       (select count(*) from (
            select 1 from runtime_app_grant g join runtime_app_run r on r.id = g.run_id
             where g.state = 'unused' and r.hosted limit 1) unused),
       (select count(*) from (select 1 from runtime_app_effect where probe_at <= sayso_now() limit 1) due)
"""


def claimable() -> dict[str, int]:
    """By the words of the hints that went out, or should have: how many Runs, and whether any Effect."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIMABLE)
        return dict(zip(("run", "effect", "probe"), cursor.fetchone(), strict=True))
