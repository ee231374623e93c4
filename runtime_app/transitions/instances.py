"""Instances of agents elsewhere, made and changed by provisioner tokens. A receiver has proved itself before either."""

from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID

from django.db import OperationalError, connection
from django.utils.text import slugify

from .. import credentials, permissions, sealed
from ..errors import Busy, NotFound, SaysoError
from ..models import Credential, Instance, Receiver
from ..permissions import Context
from .calls import earlier_call, earlier_reply, remember
from .change import Change, transition
from .deliveries import SEALED_FOR, remove_receiver


class InstanceDeleted(SaysoError):
    """What was asked again was about an Instance that is deleted."""

    code, status = "instance_deleted", 409
    default = "This instance was deleted. It is not made again."


@dataclass(frozen=True)
class Address:
    """Where notifications go, and the secret (`whsec_…`) they are signed with: proven by its answer to a challenge."""

    url: str
    registration_id: UUID
    secret: str


@dataclass(frozen=True)
class Provisioned:
    """What was answered when the Instance was made, and the token that was given out then: it is made again from what
    it was made of, and nowhere kept. `new`: made now."""

    reply: str
    token: str
    new: bool = False


KEEP = object()  # as it is


@contextmanager
def one_at_a_time(context: Context, key: str):
    """Of the same call sent twice at once one proves the receiver; the other waits and finds what it made. Raises Busy
    after some seconds. Not in a transaction: a receiver may take its time."""
    lock = int.from_bytes(sha256(f"{context.credential_id} {key}".encode()).digest()[:8], "big", signed=True)
    with connection.cursor() as cursor:
        try:
            cursor.execute("select pg_advisory_lock(%s)", [lock])
        except OperationalError as failed:  # lock_timeout
            raise Busy("The same is being done right now. Ask again.", retry_after=2) from failed
        try:
            yield
        finally:
            cursor.execute("select pg_advisory_unlock(%s)", [lock])


def provisioned(context: Context, key: str, asked: dict) -> Provisioned | None:
    """What was made under this key before. Raises IdempotencyConflict, InstanceDeleted."""
    made = earlier_call(context, key, "make_instance", asked)
    if made is None:
        return None
    if Instance.objects.filter(pk=made, deleted_at__isnull=False).exists():
        raise InstanceDeleted
    token = credentials.derived(context.credential_id, key, made)
    if not Credential.objects.filter(instance_id=made, hash=credentials.stored(token)["hash"]).exists():
        raise InstanceDeleted("The key of this installation was replaced: the token cannot be told again.")
    return Provisioned(earlier_reply(context, key, "make_instance", asked), token)


@transition("make_instance", "key")
def make_instance(
    change: Change, *, key: str, asked: dict, instance_id: UUID, name: str, address: Address | None, reply: str
) -> Provisioned:
    """An Instance in the provisioner token's environment, with its credential, owned by who made the token (R18, R20).

    `reply`: what is answered, and answered again to a repeat. Raises NotSignedIn, IdempotencyConflict, InstanceDeleted.
    """
    by = _provisioner(change)
    if earlier := provisioned(change.context, key, asked):
        return earlier
    instance = Instance.objects.create(
        id=instance_id, tenant_id=by.tenant_id, agent=slugify(name)[:80] or "agent", name=name, provisioner_id=by.pk,
        environment_id=by.environment_id, owner_id=by.made_by_id, hosted=False,
    )  # fmt: skip
    token = credentials.derived(by.pk, key, instance_id)
    Credential.objects.create(
        tenant_id=by.tenant_id, kind="instance", name=name[:120], environment_id=by.environment_id, instance=instance,
        scopes=by.scopes, made_by_id=by.made_by_id, **credentials.stored(token),
    )  # fmt: skip
    if address:
        _receive(instance, address)
    remember(change.context, key, "make_instance", asked, instance.pk, reply)
    return Provisioned(reply, token, new=True)


@transition("update_instance", "instance_id")
def update_instance(
    change: Change, *, instance_id, key: str, asked: dict, name: str | None = None, address: Address | None = KEEP,
    reply,
) -> str:  # fmt: skip
    """Rename it, or replace or remove (None) its receiver. A repeat gets what was answered then, and changes nothing.

    `reply(instance, receiver)`: what is answered. Raises NotFound, NotSignedIn, IdempotencyConflict.
    """
    found = permissions.find(Instance, change.context, instance_id)
    instance = change.lock(Instance, found.pk)
    permissions.still_live(change.context)
    if instance.deleted_at:
        raise NotFound
    if earlier := earlier_reply(change.context, key, "update_instance", asked):
        return earlier
    if name is not None:
        instance.name = name
        instance.save(update_fields=["name"])
    if address is None:
        remove_receiver(instance.pk)
    elif address is not KEEP:
        Receiver.objects.filter(instance_id=instance.pk, removed_at=None).update(removed_at=change.now())
        _receive(instance, address)
    told = reply(instance, Receiver.objects.filter(instance_id=instance.pk, removed_at=None).first())
    remember(change.context, key, "update_instance", asked, instance.pk, told)
    return told


def updated(context: Context, *, instance_id, key: str, asked: dict) -> str | None:
    """What was answered to this update before, or None. Raises NotFound, IdempotencyConflict."""
    found = permissions.find(Instance, context, instance_id)
    if found.deleted_at:
        raise NotFound
    return earlier_reply(context, key, "update_instance", asked)


def _provisioner(change: Change) -> Credential:
    found = change.lock(Credential, change.context.credential_id)
    permissions.still_live(change.context)
    return found


def _receive(instance: Instance, address: Address) -> None:
    Receiver.objects.create(
        tenant_id=instance.tenant_id, instance=instance, url=address.url, registration_id=address.registration_id,
        secret=sealed.seal(address.secret.encode(), SEALED_FOR),
    )  # fmt: skip
