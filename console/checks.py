"""What `./run manage check --database default` and the start of `serve` and `worker` look at. Each says what to do."""

from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import Error, Tags, Warning, register
from django.db import connections

from console.environ import LOCAL

ROLE = """
    SELECT rolsuper, rolbypassrls,
           EXISTS (SELECT FROM pg_class WHERE relowner = pg_roles.oid AND relkind IN ('r', 'p')
                   AND relnamespace = 'public'::regnamespace),
           extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval)
    FROM pg_roles WHERE rolname = current_user
"""


@register(Tags.database)
def app_role(databases, **kwargs):
    """The role of web and worker can neither bypass what the database refuses nor change it."""
    if "default" not in (databases or []) or settings.SAYSO_ROLE == "owner":
        return []
    with connections["default"].cursor() as cursor:
        cursor.execute(ROLE)
        superuser, bypasses, owns, idle = cursor.fetchone()
    found = []
    hint = (
        "Make DATABASE_URL name a role made by console/roles.sql, and DATABASE_OWNER_URL the one that owns the tables."
    )
    if superuser or bypasses:
        found.append(Error("The database role of web and worker may bypass row security.", hint=hint, id="sayso.E001"))
    if owns:
        found.append(Error("The database role of web and worker owns tables.", hint=hint, id="sayso.E002"))
    if not 0 < idle <= 10:
        found.append(
            Error(
                "The database role of web and worker may idle in a transaction for more than 10 seconds (R38).",
                hint="Run console/roles.sql as the server's superuser.",
                id="sayso.E003",
            )
        )
    return found


@register(Tags.database)
def migrations(databases, **kwargs):
    if "default" not in (databases or []):
        return []
    from django.db.migrations.executor import MigrationExecutor

    executor = MigrationExecutor(connections["default"])
    pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if not pending:
        return []
    return [
        Warning(f"{len(pending)} migrations are not in the database yet.", hint="./run manage migrate", id="sayso.W001")
    ]


@register(Tags.security)
def origin(**kwargs):
    found = []
    https = [each for each in settings.ORIGINS if each.startswith("https:")]
    if settings.DEBUG and https:
        found.append(
            Error("SAYSO_DEBUG is on where others reach the console.", hint="Unset SAYSO_DEBUG.", id="sayso.E004")
        )
    if https and len(https) < len(settings.ORIGINS):
        found.append(
            Error(
                "SAYSO_ORIGIN mixes https and http: cookies would travel in clear.",
                hint="Name https origins only.",
                id="sayso.E005",
            )
        )
    if open_ones := [each for each in settings.ORIGINS if each not in https and urlsplit(each).hostname not in LOCAL]:
        found.append(
            Warning(
                f"{', '.join(open_ones)}: passwords travel in clear.",
                hint="Put TLS before it and name the https origin in SAYSO_ORIGIN.",
                id="sayso.W002",
            )
        )
    return found
