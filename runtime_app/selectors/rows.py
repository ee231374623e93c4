"""One row by its id with what stands around it, still through the only door."""

from uuid import UUID

from ..errors import NotFound
from ..ids import parse_id
from ..permissions import Context, visible


def one(model, context: Context, id, *related: str):
    """As `permissions.find`, with `related` rows read in the same query. Unknown, foreign, no id: NotFound (R07)."""
    row = visible(model, context).select_related(*related).filter(pk=parse_id(id) or UUID(int=0)).first()
    if row is None:
        raise NotFound
    return row


def before(rows, context: Context, id, stamp: str):
    """The rows older than the one with this id, newest first: a keyset, without OFFSET."""
    if id:
        last = one(rows.model, context, id)
        at = getattr(last, stamp)
        rows = rows.filter(**{f"{stamp}__lte": at}).exclude(**{stamp: at, "pk__gte": last.pk})
    return rows.order_by(f"-{stamp}", "-pk")


def page(rows, size: int) -> tuple[list, object | None]:
    """At most `size` rows, and the id after which the next page starts, or None at the end."""
    found = list(rows[: size + 1])
    return found[:size], found[size - 1].pk if len(found) > size else None
