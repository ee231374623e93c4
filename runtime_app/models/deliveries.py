"""Where an Instance wants to be told, and what it is told (Standard Webhooks)."""

import pgtrigger
from django.db import models
from django.db.models import Q

from .base import Now, TenantKey, TenantRow, kept
from .requests import Request
from .tenancy import Instance


class Receiver(TenantRow):
    """An address that proved, once, that it holds the secret. Replaced, never edited: what was to go to an old one goes
    to the new one; removed without another, what is under way to it ends."""

    instance = TenantKey(Instance)
    registration_id = models.UUIDField()
    url = models.CharField(max_length=2000)
    secret = models.BinaryField(db_comment="encrypted with a key of the installation")
    verified_at = models.DateTimeField(db_default=Now())
    removed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["instance"], condition=Q(removed_at=None), name="receiver_one_an_instance"),
        ]
        triggers = [kept()]


class Delivery(TenantRow):
    """One notification, written in the transaction that made its Request final. Its id and body never change; attempts
    go on, one at a time, until one is acknowledged or its time is over."""

    receiver = TenantKey(Receiver, db_comment="the one there was then; it goes to its Instance's present one")
    request = TenantKey(Request)
    body = models.TextField()
    made_at = models.DateTimeField(db_default=Now())
    attempts = models.IntegerField(default=0)
    next_at = models.DateTimeField(null=True, db_default=Now(), db_comment="none: acknowledged, or given up")
    taken_until = models.DateTimeField(null=True, db_comment="an attempt is under way until then")
    delivered_at = models.DateTimeField(null=True)
    ended_why = models.CharField(max_length=200, blank=True)
    last_status = models.CharField(max_length=60, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["request"], name="delivery_once")]
        indexes = [models.Index(fields=["next_at"], condition=Q(next_at__isnull=False), name="delivery_due")]
        triggers = [
            kept(),
            pgtrigger.ReadOnly(name="told", fields=["tenant", "receiver", "request", "body", "made_at"]),
        ]
