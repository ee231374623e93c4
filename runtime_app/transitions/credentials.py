"""Credentials of agents elsewhere: made, rotated, revoked by an admin of their tenant; and the end of an Instance.

They belong to no Session, so they are no Events: the row says who and when, and the administration's log says it again.
The token is in what `make_credential` and `rotate_credential` return, and nowhere else.
"""

from datetime import datetime, timedelta

from django.core.exceptions import ValidationError
from django.core.validators import validate_slug
from django.db import connection
from django.db.models import Q

from .. import canonical, permissions
from ..credentials import Made, live, stored, token
from ..errors import IdempotencyConflict, InvalidInput
from ..events import NEWS
from ..ids import parse_id, uuid7
from ..models import Credential, Environment, Instance
from ..models.credentials import SCOPES
from ..permissions import Context
from .acting import end_instance
from .administration import ADDITION, CHANGE, DELETION, noted
from .change import Change, transition
from .deliveries import remove_receiver

LIVE = 2  # credentials of one Instance at once: the old one and the one that replaces it
OVERLAP = timedelta(days=30)  # the longest that can be stated


@transition("make_credential", "name")
def make_credential(
    change: Change, *, kind: str, name: str, environment, scopes=SCOPES, agent: str = "", instance_id=None,
    expires_at: datetime | None = None, credential_id=None,
) -> Made:  # fmt: skip
    """A provisioner token, or an instance credential: of a new Instance that the maker owns, or of `instance_id`.

    `environment`: its name or its id. `credential_id`: made by the caller, so that a form sent twice makes one; the
    token of the first is not told again (IdempotencyConflict).
    Raises NotFound, NotAuthorized, InvalidInput, IdempotencyConflict.
    """
    if refused := permissions.may_administer(change.context):
        raise refused
    pk = _fresh(credential_id)
    where = _environment(change.context, environment)
    _legal(change, kind, name, scopes, expires_at)
    instance = None
    if kind == "instance" and instance_id:
        instance = _locked(change, instance_id)
        if instance.environment_id != where.pk:
            raise InvalidInput("This agent is in another environment.", fields={"environment": "not the agent's"})
        _room(instance)
    elif kind == "instance":
        instance = _new_instance(change, where, agent or name, name)
    made = Credential(
        id=pk, tenant_id=change.context.tenant_id, kind=kind, name=name, environment_id=where.pk, instance=instance,
        scopes=[each for each in SCOPES if each in scopes], expires_at=expires_at,
    )  # fmt: skip
    return _made(change, made, "Made.")


@transition("rotate_credential", "credential_id")
def rotate_credential(
    change: Change, *, credential_id, overlap: timedelta | None = None, expires_at: datetime | None = None,
    new_id=None,
) -> Made:  # fmt: skip
    """Another credential in place of this one. Both live until the old one is revoked, or `overlap` has passed.

    Raises NotFound, NotAuthorized, InvalidInput (not live, or both are live already), IdempotencyConflict.
    """
    old = permissions.administered(Credential, change.context, credential_id)
    instance = _locked(change, old.instance_id) if old.instance_id else None
    old = change.lock(Credential, old.pk)
    pk = _fresh(new_id)
    _legal(change, old.kind, old.name, old.scopes, expires_at)
    if not live().filter(pk=old.pk).exists():
        raise InvalidInput("This credential is revoked or has expired: there is nothing to hand over.")
    if instance:
        _room(instance)
    if overlap is not None:
        if not timedelta(0) <= overlap <= OVERLAP:
            told = f"from nothing to {OVERLAP.days} days"
            raise InvalidInput(f"An overlap is {told}.", fields={"overlap": told})
        until = change.now() + overlap
        old.expires_at = min(old.expires_at or until, until)
        old.save(update_fields=["expires_at"])
        noted(change, old, CHANGE, f"Rotated; live until {old.expires_at:%Y-%m-%d %H:%M} UTC.")
        _news(change)
    made = Credential(
        id=pk, tenant_id=old.tenant_id, kind=old.kind, name=old.name, environment_id=old.environment_id,
        instance=instance, scopes=old.scopes, expires_at=expires_at,
    )  # fmt: skip
    return _made(change, made, f"Made in place of {old.prefix}….")


@transition("revoke_credential", "credential_id")
def revoke_credential(change: Change, *, credential_id) -> Credential:
    """From this commit it proves nothing; open polls, streams and sockets look again at once (R06, R40). Calm when it
    was revoked before. Raises NotFound, NotAuthorized."""
    found = permissions.administered(Credential, change.context, credential_id)
    found = change.lock(Credential, found.pk)
    if found.revoked_at is None:
        _revoke(change, found)
    return found


@transition("delete_instance", "instance_id")
def _mark_deleted(change: Change, *, instance_id) -> Instance:
    found = _deletable(change.context, instance_id)
    instance = change.lock(Instance, found.pk)
    if change.context.credential_id:
        permissions.still_live(change.context)
    if instance.hosted:
        raise InvalidInput("This agent is hosted here: it has no credential, and Runs refer to it.")
    if instance.deleted_at is None:
        for each in Credential.objects.filter(instance_id=instance.pk, revoked_at=None).order_by("pk"):
            _revoke(change, change.lock(Credential, each.pk))
        instance.deleted_at = change.now()
        instance.save(update_fields=["deleted_at"])
        remove_receiver(instance.pk)
        noted(change, instance, DELETION, "Deleted; its credentials are revoked.")
        _news(change)
    return instance


def delete_instance(context: Context, *, instance_id) -> Instance:
    """Revoke all credentials of a remote Instance in one commit, then end its Runs, one transaction each: again and
    again calm. An admin may, and the provisioner token that made it.

    Raises NotFound, NotAuthorized, NotSignedIn, InvalidInput (a hosted one).
    """
    instance = _mark_deleted(context, instance_id=instance_id)
    end_instance(context, instance)
    return instance


def _deletable(context: Context, pk) -> Instance:
    if not context.credential_id:
        return permissions.administered(Instance, context, pk)
    return permissions.find(Instance, context, pk)


def _fresh(pk):
    """The id of what is made. One that is taken, anywhere, was a form sent before."""
    if pk is None:
        return uuid7()
    parsed = parse_id(pk)
    if parsed is None:
        raise InvalidInput("The id of a credential is a UUID.", fields={"credential_id": "not a UUID"})
    if Credential.objects.filter(pk=parsed).exists():
        raise IdempotencyConflict(
            "This was made already. Its token was shown once, then; if nobody kept it, revoke it and make another."
        )
    return parsed


def _environment(context: Context, named) -> Environment:
    same = Q(name=str(named)) if parse_id(named) is None else Q(pk=parse_id(named))
    found = Environment.objects.filter(same, tenant_id=context.tenant_id).first() if str(named).isprintable() else None
    if found is None:
        raise InvalidInput("There is no such environment here.", fields={"environment": "choose one of the tenant's"})
    return found


def _legal(change: Change, kind: str, name: str, scopes, expires_at: datetime | None) -> None:
    if kind not in dict(Credential.KINDS):
        raise InvalidInput("A credential is a provisioner token or an instance credential.", fields={"kind": "choose"})
    if not name.strip() or len(name) > 120 or not name.isprintable() or canonical.fault(name):
        told = "one line of 1 to 120 characters"
        raise InvalidInput(f"Its name is {told}.", fields={"name": told})
    if not scopes or not set(scopes) <= set(SCOPES):
        raise InvalidInput("A scope is aap or api; choose at least one.", fields={"scopes": "choose at least one"})
    if kind == "provisioner" and "aap" not in scopes:
        told = "a provisioner token makes agents by the Agent Approval Protocol: choose it"
        raise InvalidInput("Such a token could do nothing.", fields={"scopes": told})
    if expires_at and expires_at <= change.now():
        raise InvalidInput("It would have expired already.", fields={"expires_at": "choose a time to come"})


def _locked(change: Change, instance_id) -> Instance:
    found = permissions.administered(Instance, change.context, instance_id)
    instance = change.lock(Instance, found.pk)
    if instance.hosted or instance.deleted_at:
        why = "deleted" if instance.deleted_at else "hosted here"
        raise InvalidInput(f"This agent is {why}: it has no credentials.")
    return instance


def _room(instance: Instance) -> None:
    if live().filter(instance_id=instance.pk).count() >= LIVE:
        raise InvalidInput(f"This agent has {LIVE} live credentials already: revoke one first.")


def _new_instance(change: Change, where: Environment, agent: str, name: str) -> Instance:
    try:
        validate_slug(agent)
    except ValidationError:
        agent = ""
    if not agent or len(agent) > 80:
        told = "1 to 80 letters, digits, - and _"
        raise InvalidInput(f"The agent's name is {told}.", fields={"agent": told})
    return Instance.objects.create(
        tenant_id=where.tenant_id, agent=agent, name=name, environment=where, owner_id=change.context.user_id,
        hosted=False,
    )  # fmt: skip


def _made(change: Change, credential: Credential, told: str) -> Made:
    secret = token(credential.kind)
    kept = stored(secret)
    credential.made_by_id, credential.prefix, credential.hash = change.context.user_id, kept["prefix"], kept["hash"]
    credential.save(force_insert=True)
    noted(change, credential, ADDITION, told)
    return Made(Credential.objects.select_related("environment", "instance").get(pk=credential.pk), secret)


def _revoke(change: Change, credential: Credential) -> None:
    credential.revoked_at, credential.revoked_by = change.now(), change.context.actor.name
    credential.save(update_fields=["revoked_at", "revoked_by"])
    noted(change, credential, CHANGE, "Revoked.")
    _news(change, credential)


def _news(change: Change, credential: Credential | None = None) -> None:
    """Whoever holds a poll, a stream or a socket open, with this credential or in this tenant, looks again at the
    commit."""
    about = f"{change.context.tenant_id} {credential.pk if credential else ''}".strip()
    with connection.cursor() as cursor:
        cursor.execute("select pg_notify(%s, %s)", [NEWS, about])
