"""What a credential asks twice under one key is done once (R09)."""

import json
from hashlib import sha256
from uuid import UUID

from .. import canonical
from ..errors import IdempotencyConflict, InvalidInput
from ..models import Call
from ..permissions import Context

KEY = 255  # characters


def legal_key(key: str) -> None:
    if not key or len(key) > KEY or not key.isprintable() or canonical.fault(key):
        told = f"a text of 1 to {KEY} printable characters"
        raise InvalidInput(f"The Idempotency-Key is {told}.", fields={"Idempotency-Key": told}, reason="bad_key")


def earlier_call(context: Context, key: str, verb: str, asked: dict) -> UUID | None:
    """What was made or changed under this key; IdempotencyConflict if that was asked otherwise."""
    legal_key(key)
    earlier = Call.objects.filter(tenant_id=context.tenant_id, caller=context.actor.id, key=key).first()
    if earlier is None:
        return None
    if (earlier.verb, earlier.same) != (verb, _same(asked)):
        raise IdempotencyConflict("This Idempotency-Key was already used for something else. Nothing was changed.")
    return earlier.subject


def remember(context: Context, key: str, verb: str, asked: dict, subject: UUID) -> None:
    """In the transaction that did it. Two at once under one key: the second looks again and finds the first's."""
    Call.objects.create(
        tenant_id=context.tenant_id, caller=context.actor.id, key=key, verb=verb, same=_same(asked), subject=subject
    )


def _same(asked: dict) -> str:
    return sha256(json.dumps(asked, sort_keys=True, default=str).encode("utf-8", "surrogatepass")).hexdigest()
