"""Everything the page of one Request shows, in a bounded number of queries."""

from dataclasses import dataclass, field
from datetime import datetime

from .. import canonical, questions
from ..models import Effect, Grant, Now, Request, Response, Run
from ..permissions import Context, Roles, entitled, may_void, visible, why_not
from .ledger import OPEN, EffectPage, around
from .rows import one
from .secrets import told


@dataclass
class Card:
    request: Request
    run: Run
    stands: str  # its state by the clock: a pending one past its deadline is expired (R08)
    why_not: Exception | None
    could: list[str]
    responses: list[Response]
    voted: Response | None
    now: datetime
    newer: Request | None = None
    older: Request | None = None
    last: Request | None = None
    changes: list[dict] = field(default_factory=list)
    equal: list[Request] = field(default_factory=list)
    uncertain: list[Effect] = field(default_factory=list)
    denials: list[Response] = field(default_factory=list)
    grant: Grant | None = None
    why_not_void: Exception | None = None
    effect: Effect | None = None
    ledger: EffectPage | None = None
    trail: list[Request] = field(default_factory=list)
    secrets: dict = field(default_factory=dict)  # what became of the secret fields of an answer

    @property
    def open(self) -> bool:
        return self.stands == "pending"

    @property
    def resolving(self) -> Response | None:
        """The Response that settled it, or the newest."""
        return self.responses[-1] if self.responses else None

    @property
    def approvals(self) -> list[Response]:
        return [each for each in self.responses if each.kind == "approve" and not each.spent_at]

    @property
    def missing(self) -> int:
        return max(0, self.request.policy["approvals"] - len(self.approvals)) if self.request.policy else 0


def card(context: Context, id, held: Roles) -> Card:
    """NotFound as `permissions.find`."""
    related = ("run__session", "run__instance", "environment")
    request = one(Request, context, id, *related, "effect__request", "effect__run__session", "effect__run__instance")
    now = Request.objects.filter(pk=request.pk).values_list(Now(), flat=True).get()
    past = request.state == "pending" and request.expires_at is not None and request.expires_at <= now
    responses = list(Response.objects.filter(request_id=request.pk).order_by("at", "id"))
    made = Card(
        request=request,
        run=request.run,
        stands="expired" if past else request.state,
        why_not=why_not(context, request, held),
        could=sorted(entitled(request).values()) if request.state == "pending" and not past else [],
        responses=responses,
        voted=next((each for each in responses if _votes(each) and each.user_id == context.user_id), None),
        now=now,
        trail=chain(context, request.run),
    )
    made.newer = next((each for each in made.trail if each.replaces_id == request.pk), None)
    made.older = next((each for each in made.trail if each.pk == request.replaces_id), None)
    if questions.secret(request.schema):
        made.secrets = told(request)
    if request.kind == "wait_approval":
        _around_approval(context, made, held)
    if request.kind == "wait_effect":
        request.effect.environment = request.environment
        made.ledger = around(context, request.effect, held)
    return made


def chain(context: Context, run: Run) -> list[Request]:
    """What a Run has stopped at so far, in order."""
    return list(visible(Request, context).filter(run_id=run.pk).order_by("created_at", "id")[:100])


def changes(then: Request, now: Request) -> list[dict]:
    """The values that differ between the bound bytes of two Requests, path by path."""
    old, new = (dict((leaf.path, leaf.value) for leaf in _leaves(each)) for each in (then, now))
    paths = [*new, *(path for path in old if path not in new)]
    return [
        {"path": path, "then": old.get(path), "had": path in old, "now": new.get(path), "has": path in new}
        for path in paths
        if path not in old or path not in new or _differ(old[path], new[path])
    ]


def _around_approval(context: Context, made: Card, held: Roles) -> None:
    request = made.request
    approvals = visible(Request, context).filter(kind="wait_approval").exclude(pk=request.pk)
    equal = approvals.filter(action_hash=request.action_hash)
    made.equal = list(equal.filter(state="pending").select_related("run").order_by("created_at")[:20])
    doubtful = visible(Effect, context).filter(OPEN, action_hash=request.action_hash)
    made.uncertain = list(doubtful.select_related("run").order_by("uncertain_at")[:20])
    approved = approvals.filter(
        environment_id=request.environment_id, action_name=request.action_name, outcome="approved"
    )
    if request.resolved_at:
        approved = approved.filter(resolved_at__lt=request.resolved_at)
    made.last = made.older or approved.order_by("-resolved_at").first()
    if made.last:
        made.changes = changes(made.last, request)
    made.denials = list(
        Response.objects.filter(run_id=request.run_id, kind="deny", request__action_name=request.action_name)
        .exclude(request_id=request.pk)
        .select_related("request")
        .order_by("at")[:20]
    )
    made.grant = Grant.objects.filter(request_id=request.pk).first()
    if made.grant and made.grant.state == "unused":
        made.why_not_void = may_void(context, request, held)
    made.effect = Effect.objects.filter(request_id=request.pk).first()


def _leaves(request: Request) -> list[canonical.Leaf]:
    return canonical.leaves(canonical.parse(bytes(request.parameters)))


def _differ(then, now) -> bool:
    """1 and 1.0 and true are three values."""
    return type(then) is not type(now) or canonical.dump(then) != canonical.dump(now)


def _votes(response: Response) -> bool:
    return response.kind in ("approve", "deny") and response.spent_at is None
