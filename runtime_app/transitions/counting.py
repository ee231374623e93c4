"""Equal Blockers of one job are counted, not piled up (R34)."""

import json
from hashlib import sha256

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
