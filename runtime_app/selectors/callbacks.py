"""What a provider's callback is checked with."""

from uuid import UUID

from ..models import CallbackSecret, Tenant
from ..sealed import opened

SEALED_FOR = "callback secrets"


def callback_secrets(slug: str, action: str) -> tuple[UUID | None, list[bytes]]:
    """The tenant, and the live secrets of this action in it; None and none for whatever does not exist."""
    tenant_id = Tenant.objects.filter(slug=slug).values_list("pk", flat=True).first()
    live = CallbackSecret.objects.filter(tenant_id=tenant_id, action=action, revoked_at=None)
    readable = [opened(sealed, SEALED_FOR) for sealed in live.order_by("-made_at").values_list("secret", flat=True)]
    return tenant_id, [secret for secret in readable if secret]
