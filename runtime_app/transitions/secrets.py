"""Secret answers: sealed before the database sees them, destroyed as soon as they were used (R12)."""

from collections.abc import Iterable

from .. import permissions, questions, sealed
from ..errors import NotAuthorized
from ..models import Request, Run, Secret
from .change import Change, transition


def keep(run: Run, request: Request, values: dict) -> dict:
    """The values of an answer with a reference in the place of each secret; the secrets are rows of their own."""
    told = dict(values)
    for name in sorted(questions.secret(request.schema) & values.keys()):
        kept = Secret(tenant_id=request.tenant_id, request_id=request.pk, run_id=request.run_id, field=name)
        kept.sealed = sealed.seal(values[name].encode(), kept.purpose)
        kept.save(force_insert=True)
        told[name] = kept.reference
    if told != values:
        run.secrets = True
        run.save(update_fields=["secrets"])
    return told


def destroy(change: Change, run: Run, used: Iterable | None = None) -> int:
    """What is left of the Run's secrets, or of those of them that its step `used`, under the Run's lock."""
    kept = Secret.objects.filter(run_id=run.pk, sealed__isnull=False)
    if used is None:
        return kept.update(sealed=None, destroyed_at=change.now())
    return kept.filter(pk__in=list(used)).update(sealed=None, destroyed_at=change.now(), opened_at=change.now())


@transition("acknowledge_secrets", "request_id")
def acknowledge_secrets(change: Change, *, request_id) -> int:
    """The Run that asked has what it was answered: its secrets are destroyed. Returns how many; again, none.

    Raises NotFound, NotSignedIn, NotAuthorized (a person).
    """
    found = permissions.find(Request, change.context, request_id)
    if not change.context.credential_id:
        raise NotAuthorized("Only the Run that asked may acknowledge its secrets.", permission="the Run that asked")
    change.lock_session(found.session_id)
    run = change.lock(Run, found.run_id)
    permissions.still_live(change.context)
    mine = Secret.objects.filter(request_id=found.pk, sealed__isnull=False).values_list("pk", "field")
    fields = sorted(field for _, field in mine)
    if fields:
        destroy(change, run, used=[pk for pk, _ in mine])
        change.note("secret.acknowledged", run=run, subject=found.pk, fields=fields)
    return len(fields)
