"""A refused attempt to change something is a fact too (R13). Written after the rollback, outside every Session."""

from hashlib import sha256

from django.db import transaction
from django.db.models import F

from ..errors import NotFound, SaysoError
from ..models import Membership, Now, Refusal
from ..permissions import Context


def record_refusal(context: Context, verb: str, refused: SaysoError, target: str = "") -> None:
    """Count one more of these refusals. Holds no content of what was refused; the system's own are not written."""
    refused.recorded = True
    actor = context.actor
    if actor.kind == "system" and actor.id != "provider":
        return
    target = target.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")[:200]
    counted = "" if isinstance(refused, NotFound) else target
    with transaction.atomic():
        belongs = (
            actor.kind != "person"
            or Membership.objects.filter(tenant_id=context.tenant_id, user_id=context.user_id).exists()
        )
        tenant_id = context.tenant_id if belongs else None
        parts = (tenant_id, actor.kind, actor.id, verb, refused.code, refused.reason or "", counted)
        same = sha256("\0".join(map(str, parts)).encode()).hexdigest()
        _, new = Refusal.objects.get_or_create(
            same=same,
            defaults={
                "tenant_id": tenant_id,
                "actor_kind": actor.kind,
                "actor_id": actor.id,
                "actor_name": actor.name,
                "verb": verb,
                "code": refused.code,
                "reason": refused.reason or "",
                "target": target,
            },
        )
        if not new:
            Refusal.objects.filter(same=same).update(count=F("count") + 1, last_at=Now(), target=target)
