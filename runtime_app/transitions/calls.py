"""What a credential asks twice under one key is done once (R09)."""

import json
from hashlib import sha256
from uuid import UUID

from .. import canonical, permissions, statements
from ..errors import IdempotencyConflict, InvalidInput
from ..models import Call, Instance
from ..permissions import Context
from .change import Change

KEY = 255  # characters


def alive(change: Change) -> None:
    """After the last lock: NotSignedIn unless the caller's credential lives (R06). Until this transaction ends its
    Instance cannot be deleted, so a deletion finds all that was written before it, and nothing is written after it."""
    gone(change.context.actor.id)
    permissions.still_live(change.context)


def gone(instance_id) -> bool:
    """Whether this Instance was deleted. If not, it is not until this transaction ends."""
    found = statements.first(Instance, "where id = %s for share", instance_id)
    return found is not None and found.deleted_at is not None


def legal_key(key: str) -> None:
    if not key or len(key) > KEY or not key.isprintable() or canonical.fault(key):
        told = f"a text of 1 to {KEY} printable characters"
        raise InvalidInput(f"The Idempotency-Key is {told}.", fields={"Idempotency-Key": told}, reason="bad_key")


def earlier_call(context: Context, key: str, verb: str, asked: dict) -> UUID | None:
    """What was made or changed under this key; IdempotencyConflict if that was asked otherwise."""
    earlier = _earlier(context, key, verb, asked)
    return earlier and earlier.subject


def earlier_reply(context: Context, key: str, verb: str, asked: dict) -> str | None:
    """What was answered under this key, where a repeat gets that and not how it stands now."""
    earlier = _earlier(context, key, verb, asked)
    return earlier and earlier.reply


def _earlier(context: Context, key: str, verb: str, asked: dict) -> Call | None:
    legal_key(key)
    mine = "where tenant_id = %s and caller = %s and key = %s"
    earlier = statements.first(Call, mine, context.tenant_id, context.actor.id, key)
    if earlier and (earlier.verb, earlier.same) != (verb, _same(asked)):
        raise IdempotencyConflict("This Idempotency-Key was already used for something else. Nothing was changed.")
    return earlier


def remember(context: Context, key: str, verb: str, asked: dict, subject: UUID, reply: str = "") -> None:
    """In the transaction that did it. Two at once under one key: the second looks again and finds the first's."""
    called = Call(
        tenant_id=context.tenant_id, caller=context.actor.id, key=key, verb=verb, same=_same(asked), subject=subject,
        reply=reply,
    )  # fmt: skip
    statements.insert(called)


def _same(asked: dict) -> str:
    return sha256(json.dumps(asked, sort_keys=True, default=str).encode("utf-8", "surrogatepass")).hexdigest()
