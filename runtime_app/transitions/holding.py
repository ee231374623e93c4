"""Hold and release an Environment, void an unused Grant (R16). Nothing that was sent is touched."""

from .. import permissions
from ..errors import GrantUnusable, InvalidInput, NotFound
from ..models import Effect, Environment, Grant, Request, Response, Run
from .change import Change, transition
from .continuing import end, revoke, wake
from .resolving import earlier_response, keep, said_of
from .telling import lock_told


@transition("hold", "environment")
def hold(change: Change, *, environment: str, response_id, reason: str = "") -> Response:
    """Until its release nothing is dispatched in this Environment, and nothing is voided. When this returns, every
    dispatch intent there is older than the hold.

    Raises NotFound, NotAuthorized, InvalidInput (already held), IdempotencyConflict.
    """
    where, said = _asked(change, "hold", environment, response_id, reason)
    if earlier := earlier_response(change.context, said):
        return earlier
    if refused := permissions.may_operate(change.context, where.pk):
        raise refused
    if where.held_at:
        since = f"{where.held_at:%Y-%m-%d %H:%M:%S} UTC"
        raise InvalidInput(f"{where.held_by} holds {where.name} already, since {since}.")
    where.held_at, where.held_by, where.held_why = change.now(), change.context.actor.name, reason
    where.save(update_fields=["held_at", "held_by", "held_why"])
    change.note("environment.held", subject=where.pk, environment=where.name, why=reason)
    return keep(change, said, {"environment": where.name, "held": True})


@transition("release", "environment")
def release(change: Change, *, environment: str, response_id, reason: str = "") -> Response:
    """End the hold; what waits is looked at again before it is sent. Raises as `hold`."""
    where, said = _asked(change, "release", environment, response_id, reason)
    if earlier := earlier_response(change.context, said):
        return earlier
    if refused := permissions.may_operate(change.context, where.pk):
        raise refused
    if not where.held_at:
        raise InvalidInput(f"{where.name} is not held.")
    where.held_at, where.held_by, where.held_why = None, "", ""
    where.save(update_fields=["held_at", "held_by", "held_why"])
    change.note("environment.released", subject=where.pk, environment=where.name, why=reason)
    change.log.work("effect")
    return keep(change, said, {"environment": where.name, "held": False})


def _asked(change: Change, kind: str, name: str, response_id, reason: str) -> tuple[Environment, Response]:
    """The Environment, locked after the Session in which its holds are told. Waits for intents under way."""
    context = change.context
    where = permissions.visible(Environment, context).filter(name=str(name)).first()
    if where is None:
        raise NotFound
    session = lock_told(change, where, f"Holds of {where.name}")
    where = change.lock(Environment, where.pk)
    said = said_of(kind, where.pk, response_id, reason, session_id=session.pk, tenant_id=context.tenant_id)
    said.session_id = session.pk
    return where, said


@transition("void", "request_id")
def void(change: Change, *, request_id, response_id, reason: str = "") -> Response:
    """Take back an approval that was not used: its Grant is void, nothing is sent, the agent is told `void` (R16).

    Its approver may, and an operator there. Raises NotFound, NotAuthorized, GrantUnusable (not_approved,
    already_consumed, void), IdempotencyConflict.
    """
    context = change.context
    found = permissions.find(Request, context, request_id)
    change.lock_session(found.session_id)
    run = change.lock(Run, found.run_id)
    request = change.lock(Request, found.pk)
    if prepared := Effect.objects.filter(request_id=request.pk).values_list("pk", flat=True).first():
        change.lock(Effect, prepared)
    said = said_of("void", request.pk, response_id, reason, run=run)
    if earlier := earlier_response(context, said):
        return earlier
    if refused := permissions.may_void(context, request):
        raise refused
    made = Grant.objects.filter(request_id=request.pk).first()
    if made is None:
        raise GrantUnusable("There is no approval to take back.", reason="not_approved")
    if made.state != "unused":
        reason_of = {"consumed": "already_consumed", "void": "void"}[made.state]
        raise GrantUnusable(f"This approval is {made.state} already. Nothing was changed.", reason=reason_of)
    said.request_id = request.pk
    revoke(change, run, request, f"voided by {context.actor.name}")
    keep(change, said, {"request": str(request.pk), "grant": "void"})
    if run.single and run.state == "running":  # it was about this approval, and nothing else
        end(change, run, "failed", reason=f"The approval was void: voided by {context.actor.name}.")
    wake(change, run)
    return said
