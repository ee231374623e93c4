"""Who must agree to which action, where (R17)."""

from datetime import timedelta

from django.db import models
from django.db.models import Q

from .base import TenantKey, TenantRoot, one_of
from .tenancy import Environment


class Policy(TenantRoot):
    """One rule. Which one wins is decided in `policies`; each Request keeps a snapshot of it."""

    VERDICTS = [("allow", "Allow"), ("deny", "Deny"), ("ask", "Ask")]

    action = models.CharField(max_length=200, default="*", help_text="An action's name, or a pattern: deploy_*")
    environment = TenantKey(Environment, null=True, blank=True)
    klass = models.CharField("class", max_length=20, blank=True, choices=Environment.CLASSES)
    verdict = models.CharField(max_length=10, choices=VERDICTS, default="ask")
    approvals = models.PositiveSmallIntegerField(default=1)
    role = models.CharField(
        max_length=20, default="approver", choices=[(r, r) for r in ("approver", "operator", "admin")]
    )
    denials = models.PositiveSmallIntegerField(default=1, help_text="How many denials end it.")
    request_for = models.DurationField(default=timedelta(days=7), help_text="How long a request waits.")
    grant_for = models.DurationField(default=timedelta(hours=1), help_text="How long a grant lasts.")
    reason_required = models.BooleanField(default=False)
    typed_environment = models.BooleanField(default=False)
    fresh_sign_in = models.BooleanField(default=False)
    allow_stake = models.BooleanField(default=False, help_text="Unprotected environments only (R18).")

    class Meta:
        verbose_name_plural = "policies"
        constraints = [
            one_of("verdict", ["allow", "deny", "ask"], "policy_verdict_known"),
            one_of("role", ["approver", "operator", "admin"], "policy_role_known"),
            models.CheckConstraint(condition=Q(approvals__gte=1, denials__gte=1), name="policy_counts_are_positive"),
            models.CheckConstraint(
                condition=Q(request_for__gt=timedelta(0), grant_for__gt=timedelta(0)), name="policy_times_are_positive"
            ),
            # an environment already says its class
            models.CheckConstraint(condition=Q(environment=None) | Q(klass=""), name="policy_environment_or_class"),
        ]

    def __str__(self):
        where = self.environment or self.klass or "everywhere"
        return f"{self.verdict} {self.action} in {where}"
