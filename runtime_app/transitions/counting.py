"""Equal Blockers of one job are counted, not piled up (R34)."""

import json
from hashlib import sha256
from uuid import UUID

from django.db.models import Q

from ..models import Blocker, Run
from .change import Change


def count_equal(change: Change, run: Run, blocker: Blocker) -> None:
    """Count in this Blocker, which is not written yet, those of earlier runs of its job that lacked the same."""
    lacked = blocker.action_hash or json.dumps([blocker.prompt, blocker.schema], sort_keys=True)
    job = [run.agent, str(run.environment_id), str(run.schedule_id), run.message, blocker.kind, lacked]
    blocker.same = sha256(json.dumps(job).encode()).hexdigest()
    equal = Blocker.objects.filter(Blocker.OPEN, tenant_id=run.tenant_id, same=blocker.same)
    for earlier in equal:
        blocker.count += earlier.count
    equal.update(replaced_at=change.now())


def lock_equal(change: Change, pk: UUID) -> tuple[Blocker, Blocker | None]:
    """The Blocker, with all that are counted together locked by id; and the equal one that was given, or denied, since
    it arose: that was for all of them, whichever page it was said on (R34)."""
    seen = Blocker.objects.values("tenant_id", "same").get(pk=pk)
    equal = Blocker.objects.filter(**seen).exclude(same="")
    list(equal.filter(supplied_at=None, denied_at=None).order_by("pk").select_for_update(no_key=True))
    blocker = change.lock(Blocker, pk)
    since = Q(supplied_at__gte=blocker.created_at) | Q(denied_at__gte=blocker.created_at)
    return blocker, equal.filter(since).exclude(pk=pk).first()


def close_equal(change: Change, blocker: Blocker) -> None:
    """What this one was given, or denied, no equal one still lacks."""
    equal = Blocker.objects.filter(Blocker.OPEN, tenant_id=blocker.tenant_id, same=blocker.same).exclude(same="")
    equal.exclude(pk=blocker.pk).update(replaced_at=change.now())
