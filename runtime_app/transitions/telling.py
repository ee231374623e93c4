"""Where what happens to a row that is in no Session is told: in a Session of its own (R36)."""

from ..models import Session
from .change import Change


def lock_told(change: Change, row, title: str) -> Session:
    """That row's Session, locked; made when something is told of it for the first time."""
    model = type(row)
    if row.session_id is None:
        session = Session.objects.create(tenant_id=row.tenant_id, title=title)
        # of two at once, the second's Session stays empty
        model.objects.filter(pk=row.pk, session=None).update(session=session)
    return change.lock_session(model.objects.values_list("session_id", flat=True).get(pk=row.pk))
