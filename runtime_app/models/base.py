"""What every tenant table shares: an id, its tenant, keys that cannot cross tenants, the database's clock."""

import pgtrigger
from django.db import models

from ..ids import uuid7


class Now(models.Func):
    """`sayso_now()`, the one clock (R05). Only tests replace it."""

    function = "sayso_now"
    output_field = models.DateTimeField()


class TransactionId(models.Field):
    """PostgreSQL's 64-bit transaction id, as an int: the tenant-wide feed orders by it (R38)."""

    def db_type(self, connection):
        return "xid8"

    def from_db_value(self, value, expression, connection):
        return None if value is None else int(value)

    def get_prep_value(self, value):
        return None if value is None else str(value)


class CurrentTransaction(models.Func):
    function = "pg_current_xact_id"
    output_field = TransactionId()


class TenantKey(models.ForeignKey):
    """A reference inside one tenant.

    Django knows no composite foreign keys: the migration makes `(tenant_id, <this>)` reference `(tenant_id, id)`, so a
    row can never point into another tenant (T04). The database refuses deletes; Django does nothing.
    """

    def __init__(self, to, **options):
        options["on_delete"] = models.DO_NOTHING
        options["db_constraint"] = False
        options.setdefault("db_index", False)
        options.setdefault("related_name", "+")
        super().__init__(to, **options)


class TenantRow(models.Model):
    """A row below another of its tenant. Its TenantKeys carry the tenant: a foreign key of its own would say nothing
    more, and lock the one tenant row in every transaction."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    tenant = models.ForeignKey(
        "runtime_app.Tenant", models.PROTECT, related_name="+", db_index=False, db_constraint=False
    )

    class Meta:
        abstract = True


class TenantRoot(TenantRow):
    """A row that hangs on its tenant alone."""

    tenant = models.ForeignKey("runtime_app.Tenant", models.PROTECT, related_name="+", db_index=False)

    class Meta:
        abstract = True


def one_of(field: str, table, name: str) -> models.CheckConstraint:
    """The column holds one of the words of `table`, and no other."""
    return models.CheckConstraint(condition=models.Q(**{f"{field}__in": list(table)}), name=name)


def steps_only(steps: list[tuple[str, str]], field: str = "state") -> pgtrigger.FSM:
    """A state follows only where `states` says so, whoever writes (I23)."""
    return pgtrigger.FSM(name="steps", field=field, transitions=steps)


def kept() -> pgtrigger.Protect:
    """History is not deleted, by anybody (T98, B100, B161)."""
    return pgtrigger.Protect(name="kept", operation=pgtrigger.Delete)


def append_only() -> list[pgtrigger.Protect]:
    """A fact, once written, stays as it is."""
    return [kept(), pgtrigger.Protect(name="append_only", operation=pgtrigger.Update)]
