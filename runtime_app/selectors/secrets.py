"""Secret answers, for the Run that asked: in clear nowhere else (R12)."""

from uuid import UUID

from .. import sealed
from ..errors import InvalidInput, NotAuthorized
from ..models import Request, Secret
from ..permissions import Context, find


def opened(context: Context, request_id) -> dict[str, str]:
    """The secret fields of an answer, for the Instance whose Run asked, until it acknowledges them or its Run ends.

    Raises NotFound, and NotAuthorized for a person. Reading changes nothing (R11).
    """
    request = find(Request, context, request_id)
    if not context.credential_id:
        raise NotAuthorized("Only the Run that asked may open its secrets.", permission="the Run that asked")
    return {secret.field: text_of(secret) for secret in _kept(request_id=request.pk)}


def of_run(run_id: UUID) -> list[Secret]:
    """Those that can still be opened, for the worker whose turn it is."""
    return list(_kept(run_id=run_id))


def text_of(secret: Secret) -> str:
    text = sealed.opened(secret.sealed, secret.purpose)
    if text is None:
        raise InvalidInput(f"The secret {secret.field} was sealed with another key of this installation. Ask anew.")
    return text.decode()


def told(request: Request) -> dict[str, Secret]:
    """By field: what a page may say of them, which is when."""
    return {each.field: each for each in Secret.objects.filter(request_id=request.pk).defer("sealed")}


def _kept(**of):
    return Secret.objects.filter(sealed__isnull=False, **of)
