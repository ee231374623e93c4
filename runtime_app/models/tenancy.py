"""Tenants, who belongs to them with which roles, their environments, their agents."""

from django.conf import settings
from django.db import models

from ..ids import uuid7
from .base import Now, TenantKey, TenantRoot, TenantRow, one_of


class Tenant(models.Model):
    """The isolation boundary. Every runtime row belongs to exactly one."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    slug = models.SlugField(unique=True, max_length=60, help_text="Appears in addresses: /t/<slug>/")
    name = models.CharField(max_length=120)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    def __str__(self):
        return self.name


class Environment(TenantRoot):
    """A tenant's named target of actions."""

    CLASSES = [("development", "Development"), ("staging", "Staging"), ("production", "Production")]

    name = models.SlugField(max_length=60)
    klass = models.CharField("class", max_length=20, choices=CLASSES)
    protected = models.BooleanField(
        default=False, help_text="No policy may let somebody with a stake approve here (R18)."
    )
    held_at = models.DateTimeField(null=True, blank=True, editable=False)
    held_by = models.CharField(max_length=150, blank=True, editable=False)
    held_why = models.TextField(blank=True, editable=False)
    session = TenantKey(
        "runtime_app.Session", null=True, editable=False, db_comment="where its holds and releases are told"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "name"], name="environment_name_once_per_tenant"),
            one_of("klass", ["development", "staging", "production"], "environment_class_known"),
        ]

    def __str__(self):
        return self.name


class Membership(TenantRoot):
    """One person in one tenant. Every member may view."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="memberships")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "user"], name="membership_once_per_tenant")]

    def __str__(self):
        return f"{self.user} in {self.tenant}"


class Role(TenantRow):
    """What a member may do: in the tenant, or, for approvers and operators, in one environment. Roles add up (R06)."""

    NAMES = [
        ("viewer", "Viewer"),
        ("responder", "Responder: answers questions"),
        ("approver", "Approver"),
        ("operator", "Operator: starts, cancels, settles effects"),
        ("admin", "Admin"),
    ]

    membership = TenantKey(Membership, related_name="roles", db_index=True)
    name = models.CharField(max_length=20, choices=NAMES)
    environment = TenantKey(Environment, null=True, blank=True)

    class Meta:
        constraints = [
            one_of("name", ["viewer", "responder", "approver", "operator", "admin"], "role_name_known"),
            models.UniqueConstraint(
                fields=["membership", "name", "environment"], nulls_distinct=False, name="role_once"
            ),
            # an environment limits only what is done in environments
            models.CheckConstraint(
                condition=models.Q(environment=None) | models.Q(name__in=["approver", "operator"]),
                name="role_limited_only_where_it_makes_sense",
            ),
        ]

    def __str__(self):
        return f"{self.name}@{self.environment.name}" if self.environment_id else self.name


class Instance(TenantRow):
    """One agent in one tenant and environment, with an owner. A hosted one has no credential."""

    agent = models.SlugField(max_length=80)
    name = models.CharField(max_length=200, blank=True, help_text="What a remote one calls itself.")
    environment = TenantKey(Environment)
    provisioner = TenantKey(
        "runtime_app.Credential", null=True, editable=False, db_comment="the provisioner token that made it"
    )
    deleted_at = models.DateTimeField(null=True, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    hosted = models.BooleanField(default=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "agent", "environment"], condition=models.Q(hosted=True), name="instance_hosted_once"
            ),
        ]

    def __str__(self):
        return f"{self.agent} in {self.environment}"
