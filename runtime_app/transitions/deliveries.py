"""Notifications to agents elsewhere: written with the end of their Request, sent until acknowledged.

At most one attempt of one notification is under way: it is taken for longer than it can last, and only who took it
last writes what came of it.
"""

import json
import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection, transaction

from .. import clock, sealed
from ..ids import uuid7
from ..models import Delivery, Now, Receiver, Request, Run
from .change import Change

SEALED_FOR = "webhook secrets"
WINDOW = timedelta(hours=168)  # after the decision
ATTEMPT = 10  # seconds that one attempt lasts at most
TAKEN = timedelta(seconds=30)
AT_ONCE = 4  # attempts for one Instance
FIRST, LONGEST = 2, 6 * 3600  # seconds between attempts, before the jitter


@dataclass(frozen=True)
class Parcel:
    """One attempt, to be made now: `at` is its time, `seconds` is what it may last."""

    delivery_id: UUID
    attempt: int
    url: str
    secret: str
    body: str
    at: datetime
    seconds: float


def tell(change: Change, run: Run, request: Request) -> None:
    """A Request became final: in this transaction, and once, its agent is to be told, if it has a receiver."""
    if not run.single or request.kind != "wait_approval":
        return
    receiver = Receiver.objects.filter(instance_id=run.instance_id, removed_at=None).first()
    if receiver is None:
        return
    pk = uuid7()
    body = {
        "id": str(pk), "type": "request.resolved", "instance_id": str(run.instance_id), "request_id": str(request.pk),
        "created_at": clock.stamp(request.resolved_at),
    }  # fmt: skip
    Delivery.objects.create(
        id=pk, tenant_id=run.tenant_id, receiver_id=receiver.pk, request_id=request.pk, body=json.dumps(body)
    )
    change.log.work("delivery")


def remove_receiver(instance_id: UUID) -> None:
    """From this commit no attempt begins. The caller has locked the Instance."""
    now = clock.now()
    Receiver.objects.filter(instance_id=instance_id, removed_at=None).update(removed_at=now)
    waiting = Delivery.objects.filter(receiver__instance_id=instance_id, next_at__isnull=False).values("pk")
    Delivery.objects.filter(pk__in=list(waiting.values_list("pk", flat=True))).update(
        next_at=None, ended_why="The receiver was removed."
    )


_DUE = """
with busy as (
    select r.instance_id, d.tenant_id, count(*) as number
    from runtime_app_delivery d join runtime_app_receiver r on r.id = d.receiver_id
    where d.next_at is not null and d.taken_until > sayso_now() group by 1, 2),
due as (
    select d.id, d.tenant_id, d.next_at, coalesce(b.number, 0) + row_number() over (
        partition by r.instance_id order by d.next_at, d.id) as place
    from runtime_app_delivery d join runtime_app_receiver r on r.id = d.receiver_id
    left join busy b on b.instance_id = r.instance_id
    where d.next_at <= sayso_now()),
turns as (
    select id, next_at, row_number() over (partition by tenant_id order by next_at, id)
        + coalesce((select sum(number) from busy where busy.tenant_id = due.tenant_id), 0) as turn
    from due where place <= %s)
select id from turns order by turn, next_at limit %s
"""


def take_deliveries(most: int) -> list[Parcel]:
    """Up to `most` attempts that are due, each taken for whoever asks now: of one Instance only a few at once, and
    tenants take turns, so that receivers that never answer keep no others from being told (T92)."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(_DUE, [AT_ONCE, most])
            chosen = [pk for (pk,) in cursor]
        free = Delivery.objects.select_for_update(no_key=True, skip_locked=True)
        found = [_take(each) for each in free.filter(pk__in=chosen, next_at__lte=Now()).order_by("next_at")]
    return [parcel for parcel in found if parcel]


def _take(delivery: Delivery) -> Parcel | None:
    now = clock.now()
    receiver = Receiver.objects.filter(
        instance_id__in=Receiver.objects.filter(pk=delivery.receiver_id).values("instance_id"), removed_at=None
    ).first()
    left = (_ends(delivery) - now).total_seconds()
    secret = receiver and sealed.opened(receiver.secret, SEALED_FOR)
    if not secret or left <= 0:
        _end(delivery, "Nobody acknowledged it within 168 hours." if receiver else "The receiver was removed.")
        return None
    delivery.attempts += 1
    delivery.taken_until = delivery.next_at = now + TAKEN
    delivery.save(update_fields=["attempts", "taken_until", "next_at"])
    return Parcel(delivery.pk, delivery.attempts, receiver.url, secret.decode(), delivery.body, now, min(ATTEMPT, left))


def delivered(parcel: Parcel, status: str, acknowledged: bool, retry_after: timedelta | datetime | None = None) -> None:
    """What came of an attempt. Not acknowledged, it is made again: later each time, not before `retry_after`, and not
    after its window. What a later attempt took is left alone."""
    with transaction.atomic():
        delivery = Delivery.objects.select_for_update(no_key=True).get(pk=parcel.delivery_id)
        if delivery.attempts != parcel.attempt or delivery.delivered_at:
            return
        now = clock.now()
        delivery.last_status, delivery.taken_until = status[:60], None
        if acknowledged:
            delivery.delivered_at, delivery.next_at = now, None
        elif delivery.next_at:  # else its receiver was removed meanwhile
            delivery.next_at = max(now + _pause(delivery.attempts), _not_before(now, retry_after))
        delivery.save(update_fields=["last_status", "taken_until", "delivered_at", "next_at"])
        if delivery.next_at and delivery.next_at >= _ends(delivery):
            _end(delivery, "Nobody acknowledged it within 168 hours.")


def _not_before(now: datetime, told: timedelta | datetime | None) -> datetime:
    try:
        return told if isinstance(told, datetime) else now + (told or timedelta(0))
    except OverflowError:
        return now + WINDOW


def _pause(attempts: int) -> timedelta:
    """Twice as long each time, from 2 s to 6 hours, and half as much more or less, so that no crowd comes together."""
    return timedelta(seconds=min(FIRST * 2 ** min(attempts - 1, 20), LONGEST) * random.uniform(0.5, 1.5))


def _ends(delivery: Delivery) -> datetime:
    return Request.objects.values_list("resolved_at", flat=True).get(pk=delivery.request_id) + WINDOW


def _end(delivery: Delivery, why: str) -> None:
    delivery.next_at = delivery.taken_until = None
    delivery.ended_why = why
    delivery.save(update_fields=["next_at", "taken_until", "ended_why"])
