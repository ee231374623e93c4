"""A Grant, and the Effect prepared with it: one transaction with the approval (R16, R22)."""

from datetime import timedelta
from uuid import UUID

from django.db.models import Q

from .. import canonical, permissions, policies
from ..events import current_epoch
from ..models import Effect, Environment, Grant, Request, Response, Run
from .change import Change


def grant(change: Change, run: Run, request: Request, *, by_policy: bool = False) -> None:
    """Allow one dispatch of this Request's digest, and write the Effect before anything is sent."""
    now = change.now()
    made = Grant.objects.create(
        tenant_id=run.tenant_id, request_id=request.pk, run_id=run.pk, digest=request.digest, by_policy=by_policy,
        epoch=run.epoch, expires_at=now + timedelta(seconds=request.policy["grant_for"]),
    )  # fmt: skip
    change.note("grant.made", run=run, subject=made.pk, digest=request.digest, expires_at=made.expires_at.isoformat())
    change.log.work("effect")
    if not request.described.get("changes", True):  # registered as changing nothing outside
        return
    if request.effect_id:  # a redispatch: the Effect is there, and its Grant prepares nothing (R24)
        return
    effect = Effect.objects.create(
        tenant_id=run.tenant_id, session_id=run.session_id, run_id=run.pk, environment_id=request.environment_id,
        request_id=request.pk, action_name=request.action_name, action_version=request.action_version,
        action_hash=request.action_hash, epoch=run.epoch,
        compensates_id=run.recovers_id if run.recovery == "compensate" else None,
    )  # fmt: skip
    change.note("effect.prepared", run=run, subject=effect.pk, action=effect.action_name)


def unaccepted(tenant_id: UUID, action_hash: str, besides: UUID | None = None) -> UUID | None:
    """An Effect of an equal Action that nobody knows the outcome of, and nobody accepted as such (R24)."""
    doubtful = Effect.objects.filter(tenant_id=tenant_id, action_hash=action_hash, accepted_at=None).exclude(pk=besides)
    return doubtful.filter(Q(state="uncertain") | Q(disputed=True)).values_list("pk", flat=True).first()


def undoes_nothing(effect: Effect) -> bool:
    """It compensates what, as was established since, did not happen."""
    undone = Effect.objects.filter(pk=effect.compensates_id, state="not_committed", disputed=False)
    return effect.compensates_id is not None and undone.exists()


def drift(
    change: Change, run: Run, request: Request, effect: Effect, made: Grant, environment: Environment
) -> str | None:
    """What no longer holds of this Grant, in words, or None: all is checked again just before the intent (R16)."""
    digest = canonical.digest(
        tenant=run.tenant_id, session=run.session_id, run=run.pk, request=request.pk, action_bytes=request.action_bytes
    )
    if not digest == request.digest == made.digest:
        return "the stored action is not the one that was approved"
    bound = request.bound
    sent = {"action": effect.action_name, "version": effect.action_version, "actor": str(run.instance_id)}
    if not sent.items() <= bound.items() or bound["environment"]["id"] != str(environment.pk):
        return "what would be sent is not the action that was approved"
    if bound["environment"]["name"] != environment.name:
        return "the environment was renamed since"
    if request.effect_id and effect.state != "uncertain":
        return "its outcome was established meanwhile"
    if undoes_nothing(effect):
        return "what it would undo did not happen"
    if made.epoch != current_epoch():
        return "this installation's data began a new epoch since"
    if made.expires_at <= change.now():
        return "the approval expired before it was sent"
    policy = policies.applying(environment, request.action_name)
    if policy["verdict"] == "deny":
        return "the policy now denies this action"
    if policy["verdict"] == "allow":
        if not unaccepted(run.tenant_id, request.action_hash, request.effect_id):
            return None
        if made.by_policy:
            return "nobody knows what became of an equal action"
    elif made.by_policy:
        return "the policy no longer allows this without asking"
    votes = Response.objects.filter(request_id=request.pk, kind="approve", spent_at=None).values_list(
        "user_id", flat=True
    )
    counted = set(votes) & set(permissions.entitled(request, policy))
    if len(counted) < policy["approvals"]:
        return "too few of those who approved may still approve, by the policy now in force"
    return None
