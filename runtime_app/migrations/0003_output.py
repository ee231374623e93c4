"""Streamed output beside its Run; why a Schedule did not start."""

import django.db.models.deletion
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models

import runtime_app.ids
import runtime_app.models.base

# As in 0001: a row can never point into another tenant (T04).
IN_TENANT = """
alter table runtime_app_chunk add constraint chunk_run_id_in_tenant foreign key (tenant_id, run_id)
references runtime_app_run (tenant_id, id)
"""


class Migration(migrations.Migration):
    dependencies = [
        ("runtime_app", "0002_reality"),
    ]

    operations = [
        migrations.AddField(
            model_name="schedule",
            name="refused",
            field=models.TextField(blank=True, db_comment="why it did not start when it last was due", editable=False),
        ),
        migrations.AddField(
            model_name="schedule",
            name="refused_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.CreateModel(
            name="Chunk",
            fields=[
                (
                    "id",
                    models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "stream",
                    models.CharField(
                        db_comment="the journaled place of the call, and the Lease it ran under", max_length=200
                    ),
                ),
                ("offset", models.BigIntegerField(db_comment="how many characters of the stream came before")),
                ("text", models.TextField()),
                ("at", models.DateTimeField(db_default=runtime_app.models.base.Now())),
                (
                    "run",
                    runtime_app.models.base.TenantKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.run",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="runtime_app.tenant",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("run", "stream", "offset"), name="chunk_once")],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="chunk",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;",
                    hash="d3d8cdeff27ba4fea8ba49edeb58bb2702996afd",
                    operation="DELETE",
                    pgid="pgtrigger_kept_d006f",
                    table="runtime_app_chunk",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="chunk",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                    hash="2f8f8aabd8b9bb1d651e84f5be126ac4eb968d9a",
                    operation="UPDATE",
                    pgid="pgtrigger_append_only_8218e",
                    table="runtime_app_chunk",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.RunSQL(IN_TENANT, migrations.RunSQL.noop),
    ]
