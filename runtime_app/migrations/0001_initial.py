"""The tables, and what Django cannot say: the one clock, and keys that carry the tenant."""

import datetime

import django.db.models.deletion
import pgtrigger.compiler
import pgtrigger.migrations
from django.conf import settings
from django.db import migrations, models

import runtime_app.ids
import runtime_app.models.base

CLOCK = """
create function sayso_now() returns timestamptz language sql volatile as 'select clock_timestamp()';
comment on function sayso_now() is 'the one clock (R05); only tests replace it';
"""

# A row can never point into another tenant (T04): (tenant_id, column) references (tenant_id, id).
KEYS = [
    ("role", "membership_id", "membership"),
    ("role", "environment_id", "environment"),
    ("instance", "environment_id", "environment"),
    ("run", "session_id", "session"),
    ("run", "environment_id", "environment"),
    ("run", "instance_id", "instance"),
    ("run", "parent_id", "run"),
    ("run", "follows_id", "run"),
    ("entry", "run_id", "run"),
    ("blocker", "session_id", "session"),
    ("blocker", "run_id", "run"),
    ("request", "session_id", "session"),
    ("request", "run_id", "run"),
    ("request", "environment_id", "environment"),
    ("request", "replaces_id", "request"),
    ("request", "effect_id", "effect"),
    ("response", "session_id", "session"),
    ("response", "run_id", "run"),
    ("response", "request_id", "request"),
    ("grant", "request_id", "request"),
    ("grant", "run_id", "run"),
    ("effect", "session_id", "session"),
    ("effect", "run_id", "run"),
    ("effect", "environment_id", "environment"),
    ("effect", "request_id", "request"),
    ("effect", "compensates_id", "effect"),
    ("attempt", "effect_id", "effect"),
    ("attempt", "grant_id", "grant"),
    ("evidence", "effect_id", "effect"),
    ("evidence", "attempt_id", "attempt"),
    ("event", "session_id", "session"),
    ("event", "run_id", "run"),
    ("policy", "environment_id", "environment"),
]


def tenant_keys() -> list[migrations.RunSQL]:
    targets = sorted({target for _, _, target in KEYS})
    uniques = [
        f"alter table runtime_app_{target} add constraint {target}_in_tenant unique (tenant_id, id)"
        for target in targets
    ]
    references = [
        f"alter table runtime_app_{table} add constraint {table}_{column}_in_tenant foreign key (tenant_id, {column}) "
        f"references runtime_app_{target} (tenant_id, id)"
        for table, column, target in KEYS
    ]
    return [migrations.RunSQL(sql, migrations.RunSQL.noop) for sql in uniques + references]


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL(CLOCK, "drop function sayso_now()"),
        migrations.CreateModel(
            name="Environment",
            fields=[
                (
                    "id",
                    models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("name", models.SlugField(max_length=60)),
                (
                    "klass",
                    models.CharField(
                        choices=[("development", "Development"), ("staging", "Staging"), ("production", "Production")],
                        max_length=20,
                        verbose_name="class",
                    ),
                ),
                (
                    "protected",
                    models.BooleanField(
                        default=False, help_text="No policy may let somebody with a stake approve here (R18)."
                    ),
                ),
                ("held_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("held_by", models.CharField(blank=True, editable=False, max_length=150)),
                ("held_why", models.TextField(blank=True, editable=False)),
            ],
        ),
        migrations.CreateModel(
            name="Epoch",
            fields=[
                ("number", models.IntegerField(primary_key=True, serialize=False)),
                ("began_at", models.DateTimeField(db_default=runtime_app.models.base.Now())),
                ("why", models.TextField(blank=True)),
                ("released_at", models.DateTimeField(null=True)),
                ("released_by", models.CharField(blank=True, max_length=150)),
                ("system_identifier", models.CharField(blank=True, max_length=40)),
                ("timeline", models.IntegerField(null=True)),
                ("database_oid", models.BigIntegerField(null=True)),
                ("intents", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="Grant",
            fields=[
                (
                    "id",
                    models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("digest", models.CharField(max_length=64)),
                (
                    "state",
                    models.CharField(
                        choices=[("unused", "unused"), ("consumed", "consumed"), ("void", "void")],
                        default="unused",
                        max_length=10,
                    ),
                ),
                ("by_policy", models.BooleanField(default=False)),
                ("epoch", models.IntegerField(default=1)),
                ("made_at", models.DateTimeField(db_default=runtime_app.models.base.Now())),
                ("expires_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(null=True)),
                ("void_why", models.CharField(blank=True, max_length=200)),
            ],
        ),
        migrations.CreateModel(
            name="Session",
            fields=[
                (
                    "id",
                    models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("title", models.CharField(max_length=200)),
                ("last_seq", models.BigIntegerField(default=0)),
                ("created_at", models.DateTimeField(db_default=runtime_app.models.base.Now())),
            ],
        ),
        migrations.CreateModel(
            name="Tenant",
            fields=[
                (
                    "id",
                    models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("slug", models.SlugField(help_text="Appears in addresses: /t/<slug>/", max_length=60, unique=True)),
                ("name", models.CharField(max_length=120)),
                ("created_at", models.DateTimeField(db_default=runtime_app.models.base.Now(), editable=False)),
            ],
        ),
        migrations.CreateModel(
            name="Worker",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=200)),
                ("started_at", models.DateTimeField(db_default=runtime_app.models.base.Now())),
                ("seen_at", models.DateTimeField(db_default=runtime_app.models.base.Now())),
            ],
        ),
        migrations.CreateModel(
            name="Effect",
            fields=[
                (
                    "id",
                    models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("action_name", models.CharField(max_length=200)),
                ("action_version", models.CharField(max_length=40)),
                ("action_hash", models.CharField(max_length=64)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("prepared", "prepared"),
                            ("in_flight", "in flight"),
                            ("uncertain", "uncertain"),
                            ("committed", "committed"),
                            ("not_committed", "not committed"),
                            ("withdrawn", "withdrawn"),
                        ],
                        default="prepared",
                        max_length=20,
                    ),
                ),
                ("epoch", models.IntegerField(default=1)),
                ("disputed", models.BooleanField(default=False)),
                (
                    "accepted_at",
                    models.DateTimeField(
                        db_comment="the uncertainty was accepted; it stays uncertain (R24)", null=True
                    ),
                ),
                ("accepted_by", models.CharField(blank=True, max_length=150)),
                ("accepted_why", models.TextField(blank=True)),
                (
                    "recovering",
                    models.CharField(blank=True, db_comment="the one recovery action under way", max_length=40),
                ),
                ("recovering_since", models.DateTimeField(null=True)),
                ("recovering_by", models.CharField(blank=True, max_length=150)),
                ("probe_at", models.DateTimeField(db_comment="when the next probe is due", null=True)),
                ("probes", models.IntegerField(default=0)),
                ("prepared_at", models.DateTimeField(db_default=runtime_app.models.base.Now())),
                ("intent_at", models.DateTimeField(null=True)),
                (
                    "deadline_at",
                    models.DateTimeField(db_comment="past it, without a reply, it is uncertain (R23)", null=True),
                ),
                ("uncertain_at", models.DateTimeField(null=True)),
                ("settled_at", models.DateTimeField(null=True)),
                (
                    "compensates",
                    runtime_app.models.base.TenantKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.effect",
                    ),
                ),
                (
                    "environment",
                    runtime_app.models.base.TenantKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.environment",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                (
                    "id",
                    models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("number", models.IntegerField()),
                ("worker", models.UUIDField()),
                ("intent_at", models.DateTimeField(db_default=runtime_app.models.base.Now())),
                (
                    "send_by",
                    models.DateTimeField(db_comment="checked just before the call: later, nothing is sent (R23)"),
                ),
                ("replied_at", models.DateTimeField(null=True)),
                ("reply", models.CharField(blank=True, max_length=20)),
                (
                    "effect",
                    runtime_app.models.base.TenantKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.effect",
                    ),
                ),
                (
                    "grant",
                    runtime_app.models.base.TenantKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.grant",
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
        ),
        migrations.CreateModel(
            name="Instance",
            fields=[
                (
                    "id",
                    models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("agent", models.SlugField(max_length=80)),
                ("hosted", models.BooleanField(default=True)),
                ("created_at", models.DateTimeField(db_default=runtime_app.models.base.Now(), editable=False)),
                (
                    "environment",
                    runtime_app.models.base.TenantKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.environment",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
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
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                (
                    "id",
                    models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("created_at", models.DateTimeField(db_default=runtime_app.models.base.Now(), editable=False)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="runtime_app.tenant",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Request",
            fields=[
                (
                    "id",
                    models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("wait_user", "wait_user"),
                            ("wait_approval", "wait_approval"),
                            ("wait_effect", "wait_effect"),
                        ],
                        max_length=20,
                    ),
                ),
                (
                    "key",
                    models.CharField(db_comment="the agent's own name of this wait in its Run (R04)", max_length=200),
                ),
                ("number", models.IntegerField(default=1)),
                (
                    "stops",
                    models.BooleanField(db_comment="false: raised after its Run went on or ended (R23)", default=True),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "pending"),
                            ("resolved", "resolved"),
                            ("cancelled", "cancelled"),
                            ("expired", "expired"),
                            ("superseded", "superseded"),
                        ],
                        default="pending",
                        max_length=20,
                    ),
                ),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            ("answered", "answered"),
                            ("approved", "approved"),
                            ("denied", "denied"),
                            ("settled", "settled"),
                            ("accepted", "accepted"),
                        ],
                        max_length=20,
                        null=True,
                    ),
                ),
                ("accepts", models.JSONField(db_comment="which responses it accepts, as data (R02)")),
                ("epoch", models.IntegerField(default=1)),
                ("prompt", models.TextField(blank=True)),
                ("schema", models.JSONField(null=True)),
                ("action_name", models.CharField(blank=True, max_length=200)),
                ("action_version", models.CharField(blank=True, max_length=40)),
                (
                    "action_bytes",
                    models.BinaryField(db_comment="made once; shown, digested and dispatched from here", null=True),
                ),
                (
                    "action_hash",
                    models.CharField(blank=True, db_comment="equal Actions have equal hashes", max_length=64),
                ),
                ("digest", models.CharField(blank=True, max_length=64)),
                (
                    "described",
                    models.JSONField(
                        db_comment="title, consequence, reversibility, from the registration", default=dict
                    ),
                ),
                ("claim", models.TextField(blank=True, db_comment="what the agent says; unchecked")),
                ("policy", models.JSONField(db_comment="the Policy as it was when this was raised (R17)", null=True)),
                ("created_at", models.DateTimeField(db_default=runtime_app.models.base.Now())),
                ("expires_at", models.DateTimeField(null=True)),
                ("resolved_at", models.DateTimeField(null=True)),
                (
                    "resolved_by",
                    models.CharField(
                        blank=True, db_comment="a stable name; the Response has the account", max_length=150
                    ),
                ),
                (
                    "effect",
                    runtime_app.models.base.TenantKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.effect",
                    ),
                ),
                (
                    "environment",
                    runtime_app.models.base.TenantKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.environment",
                    ),
                ),
                (
                    "replaces",
                    runtime_app.models.base.TenantKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.request",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="grant",
            name="request",
            field=runtime_app.models.base.TenantKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="runtime_app.request",
            ),
        ),
        migrations.AddField(
            model_name="effect",
            name="request",
            field=runtime_app.models.base.TenantKey(
                db_comment="whose approval prepared it; its id is the key the provider gets",
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="runtime_app.request",
            ),
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                (
                    "id",
                    models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("agent", models.CharField(max_length=80)),
                ("agent_version", models.CharField(default="1", max_length=40)),
                ("interactive", models.BooleanField(default=True)),
                ("hosted", models.BooleanField(default=True)),
                ("message", models.TextField()),
                ("initiator_name", models.CharField(blank=True, max_length=150)),
                ("schedule", models.CharField(blank=True, max_length=120)),
                ("start_id", models.UUIDField(db_comment="the client's own id of the start (R09)", null=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("running", "running"),
                            ("waiting", "waiting"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                            ("blocked", "blocked"),
                        ],
                        default="queued",
                        max_length=20,
                    ),
                ),
                ("epoch", models.IntegerField(default=1)),
                (
                    "held_at",
                    models.DateTimeField(db_comment="not dispatched until a person releases it (R27)", null=True),
                ),
                ("lease_number", models.IntegerField(default=0)),
                ("lease_until", models.DateTimeField(null=True)),
                ("lease_worker", models.UUIDField(null=True)),
                (
                    "lapses",
                    models.IntegerField(
                        db_comment="Leases that ran out in a row; the fifth fails the Run (R30)", default=0
                    ),
                ),
                ("cancel_requested_at", models.DateTimeField(null=True)),
                ("cancelled_by", models.CharField(blank=True, max_length=150)),
                ("cancel_reason", models.TextField(blank=True)),
                ("result", models.TextField(blank=True, db_comment="what the agent said at its end; untrusted text")),
                ("reason", models.TextField(blank=True, db_comment="why it failed")),
                ("created_at", models.DateTimeField(db_default=runtime_app.models.base.Now())),
                ("queued_at", models.DateTimeField(db_default=runtime_app.models.base.Now())),
                ("started_at", models.DateTimeField(null=True)),
                ("waiting_since", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "environment",
                    runtime_app.models.base.TenantKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.environment",
                    ),
                ),
                (
                    "follows",
                    runtime_app.models.base.TenantKey(
                        db_comment="the blocked Run this one succeeds (R34)",
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.run",
                    ),
                ),
                (
                    "initiator",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "instance",
                    runtime_app.models.base.TenantKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.instance",
                    ),
                ),
                (
                    "parent",
                    runtime_app.models.base.TenantKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.run",
                    ),
                ),
                (
                    "session",
                    runtime_app.models.base.TenantKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.session",
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
        ),
        migrations.AddField(
            model_name="request",
            name="run",
            field=runtime_app.models.base.TenantKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="runtime_app.run",
            ),
        ),
        migrations.AddField(
            model_name="grant",
            name="run",
            field=runtime_app.models.base.TenantKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="runtime_app.run",
            ),
        ),
        migrations.AddField(
            model_name="effect",
            name="run",
            field=runtime_app.models.base.TenantKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="runtime_app.run",
            ),
        ),
        migrations.AddField(
            model_name="request",
            name="session",
            field=runtime_app.models.base.TenantKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="runtime_app.session",
            ),
        ),
        migrations.AddField(
            model_name="effect",
            name="session",
            field=runtime_app.models.base.TenantKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="runtime_app.session",
            ),
        ),
        migrations.AddField(
            model_name="session",
            name="tenant",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="runtime_app.tenant"
            ),
        ),
        migrations.CreateModel(
            name="Role",
            fields=[
                (
                    "id",
                    models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "name",
                    models.CharField(
                        choices=[
                            ("viewer", "Viewer"),
                            ("responder", "Responder: answers questions"),
                            ("approver", "Approver"),
                            ("operator", "Operator: starts, cancels, settles effects"),
                            ("admin", "Admin"),
                        ],
                        max_length=20,
                    ),
                ),
                (
                    "environment",
                    runtime_app.models.base.TenantKey(
                        blank=True,
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.environment",
                    ),
                ),
                (
                    "membership",
                    runtime_app.models.base.TenantKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="roles",
                        to="runtime_app.membership",
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
        ),
        migrations.CreateModel(
            name="Response",
            fields=[
                (
                    "id",
                    models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("answer", "answer"),
                            ("approve", "approve"),
                            ("deny", "deny"),
                            ("finding", "finding"),
                            ("recover", "recover"),
                            ("cancel", "cancel"),
                            ("void", "void"),
                        ],
                        max_length=10,
                    ),
                ),
                ("name", models.CharField(db_comment="the person's name at that time", max_length=150)),
                ("response_id", models.UUIDField()),
                (
                    "same",
                    models.CharField(
                        db_comment="hash of kind, content and message: what a repeat must equal", max_length=64
                    ),
                ),
                ("content", models.JSONField(default=dict)),
                ("suggestion", models.TextField(blank=True, db_comment="canonical JSON of suggested parameters (R19)")),
                ("message", models.TextField(blank=True)),
                ("recorded", models.JSONField(db_comment="the outcome a repeat gets again", default=dict)),
                ("at", models.DateTimeField(db_default=runtime_app.models.base.Now())),
                ("spent_at", models.DateTimeField(db_comment="a vote whose author lost the right (R18)", null=True)),
                (
                    "request",
                    runtime_app.models.base.TenantKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.request",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
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
                    "session",
                    runtime_app.models.base.TenantKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.session",
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
        ),
        migrations.AddField(
            model_name="request",
            name="tenant",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="runtime_app.tenant",
            ),
        ),
        migrations.CreateModel(
            name="Refusal",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("actor_kind", models.CharField(max_length=10)),
                ("actor_id", models.CharField(blank=True, max_length=60)),
                ("actor_name", models.CharField(max_length=150)),
                ("verb", models.CharField(max_length=40)),
                ("code", models.CharField(max_length=40)),
                ("reason", models.CharField(blank=True, max_length=40)),
                (
                    "target",
                    models.CharField(blank=True, db_comment="the id as it was sent; no foreign key", max_length=200),
                ),
                (
                    "same",
                    models.CharField(db_comment="hash of what makes two of them equal", max_length=64, unique=True),
                ),
                ("count", models.BigIntegerField(default=1)),
                ("first_at", models.DateTimeField(db_default=runtime_app.models.base.Now())),
                ("last_at", models.DateTimeField(db_default=runtime_app.models.base.Now())),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="runtime_app.tenant",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Policy",
            fields=[
                (
                    "id",
                    models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "action",
                    models.CharField(default="*", help_text="An action's name, or a pattern: deploy_*", max_length=200),
                ),
                (
                    "klass",
                    models.CharField(
                        blank=True,
                        choices=[("development", "Development"), ("staging", "Staging"), ("production", "Production")],
                        max_length=20,
                        verbose_name="class",
                    ),
                ),
                (
                    "verdict",
                    models.CharField(
                        choices=[("allow", "Allow"), ("deny", "Deny"), ("ask", "Ask")], default="ask", max_length=10
                    ),
                ),
                ("approvals", models.PositiveSmallIntegerField(default=1)),
                (
                    "role",
                    models.CharField(
                        choices=[("approver", "approver"), ("operator", "operator"), ("admin", "admin")],
                        default="approver",
                        max_length=20,
                    ),
                ),
                ("denials", models.PositiveSmallIntegerField(default=1, help_text="How many denials end it.")),
                (
                    "request_for",
                    models.DurationField(default=datetime.timedelta(days=7), help_text="How long a request waits."),
                ),
                (
                    "grant_for",
                    models.DurationField(default=datetime.timedelta(seconds=3600), help_text="How long a grant lasts."),
                ),
                ("reason_required", models.BooleanField(default=False)),
                ("typed_environment", models.BooleanField(default=False)),
                ("fresh_sign_in", models.BooleanField(default=False)),
                ("allow_stake", models.BooleanField(default=False, help_text="Unprotected environments only (R18).")),
                (
                    "environment",
                    runtime_app.models.base.TenantKey(
                        blank=True,
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.environment",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="runtime_app.tenant",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "policies",
            },
        ),
        migrations.AddField(
            model_name="grant",
            name="tenant",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="runtime_app.tenant",
            ),
        ),
        migrations.CreateModel(
            name="Evidence",
            fields=[
                (
                    "id",
                    models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "grade",
                    models.CharField(
                        choices=[("claimed", "claimed"), ("attested", "attested"), ("observed", "observed")],
                        max_length=10,
                    ),
                ),
                (
                    "finding",
                    models.CharField(
                        choices=[
                            ("committed", "committed"),
                            ("not_committed", "not_committed"),
                            ("unknown", "unknown"),
                            ("working", "working"),
                        ],
                        max_length=20,
                    ),
                ),
                (
                    "source",
                    models.CharField(db_comment="reply, probe, callback, statement, deadline, worker", max_length=40),
                ),
                ("name", models.CharField(max_length=150)),
                ("reference", models.TextField(blank=True)),
                ("statement", models.TextField(blank=True)),
                (
                    "late",
                    models.BooleanField(
                        db_comment="it came after the Effect was settled or its Run ended", default=False
                    ),
                ),
                ("at", models.DateTimeField(db_default=runtime_app.models.base.Now())),
                (
                    "attempt",
                    runtime_app.models.base.TenantKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.attempt",
                    ),
                ),
                (
                    "effect",
                    runtime_app.models.base.TenantKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.effect",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
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
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("seq", models.BigIntegerField()),
                ("kind", models.CharField(max_length=40)),
                ("actor_kind", models.CharField(max_length=10)),
                ("actor_id", models.CharField(blank=True, max_length=60)),
                ("actor_name", models.CharField(max_length=150)),
                ("subject", models.UUIDField(db_comment="the Request, Effect or Grant it is about", null=True)),
                ("data", models.JSONField(default=dict)),
                ("at", models.DateTimeField(db_default=runtime_app.models.base.Now())),
                ("epoch", models.IntegerField(default=1)),
                (
                    "transaction",
                    runtime_app.models.base.TransactionId(db_default=runtime_app.models.base.CurrentTransaction()),
                ),
                (
                    "run",
                    runtime_app.models.base.TenantKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.run",
                    ),
                ),
                (
                    "session",
                    runtime_app.models.base.TenantKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.session",
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
        ),
        migrations.AddField(
            model_name="environment",
            name="tenant",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="runtime_app.tenant"
            ),
        ),
        migrations.CreateModel(
            name="Entry",
            fields=[
                (
                    "id",
                    models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("position", models.IntegerField()),
                ("kind", models.CharField(choices=[("reply", "reply"), ("result", "result")], max_length=10)),
                ("call", models.CharField(blank=True, max_length=200)),
                ("content", models.TextField()),
                ("lease_number", models.IntegerField()),
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
        ),
        migrations.AddField(
            model_name="effect",
            name="tenant",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="runtime_app.tenant",
            ),
        ),
        migrations.CreateModel(
            name="Blocker",
            fields=[
                (
                    "id",
                    models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("kind", models.CharField(max_length=20)),
                ("prompt", models.TextField(blank=True)),
                ("schema", models.JSONField(null=True)),
                ("action_name", models.CharField(blank=True, max_length=200)),
                ("action_version", models.CharField(blank=True, max_length=40)),
                ("action_bytes", models.BinaryField(null=True)),
                ("action_hash", models.CharField(blank=True, max_length=64)),
                ("digest", models.CharField(blank=True, max_length=64)),
                ("claim", models.TextField(blank=True)),
                ("described", models.JSONField(default=dict)),
                ("policy", models.JSONField(null=True)),
                ("effect", models.UUIDField(null=True)),
                ("unblocks", models.TextField(db_comment="what would unblock it, in a sentence")),
                (
                    "successor_run",
                    models.UUIDField(db_comment="the id its one successor Run will have (R34)", null=True),
                ),
                ("successor_request", models.UUIDField(null=True)),
                ("supplied_at", models.DateTimeField(null=True)),
                ("count", models.IntegerField(default=1)),
                ("created_at", models.DateTimeField(db_default=runtime_app.models.base.Now())),
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
                    "session",
                    runtime_app.models.base.TenantKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="runtime_app.session",
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
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="session",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;",
                    hash="8be44af1d3c31202e70a123f692a1b19f865d14e",
                    operation="DELETE",
                    pgid="pgtrigger_kept_bb869",
                    table="runtime_app_session",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(condition=models.Q(("state", "queued")), fields=["queued_at"], name="run_queued"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(condition=models.Q(("state", "running")), fields=["lease_until"], name="run_leased"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["session", "id"], name="run_of_session"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["tenant", "-created_at", "-id"], name="run_newest"),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state__in", ["queued", "running", "waiting", "succeeded", "failed", "cancelled", "blocked"])
                ),
                name="run_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("lease_until__isnull", False), ("state", "running")),
                    models.Q(models.Q(("state", "running"), _negated=True), ("lease_until", None)),
                    _connector="OR",
                ),
                name="run_lease_while_running",
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("ended_at__isnull", False),
                        ("state__in", frozenset(["blocked", "cancelled", "failed", "succeeded"])),
                    ),
                    models.Q(
                        models.Q(
                            ("state__in", frozenset(["blocked", "cancelled", "failed", "succeeded"])), _negated=True
                        ),
                        ("ended_at", None),
                    ),
                    _connector="OR",
                ),
                name="run_ended_says_when",
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.UniqueConstraint(
                condition=models.Q(("start_id__isnull", False)),
                fields=("tenant", "initiator", "start_id"),
                name="run_started_once",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="run",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;",
                    hash="36e0071a61dedfb3529e2fc69c6fa2c2cd94ada2",
                    operation="DELETE",
                    pgid="pgtrigger_kept_d225a",
                    table="runtime_app_run",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="run",
            trigger=pgtrigger.compiler.Trigger(
                name="steps",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE _is_valid_transition BOOLEAN;",
                    func='SELECT CONCAT(OLD."state", \':\', NEW."state") = ANY(\'{queued:cancelled,queued:running,running:blocked,running:cancelled,running:failed,running:queued,running:succeeded,running:waiting,waiting:blocked,waiting:cancelled,waiting:queued}\'::text[]) INTO _is_valid_transition; IF (_is_valid_transition IS FALSE AND OLD."state" IS DISTINCT FROM NEW."state") THEN RAISE EXCEPTION \'pgtrigger: Invalid transition of field "state" from "%" to "%" on table %\', OLD."state", NEW."state", TG_TABLE_NAME; ELSE RETURN NEW; END IF;',
                    hash="4a18d6560d4b05956e300ee346a53dd81eed3929",
                    operation="UPDATE",
                    pgid="pgtrigger_steps_96788",
                    table="runtime_app_run",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="role",
            constraint=models.CheckConstraint(
                condition=models.Q(("name__in", ["viewer", "responder", "approver", "operator", "admin"])),
                name="role_name_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="role",
            constraint=models.UniqueConstraint(
                fields=("membership", "name", "environment"), name="role_once", nulls_distinct=False
            ),
        ),
        migrations.AddConstraint(
            model_name="role",
            constraint=models.CheckConstraint(
                condition=models.Q(("environment", None), ("name__in", ["approver", "operator"]), _connector="OR"),
                name="role_limited_only_where_it_makes_sense",
            ),
        ),
        migrations.AddIndex(
            model_name="response",
            index=models.Index(
                condition=models.Q(("request__isnull", False)), fields=["request"], name="response_of_request"
            ),
        ),
        migrations.AddIndex(
            model_name="response",
            index=models.Index(
                condition=models.Q(("suggestion", ""), _negated=True), fields=["run"], name="response_suggested"
            ),
        ),
        migrations.AddConstraint(
            model_name="response",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["answer", "approve", "deny", "finding", "recover", "cancel", "void"])),
                name="response_kind_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="response",
            constraint=models.UniqueConstraint(fields=("tenant", "user", "response_id"), name="response_id_once"),
        ),
        migrations.AddConstraint(
            model_name="response",
            constraint=models.UniqueConstraint(
                condition=models.Q(("kind__in", ["approve", "deny"]), ("spent_at", None)),
                fields=("request", "user"),
                name="response_one_vote",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="response",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;",
                    hash="c90edfec449c1fb65aa81e35a5e14afe8ade3088",
                    operation="DELETE",
                    pgid="pgtrigger_kept_78aa0",
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
                    condition='WHEN (OLD."tenant_id" IS DISTINCT FROM (NEW."tenant_id") OR OLD."run_id" IS DISTINCT FROM (NEW."run_id") OR OLD."request_id" IS DISTINCT FROM (NEW."request_id") OR OLD."kind" IS DISTINCT FROM (NEW."kind") OR OLD."user_id" IS DISTINCT FROM (NEW."user_id") OR OLD."name" IS DISTINCT FROM (NEW."name") OR OLD."response_id" IS DISTINCT FROM (NEW."response_id") OR OLD."same" IS DISTINCT FROM (NEW."same") OR OLD."content" IS DISTINCT FROM (NEW."content") OR OLD."suggestion" IS DISTINCT FROM (NEW."suggestion") OR OLD."message" IS DISTINCT FROM (NEW."message") OR OLD."at" IS DISTINCT FROM (NEW."at"))',
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                    hash="3d6ad9a6ed2528cc6fdf645a4042252847f1487c",
                    operation="UPDATE",
                    pgid="pgtrigger_said_01234",
                    table="runtime_app_response",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="request",
            index=models.Index(
                condition=models.Q(("state", "pending")), fields=["tenant", "expires_at", "id"], name="request_pending"
            ),
        ),
        migrations.AddIndex(
            model_name="request",
            index=models.Index(
                condition=models.Q(("expires_at__isnull", False), ("state", "pending")),
                fields=["expires_at"],
                name="request_expiring",
            ),
        ),
        migrations.AddIndex(
            model_name="request",
            index=models.Index(
                condition=models.Q(("action_hash", ""), _negated=True),
                fields=["tenant", "action_hash"],
                name="request_equal_action",
            ),
        ),
        migrations.AddConstraint(
            model_name="request",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["wait_user", "wait_approval", "wait_effect"])),
                name="request_kind_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="request",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["pending", "resolved", "cancelled", "expired", "superseded"])),
                name="request_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="request",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("outcome__isnull", False), ("state", "resolved")),
                    models.Q(models.Q(("state", "resolved"), _negated=True), ("outcome", None)),
                    _connector="OR",
                ),
                name="request_outcome_when_resolved",
            ),
        ),
        migrations.AddConstraint(
            model_name="request",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("resolved_at", None), ("state", "pending")),
                    models.Q(models.Q(("state", "pending"), _negated=True), ("resolved_at__isnull", False)),
                    _connector="OR",
                ),
                name="request_ended_says_when",
            ),
        ),
        migrations.AddConstraint(
            model_name="request",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("kind", "wait_approval"), _negated=True),
                    models.Q(
                        ("action_bytes__isnull", False),
                        ("policy__isnull", False),
                        models.Q(("digest", ""), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="request_approval_is_bound",
            ),
        ),
        migrations.AddConstraint(
            model_name="request",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("kind", "wait_effect"), _negated=True),
                    models.Q(("effect__isnull", False), ("expires_at", None)),
                    _connector="OR",
                ),
                name="request_effect_never_expires",
            ),
        ),
        migrations.AddConstraint(
            model_name="request",
            constraint=models.UniqueConstraint(fields=("run", "key", "number"), name="request_key_once"),
        ),
        migrations.AddConstraint(
            model_name="request",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "pending")), fields=("run", "key"), name="request_key_pending_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="request",
            constraint=models.UniqueConstraint(
                condition=models.Q(("kind", "wait_effect"), ("state", "pending")),
                fields=("effect",),
                name="request_effect_asked_once",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="request",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;",
                    hash="2fbd749dddd9d957fb6616ee18859ca8967ebad8",
                    operation="DELETE",
                    pgid="pgtrigger_kept_c8879",
                    table="runtime_app_request",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="request",
            trigger=pgtrigger.compiler.Trigger(
                name="steps",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE _is_valid_transition BOOLEAN;",
                    func='SELECT CONCAT(OLD."state", \':\', NEW."state") = ANY(\'{pending:cancelled,pending:expired,pending:resolved,pending:superseded}\'::text[]) INTO _is_valid_transition; IF (_is_valid_transition IS FALSE AND OLD."state" IS DISTINCT FROM NEW."state") THEN RAISE EXCEPTION \'pgtrigger: Invalid transition of field "state" from "%" to "%" on table %\', OLD."state", NEW."state", TG_TABLE_NAME; ELSE RETURN NEW; END IF;',
                    hash="3184a2d4b86a6165aed90f82476885aad2756f83",
                    operation="UPDATE",
                    pgid="pgtrigger_steps_f7060",
                    table="runtime_app_request",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="request",
            trigger=pgtrigger.compiler.Trigger(
                name="bound",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition='WHEN (OLD."tenant_id" IS DISTINCT FROM (NEW."tenant_id") OR OLD."session_id" IS DISTINCT FROM (NEW."session_id") OR OLD."run_id" IS DISTINCT FROM (NEW."run_id") OR OLD."environment_id" IS DISTINCT FROM (NEW."environment_id") OR OLD."kind" IS DISTINCT FROM (NEW."kind") OR OLD."key" IS DISTINCT FROM (NEW."key") OR OLD."number" IS DISTINCT FROM (NEW."number") OR OLD."replaces_id" IS DISTINCT FROM (NEW."replaces_id") OR OLD."accepts" IS DISTINCT FROM (NEW."accepts") OR OLD."prompt" IS DISTINCT FROM (NEW."prompt") OR OLD."schema" IS DISTINCT FROM (NEW."schema") OR OLD."action_name" IS DISTINCT FROM (NEW."action_name") OR OLD."action_version" IS DISTINCT FROM (NEW."action_version") OR OLD."action_bytes" IS DISTINCT FROM (NEW."action_bytes") OR OLD."action_hash" IS DISTINCT FROM (NEW."action_hash") OR OLD."digest" IS DISTINCT FROM (NEW."digest") OR OLD."described" IS DISTINCT FROM (NEW."described") OR OLD."claim" IS DISTINCT FROM (NEW."claim") OR OLD."policy" IS DISTINCT FROM (NEW."policy") OR OLD."effect_id" IS DISTINCT FROM (NEW."effect_id") OR OLD."created_at" IS DISTINCT FROM (NEW."created_at") OR OLD."expires_at" IS DISTINCT FROM (NEW."expires_at"))',
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                    hash="e323321c391271e8cca8ab05b9486e6b2749cfcd",
                    operation="UPDATE",
                    pgid="pgtrigger_bound_c226d",
                    table="runtime_app_request",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="refusal",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;",
                    hash="17dcaa6b1f0a5448ea3e84ba72f62a2b651df39a",
                    operation="DELETE",
                    pgid="pgtrigger_kept_5eeae",
                    table="runtime_app_refusal",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="policy",
            constraint=models.CheckConstraint(
                condition=models.Q(("verdict__in", ["allow", "deny", "ask"])), name="policy_verdict_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="policy",
            constraint=models.CheckConstraint(
                condition=models.Q(("role__in", ["approver", "operator", "admin"])), name="policy_role_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="policy",
            constraint=models.CheckConstraint(
                condition=models.Q(("approvals__gte", 1), ("denials__gte", 1)), name="policy_counts_are_positive"
            ),
        ),
        migrations.AddConstraint(
            model_name="policy",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("grant_for__gt", datetime.timedelta(0)), ("request_for__gt", datetime.timedelta(0))
                ),
                name="policy_times_are_positive",
            ),
        ),
        migrations.AddConstraint(
            model_name="policy",
            constraint=models.CheckConstraint(
                condition=models.Q(("environment", None), ("klass", ""), _connector="OR"),
                name="policy_environment_or_class",
            ),
        ),
        migrations.AddConstraint(
            model_name="membership",
            constraint=models.UniqueConstraint(fields=("tenant", "user"), name="membership_once_per_tenant"),
        ),
        migrations.AddConstraint(
            model_name="instance",
            constraint=models.UniqueConstraint(
                condition=models.Q(("hosted", True)),
                fields=("tenant", "agent", "environment"),
                name="instance_hosted_once",
            ),
        ),
        migrations.AddIndex(
            model_name="grant",
            index=models.Index(condition=models.Q(("state", "unused")), fields=["run"], name="grant_unused"),
        ),
        migrations.AddConstraint(
            model_name="grant",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["unused", "consumed", "void"])), name="grant_state_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="grant",
            constraint=models.UniqueConstraint(fields=("request",), name="grant_one_a_request"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="grant",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;",
                    hash="e2011856b67bdaa9cba59080f3995604bc98b425",
                    operation="DELETE",
                    pgid="pgtrigger_kept_24b1c",
                    table="runtime_app_grant",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="grant",
            trigger=pgtrigger.compiler.Trigger(
                name="steps",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE _is_valid_transition BOOLEAN;",
                    func='SELECT CONCAT(OLD."state", \':\', NEW."state") = ANY(\'{unused:consumed,unused:void}\'::text[]) INTO _is_valid_transition; IF (_is_valid_transition IS FALSE AND OLD."state" IS DISTINCT FROM NEW."state") THEN RAISE EXCEPTION \'pgtrigger: Invalid transition of field "state" from "%" to "%" on table %\', OLD."state", NEW."state", TG_TABLE_NAME; ELSE RETURN NEW; END IF;',
                    hash="18a4602e8470bc68bf190096f53927200ddd07cf",
                    operation="UPDATE",
                    pgid="pgtrigger_steps_5cbd2",
                    table="runtime_app_grant",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="grant",
            trigger=pgtrigger.compiler.Trigger(
                name="bound",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition='WHEN (OLD."tenant_id" IS DISTINCT FROM (NEW."tenant_id") OR OLD."request_id" IS DISTINCT FROM (NEW."request_id") OR OLD."run_id" IS DISTINCT FROM (NEW."run_id") OR OLD."digest" IS DISTINCT FROM (NEW."digest") OR OLD."by_policy" IS DISTINCT FROM (NEW."by_policy") OR OLD."epoch" IS DISTINCT FROM (NEW."epoch") OR OLD."expires_at" IS DISTINCT FROM (NEW."expires_at"))',
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                    hash="9bdeb3d7848b9834e3faef54401493874f7b998c",
                    operation="UPDATE",
                    pgid="pgtrigger_bound_06bf6",
                    table="runtime_app_grant",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="evidence",
            index=models.Index(fields=["effect", "at"], name="evidence_of_effect"),
        ),
        migrations.AddConstraint(
            model_name="evidence",
            constraint=models.CheckConstraint(
                condition=models.Q(("grade__in", ["claimed", "attested", "observed"])), name="evidence_grade_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="evidence",
            constraint=models.CheckConstraint(
                condition=models.Q(("finding__in", ["committed", "not_committed", "unknown", "working"])),
                name="evidence_finding_known",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="evidence",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;",
                    hash="ea8ccfa33ae9f0b829aa02a8e60f8605ef06949e",
                    operation="DELETE",
                    pgid="pgtrigger_kept_f3012",
                    table="runtime_app_evidence",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="evidence",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                    hash="f904a50c5e82a1910b41ff4c858d9d500fc4ef41",
                    operation="UPDATE",
                    pgid="pgtrigger_append_only_6ab87",
                    table="runtime_app_evidence",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="event",
            constraint=models.UniqueConstraint(fields=("session", "seq"), name="event_seq_once"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="event",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;",
                    hash="263b79e1cfd5b7370c4bce8358360f08bf22a217",
                    operation="DELETE",
                    pgid="pgtrigger_kept_9c8b2",
                    table="runtime_app_event",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="event",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                    hash="b8fc7eaa31338edc923805508c3d7daa238b98cd",
                    operation="UPDATE",
                    pgid="pgtrigger_append_only_8fb75",
                    table="runtime_app_event",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="environment",
            constraint=models.UniqueConstraint(fields=("tenant", "name"), name="environment_name_once_per_tenant"),
        ),
        migrations.AddConstraint(
            model_name="environment",
            constraint=models.CheckConstraint(
                condition=models.Q(("klass__in", ["development", "staging", "production"])),
                name="environment_class_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="entry",
            constraint=models.UniqueConstraint(fields=("run", "position", "kind", "call"), name="entry_once"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="entry",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;",
                    hash="92ce3da1505331ff52c276c12e1113bf76aabde1",
                    operation="DELETE",
                    pgid="pgtrigger_kept_5c733",
                    table="runtime_app_entry",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="entry",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                    hash="62dbd3e7461a770c3825707c17ad09709e10f2a9",
                    operation="UPDATE",
                    pgid="pgtrigger_append_only_6f13c",
                    table="runtime_app_entry",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="effect",
            index=models.Index(
                condition=models.Q(("state", "prepared")), fields=["prepared_at"], name="effect_prepared"
            ),
        ),
        migrations.AddIndex(
            model_name="effect",
            index=models.Index(
                condition=models.Q(("state", "in_flight")), fields=["deadline_at"], name="effect_in_flight"
            ),
        ),
        migrations.AddIndex(
            model_name="effect",
            index=models.Index(
                condition=models.Q(("state", "uncertain"), ("disputed", True), _connector="OR"),
                fields=["tenant", "uncertain_at"],
                name="effect_uncertain",
            ),
        ),
        migrations.AddIndex(
            model_name="effect",
            index=models.Index(
                condition=models.Q(("recovering", ""), _negated=True),
                fields=["recovering_since"],
                name="effect_recovering",
            ),
        ),
        migrations.AddIndex(
            model_name="effect",
            index=models.Index(fields=["run"], name="effect_of_run"),
        ),
        migrations.AddIndex(
            model_name="effect",
            index=models.Index(fields=["tenant", "-prepared_at", "-id"], name="effect_newest"),
        ),
        migrations.AddConstraint(
            model_name="effect",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state__in", ["prepared", "in_flight", "uncertain", "committed", "not_committed", "withdrawn"])
                ),
                name="effect_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="effect",
            constraint=models.UniqueConstraint(fields=("request",), name="effect_one_a_request"),
        ),
        migrations.AddConstraint(
            model_name="effect",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state__in", ["prepared", "withdrawn", "uncertain"]), ("intent_at__isnull", False), _connector="OR"
                ),
                name="effect_sent_after_intent",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="effect",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;",
                    hash="336609a9b9f64cbfa11bee9eac73cc68be60dcce",
                    operation="DELETE",
                    pgid="pgtrigger_kept_7a427",
                    table="runtime_app_effect",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="effect",
            trigger=pgtrigger.compiler.Trigger(
                name="steps",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE _is_valid_transition BOOLEAN;",
                    func='SELECT CONCAT(OLD."state", \':\', NEW."state") = ANY(\'{prepared:in_flight,prepared:uncertain,prepared:withdrawn,in_flight:committed,in_flight:not_committed,in_flight:uncertain,uncertain:committed,uncertain:in_flight,uncertain:not_committed,committed:not_committed,not_committed:committed}\'::text[]) INTO _is_valid_transition; IF (_is_valid_transition IS FALSE AND OLD."state" IS DISTINCT FROM NEW."state") THEN RAISE EXCEPTION \'pgtrigger: Invalid transition of field "state" from "%" to "%" on table %\', OLD."state", NEW."state", TG_TABLE_NAME; ELSE RETURN NEW; END IF;',
                    hash="adbe6ed3242850687f3c438e20e26f57679c72f8",
                    operation="UPDATE",
                    pgid="pgtrigger_steps_e5482",
                    table="runtime_app_effect",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="effect",
            trigger=pgtrigger.compiler.Trigger(
                name="bound",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition='WHEN (OLD."tenant_id" IS DISTINCT FROM (NEW."tenant_id") OR OLD."session_id" IS DISTINCT FROM (NEW."session_id") OR OLD."run_id" IS DISTINCT FROM (NEW."run_id") OR OLD."environment_id" IS DISTINCT FROM (NEW."environment_id") OR OLD."request_id" IS DISTINCT FROM (NEW."request_id") OR OLD."action_name" IS DISTINCT FROM (NEW."action_name") OR OLD."action_version" IS DISTINCT FROM (NEW."action_version") OR OLD."action_hash" IS DISTINCT FROM (NEW."action_hash"))',
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                    hash="bab22e2417f346525338b0fad9942c95c02bf0ce",
                    operation="UPDATE",
                    pgid="pgtrigger_bound_f5b3c",
                    table="runtime_app_effect",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="blocker",
            constraint=models.UniqueConstraint(fields=("run",), name="blocker_one_a_run"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="blocker",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;",
                    hash="27fd4c827c4d74b311699d02f780ea0d4daf7bc1",
                    operation="DELETE",
                    pgid="pgtrigger_kept_5b5cc",
                    table="runtime_app_blocker",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.UniqueConstraint(fields=("effect", "number"), name="attempt_number_once"),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.UniqueConstraint(fields=("grant",), name="attempt_one_a_grant"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="attempt",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;",
                    hash="cebdb70253105559e55c57652333aa0618fc7e2a",
                    operation="DELETE",
                    pgid="pgtrigger_kept_4fdc9",
                    table="runtime_app_attempt",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="attempt",
            trigger=pgtrigger.compiler.Trigger(
                name="intent",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition='WHEN (OLD."tenant_id" IS DISTINCT FROM (NEW."tenant_id") OR OLD."effect_id" IS DISTINCT FROM (NEW."effect_id") OR OLD."number" IS DISTINCT FROM (NEW."number") OR OLD."grant_id" IS DISTINCT FROM (NEW."grant_id") OR OLD."worker" IS DISTINCT FROM (NEW."worker") OR OLD."intent_at" IS DISTINCT FROM (NEW."intent_at") OR OLD."send_by" IS DISTINCT FROM (NEW."send_by"))',
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                    hash="abac2b7e7e1c30a8852bc87f8e050cdee6820641",
                    operation="UPDATE",
                    pgid="pgtrigger_intent_2cd44",
                    table="runtime_app_attempt",
                    when="BEFORE",
                ),
            ),
        ),
        *tenant_keys(),
        migrations.RunSQL(
            "insert into runtime_app_epoch (number, why, released_by, system_identifier, intents) values (1, 'installed', '', '', 0)",
            migrations.RunSQL.noop,
        ),
    ]
