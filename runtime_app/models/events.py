"""What happened: Events in their Sessions, refused attempts beside them, and the epochs of this installation."""

import pgtrigger
from django.db import models

from .base import CurrentTransaction, Now, TenantKey, TransactionId, append_only
from .work import Run, Session


class Event(models.Model):
    """An append-only fact with its actor. `seq` counts without gaps in a Session: Session and seq are its key (R36),
    in the database its primary key, so that `id` needs no index (migration 0009)."""

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(
        "runtime_app.Tenant", models.PROTECT, related_name="+", db_index=False, db_constraint=False
    )
    session = TenantKey(Session)
    run = TenantKey(Run, null=True)
    seq = models.BigIntegerField()
    kind = models.CharField(max_length=40)
    actor_kind = models.CharField(max_length=10)
    actor_id = models.CharField(max_length=60, blank=True)
    actor_name = models.CharField(max_length=150)
    subject = models.UUIDField(null=True, db_comment="the Request, Effect or Grant it is about")
    data = models.JSONField(default=dict)
    at = models.DateTimeField(db_default=Now())
    epoch = models.IntegerField(default=1)
    transaction = TransactionId(db_default=CurrentTransaction())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "seq"], name="event_seq_once")]
        # the tenant-wide feed (R38); of one transaction few are sorted when they are read
        indexes = [models.Index(fields=["tenant", "epoch", "transaction"], name="event_feed")]
        triggers = append_only()


class Refusal(models.Model):
    """A recorded no (R13). Never among a Session's Events; no content; equal ones are counted."""

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey("runtime_app.Tenant", models.PROTECT, null=True, related_name="+", db_index=False)
    actor_kind = models.CharField(max_length=10)
    actor_id = models.CharField(max_length=60, blank=True)
    actor_name = models.CharField(max_length=150)
    verb = models.CharField(max_length=40)
    code = models.CharField(max_length=40)
    reason = models.CharField(max_length=40, blank=True)
    target = models.CharField(max_length=200, blank=True, db_comment="the id as it was sent; no foreign key")
    same = models.CharField(max_length=64, unique=True, db_comment="hash of what makes two of them equal")
    count = models.BigIntegerField(default=1)
    first_at = models.DateTimeField(db_default=Now())
    last_at = models.DateTimeField(db_default=Now())

    class Meta:
        triggers = [pgtrigger.Protect(name="kept", operation=pgtrigger.Delete)]


class Epoch(models.Model):
    """One uninterrupted life of this installation's data (R27)."""

    number = models.IntegerField(primary_key=True)
    began_at = models.DateTimeField(db_default=Now())
    why = models.TextField(blank=True)
    released_at = models.DateTimeField(null=True)
    released_by = models.CharField(max_length=150, blank=True)
    system_identifier = models.CharField(max_length=40, blank=True)
    timeline = models.IntegerField(null=True)
    database_oid = models.BigIntegerField(null=True)
    intents = models.BigIntegerField(default=0)
    mark = models.BigIntegerField(null=True, db_comment="the inode of the mark outside the database")
