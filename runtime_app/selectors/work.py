"""Runs and Sessions as pages and API show them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Count, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from .. import states
from ..ids import parse_id
from ..models import Blocker, Effect, Environment, Event, Instance, Now, Request, Response, Run, Session
from ..permissions import Context, Roles, may_operate, visible
from .cards import chain
from .ledger import of_runs
from .output import Output, outputs
from .rows import before, one, page
from .waiting import pending
from .workers import lacking

PAGE = 30
EVENTS = 50
CHILDREN = 100


@dataclass
class RunPage:
    run: Run
    now: datetime
    requests: list[Request]
    waits: list[Request]
    responses: list[Response]
    effects: list[Effect]
    blocker: Blocker | None
    events: list[Event]
    why_not: Exception | None  # why the caller may not cancel it
    children: list[Run]
    outputs: list[Output]

    @property
    def live_children(self) -> list[Run]:
        return [child for child in self.children if child.state not in states.ENDED]

    @property
    def ended(self) -> bool:
        return self.run.state in states.ENDED

    @property
    def doubtful(self) -> list[Effect]:
        return [effect for effect in self.effects if effect.doubtful]

    @property
    def moved(self) -> list[Effect]:
        """What left, or may have left: no cancellation takes it back (R31)."""
        return [effect for effect in self.effects if effect.state in ("in_flight", "uncertain", "committed")]

    @property
    def withdrawn(self) -> list[Effect]:
        return [effect for effect in self.effects if effect.state == "withdrawn"]

    @property
    def unasked(self) -> list[Request]:
        """Requests that ended with the Run."""
        return [request for request in self.requests if request.state == "cancelled"]


@dataclass
class SessionPage:
    session: Session
    runs: list[Run]
    earlier: object | None
    events: list[Event]
    places: list[Instance]  # where the caller may start a Run
    now: datetime


def environments(context: Context) -> list[Environment]:
    return list(visible(Environment, context).order_by("name"))


def runs(context: Context, *, state: str = "", environment: str = "", agent: str = "", schedule: str = "", last=None):
    """Newest first, with what each waits for and what is unknown. Returns (runs, the id the next page starts after)."""
    rows = visible(Run, context).select_related("session", "environment")
    if state:
        rows = rows.filter(state__in=states.ENDED if state == "ended" else [state])
    if environment:
        rows = rows.filter(environment__name=environment)
    if agent:
        rows = rows.filter(agent=agent)
    if schedule:
        rows = rows.filter(schedule_id=parse_id(schedule) or UUID(int=0))
    found, after = page(before(with_doubts(rows), context, last, "created_at"), PAGE)
    return with_waits(context, found), after


def with_waits(context: Context, found: Iterable[Run]) -> list[Run]:
    """The same Runs, each with `waits` and `blocker`: two queries, whatever their number."""
    found = list(found)
    by_id = {run.pk: run for run in found}
    for run in found:
        run.waits, run.blocker = [], None
    waiting = pending(context).filter(run_id__in=by_id, stops=True).select_related("effect__request")
    for request in waiting.order_by("created_at", "id"):
        by_id[request.run_id].waits.append(request)
    for blocker in Blocker.objects.filter(run_id__in=[run.pk for run in found if run.state == "blocked"]):
        by_id[blocker.run_id].blocker = blocker
    lacking(found)
    return found


def run_page(context: Context, id, held: Roles) -> RunPage:
    related = ("session", "environment", "instance__owner", "initiator", "follows", "parent", "schedule")
    run = one(Run, context, id, *related)
    requests = chain(context, run)
    now = Run.objects.filter(pk=run.pk).values_list(Now(), flat=True).get()
    waits = [each for each in requests if each.state == "pending" and not (each.expires_at and each.expires_at <= now)]
    run.waits = [each for each in waits if each.stops]
    children = visible(Run, context).filter(parent_id=run.pk).order_by("created_at", "id")
    effects = of_runs(context, [run.pk])
    lacking([run], effects)
    with_effect = {effect.pk: effect for effect in effects}
    for request in requests:
        request.run, request.environment = run, run.environment
        if request.effect_id in with_effect:
            request.effect = with_effect[request.effect_id]
    return RunPage(
        run=run,
        now=now,
        requests=requests,
        waits=waits,
        responses=list(Response.objects.filter(run_id=run.pk).order_by("at", "id")[:200]),
        effects=effects,
        blocker=Blocker.objects.filter(run_id=run.pk).first() if run.state == "blocked" else None,
        events=list(Event.objects.filter(session_id=run.session_id, run_id=run.pk).order_by("-seq")[:EVENTS]),
        why_not=may_operate(context, run.environment_id, held),
        children=list(children[:CHILDREN]),
        outputs=outputs(run),
    )


def session_page(context: Context, id, held: Roles, *, last=None) -> SessionPage:
    """The newest Runs, oldest first as they were written; `earlier` starts the page before."""
    session = one(Session, context, id)
    rows = with_doubts(visible(Run, context).filter(session_id=session.pk)).select_related("environment")
    found, earlier = page(before(rows, context, last, "created_at"), PAGE)
    return SessionPage(
        session=session,
        runs=with_waits(context, reversed(found)),
        earlier=earlier,
        events=list(Event.objects.filter(session_id=session.pk).order_by("-seq")[:EVENTS]),
        places=places(context, held),
        now=Session.objects.filter(pk=session.pk).values_list(Now(), flat=True).get(),
    )


def sessions(context: Context, *, last=None):
    """Newest first. Returns (sessions, the id the next page starts after)."""
    return page(before(visible(Session, context), context, last, "created_at"), PAGE)


def places(context: Context, held: Roles) -> list[Instance]:
    """The hosted agents and environments in which the caller may start a Run."""
    rows = visible(Instance, context).filter(hosted=True).select_related("environment")
    rows = rows.order_by("agent", "environment__name")
    return [each for each in rows if may_operate(context, each.environment_id, held) is None]


def with_doubts(rows):
    """How many Effects of each Run may or may not have happened: it is said wherever the Run appears (R31)."""
    doubtful = Effect.objects.filter(Q(state="uncertain") | Q(disputed=True), run_id=OuterRef("pk"))
    counted = doubtful.order_by().values("run").annotate(n=Count("pk")).values("n")
    return rows.annotate(doubts=Coalesce(Subquery(counted), 0))
