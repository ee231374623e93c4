"""What reality needs: holds, recoveries that send, children, schedules, callbacks, files beside evidence."""

import django.db.models.deletion
import pgtrigger.compiler
import pgtrigger.migrations
from django.conf import settings
from django.db import migrations, models

import runtime_app.ids
import runtime_app.models.base

# As in 0001: a row can never point into another tenant (T04).
UNIQUES = ["schedule", "evidence"]
KEYS = [
    ("environment", "session_id", "session"),
    ("run", "schedule_id", "schedule"),
    ("run", "recovers_id", "effect"),
    ("schedule", "environment_id", "environment"),
    ("evidencefile", "evidence_id", "evidence"),
]


def tenant_keys() -> list[migrations.RunSQL]:
    uniques = [
        f"alter table runtime_app_{table} add constraint {table}_in_tenant unique (tenant_id, id)" for table in UNIQUES
    ]
    references = [
        f"alter table runtime_app_{table} add constraint {table}_{column}_in_tenant foreign key (tenant_id, {column}) "
        f"references runtime_app_{target} (tenant_id, id)"
        for table, column, target in KEYS
    ]
    return [migrations.RunSQL(sql, migrations.RunSQL.noop) for sql in uniques + references]


class Migration(migrations.Migration):
    dependencies = [
        ("runtime_app", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="CallbackSecret",
            fields=[
                (
                    "id",
                    models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("action", models.CharField(max_length=200)),
                ("secret", models.BinaryField(db_comment="encrypted with a key of the installation")),
                ("made_at", models.DateTimeField(db_default=runtime_app.models.base.Now(), editable=False)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="EvidenceFile",
            fields=[
                (
                    "id",
                    models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("name", models.CharField(db_comment="as it was called; shown, never used as a path", max_length=200)),
                ("stored", models.CharField(db_comment="its random name on disk", max_length=64)),
                ("size", models.BigIntegerField()),
                ("sha256", models.CharField(max_length=64)),
                ("at", models.DateTimeField(db_default=runtime_app.models.base.Now())),
            ],
        ),
        migrations.CreateModel(
            name="Schedule",
            fields=[
                (
                    "id",
                    models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("agent", models.SlugField(max_length=80)),
                ("message", models.TextField()),
                (
                    "cron",
                    models.CharField(help_text="minute hour day month weekday, in UTC: 0 6 * * 1", max_length=120),
                ),
                ("active", models.BooleanField(default=True)),
                ("created_at", models.DateTimeField(db_default=runtime_app.models.base.Now(), editable=False)),
            ],
            options={
                "abstract": False,
            },
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="request",
            name="bound",
        ),
        migrations.RemoveConstraint(
            model_name="response",
            name="response_kind_known",
        ),
        migrations.AddField(
            model_name="blocker",
            name="child",
            field=models.UUIDField(db_comment="the child Run that met it (R28)", null=True),
        ),
        migrations.AddField(
            model_name="blocker",
            name="replaced_at",
            field=models.DateTimeField(db_comment="a newer equal Blocker counts this one", null=True),
        ),
        migrations.AddField(
            model_name="blocker",
            name="same",
            field=models.CharField(blank=True, db_comment="equal Blockers of one job have equal hashes", max_length=64),
        ),
        migrations.AddField(
            model_name="blocker",
            name="supplied_by",
            field=models.CharField(blank=True, max_length=150),
        ),
        migrations.AddField(
            model_name="environment",
            name="session",
            field=runtime_app.models.base.TenantKey(
                db_comment="where its holds and releases are told",
                db_constraint=False,
                db_index=False,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="runtime_app.session",
            ),
        ),
        migrations.AddField(
            model_name="evidence",
            name="message_id",
            field=models.CharField(
                blank=True, db_comment="a signed callback's own id: replays are known by it", max_length=200
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="key",
            field=models.CharField(blank=True, db_comment="a child's name in its parent (R28)", max_length=200),
        ),
        migrations.AddField(
            model_name="run",
            name="recovers",
            field=runtime_app.models.base.TenantKey(
                db_comment="the Effect this Run recovers (R24)",
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="runtime_app.effect",
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="recovery",
            field=models.CharField(blank=True, db_comment="redispatch or compensate", max_length=40),
        ),
        migrations.AlterField(
            model_name="request",
            name="key",
            field=models.CharField(
                db_comment="the agent's own name of this wait in its Run (R04); `given` until a successor asks",
                max_length=200,
            ),
        ),
        migrations.AlterField(
            model_name="response",
            name="kind",
            field=models.CharField(
                choices=[
                    ("answer", "answer"),
                    ("approve", "approve"),
                    ("deny", "deny"),
                    ("finding", "finding"),
                    ("recover", "recover"),
                    ("cancel", "cancel"),
                    ("void", "void"),
                    ("hold", "hold"),
                    ("release", "release"),
                    ("compensate", "compensate"),
                    ("evidence", "evidence"),
                ],
                max_length=10,
            ),
        ),
        # by hand: a trigger stands on the column
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    "alter table runtime_app_response alter column run_id drop not null", migrations.RunSQL.noop
                )
            ],
            state_operations=[
                migrations.AlterField(
                    model_name="response",
                    name="run",
                    field=runtime_app.models.base.TenantKey(
                        db_comment="none: a hold or a release of an Environment",
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.run",
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="blocker",
            index=models.Index(
                condition=models.Q(("replaced_at", None), ("supplied_at", None)),
                fields=["tenant", "-created_at"],
                name="blocker_open",
            ),
        ),
        migrations.AddIndex(
            model_name="blocker",
            index=models.Index(
                condition=models.Q(("supplied_at", None)), fields=["tenant", "same"], name="blocker_same"
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="request",
            trigger=pgtrigger.compiler.Trigger(
                name="bound",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition='WHEN (OLD."tenant_id" IS DISTINCT FROM (NEW."tenant_id") OR OLD."session_id" IS DISTINCT FROM (NEW."session_id") OR OLD."run_id" IS DISTINCT FROM (NEW."run_id") OR OLD."environment_id" IS DISTINCT FROM (NEW."environment_id") OR OLD."kind" IS DISTINCT FROM (NEW."kind") OR OLD."number" IS DISTINCT FROM (NEW."number") OR OLD."replaces_id" IS DISTINCT FROM (NEW."replaces_id") OR OLD."accepts" IS DISTINCT FROM (NEW."accepts") OR OLD."prompt" IS DISTINCT FROM (NEW."prompt") OR OLD."schema" IS DISTINCT FROM (NEW."schema") OR OLD."action_name" IS DISTINCT FROM (NEW."action_name") OR OLD."action_version" IS DISTINCT FROM (NEW."action_version") OR OLD."action_bytes" IS DISTINCT FROM (NEW."action_bytes") OR OLD."action_hash" IS DISTINCT FROM (NEW."action_hash") OR OLD."digest" IS DISTINCT FROM (NEW."digest") OR OLD."described" IS DISTINCT FROM (NEW."described") OR OLD."claim" IS DISTINCT FROM (NEW."claim") OR OLD."policy" IS DISTINCT FROM (NEW."policy") OR OLD."effect_id" IS DISTINCT FROM (NEW."effect_id") OR OLD."created_at" IS DISTINCT FROM (NEW."created_at") OR OLD."expires_at" IS DISTINCT FROM (NEW."expires_at"))',
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                    hash="605cf4c8d16deb09b67494ea40937bddd8f9fb3d",
                    operation="UPDATE",
                    pgid="pgtrigger_bound_c226d",
                    table="runtime_app_request",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="evidence",
            constraint=models.UniqueConstraint(
                condition=models.Q(("message_id", ""), _negated=True),
                fields=("effect", "message_id"),
                name="evidence_callback_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="response",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "kind__in",
                        [
                            "answer",
                            "approve",
                            "deny",
                            "finding",
                            "recover",
                            "cancel",
                            "void",
                            "hold",
                            "release",
                            "compensate",
                            "evidence",
                        ],
                    )
                ),
                name="response_kind_known",
            ),
        ),
        migrations.AddField(
            model_name="callbacksecret",
            name="tenant",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="runtime_app.tenant"
            ),
        ),
        migrations.AddField(
            model_name="evidencefile",
            name="evidence",
            field=runtime_app.models.base.TenantKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="runtime_app.evidence",
            ),
        ),
        migrations.AddField(
            model_name="evidencefile",
            name="tenant",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="runtime_app.tenant",
            ),
        ),
        migrations.AddField(
            model_name="schedule",
            name="environment",
            field=runtime_app.models.base.TenantKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="runtime_app.environment",
            ),
        ),
        migrations.AddField(
            model_name="schedule",
            name="set_by",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="schedule",
            name="tenant",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="runtime_app.tenant",
            ),
        ),
        migrations.RemoveField(model_name="run", name="schedule"),
        migrations.AddField(
            model_name="run",
            name="schedule",
            field=runtime_app.models.base.TenantKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="runtime_app.schedule",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(condition=models.Q(("parent__isnull", False)), fields=["parent"], name="run_of_parent"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("recovers__isnull", False)), fields=["recovers"], name="run_recovers"
            ),
        ),
        migrations.AddIndex(
            model_name="callbacksecret",
            index=models.Index(fields=["tenant", "action"], name="callback_secret_of_action"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="evidencefile",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;",
                    hash="69cd78b9acef64f1cc426962ddca85f558527fa1",
                    operation="DELETE",
                    pgid="pgtrigger_kept_6974f",
                    table="runtime_app_evidencefile",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="evidencefile",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                    hash="ca330a8eab8cad77bb877190e17c5a8e1289685f",
                    operation="UPDATE",
                    pgid="pgtrigger_append_only_65ff2",
                    table="runtime_app_evidencefile",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.RemoveIndex(
            model_name="effect",
            name="effect_recovering",
        ),
        migrations.AddField(
            model_name="epoch",
            name="mark",
            field=models.BigIntegerField(db_comment="the inode of the mark outside the database", null=True),
        ),
        migrations.AddField(
            model_name="worker",
            name="knows",
            field=models.JSONField(
                db_comment="its agents and actions, with the versions it can go on with", default=dict
            ),
        ),
        migrations.AlterField(
            model_name="run",
            name="agent_version",
            field=models.CharField(blank=True, db_comment="of its first turn", max_length=40),
        ),
        migrations.AddIndex(
            model_name="effect",
            index=models.Index(
                condition=models.Q(("probe_at__isnull", False)), fields=["probe_at"], name="effect_probe_due"
            ),
        ),
        *tenant_keys(),
        # counts dispatch intents, for the mark outside the database (R27)
        migrations.RunSQL("create sequence sayso_intents", "drop sequence sayso_intents"),
    ]
