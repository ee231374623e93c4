"""Runs: started by a message, claimed under a Lease, suspended at Requests, ended (R01, R04, R10, R22, R29, R30)."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

from .. import permissions, statements
from ..errors import IdempotencyConflict, InvalidInput, LeaseLost, RunEnded
from ..events import current_epoch
from ..ids import parse_id
from ..models import Entry, Environment, Instance, Now, Request, Run, Session, Worker
from .change import Change, opened, transition
from .continuing import end, stopped_at_something
from .raising import Wait, raise_waits
from .secrets import destroy
from .texts import legal_message, legal_texts

LAPSES = 5


@dataclass
class Turn:
    """One worker's turn at a Run, under a numbered Lease; only the newest may write."""

    run: Run
    worker_id: UUID
    lease_number: int
    journal: list[Entry] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    children: list[Run] = field(default_factory=list)
    came: dict[str, dict] | None = None  # of the requests, if it was read with the claim


@dataclass(frozen=True)
class NewEntry:
    """One step to journal: `reply` (position) or `result` (position and call)."""

    kind: str
    position: int
    content: str
    call: str = ""


# ---------------------------------------------------------------- start


@transition("start", "session_id")
def start(
    change: Change, *, agent: str, environment: str, message: str, session_id=None, title: str = "",
    interactive: bool = True, start_id=None, schedule_id=None,
) -> Run:  # fmt: skip
    """A new message starts a new Run, in a Session of its own or in this one. Whatever it says, it answers none (R10).

    Raises NotFound, NotAuthorized, InvalidInput, IdempotencyConflict.
    """
    context = change.context
    session = _session(change, session_id, title or message)
    held = permissions.roles(context) if context.actor.kind == "person" else None  # after the lock (R06)
    legal_texts(agent=agent, environment=environment, title=title)  # before a query has to take them
    where = permissions.seen(Environment, context, "name = %s", environment)
    if earlier := _started(context, start_id, session_id, agent, where, message, interactive):
        return earlier
    if where is None:
        raise InvalidInput(f"There is no environment {environment[:60]} here.", fields={"environment": "not known"})
    if refused := permissions.may_operate(context, where.pk, held):
        raise refused
    legal_message(message)
    own = "where tenant_id = %s and environment_id = %s and agent = %s and hosted"
    instance = statements.first(Instance, own, context.tenant_id, where.pk, agent)
    if instance is None:
        raise InvalidInput(f"No agent {agent[:60]} is set up in {where.name}.", fields={"agent": "not set up there"})
    if session._state.adding:
        statements.insert(session)
    run = Run(
        tenant_id=context.tenant_id, session_id=session.pk, environment_id=where.pk, instance_id=instance.pk,
        agent=agent, interactive=interactive, message=message, initiator_id=context.user_id,
        initiator_name=context.actor.name, start_id=parse_id(start_id or ""), epoch=current_epoch(),
        schedule_id=schedule_id,
    )  # fmt: skip
    statements.insert(run)
    change.note("run.started", run=run, agent=agent, environment=where.name, interactive=interactive)
    change.log.work("run")
    return run


def _session(change: Change, session_id, title: str) -> Session:
    if session_id:
        return change.lock_session(permissions.find(Session, change.context, session_id).pk)
    session = Session(tenant_id=change.context.tenant_id, title=" ".join(title.split())[:120] or "Untitled")
    change.log_of(session)
    return session


def _started(context, start_id, session_id, agent: str, where, message: str, interactive: bool) -> Run | None:
    if not start_id:
        return None
    if (start_id := parse_id(start_id)) is None:
        raise InvalidInput("The start_id is not a UUID.", fields={"start_id": "not a UUID"})
    if context.user_id is None:  # nobody's name is in no unique index: two at once go one after the other
        with connection.cursor() as cursor:
            cursor.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"{context.tenant_id} {start_id}"])
    earlier = Run.objects.filter(tenant_id=context.tenant_id, initiator_id=context.user_id, start_id=start_id).first()
    if earlier is None:
        return None
    before = (earlier.agent, earlier.environment_id, earlier.message, earlier.interactive)
    same = before == (agent, where and where.pk, message, interactive)
    if not same or session_id and earlier.session_id != parse_id(session_id):
        raise IdempotencyConflict("This start_id already started another Run. Nothing was changed.")
    return earlier


# ---------------------------------------------------------------- turns


def claim(worker_id: UUID, knows: dict[str, list[str]] | None = None) -> Turn | None:
    """Take the next queued Run, oldest first. Chosen without a lock, locked in order, looked at again (R05).

    `knows`: the worker's agents, each with its version first and the older ones it continues. A Run made by another
    version waits for a worker that has it.
    """
    while True:
        with opened("claim") as change:
            pk = change.lock_first("worker", _queued(knows))
            if pk is None:
                return None
            run = change.lock(Run, pk)
            if run.state == "queued" and run.held_at is None:
                return _claim(change, run, worker_id, knows)


# what recovers an Effect has no loop, so whoever is there ends it
_QUEUED = """
select id, tenant_id, session_id from runtime_app_run
 where state = 'queued' and hosted and held_at is null
   and (%(any)s or recovers_id is not null
        or (agent, agent_version) in (select * from unnest(%(agents)s::text[], %(versions)s::text[])))
 order by queued_at limit 8
"""


def _queued(knows: dict[str, list[str]] | None) -> list[tuple]:
    known = [(agent, version) for agent, versions in (knows or {}).items() for version in ["", *versions]]
    agents, versions = [agent for agent, _ in known], [version for _, version in known]
    with connection.cursor() as cursor:
        cursor.execute(_QUEUED, {"any": knows is None, "agents": agents, "versions": versions})
        return cursor.fetchall()


def _claim(change: Change, run: Run, worker_id: UUID, knows: dict[str, list[str]] | None) -> Turn:
    first = run.lease_number == 0
    run.state, run.lease_number, run.lease_worker = "running", run.lease_number + 1, worker_id
    run.lease_until = Now() + timedelta(seconds=settings.SAYSO_LEASE_SECONDS)
    written = ["state", "lease_number", "lease_worker", "lease_until"]
    if first:
        run.started_at = run.started_at or Now()
        run.agent_version = run.agent_version or (knows or {}).get(run.agent, [""])[0]
        written += ["started_at", "agent_version"]
    statements.update(run, *written)
    change.note("run.running", run=run, lease=run.lease_number)
    turn = Turn(run, worker_id, run.lease_number)
    if not first or run.follows_id or run.recovers_id:
        turn.journal = statements.rows(Entry, "where run_id = %s order by position, kind, call", run.pk)
        turn.requests = waits_of(run)
        turn.children = children_of(run)
    return turn


def children_of(run: Run) -> list[Run]:
    return statements.rows(Run, "where parent_id = %s order by created_at", run.pk)


def waits_of(run: Run) -> list[Request]:
    """The newest Request of each key of the Run."""
    own = statements.rows(Request, "where run_id = %s and kind <> 'wait_effect' order by number", run.pk)
    return list({request.key: request for request in own}.values())


def _held(change: Change, turn: Turn) -> Run:
    """The Run, locked, if this turn still has its newest Lease (R29)."""
    change.lock_session(turn.run.session_id)
    run = change.lock(Run, turn.run.pk)
    if run.state != "running" or run.lease_number != turn.lease_number or run.lease_worker != turn.worker_id:
        raise LeaseLost
    return run


def _append(run: Run, turn: Turn, entries: Iterable[NewEntry]) -> None:
    written = [
        Entry(
            tenant_id=run.tenant_id,
            run_id=run.pk,
            position=entry.position,
            kind=entry.kind,
            call=entry.call,
            content=entry.content,
            lease_number=turn.lease_number,
        )  # fmt: skip
        for entry in entries
    ]
    if written:
        statements.insert(*written)
        turn.journal += written


def journal(turn: Turn, *entries: NewEntry, used: Iterable[UUID] = ()) -> None:
    """Journal finished steps at once: a reply before any of its calls starts, a result when it returns (R22). With it
    go the secrets that the step `used` (R12). Raises LeaseLost, RunEnded (cancelling)."""
    with opened("journal", permissions.system("worker", turn.run.tenant_id)) as change:
        run = _held(change, turn)
        _unmarked(run)
        _append(run, turn, entries)
        if used:
            destroy(change, run, used)


def suspend(turn: Turn, *, waits: list[Wait], entries: Iterable[NewEntry] = ()) -> list[Request] | None:
    """Journal the step, raise its waits and park the Run: all or none, and nobody hears of it before (R01).

    Returns the Requests if nothing stops the Run (a policy decided all): the turn goes on. None: the turn is over.
    """
    asking = permissions.Actor("agent", str(turn.run.instance_id), turn.run.agent)
    with opened("suspend", permissions.Context(turn.run.tenant_id, asking)) as change:
        run = _held(change, turn)
        _unmarked(run)
        _append(run, turn, entries)
        raised = raise_waits(change, run, waits)
        if raised is None:
            return None
        if not any(request.state == "pending" for request in raised) and not stopped_at_something(run):
            return raised
        run.state, run.lease_until, run.lease_worker, run.lapses = "waiting", None, None, 0
        run.waiting_since = change.now()
        statements.update(run, "state", "lease_until", "lease_worker", "lapses", "waiting_since")
        change.note("run.waiting", run=run, on=[str(request.pk) for request in raised if request.state == "pending"])
        return None


def finish(turn: Turn, *, state: str, result: str = "", reason: str = "", entries: Iterable[NewEntry] = ()) -> None:
    """End a Run whose loop is done: `succeeded` or `failed`. A marked Run can end no other way than cancelled (R30)."""
    with opened("finish", permissions.system("worker", turn.run.tenant_id)) as change:
        run = _held(change, turn)
        _unmarked(run)
        _append(run, turn, entries)
        end(change, run, state, result=result, reason=reason)


def give_back(turn: Turn) -> None:
    """A worker that is leaving lets go of the Run; another takes it up."""
    with opened("give_back", permissions.system("worker", turn.run.tenant_id)) as change:
        run = _held(change, turn)
        if run.cancel_requested_at:
            end(change, run, "cancelled", by=run.cancelled_by)
        else:
            requeue(change, run)


def requeue(change: Change, run: Run) -> None:
    run.state, run.lease_until, run.lease_worker, run.queued_at = "queued", None, None, Now()
    run.save(update_fields=["state", "lease_until", "lease_worker", "queued_at", "lapses"])
    change.note("run.queued", run=run)
    if run.hosted:
        change.log.work("run")


def _unmarked(run: Run) -> None:
    if run.cancel_requested_at:
        raise RunEnded("The Run is being cancelled; its worker has to stop.", reason="cancelling")


def beat(worker_id: UUID, name: str, turns: Iterable[Turn], knows: dict | None = None) -> set[UUID]:
    """Say that this worker lives and extend its Leases. Returns the Runs it must stop: marked, or no longer its own."""
    held = {turn.run.pk: turn.lease_number for turn in turns}
    with transaction.atomic():
        Worker.objects.update_or_create(pk=worker_id, defaults={"name": name, "seen_at": Now(), "knows": knows or {}})
        if not held:
            return set()
        # locked by id and never waited for: a Run that is being changed is extended by the next beat
        mine = Run.objects.filter(pk__in=held, state="running", lease_worker=worker_id).order_by("pk")
        free = list(mine.select_for_update(no_key=True, skip_locked=True).values_list("pk", flat=True))
        until = Now() + timedelta(seconds=settings.SAYSO_LEASE_SECONDS)
        Run.objects.filter(pk__in=free).update(lease_until=until)
        now = {
            pk: (number, marked) for pk, number, marked in mine.values_list("pk", "lease_number", "cancel_requested_at")
        }
    return {pk for pk, number in held.items() if pk not in now or now[pk][0] != number or now[pk][1]}


def leave(worker_id: UUID) -> None:
    """A worker that ended cleanly is not waited for."""
    Worker.objects.filter(pk=worker_id).delete()
