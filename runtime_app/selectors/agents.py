"""Who asks: agents hosted here and elsewhere, with what they prove themselves, and what is known of their actions."""

from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count

from .. import clock, registrations, states
from ..models import Credential, Instance, Registration, Request, Run
from ..permissions import Context, Roles, may_administer, visible
from .rows import before, one, page

PAGE = 20
TOKENS = 200  # those that live first: what can be revoked is not crowded out by what was
HOSTED = 200
RECENT = 300  # Runs that are looked through for actions nobody described


@dataclass
class AgentsPage:
    now: datetime
    elsewhere: list[Instance]
    after: object | None
    hosted: list[Instance] = field(default_factory=list)
    tokens: list[Credential] = field(default_factory=list)
    why_not: Exception | None = None  # why the caller may not make, rotate, revoke or delete


def agents(context: Context, held: Roles, *, deleted: bool = False, last=None) -> AgentsPage:
    """Agents elsewhere, newest first, each with its `credentials`; before them, on the first page, the rest."""
    rows = visible(Instance, context).filter(hosted=False, deleted_at__isnull=not deleted)
    rows = rows.select_related("environment", "owner", "provisioner")
    found, after = page(before(rows, context, last, "created_at"), PAGE)
    made = AgentsPage(clock.now(), found, after, why_not=may_administer(context, held))
    mine = {each.pk: each for each in found}
    for each in found:
        each.credentials = []
    for each in _credentials(context).filter(instance_id__in=mine):
        mine[each.instance_id].credentials.append(stood(each, made.now))
    for each in found:
        each.live = [given for given in each.credentials if given.stands == "live"]
    _count_runs(mine)
    if not last and not deleted:
        hosted = visible(Instance, context).filter(hosted=True).select_related("environment", "owner")
        made.hosted = list(hosted.order_by("agent", "environment__name")[:HOSTED])
        tokens = _credentials(context).filter(kind="provisioner").annotate(lives=Credential.LIVES)
        made.tokens = [stood(each, made.now) for each in tokens.order_by("-lives", "-made_at")[:TOKENS]]
    return made


def agent_elsewhere(context: Context, id) -> Instance:
    return one(Instance, context, id, "environment")


def stood(credential: Credential, now: datetime) -> Credential:
    """With `stands`: live, expired or revoked, by the database's clock."""
    gone = credential.expires_at and credential.expires_at <= now
    credential.stands = "revoked" if credential.revoked_at else "expired" if gone else "live"
    return credential


def registry(context: Context) -> tuple[list[Registration], list[Request]]:
    """What is described, by name; and the newest Request of each action that was asked for lately and is not."""
    described = list(visible(Registration, context).order_by("pattern"))
    lately = visible(Run, context).order_by("-created_at").values_list("pk", flat=True)[:RECENT]
    asked = visible(Request, context).filter(
        run_id__in=list(lately), kind="wait_approval", described__registered=False
    ).select_related("run", "environment")  # fmt: skip
    newest = {}
    for request in asked.order_by("-created_at"):
        newest.setdefault(request.action_name, request)
    return described, [each for name, each in newest.items() if not registrations.fits(described, name)]


def _credentials(context: Context):
    rows = visible(Credential, context).select_related("environment", "made_by")
    return rows.order_by("-made_at", "-pk")


def _count_runs(mine: dict) -> None:
    unended = Run.objects.filter(instance_id__in=mine).exclude(state__in=states.ENDED).order_by()
    counted = dict(unended.values_list("instance_id").annotate(n=Count("pk")))
    for pk, each in mine.items():
        each.unended = counted.get(pk, 0)
