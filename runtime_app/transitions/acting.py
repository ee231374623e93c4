"""What an agent elsewhere does under its Grant: the intent, the report, what it claims; and the end of its Instance."""

from dataclasses import dataclass
from datetime import timedelta

from .. import clock, permissions, statements, states
from ..errors import Busy, GrantUnusable, IdempotencyConflict, InvalidInput, LeaseLost, NotFound, RunEnded
from ..models import Attempt, Effect, Environment, Evidence, Grant, Instance, Request, Run
from . import epochs
from .calls import alive, earlier_call, legal_key, remember
from .change import Change, opened, transition
from .continuing import end, revoke
from .dispatching import fly, last_number, spend
from .evidence import conclude, doubt, locked, printable
from .granting import drift
from .raising import raise_anew
from .refusals import record_refusal
from .remote import TEXT, park
from .texts import legal_texts

CLAIMS = 100  # of one Effect: the page where a person settles it shows them all
STATUSES = {"succeeded": "committed", "failed": "not_committed"}


@dataclass(frozen=True)
class Sending:
    """What a remote agent may do now, once: the Effect, whose key its provider gets, and the bytes approved."""

    request: Request
    grant: Grant
    effect: Effect | None


def dispatch(context: permissions.Context, *, request_id, key: str, lease: int | None = None) -> Sending:
    """The dispatch intent of a remote agent: takes the one use of the Grant, puts the Effect in flight. After it, and
    only then, the agent acts (R16, R22). The same key again is the same intent; past its time to send, and
    with nothing reported, it is `already_consumed`.

    Raises NotFound, GrantUnusable (already_consumed, approval_expired, not_approved, void), RunEnded, LeaseLost,
    Busy (a held Environment, an epoch nobody released), InvalidInput.
    """
    try:
        if not epochs.released(epochs.watch()):
            raise Busy("This installation was restored or copied; a person has to release it.", retry_after=30)
        with opened("dispatch", context) as change:
            sending, refused = _dispatch(change, request_id, key, lease)
            # a repeat is marked too: its first call may have died, or failed, before it was
            flying = sending and sending.effect and sending.effect.state == "in_flight"
            intent = epochs.next_intent() if flying else None
        if refused:
            raise refused
        if intent:
            epochs.mark(intent, Attempt.objects.filter(grant_id=sending.grant.pk).values_list("pk", flat=True).get())
        return sending
    except OSError as failed:  # it is in flight by our record, and the agent is not told to act: it becomes uncertain
        raise Busy("The mark outside the database could not be written.", retry_after=30) from failed
    except Busy:
        raise
    except (NotFound, GrantUnusable, RunEnded, LeaseLost, InvalidInput) as refused:
        record_refusal(context, "dispatch", refused, str(request_id))
        raise


def _dispatch(change: Change, request_id, key: str, lease: int | None):
    found = permissions.find(Request, change.context, request_id)
    if found.kind != "wait_approval":
        raise NotFound
    legal_key(key)
    change.lock_session(found.session_id)
    run = change.lock(Run, found.run_id)
    request = change.lock(Request, found.pk)
    prepared = Effect.objects.filter(request_id=request.pk).values_list("pk", flat=True).first()
    effect = change.lock(Effect, prepared) if prepared else None
    # last, so that a hold that has returned is complete (R16)
    environment = statements.first(Environment, "where id = %s for share", run.environment_id)
    alive(change)
    made = statements.first(Grant, "where request_id = %s", request.pk)
    if made is None:
        raise GrantUnusable("This action is not approved.", reason="not_approved")
    if made.state == "consumed":
        if made.used_key == key and not _too_late(change, effect, made):
            return Sending(request, made, effect), None
        raise GrantUnusable("The approval was already used.", reason="already_consumed")
    if made.state == "void":
        raise GrantUnusable(f"The approval is void: {made.void_why}.", reason="void")
    if made.expires_at <= change.now():
        raise GrantUnusable("The approval expired before it was used.", reason="approval_expired")
    if run.state in states.ENDED or run.cancel_requested_at:
        raise RunEnded(f"This Run is {run.state}.", reason=run.state if run.state in states.ENDED else "cancelling")
    if lease is not None and lease != run.lease_number:
        raise LeaseLost
    if environment.held_at or run.held_at:
        raise Busy(f"{environment.name} is held: nothing is done there until its release.", retry_after=5)
    if why := _drifted(change, run, request, effect, made, environment):
        revoke(change, run, request, why)
        if run.single:
            end(change, run, "failed", reason=f"The approval was void: {why}.")
        else:
            fresh = raise_anew(change, run, request, because=why)
            if fresh and fresh.state == "pending" and run.state in ("running", "queued"):
                park(change, run, [fresh])
        return None, GrantUnusable(f"The approval is void: {why}.", reason="void")
    return _take(change, run, request, effect, made, key), None


def _too_late(change: Change, effect: Effect | None, made: Grant) -> bool:
    """Whether a repeat of the intent would send on somebody whom people look after already: nothing was reported, and
    its Attempt's send-by time has passed, or what became of it was said without it (R23)."""
    if effect is None or made.report:
        return False
    return effect.state != "in_flight" or Attempt.objects.get(grant_id=made.pk).send_by <= change.now()


def _drifted(change, run, request, effect, made, environment) -> str | None:
    if effect is None:  # nothing outside changes, so there is nothing to compare with what would be sent
        effect = Effect(action_name=request.action_name, action_version=request.action_version)
    return drift(change, run, request, effect, made, environment)


def _take(change: Change, run: Run, request: Request, effect: Effect | None, made: Grant, key: str) -> Sending:
    spend(change, run, made, key)
    deadline = change.now() + timedelta(seconds=request.described.get("deadline", 600))
    if run.single:
        run.lease_until = deadline + timedelta(minutes=1)  # the Effect's deadline comes first
        run.save(update_fields=["lease_until"])
    if effect:
        fly(change, run, effect, made, worker=run.instance_id, send_by=deadline, deadline=deadline)
    return Sending(request, made, effect)


@transition("report", "request_id")
def report(change: Change, *, request_id, status: str, note: str = "", reference: str = "") -> Grant:
    """What the agent that used the Grant says became of it: its Attempt's reply, where the registration takes it so;
    else it is uncertain and a person is asked (R25). The same report again is calm; another is IdempotencyConflict.

    `status`: succeeded, failed, or unknown. Raises NotFound, GrantUnusable (not_consumed), InvalidInput.
    """
    found = permissions.find(Request, change.context, request_id)
    if status not in (*STATUSES, "unknown"):
        raise InvalidInput("A status is succeeded, failed or unknown.", fields={"status": "choose one of the three"})
    legal_texts(TEXT, note=note, reference=reference)
    prepared = Effect.objects.filter(request_id=found.pk).values_list("pk", flat=True).first()
    if prepared:
        run, effect = locked(change, prepared)
    else:
        change.lock_session(found.session_id)
        run, effect = change.lock(Run, found.run_id), None
    alive(change)
    made = statements.first(Grant, "where request_id = %s", found.pk)
    if made is None or made.state != "consumed":
        raise GrantUnusable("Nothing was begun under this approval.", reason="not_consumed")
    said = {"status": status, "note": note, "reference": reference}
    if made.report:
        if said == {name: made.report[name] for name in said}:
            return made
        raise IdempotencyConflict("Another outcome was reported before.", reason="outcome_conflict")
    made.report = said | {"at": clock.stamp(change.now())}
    made.save(update_fields=["report"])
    if effect:
        _reply(change, run, effect, found, said)
    if run.single and run.state == "running":
        failed = f"The agent reported a failure. {note}".strip()
        end(change, run, "succeeded") if status == "succeeded" else end(change, run, "failed", reason=failed)
    return made


def _reply(change: Change, run: Run, effect: Effect, request: Request, said: dict) -> None:
    finding = STATUSES.get(said["status"], "unknown")
    if said["status"] == "failed" and not request.described.get("failure_conclusive", True):
        finding = "unknown"
    attempt = Attempt.objects.get(grant__request_id=request.pk)  # its own, though an operator sent it again since (R25)
    if attempt.replied_at is None:
        attempt.replied_at, attempt.reply = change.now(), finding
        attempt.save(update_fields=["replied_at", "reply"])
    conclude(
        change, run, effect, finding=finding, grade="claimed", source="reply", attempt=attempt,
        newest=attempt.number == last_number(effect),
        reference=printable(said["reference"]), statement=printable(said["note"] or said["status"]),
    )  # fmt: skip


@transition("claim_evidence", "effect_id")
def claim_evidence(
    change: Change, *, effect_id, key: str, finding: str, reference: str = "", statement: str = ""
) -> Evidence:  # fmt: skip
    """What an agent says of an Effect of its own: kept as claimed; it settles and disputes nothing (R25)."""
    found = permissions.find(Effect, change.context, effect_id)
    asked = {"effect": str(found.pk), "finding": finding, "reference": reference, "statement": statement}
    if finding not in ("committed", "not_committed", "unknown"):
        raise InvalidInput("A finding is committed, not_committed or unknown.", fields={"finding": "choose one"})
    legal_texts(2_000, reference=reference, statement=statement)
    run, effect = locked(change, found.pk)
    alive(change)
    if earlier := earlier_call(change.context, key, "claim_evidence", asked):
        return Evidence.objects.get(pk=earlier)
    if Evidence.objects.filter(effect_id=effect.pk, grade="claimed", source="statement").count() >= CLAIMS:
        raise InvalidInput(f"Of one effect {CLAIMS} claims are kept, and these are. People read all of them.")
    kept = conclude(
        change, run, effect, finding=finding, grade="claimed", source="statement",
        reference=printable(reference), statement=printable(statement),
    )  # fmt: skip
    remember(change.context, key, "claim_evidence", asked, kept.pk)
    return kept


# ---------------------------------------------------------------- the end of an Instance


def end_instance(context: permissions.Context, instance: Instance) -> None:
    """End what is left of a deleted Instance: its Runs, one transaction each. Its Effects in flight are uncertain at
    once, since nobody can report them. Its credentials are revoked before."""
    live = Run.objects.filter(instance_id=instance.pk, hosted=False).exclude(state__in=states.ENDED)
    flying = Effect.objects.filter(run__instance_id=instance.pk, run__hosted=False, state="in_flight")
    runs = set(live.values_list("pk", flat=True)) | set(flying.values_list("run_id", flat=True))
    for pk in sorted(runs):
        with opened("end_instance", context) as change:
            change.lock_session(Run.objects.values_list("session_id", flat=True).get(pk=pk))
            end_with_instance(change, change.lock(Run, pk))


def end_with_instance(change: Change, run: Run) -> None:
    if run.state not in states.ENDED:
        run.cancelled_by, run.cancel_reason = change.context.actor.name, "Its agent's instance was deleted."
        run.cancel_requested_at = run.cancel_requested_at or change.now()
        end(change, run, "cancelled", by=run.cancelled_by)
    for pk in Effect.objects.filter(run_id=run.pk, state="in_flight").values_list("pk", flat=True):
        effect = change.lock(Effect, pk)
        attempt = Attempt.objects.filter(effect_id=pk).order_by("-number").first()
        conclude(
            change, run, effect, finding="unknown", grade="observed", source="deadline", attempt=attempt,
            statement="Its agent's instance was deleted before it reported an outcome.",
        )  # fmt: skip
        if effect.state == "in_flight":
            doubt(change, run, effect)
