"""Agents elsewhere: credentials, what they asked under which key, whom they want told, secrets, registrations."""

import datetime

import django.db.models.deletion
import pgtrigger.compiler
import pgtrigger.migrations
from django.conf import settings
from django.db import migrations, models

import runtime_app.ids
import runtime_app.models.base

# As in 0001: a row can never point into another tenant (T04).
UNIQUES = ["credential", "receiver"]
KEYS = [
    ("credential", "environment_id", "environment"),
    ("credential", "instance_id", "instance"),
    ("instance", "provisioner_id", "credential"),
    ("session", "instance_id", "instance"),
    ("receiver", "instance_id", "instance"),
    ("delivery", "receiver_id", "receiver"),
    ("delivery", "request_id", "request"),
    ("secret", "request_id", "request"),
    ("secret", "run_id", "run"),
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
        ("runtime_app", "0007_run_of_schedule"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Call',
            fields=[
                ('id', models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('caller', models.UUIDField(db_comment='the Instance, or the provisioner token')),
                ('key', models.CharField(max_length=255)),
                ('verb', models.CharField(max_length=40)),
                ('same', models.CharField(db_comment='hash of what was asked: what a repeat must equal', max_length=64)),
                ('subject', models.UUIDField(db_comment='what it made or changed')),
                ('reply', models.TextField(blank=True, db_comment='what was answered, where a repeat gets that; never a secret')),
                ('at', models.DateTimeField(db_default=runtime_app.models.base.Now())),
            ],
        ),
        migrations.CreateModel(
            name='Credential',
            fields=[
                ('id', models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('provisioner', 'Provisioner token'), ('instance', 'Instance credential')], max_length=20)),
                ('name', models.CharField(help_text='What people call it.', max_length=120)),
                ('scopes', models.JSONField(default=list)),
                ('prefix', models.CharField(editable=False, max_length=16, unique=True)),
                ('hash', models.CharField(editable=False, max_length=64, unique=True)),
                ('made_at', models.DateTimeField(db_default=runtime_app.models.base.Now(), editable=False)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(editable=False, null=True)),
                ('revoked_by', models.CharField(blank=True, editable=False, max_length=150)),
                ('last_used_at', models.DateTimeField(editable=False, null=True)),
                ('last_address', models.CharField(blank=True, editable=False, max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('body', models.TextField()),
                ('made_at', models.DateTimeField(db_default=runtime_app.models.base.Now())),
                ('attempts', models.IntegerField(default=0)),
                ('next_at', models.DateTimeField(db_comment='none: acknowledged, or given up', db_default=runtime_app.models.base.Now(), null=True)),
                ('taken_until', models.DateTimeField(db_comment='an attempt is under way until then', null=True)),
                ('delivered_at', models.DateTimeField(null=True)),
                ('ended_why', models.CharField(blank=True, max_length=200)),
                ('last_status', models.CharField(blank=True, max_length=60)),
            ],
        ),
        migrations.CreateModel(
            name='Receiver',
            fields=[
                ('id', models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('registration_id', models.UUIDField()),
                ('url', models.CharField(max_length=2000)),
                ('secret', models.BinaryField(db_comment='encrypted with a key of the installation')),
                ('verified_at', models.DateTimeField(db_default=runtime_app.models.base.Now())),
                ('removed_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Registration',
            fields=[
                ('id', models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('pattern', models.CharField(help_text="An action's name, or a pattern: github/*", max_length=200)),
                ('title', models.CharField(max_length=120)),
                ('consequence', models.TextField(blank=True, help_text='What happens if it is done.')),
                ('reversible', models.TextField(blank=True, help_text='Whether and how it can be undone.')),
                ('changes', models.BooleanField(default=True, help_text='It changes something outside. Without this it makes no effect, and nothing is asked about its outcome.')),
                ('failure_conclusive', models.BooleanField(default=True, help_text='When its agent reports a failure, nothing happened. Without this a person is asked.')),
                ('deadline', models.DurationField(default=datetime.timedelta(seconds=600), help_text='How long its agent may be silent before a person is asked.')),
                ('risky', models.JSONField(blank=True, default=list, help_text='Names of parameters to show first.')),
                ('made_at', models.DateTimeField(db_default=runtime_app.models.base.Now(), editable=False)),
            ],
        ),
        migrations.CreateModel(
            name='Secret',
            fields=[
                ('id', models.UUIDField(default=runtime_app.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('field', models.CharField(max_length=200)),
                ('sealed', models.BinaryField(db_comment='none: destroyed', null=True)),
                ('made_at', models.DateTimeField(db_default=runtime_app.models.base.Now())),
                ('opened_at', models.DateTimeField(null=True)),
                ('destroyed_at', models.DateTimeField(null=True)),
            ],
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name='request',
            name='bound',
        ),
        migrations.AddField(
            model_name='grant',
            name='report',
            field=models.JSONField(db_comment='what that agent said became of it: status, note, at', null=True),
        ),
        migrations.AddField(
            model_name='grant',
            name='used_key',
            field=models.CharField(blank=True, db_comment='under which a remote agent took it', max_length=255),
        ),
        migrations.AddField(
            model_name='instance',
            name='deleted_at',
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name='instance',
            name='name',
            field=models.CharField(blank=True, help_text='What a remote one calls itself.', max_length=200),
        ),
        migrations.AddField(
            model_name='request',
            name='sent',
            field=models.TextField(blank=True, db_comment='what else a remote agent sent with it, as it came; JSON'),
        ),
        migrations.AddField(
            model_name='run',
            name='single',
            field=models.BooleanField(db_comment='it is one Request, and ends with it (R08, AAP)', default=False),
        ),
        migrations.AddField(
            model_name='run',
            name='secrets',
            field=models.BooleanField(db_comment='it was given some, to be destroyed at its end (R12)', default=False),
        ),
        migrations.AddField(
            model_name='session',
            name='instance',
            field=runtime_app.models.base.TenantKey(db_comment='of the remote agent whose thread this is; no other sees it', db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='runtime_app.instance'),
        ),
        migrations.AddField(
            model_name='session',
            name='thread',
            field=models.CharField(blank=True, db_comment="that agent's own name of the thread", max_length=200),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='request',
            trigger=pgtrigger.compiler.Trigger(name='bound', sql=pgtrigger.compiler.UpsertTriggerSql(condition='WHEN (OLD."tenant_id" IS DISTINCT FROM (NEW."tenant_id") OR OLD."session_id" IS DISTINCT FROM (NEW."session_id") OR OLD."run_id" IS DISTINCT FROM (NEW."run_id") OR OLD."environment_id" IS DISTINCT FROM (NEW."environment_id") OR OLD."kind" IS DISTINCT FROM (NEW."kind") OR OLD."number" IS DISTINCT FROM (NEW."number") OR OLD."replaces_id" IS DISTINCT FROM (NEW."replaces_id") OR OLD."accepts" IS DISTINCT FROM (NEW."accepts") OR OLD."prompt" IS DISTINCT FROM (NEW."prompt") OR OLD."schema" IS DISTINCT FROM (NEW."schema") OR OLD."action_name" IS DISTINCT FROM (NEW."action_name") OR OLD."action_version" IS DISTINCT FROM (NEW."action_version") OR OLD."action_bytes" IS DISTINCT FROM (NEW."action_bytes") OR OLD."action_hash" IS DISTINCT FROM (NEW."action_hash") OR OLD."digest" IS DISTINCT FROM (NEW."digest") OR OLD."described" IS DISTINCT FROM (NEW."described") OR OLD."claim" IS DISTINCT FROM (NEW."claim") OR OLD."policy" IS DISTINCT FROM (NEW."policy") OR OLD."sent" IS DISTINCT FROM (NEW."sent") OR OLD."effect_id" IS DISTINCT FROM (NEW."effect_id") OR OLD."created_at" IS DISTINCT FROM (NEW."created_at") OR OLD."expires_at" IS DISTINCT FROM (NEW."expires_at"))', func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;", hash='72ff7b88c3552f1170ab154a272c4b71d5275a1f', operation='UPDATE', pgid='pgtrigger_bound_c226d', table='runtime_app_request', when='BEFORE')),
        ),
        migrations.AddConstraint(
            model_name='session',
            constraint=models.UniqueConstraint(condition=models.Q(('thread', ''), _negated=True), fields=('instance', 'thread'), name='session_thread_once'),
        ),
        migrations.AddField(
            model_name='call',
            name='tenant',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='runtime_app.tenant'),
        ),
        migrations.AddField(
            model_name='credential',
            name='environment',
            field=runtime_app.models.base.TenantKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='runtime_app.environment'),
        ),
        migrations.AddField(
            model_name='credential',
            name='instance',
            field=runtime_app.models.base.TenantKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='runtime_app.instance'),
        ),
        migrations.AddField(
            model_name='credential',
            name='made_by',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='credential',
            name='tenant',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='runtime_app.tenant'),
        ),
        migrations.AddField(
            model_name='instance',
            name='provisioner',
            field=runtime_app.models.base.TenantKey(db_comment='the provisioner token that made it', db_constraint=False, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='runtime_app.credential'),
        ),
        migrations.AddField(
            model_name='delivery',
            name='request',
            field=runtime_app.models.base.TenantKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='runtime_app.request'),
        ),
        migrations.AddField(
            model_name='delivery',
            name='tenant',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='runtime_app.tenant'),
        ),
        migrations.AddField(
            model_name='receiver',
            name='instance',
            field=runtime_app.models.base.TenantKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='runtime_app.instance'),
        ),
        migrations.AddField(
            model_name='receiver',
            name='tenant',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='runtime_app.tenant'),
        ),
        migrations.AddField(
            model_name='delivery',
            name='receiver',
            field=runtime_app.models.base.TenantKey(db_comment="the one there was then; it goes to its Instance's present one", db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='runtime_app.receiver'),
        ),
        migrations.AddField(
            model_name='registration',
            name='tenant',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='runtime_app.tenant'),
        ),
        migrations.AddField(
            model_name='secret',
            name='request',
            field=runtime_app.models.base.TenantKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='runtime_app.request'),
        ),
        migrations.AddField(
            model_name='secret',
            name='run',
            field=runtime_app.models.base.TenantKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='runtime_app.run'),
        ),
        migrations.AddField(
            model_name='secret',
            name='tenant',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='runtime_app.tenant'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('hosted', False), ('state__in', ['queued', 'running', 'waiting'])), fields=['instance'], name='run_live_elsewhere'),
        ),
        migrations.AddIndex(
            model_name='call',
            index=models.Index(fields=['at'], name='call_age'),
        ),
        migrations.AddConstraint(
            model_name='call',
            constraint=models.UniqueConstraint(fields=('tenant', 'caller', 'key'), name='call_once'),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='call',
            trigger=pgtrigger.compiler.Trigger(name='append_only', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;", hash='95eb31af42ece6a0b77348d7463c12f03c705dc1', operation='UPDATE', pgid='pgtrigger_append_only_4c9c8', table='runtime_app_call', when='BEFORE')),
        ),
        migrations.AddIndex(
            model_name='credential',
            index=models.Index(condition=models.Q(('revoked_at', None)), fields=['instance'], name='credential_of_instance'),
        ),
        migrations.AddConstraint(
            model_name='credential',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['provisioner', 'instance'])), name='credential_kind_known'),
        ),
        migrations.AddConstraint(
            model_name='credential',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('instance__isnull', False), ('kind', 'instance')), models.Q(('instance', None), ('kind', 'provisioner')), _connector='OR'), name='credential_of_one_instance'),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='credential',
            trigger=pgtrigger.compiler.Trigger(name='kept', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;", hash='b5abd155456db63480be4c5b45a5dc0f1191f5b7', operation='DELETE', pgid='pgtrigger_kept_b521c', table='runtime_app_credential', when='BEFORE')),
        ),
        migrations.AddConstraint(
            model_name='receiver',
            constraint=models.UniqueConstraint(condition=models.Q(('removed_at', None)), fields=('instance',), name='receiver_one_an_instance'),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='receiver',
            trigger=pgtrigger.compiler.Trigger(name='kept', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;", hash='a4575ee467e89943c915d9938d39451d5bd6a4c0', operation='DELETE', pgid='pgtrigger_kept_25357', table='runtime_app_receiver', when='BEFORE')),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(condition=models.Q(('next_at__isnull', False)), fields=['next_at'], name='delivery_due'),
        ),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.UniqueConstraint(fields=('request',), name='delivery_once'),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='delivery',
            trigger=pgtrigger.compiler.Trigger(name='kept', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;", hash='abeb0617720154b05b8ca0875a7f78e57be4700b', operation='DELETE', pgid='pgtrigger_kept_1531d', table='runtime_app_delivery', when='BEFORE')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='delivery',
            trigger=pgtrigger.compiler.Trigger(name='told', sql=pgtrigger.compiler.UpsertTriggerSql(condition='WHEN (OLD."tenant_id" IS DISTINCT FROM (NEW."tenant_id") OR OLD."receiver_id" IS DISTINCT FROM (NEW."receiver_id") OR OLD."request_id" IS DISTINCT FROM (NEW."request_id") OR OLD."body" IS DISTINCT FROM (NEW."body") OR OLD."made_at" IS DISTINCT FROM (NEW."made_at"))', func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;", hash='68724d20caeff6edb8dda3dbd1334c808b532298', operation='UPDATE', pgid='pgtrigger_told_2a7e4', table='runtime_app_delivery', when='BEFORE')),
        ),
        migrations.AddConstraint(
            model_name='registration',
            constraint=models.UniqueConstraint(fields=('tenant', 'pattern'), name='registration_pattern_once'),
        ),
        migrations.AddConstraint(
            model_name='registration',
            constraint=models.CheckConstraint(condition=models.Q(('deadline__gt', datetime.timedelta(0))), name='registration_deadline_positive'),
        ),
        migrations.AddIndex(
            model_name='secret',
            index=models.Index(condition=models.Q(('sealed__isnull', False)), fields=['run'], name='secret_of_run'),
        ),
        migrations.AddConstraint(
            model_name='secret',
            constraint=models.UniqueConstraint(fields=('request', 'field'), name='secret_field_once'),
        ),
        migrations.AddConstraint(
            model_name='secret',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('destroyed_at__isnull', False), ('sealed', None)), models.Q(('destroyed_at', None), ('sealed__isnull', False)), _connector='OR'), name='secret_destroyed_says_when'),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='secret',
            trigger=pgtrigger.compiler.Trigger(name='kept', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;", hash='f4b67759f51f14079b7bd0def198ccd270a00bce', operation='DELETE', pgid='pgtrigger_kept_3a81d', table='runtime_app_secret', when='BEFORE')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='secret',
            trigger=pgtrigger.compiler.Trigger(name='bound', sql=pgtrigger.compiler.UpsertTriggerSql(condition='WHEN (OLD."tenant_id" IS DISTINCT FROM (NEW."tenant_id") OR OLD."request_id" IS DISTINCT FROM (NEW."request_id") OR OLD."run_id" IS DISTINCT FROM (NEW."run_id") OR OLD."field" IS DISTINCT FROM (NEW."field") OR OLD."made_at" IS DISTINCT FROM (NEW."made_at"))', func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;", hash='7f776352eaf201794d99ec7fe0af320100c1df67', operation='UPDATE', pgid='pgtrigger_bound_321e3', table='runtime_app_secret', when='BEFORE')),
        ),
        *tenant_keys(),
    ]
