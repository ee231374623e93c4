"""What a tenant's admins say of actions that have no code here: the tools of agents elsewhere."""

from datetime import timedelta

from django.db import models
from django.db.models import Q

from .base import Now, TenantRoot


class Registration(TenantRoot):
    """Facts about the actions whose name matches `pattern`. An exact name beats a pattern, a longer pattern a shorter.
    A card keeps them as they were when it was raised."""

    pattern = models.CharField(max_length=200, help_text="An action's name, or a pattern: github/*")
    title = models.CharField(max_length=120)
    consequence = models.TextField(blank=True, help_text="What happens if it is done.")
    reversible = models.TextField(blank=True, help_text="Whether and how it can be undone.")
    changes = models.BooleanField(
        default=True, help_text="It changes something outside. Without this it makes no effect, and nothing is asked "
        "about its outcome."
    )  # fmt: skip
    failure_conclusive = models.BooleanField(
        default=True, help_text="When its agent reports a failure, nothing happened. Without this a person is asked."
    )
    deadline = models.DurationField(
        default=timedelta(minutes=10), help_text="How long its agent may be silent before a person is asked."
    )
    risky = models.JSONField(default=list, blank=True, help_text="Names of parameters to show first.")
    made_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "pattern"], name="registration_pattern_once"),
            models.CheckConstraint(condition=Q(deadline__gt=timedelta(0)), name="registration_deadline_positive"),
        ]

    def __str__(self):
        return self.pattern
