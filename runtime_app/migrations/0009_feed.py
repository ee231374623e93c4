"""The tenant-wide feed reads Events by (tenant, epoch, transaction). An Event is known by its Session and seq: that is
its key in the database too, and its `id`, by which nothing looks it up, costs no index."""

from django.db import migrations, models

KEY = """
alter table runtime_app_event drop constraint runtime_app_event_pkey, drop constraint event_seq_once,
    add constraint event_seq_once primary key (session_id, seq)
"""
BACK = """
alter table runtime_app_event drop constraint event_seq_once, add primary key (id),
    add constraint event_seq_once unique (session_id, seq)
"""


class Migration(migrations.Migration):
    dependencies = [("runtime_app", "0008_agents_elsewhere")]

    operations = [
        migrations.RunSQL(KEY, BACK),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(fields=["tenant", "epoch", "transaction"], name="event_feed"),
        ),
    ]
