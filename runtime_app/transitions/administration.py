"""What was done to a tenant's set-up, in the log of the administration: it is of no Session, so it is no Event."""

from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry

from .change import Change

__all__ = ["ADDITION", "CHANGE", "DELETION", "noted"]


def noted(change: Change, row, flag: int, told: str) -> None:
    """Who did it. A provisioner token is no account: the row itself says that it was one."""
    if change.context.user_id:
        LogEntry.objects.log_actions(change.context.user_id, [row], flag, told, single_object=True)
