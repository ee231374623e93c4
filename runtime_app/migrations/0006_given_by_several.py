"""Votes on a Blocker, output that is not kept for ever, schedules that people pause."""

import django.db.models.deletion
import pgtrigger.compiler
import pgtrigger.migrations
from django.conf import settings
from django.db import migrations, models

import runtime_app.models.base

# As in 0001: a row can never point into another tenant (T04).
IN_TENANT = [
    "alter table runtime_app_blocker add constraint blocker_in_tenant unique (tenant_id, id)",
    "alter table runtime_app_response add constraint response_blocker_id_in_tenant foreign key (tenant_id, blocker_id) "
    "references runtime_app_blocker (tenant_id, id)",
    "alter table runtime_app_schedule add constraint schedule_session_id_in_tenant foreign key (tenant_id, session_id) "
    "references runtime_app_session (tenant_id, id)",
]


class Migration(migrations.Migration):
    dependencies = [
        ("runtime_app", "0005_key_bound"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        pgtrigger.migrations.RemoveTrigger(
            model_name="chunk",
            name="kept",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="response",
            name="said",
        ),
        migrations.RemoveConstraint(
            model_name="response",
            name="response_kind_known",
        ),
        migrations.RemoveIndex(
            model_name="blocker",
            name="blocker_open",
        ),
        migrations.RemoveIndex(
            model_name="blocker",
            name="blocker_same",
        ),
        migrations.AddField(
            model_name="blocker",
            name="denied_at",
            field=models.DateTimeField(
                db_comment="as many as the policy says denied it: nothing was started", null=True
            ),
        ),
        migrations.AddField(
            model_name="blocker",
            name="denied_by",
            field=models.CharField(blank=True, max_length=150),
        ),
        migrations.AddField(
            model_name="response",
            name="blocker",
            field=runtime_app.models.base.TenantKey(
                db_comment="a vote before its Request is there; the quorum makes it (R34)",
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="runtime_app.blocker",
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="output_removed_at",
            field=models.DateTimeField(db_comment="since when older output is not kept any more (R36)", null=True),
        ),
        migrations.AddField(
            model_name="schedule",
            name="paused_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="schedule",
            name="paused_by",
            field=models.CharField(blank=True, editable=False, max_length=150),
        ),
        migrations.AddField(
            model_name="schedule",
            name="session",
            field=runtime_app.models.base.TenantKey(
                db_comment="where its pauses are told",
                db_constraint=False,
                db_index=False,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="runtime_app.session",
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
                    ("pause", "pause"),
                    ("unpause", "unpause"),
                ],
                max_length=10,
            ),
        ),
        migrations.AlterField(
            model_name="response",
            name="run",
            field=runtime_app.models.base.TenantKey(
                db_comment="none: of an Environment or of a Schedule",
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="runtime_app.run",
            ),
        ),
        migrations.AddIndex(
            model_name="blocker",
            index=models.Index(
                condition=models.Q(("denied_at", None), ("replaced_at", None), ("supplied_at", None)),
                fields=["tenant", "-created_at"],
                name="blocker_open",
            ),
        ),
        migrations.AddIndex(
            model_name="blocker",
            index=models.Index(
                condition=models.Q(("denied_at", None), ("supplied_at", None)),
                fields=["tenant", "same"],
                name="blocker_same",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="chunk",
            trigger=pgtrigger.compiler.Trigger(
                name="kept_while_new",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n                    IF NOT EXISTS (SELECT FROM runtime_app_run\n                                   WHERE id = OLD.run_id AND ended_at < sayso_now() - interval '23 hours') THEN\n                        RAISE EXCEPTION 'Cannot delete output of a Run that has not ended a day ago';\n                    END IF;\n                    RETURN OLD;\n                ",
                    hash="5282b2bec7e8f15d55594211f677782a02a01c8e",
                    operation="DELETE",
                    pgid="pgtrigger_kept_while_new_52df4",
                    table="runtime_app_chunk",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="response",
            trigger=pgtrigger.compiler.Trigger(
                name="request_bound",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (OLD.request_id IS DISTINCT FROM NEW.request_id AND (OLD.request_id IS NOT NULL OR OLD.blocker_id IS NULL))",
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                    hash="27ce85f56b2b9e5ddb035d5b8af460535a4380aa",
                    operation="UPDATE",
                    pgid="pgtrigger_request_bound_a10ca",
                    table="runtime_app_response",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="response",
            trigger=pgtrigger.compiler.Trigger(
                name="said",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition='WHEN (OLD."tenant_id" IS DISTINCT FROM (NEW."tenant_id") OR OLD."run_id" IS DISTINCT FROM (NEW."run_id") OR OLD."blocker_id" IS DISTINCT FROM (NEW."blocker_id") OR OLD."kind" IS DISTINCT FROM (NEW."kind") OR OLD."user_id" IS DISTINCT FROM (NEW."user_id") OR OLD."name" IS DISTINCT FROM (NEW."name") OR OLD."response_id" IS DISTINCT FROM (NEW."response_id") OR OLD."same" IS DISTINCT FROM (NEW."same") OR OLD."content" IS DISTINCT FROM (NEW."content") OR OLD."suggestion" IS DISTINCT FROM (NEW."suggestion") OR OLD."message" IS DISTINCT FROM (NEW."message") OR OLD."at" IS DISTINCT FROM (NEW."at"))',
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                    hash="bfa6c96473ad6060ee41df85b86bbb0689dd9e9f",
                    operation="UPDATE",
                    pgid="pgtrigger_said_01234",
                    table="runtime_app_response",
                    when="BEFORE",
                ),
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
                            "pause",
                            "unpause",
                        ],
                    )
                ),
                name="response_kind_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="response",
            constraint=models.UniqueConstraint(
                condition=models.Q(("blocker__isnull", False), ("spent_at", None)),
                fields=("blocker", "user"),
                name="response_one_vote_a_blocker",
            ),
        ),
        *[migrations.RunSQL(each, migrations.RunSQL.noop) for each in IN_TENANT],
    ]
