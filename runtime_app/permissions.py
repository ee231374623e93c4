"""The only doors from an id to a row, and who may do what. Default: no.

A Context remembers no permission: everything is read from the database at the moment it is asked (R06).
"""

from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import connection
from django.db.models import Q

from . import statements
from .errors import NotAuthorized, NotFound, NotSignedIn
from .ids import parse_id
from .models import (
    Credential,
    Effect,
    Environment,
    Event,
    Instance,
    Membership,
    Request,
    Response,
    Role,
    Run,
    Session,
    Tenant,
)


@dataclass(frozen=True)
class Actor:
    """Who acts. `kind`: person, agent or system; `id`: the account, the Instance, or the system part's name."""

    kind: str
    id: str
    name: str


@dataclass(frozen=True)
class Context:
    """The (actor, tenant) of one call."""

    tenant_id: UUID
    actor: Actor
    credential_id: UUID | None = None  # of an agent elsewhere

    @cached_property
    def user_id(self) -> int | None:
        return int(self.actor.id) if self.actor.kind == "person" else None


@dataclass(frozen=True)
class Roles:
    """A member's roles as they were read: pairs of a name and an environment's id, None for the whole tenant."""

    held: frozenset[tuple[str, UUID | None]]

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.held}

    def has(self, name: str, environment_id: UUID | None = None) -> bool:
        return (name, None) in self.held or (name, environment_id) in self.held


def person(user) -> Actor:
    return Actor("person", str(user.pk), (user.get_full_name() or user.get_username())[:150])


def system(part: str, tenant_id: UUID) -> Context:
    """The Context of our own worker, sweep or policy: the system, named."""
    return Context(tenant_id, Actor("system", part, part))


def agent(instance: Instance) -> Context:
    return Context(instance.tenant_id, Actor("agent", str(instance.pk), instance.agent))


def member(user, slug: str) -> tuple[Tenant, Context]:
    """The tenant at /t/<slug>/ and this user's Context in it. NotFound, for an outsider as for no such tenant (R07)."""
    tenant = Tenant.objects.filter(
        pk__in=Membership.objects.filter(user_id=user.pk, user__is_active=True).values("tenant_id"),
        slug=slug if slug.isprintable() else "",  # no column takes a NUL, not even to compare
    ).first()
    if tenant is None:
        raise NotFound
    return tenant, Context(tenant.pk, person(user))


def memberships(user):
    """The tenants this user belongs to, by name."""
    return Tenant.objects.filter(
        pk__in=Membership.objects.filter(user_id=user.pk, user__is_active=True).values("tenant_id")
    ).order_by("name")


def visible(model, context: Context):
    """The rows of `model` that the caller may see: a query to build on. Every member may view; an agent elsewhere sees
    what is its own, while its credential lives."""
    rows = model.objects.filter(tenant_id=context.tenant_id)
    if context.credential_id:
        return rows.filter(tenant_id__in=_live(context).values("tenant_id"), **_own(model, context))
    if context.actor.kind != "person":
        return rows
    return rows.filter(
        tenant_id__in=Membership.objects.filter(
            tenant_id=context.tenant_id, user_id=context.user_id, user__is_active=True
        ).values("tenant_id")
    )


_MEMBER = """
from runtime_app_membership m join auth_user u on u.id = m.user_id
left join runtime_app_role r on r.membership_id = m.id
where m.tenant_id = %s and m.user_id = %s and u.is_active
"""


_LIVE = f"""
exists (select from runtime_app_credential c left join runtime_app_instance i on i.id = c.instance_id
where c.id = %s and c.tenant_id = %s and {Credential.LIVES_SQL} and i.deleted_at is null)
"""
_OF_OWN_RUNS = "run_id in (select id from runtime_app_run where instance_id = %s and not hosted)"
_OWN_ROWS = {
    Session: "instance_id = %s", Run: "instance_id = %s and not hosted", Request: _OF_OWN_RUNS, Effect: _OF_OWN_RUNS,
}  # fmt: skip


def seen(model, context: Context, where: str, *values):
    """The row that `where` (SQL of ours) names, if the caller may see it: `visible`, written out. Else None."""
    if context.credential_id:
        if model not in _OWN_ROWS:
            return None
        where = f"{_OWN_ROWS[model]} and {_LIVE} and {where}"
        values = (context.actor.id, context.credential_id, context.tenant_id, *values)
    elif context.actor.kind == "person":
        where, values = f"exists (select {_MEMBER}) and {where}", (context.tenant_id, context.user_id, *values)
    return statements.first(model, f"where tenant_id = %s and {where}", context.tenant_id, *values)


def _live(context: Context):
    return Credential.objects.filter(
        Credential.LIVES, pk=context.credential_id, tenant_id=context.tenant_id, instance__deleted_at=None
    )


_OWN = {
    Session: "instance_id", Run: "instance_id", Request: "run__instance_id", Effect: "run__instance_id",
    Event: "session__instance_id",
}  # fmt: skip


_ELSEWHERE = {Run: {"hosted": False}, Request: {"run__hosted": False}, Effect: {"run__hosted": False}}


def _own(model, context: Context) -> dict:
    """What of this table is an Instance's own, and a provisioner token's: the Instances it made, or that a token did of
    which it is a rotation: of its name, in its environment. Other tables are not an agent's to see at all."""
    if model is Instance:
        token = Credential.objects.filter(pk=context.credential_id, kind="provisioner")
        same = Credential.objects.filter(tenant_id=context.tenant_id, kind="provisioner", name__in=token.values("name"))
        return {"provisioner_id__in": same.filter(environment_id__in=token.values("environment_id")).values("pk")}
    if model not in _OWN:
        return {"pk": UUID(int=0)}
    # what an operator started to recover an Effect of its is no Run of its, though it is done as this Instance (R24)
    return {_OWN[model]: context.actor.id} | _ELSEWHERE.get(model, {})


def still_live(context: Context) -> None:
    """NotSignedIn unless the caller's credential lives now: asked after the last lock (R06)."""
    with connection.cursor() as cursor:
        cursor.execute(f"select {_LIVE}", [context.credential_id, context.tenant_id])
        lives = cursor.fetchone()[0]
    if not lives:
        raise NotSignedIn("This credential was revoked, or it expired.")


def find(model, context: Context, id):
    """The one row with this id that the caller may see, by one query. Unknown, foreign, no id: NotFound (R07)."""
    # text that is no id is looked for all the same, under an id that nothing has: same query, same time
    pk = parse_id(id) or UUID(int=0)
    unwritten = context.credential_id is not None and model not in _OWN_ROWS
    row = visible(model, context).filter(pk=pk).first() if unwritten else seen(model, context, "id = %s", pk)
    if row is None:
        raise NotFound
    return row


def roles(context: Context) -> Roles:
    """The caller's roles now, by one query. NotFound when the caller is no member any more."""
    with connection.cursor() as cursor:
        cursor.execute(f"select r.name, r.environment_id {_MEMBER}", [context.tenant_id, context.user_id])
        rows = cursor.fetchall()
    if not rows:
        raise NotFound
    return Roles(frozenset((name, environment) for name, environment in rows if name))


# ---------------------------------------------------------------- who may respond


NEEDED = {"wait_user": "responder", "wait_effect": "operator"}
VERBS = {"responder": "answer questions", "operator": "settle effects", "approver": "approve", "admin": "decide"}


def needed_role(request: Request) -> str:
    """The role that a Response to this Request takes."""
    return request.policy["role"] if request.kind == "wait_approval" else NEEDED[request.kind]


def holders(request: Request, role: str | None = None) -> dict[int, str]:
    """Everybody who holds the needed role there now: account to name. One query."""
    rows = Role.objects.filter(
        Q(environment_id=None) | Q(environment_id=request.environment_id),
        tenant_id=request.tenant_id,
        name=role or needed_role(request),
        membership__user__is_active=True,
    ).values_list(
        "membership__user_id", *(f"membership__user__{part}" for part in ("first_name", "last_name", "username"))
    )
    return {pk: f"{first} {last}".strip() or username for pk, first, last, username in rows}


def stakes(request: Request, policy: dict | None = None) -> dict[int, str]:
    """Accounts with a stake in this approval, each with what it is (R18). Empty where the policy admits them."""
    policy = policy or request.policy
    if request.kind != "wait_approval":
        return {}
    if policy["allow_stake"] and not Environment.objects.filter(pk=request.environment_id, protected=True).exists():
        return {}
    run = Run.objects.select_related("instance", "schedule").get(pk=request.run_id)
    made = Q(instance_id=run.instance_id) | Q(pk=run.instance.provisioner_id)
    makers = [] if run.hosted else Credential.objects.filter(made).values_list("made_by", flat=True)
    found = {user_id: "you made the credential of the agent that asks" for user_id in makers}
    found[run.instance.owner_id] = "you own the agent that asks"
    if run.schedule_id:
        found[run.schedule.set_by_id] = "you set the schedule of this job"
    if run.initiator_id:
        found[run.initiator_id] = "you started this Run"
    suggested = Response.objects.filter(
        run_id=request.run_id, request__action_name=request.action_name, kind="deny"
    ).exclude(suggestion="")
    # a denial still counts as the vote it is on its own Request
    suggested = suggested.exclude(request_id=request.pk, spent_at=None)
    for user_id in suggested.values_list("user_id", flat=True):
        found[user_id] = "you suggested other parameters for this action in this Run"
    return found


def entitled(request: Request, policy: dict | None = None) -> dict[int, str]:
    """Everybody whose Response counts now: the role, and no stake. What R18's recount and R21's answer stand on."""
    staked = stakes(request, policy)
    role = policy["role"] if policy else None
    return {user_id: name for user_id, name in holders(request, role).items() if user_id not in staked}


def who_could(request: Request) -> list[str]:
    """The names of those who could respond to this Request now (R21)."""
    return sorted(entitled(request).values())


def why_not(context: Context, request: Request, held: Roles | None = None) -> NotAuthorized | None:
    """Why the caller may not respond to this Request, or None: asked by the page and by the transition alike (R21)."""
    if context.actor.kind != "person":
        return NotAuthorized(
            "A credential never answers, approves or settles; a signed-in person does.", permission="person"
        )
    held = held or roles(context)
    role = needed_role(request)
    if not held.has(role, request.environment_id):
        where = Environment.objects.values_list("name", flat=True).get(pk=request.environment_id)
        return NotAuthorized(
            f"You may not {VERBS[role]} here: that takes the role {role}"
            + (f", for the whole tenant or for {where}." if role in ("approver", "operator") else "."),
            permission=role,
        )
    if stake := stakes(request).get(context.user_id):
        return NotAuthorized(f"You have a stake in this: {stake}. Somebody else has to decide.", stake=stake)
    if request.kind == "wait_approval" and request.policy["fresh_sign_in"]:
        # nobody can prove a fresh sign-in yet; a policy that demands one is not weakened meanwhile
        return NotAuthorized(
            "The policy asks for a fresh sign-in, which this version cannot take.", permission="fresh_sign_in"
        )
    return None


def may_operate(context: Context, environment_id: UUID, held: Roles | None = None) -> NotAuthorized | None:
    """Why the caller may not start or cancel Runs there, or None."""
    if context.actor.kind == "system":
        return None
    if context.actor.kind == "person" and (held or roles(context)).has("operator", environment_id):
        return None
    return NotAuthorized("You may not start or cancel Runs here: that takes the role operator.", permission="operator")


def may_administer(context: Context, held: Roles | None = None) -> NotAuthorized | None:
    """Why the caller may not change what this tenant is set up with, or None. Whoever administers the installation may:
    they give the roles. `held`: of a member, as a page has read them."""
    if held is None and _administers_installation(context):
        return None
    if context.actor.kind == "person" and (held or roles(context)).has("admin"):
        return None
    return NotAuthorized("You may not set this tenant up: that takes the role admin.", permission="admin")


def administered(model, context: Context, id):
    """The one row with this id of what a tenant is set up with, to be changed. NotFound, NotAuthorized."""
    if not _administers_installation(context):
        found = find(model, context, id)
    elif (found := model.objects.filter(tenant_id=context.tenant_id, pk=parse_id(id)).first()) is None:
        raise NotFound
    if refused := may_administer(context):
        raise refused
    return found


def _administers_installation(context: Context) -> bool:
    accounts = get_user_model().objects.filter(pk=context.user_id, is_active=True, is_superuser=True)
    return context.actor.kind == "person" and accounts.exists()


def may_void(context: Context, request: Request, held: Roles | None = None) -> NotAuthorized | None:
    """Why the caller may not take back the unused Grant of this Request, or None: an operator there may, and who
    approved it and is still an approver there (R16)."""
    refused = may_operate(context, request.environment_id, held)
    if refused is None:
        return None
    voted = Response.objects.filter(request_id=request.pk, user_id=context.user_id, kind="approve", spent_at=None)
    return None if voted.exists() and context.user_id in holders(request) else refused
