"""What agents elsewhere prove themselves with, and what they asked under which key."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from .base import Now, TenantKey, TenantRoot, TenantRow, append_only, kept, one_of
from .tenancy import Environment, Instance

SCOPES = ["aap", "api"]


class Credential(TenantRoot):
    """A provisioner token makes Instances; an instance credential is one. Bound to one tenant, one Environment and
    scopes. Of its 256 random bits only a hash is kept; `prefix` finds it and may be shown."""

    LIVES = Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=Now()))
    LIVES_SQL = "revoked_at is null and (expires_at is null or expires_at > sayso_now())"  # the same, written out
    KINDS = [("provisioner", "Provisioner token"), ("instance", "Instance credential")]

    kind = models.CharField(max_length=20, choices=KINDS)
    name = models.CharField(max_length=120, help_text="What people call it.")
    environment = TenantKey(Environment)
    instance = TenantKey(Instance, null=True, blank=True)
    scopes = models.JSONField(default=list)
    prefix = models.CharField(max_length=16, unique=True, editable=False)
    hash = models.CharField(max_length=64, unique=True, editable=False)
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", db_index=False)
    made_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, editable=False)
    revoked_by = models.CharField(max_length=150, blank=True, editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)
    last_address = models.CharField(max_length=64, blank=True, editable=False)

    class Meta:
        constraints = [
            one_of("kind", ["provisioner", "instance"], "credential_kind_known"),
            # exactly one Instance, or the right to make some
            models.CheckConstraint(
                condition=Q(kind="instance", instance__isnull=False) | Q(kind="provisioner", instance=None),
                name="credential_of_one_instance",
            ),
        ]
        indexes = [models.Index(fields=["instance"], condition=Q(revoked_at=None), name="credential_of_instance")]
        triggers = [kept()]

    def __str__(self):
        return f"{self.name} ({self.prefix}…)"


class Call(TenantRow):
    """What one credential asked under one Idempotency-Key: the same again is the same thing as it is now (R09)."""

    caller = models.UUIDField(db_comment="the Instance, or the provisioner token")
    key = models.CharField(max_length=255)
    verb = models.CharField(max_length=40)
    same = models.CharField(max_length=64, db_comment="hash of what was asked: what a repeat must equal")
    subject = models.UUIDField(db_comment="what it made or changed")
    reply = models.TextField(blank=True, db_comment="what was answered, where a repeat gets that; never a secret")
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "caller", "key"], name="call_once")]
        indexes = [models.Index(fields=["at"], name="call_age")]
        triggers = append_only()[1:]  # old ones may go: keys are kept at least as long as the two contracts say
