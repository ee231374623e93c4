"""/v1/instances: a provisioner token makes, reads, changes and deletes Instances within its environment."""

import asyncio
import json
import threading
from collections import Counter
from contextlib import contextmanager
from uuid import uuid4

from django.http import HttpResponse

from ... import canonical, clock, selectors, transitions, webhooks
from ...errors import InvalidInput, TooMany
from ...ids import uuid7
from ...permissions import Context
from . import refusals, wire
from .requests import caller

NAME = 200  # characters
MOST, MOST_OF_ONE = 8, 6  # made or changed at once in this process, and by one provisioner token


def create(request):
    context = caller(request, "provisioner")
    key = wire.key(request, "provision")
    found = wire.body(request)
    wire.fields(found, (), ("instance_name", "delivery"))
    instance_id, asked = uuid7(), _asked(found)
    name = _name(found) or f"agent-{str(instance_id)[-8:]}"
    address = _address(found)
    told = canonical.dump(_told(instance_id, name, address)).decode()
    made = {"key": key, "asked": asked}
    with room(context), transitions.one_at_a_time(context, key):
        provisioned = transitions.provisioned(context, **made)
        if provisioned is None:
            if address:
                prove(address, instance_id)
            provisioned = transitions.make_instance(
                context, **made, instance_id=instance_id, name=name, address=address, reply=told
            )
    credential = json.dumps({"token": provisioned.token})
    body = f'{{"instance":{provisioned.reply},"credential":{credential}}}'
    return _answered(body, 201 if provisioned.new else 200)


def get(request, id):
    instance, receiver = selectors.provisioned_instance(caller(request, "provisioner"), id)
    return _answered(json.dumps(_told(instance.pk, instance.name, receiver)))


def update(request, id):
    context = caller(request, "provisioner")
    found = wire.body(request)
    wire.fields(found, (), ("instance_name", "delivery"), nullable=("delivery",))
    if not found:
        raise InvalidInput("Say what to change: instance_name, delivery or both.")
    instance, _ = selectors.provisioned_instance(context, id)
    made = {"instance_id": instance.pk, "key": wire.key(request, "update", instance.pk), "asked": _asked(found)}
    name, address = _name(found), _address(found)
    with room(context), transitions.one_at_a_time(context, made["key"]):
        told = transitions.updated(context, **made)
        if told is None:
            if address:
                prove(address, instance.pk)
            told = transitions.update_instance(
                context, **made, name=name, address=address if "delivery" in found else transitions.KEEP,
                reply=lambda changed, receiver: json.dumps(_told(changed.pk, changed.name, receiver)),
            )  # fmt: skip
    return _answered(told)


def delete(request, id):
    transitions.delete_instance(caller(request, "provisioner"), instance_id=id)
    return HttpResponse(status=204)


_under_way: Counter = Counter()  # provisioner token to its calls that may wait
_counting = threading.Lock()


@contextmanager
def room(context: Context):
    """A receiver may take its time, and who waits for it, or for the same call, holds one of few database connections:
    a few may, so that receivers that never answer keep nobody else from theirs. Raises TooMany."""
    with _counting:
        if _under_way.total() >= MOST or _under_way[context.credential_id] >= MOST_OF_ONE:
            raise TooMany("Too many instances are being made or changed right now.", retry_after=2)
        _under_way[context.credential_id] += 1
    try:
        yield
    finally:
        with _counting:
            _under_way[context.credential_id] -= 1
            _under_way.pop(context.credential_id) if not _under_way[context.credential_id] else None


def prove(address: transitions.Address, instance_id) -> None:
    """Ask the receiver, once, whether it expects this registration and holds the secret. Raises Unverified, and
    InvalidInput for an address that is not sent to."""
    challenge, message_id, now = str(uuid4()), str(uuid4()), clock.now()
    body = {
        "id": message_id, "type": "webhook.verification", "registration_id": str(address.registration_id),
        "instance_id": str(instance_id), "created_at": clock.stamp(now), "challenge": challenge,
    }  # fmt: skip
    sending = webhooks.post(
        address.url, id=message_id, at=now, secret=address.secret, body=json.dumps(body), seconds=10
    )  # fmt: skip
    try:
        answer = asyncio.run(sending)
        if answer.status == 200 and canonical.parse(answer.body) == {"challenge": challenge}:
            return
    except webhooks.Unsafe as refused:
        raise _unsafe(refused) from None
    except (webhooks.Failed, InvalidInput):
        pass
    raise refusals.Unverified


def _asked(found: dict) -> dict:
    return {"body": canonical.dump(found).decode()}


def _name(found: dict) -> str | None:
    name = wire.text(found, "instance_name", NAME)
    if name is not None and not name.strip():
        raise wire.wrong("instance_name", "a text that is not blank")
    return name


def _address(found: dict) -> transitions.Address | None:
    delivery = wire.document(found, "delivery") if found.get("delivery") is not None else None
    if delivery is None:
        return None
    wire.fields(delivery, ("type", "url", "registration_id", "signing_secret"))
    if delivery["type"] != "webhook":
        raise InvalidInput(
            "Notifications go by webhook.", reason="unsupported_delivery_type", fields={"delivery.type": "webhook"}
        )
    secret = wire.text(delivery, "signing_secret")
    if not wire.SECRET.fullmatch(secret):
        raise wire.wrong("delivery.signing_secret", "whsec_ and the base64 of 32 bytes")
    url, registration_id = wire.text(delivery, "url"), wire.identifier(delivery, "registration_id")
    try:
        return transitions.Address(webhooks.check(url), registration_id, secret)
    except webhooks.Unsafe as refused:
        raise _unsafe(refused) from None


def _unsafe(refused: webhooks.Unsafe) -> InvalidInput:
    return InvalidInput(
        f"Notifications are not sent there. {refused}", reason="invalid_webhook_url", fields={"delivery.url": "unsafe"}
    )


def _told(instance_id, name: str, receiver) -> dict:
    """An Instance as AAP has it. `receiver`: a Receiver, an Address, or None."""
    told = {"id": str(instance_id), "name": name}
    if receiver:
        registration_id = str(receiver.registration_id)
        told["delivery"] = {"type": "webhook", "url": receiver.url, "registration_id": registration_id}
    return told


def _answered(body: str, status: int = 200):
    return refusals.answered(status, [("Content-Type", "application/json")], body.encode())
