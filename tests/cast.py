"""The cast: two tenants with same-named roles and environments, and people for every role.

    northgate: Ada and Bob approve, Sam answers, Olga operates, Ann administers, Rita only looks, Omar owns the agents
    harbour:   Mallory has every role there; Jo belongs to both (approver in northgate)
"""

from dataclasses import dataclass, field
from datetime import timedelta

from django.contrib.auth import get_user_model
from pydantic import BaseModel

from runtime_app import credentials, permissions, transitions
from runtime_app.actions import Action, Committed, NotCommitted, Unknown, register
from runtime_app.ids import uuid7
from runtime_app.models import (
    Credential,
    Effect,
    Environment,
    Instance,
    Membership,
    Now,
    Policy,
    Request,
    Role,
    Run,
    Tenant,
)
from runtime_app.responses import Answer, Approve, Deny, Finding, Recover, Resume

PASSWORD = "correct horse battery"
WORKER = uuid7()
KEY_NAME = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 80}}, "required": ["name"]}


@register
class Deploy(Action):
    """A deployment whose provider is a list in this process: `sent` is the judge of what happened."""

    name = "deploy"
    title = "Deploy a version"
    consequence = "Replaces the running version."
    reversible = "Yes: the old version can be put back."
    deadline = timedelta(seconds=30)
    nothing_sent = (ConnectionRefusedError,)
    sent: list[tuple[str, str, str]] = []

    class Parameters(BaseModel):
        service: str
        version: str
        replicas: int = 1

    def dispatch(self, key, parameters, environment):
        self.sent.append((key, parameters.version, environment))
        return Committed(reference=f"build-{len(self.sent)}")

    def probe(self, key, parameters, environment):
        found = [each for each in self.sent if each[0] == key]
        return Committed(reference="found") if found else NotCommitted(statement="no such key")


@dataclass
class House:
    """One tenant with its people, by first name."""

    tenant: Tenant
    staging: Environment
    production: Environment
    people: dict = field(default_factory=dict)

    def context(self, name: str) -> permissions.Context:
        return permissions.Context(self.tenant.pk, permissions.person(self.people[name]))

    def join(self, name: str, *roles: str) -> None:
        user, _ = get_user_model().objects.get_or_create(
            username=name.lower(), defaults={"first_name": name, "email": f"{name.lower()}@{self.tenant.slug}.example"}
        )
        if not user.has_usable_password():
            user.set_password(PASSWORD)
            user.save()
        self.people[name] = user
        membership, _ = Membership.objects.get_or_create(tenant=self.tenant, user=user)
        for role in roles:
            self.give(membership, role)

    def give(self, membership: Membership, role: str) -> None:
        name, _, where = role.partition("@")
        environment = Environment.objects.get(tenant=self.tenant, name=where) if where else None
        Role.objects.create(tenant=self.tenant, membership=membership, name=name, environment=environment)

    def take(self, name: str, role: str) -> None:
        Role.objects.filter(membership__user=self.people[name], tenant=self.tenant, name=role).delete()

    def policy(self, action: str = "*", **rule) -> Policy:
        return Policy.objects.create(tenant=self.tenant, action=action, **rule)

    # -- shorthand for what people and software do

    def start(self, by: str = "Olga", environment: str = "staging", message: str = "go", **more) -> Run:
        return transitions.start(
            self.context(by), agent="deployer", environment=environment, message=message, **more
        )

    def ask(self, *waits, run: Run | None = None, **more) -> list[Request]:
        """A Run that has stopped at these waits; a wait is a Question or an Ask, or the arguments of a deployment."""
        run = run or self.start(**more)
        turn = claim(run)
        transitions.suspend(turn, waits=[deployment(**w) if isinstance(w, dict) else w for w in waits])
        return list(Request.objects.filter(run_id=run.pk).order_by("created_at", "key"))

    def question(self, **more) -> Request:
        return self.ask(transitions.Question("q", "What is the API key called?", KEY_NAME), **more)[0]

    def approval(self, version: str = "0.8.8", **more) -> Request:
        return self.ask({"version": version}, **more)[0]

    def says(self, who: str, request: Request, response, **more):
        resume = Resume(session_id=request.session_id, request_id=request.pk, response=response, **more)
        return transitions.respond(self.context(who), resume=resume)

    def approves(self, who: str, request: Request, **more):
        return self.says(who, request, Approve(digest=request.digest), **more)

    def cancels(self, who: str, run, response_id=None, **more):
        return transitions.cancel(self.context(who), run_id=run.pk, response_id=response_id or uuid7(), **more)

    def granted(self, **more) -> Effect:
        """An Effect that Ada approved and nobody has sent."""
        request = self.approval(**more)
        self.approves("Ada", request)
        return Effect.objects.get(request_id=request.pk)

    def unknown(self, **more) -> Request:
        """The `wait_effect` of an Effect whose provider's reply was lost."""
        effect = self.granted(**more)
        dispatch = intend()
        assert dispatch.effect_id == effect.pk
        transitions.record(dispatch, TimeoutError())
        return Request.objects.get(effect_id=effect.pk, state="pending")


@dataclass
class Elsewhere:
    """An agent elsewhere: an Instance in one Environment, with a live credential that Ann made."""

    house: House
    instance: Instance
    token: str
    context: permissions.Context

    def begins(self, message: str = "go", key: str | None = None, **more) -> Run:
        return transitions.begin(self.context, key=key or str(uuid7()), message=message, **more)

    def asks(self, run: Run, wait, lease: int = 1) -> Request:
        return transitions.raise_request(self.context, run_id=run.pk, lease=lease, wait=wait)

    def proposes(self, action: str = "mail/send", arguments: str = '{"to":"a@b.c"}', key: str | None = None, **more):
        key = key or str(uuid7())
        asked = {"action": action, "arguments": arguments}
        ask = transitions.Ask("aap", action, arguments, **more)
        return transitions.propose(self.context, key=key, ask=ask, title=action, asked=asked).request

    def dispatches(self, request: Request, key: str = "k", **more):
        return transitions.dispatch(self.context, request_id=request.pk, key=key, **more)

    def reports(self, request: Request, status: str = "succeeded", **more):
        return transitions.report(self.context, request_id=request.pk, status=status, **more)


def elsewhere(house: House, agent: str = "mailer", environment: str = "staging") -> Elsewhere:
    where = getattr(house, environment)
    instance = Instance.objects.create(
        tenant=house.tenant, agent=agent, environment=where, owner=house.people.get("Omar") or house.people["Max"],
        hosted=False,
    )
    token = credentials.token("instance")
    made = Credential.objects.create(
        tenant=house.tenant, kind="instance", name=agent, environment=where, instance=instance, scopes=["aap", "api"],
        made_by=house.people.get("Ann") or house.people["Max"], **credentials.stored(token),
    )  # fmt: skip
    return Elsewhere(house, instance, token, credentials.context_of(made))


def deployment(version: str = "0.8.8", service: str = "card-api", key: str = "d", claim: str = "", **more):
    return transitions.Ask(key, "deploy", f'{{"service":"{service}","version":"{version}"}}', claim, **more)


def claim(run: Run | None = None) -> transitions.Turn:
    """A worker beats and takes the next queued Run, or this one, whoever is queued before it."""
    transitions.beat(WORKER, "worker", [])
    others = Run.objects.filter(state="queued", held_at=None).exclude(pk=run.pk) if run else Run.objects.none()
    passed_over = list(others.values_list("pk", flat=True))
    Run.objects.filter(pk__in=passed_over).update(held_at=Now())
    turn = transitions.claim(WORKER)
    Run.objects.filter(pk__in=passed_over).update(held_at=None)
    assert turn and (run is None or turn.run.pk == run.pk)
    return turn


def intend() -> transitions.Dispatch | None:
    transitions.beat(WORKER, "worker", [])
    return transitions.intend(WORKER)


def send(dispatch: transitions.Dispatch) -> None:
    """What a worker does after the intent."""
    reply = dispatch.action.dispatch(dispatch.key, dispatch.parameters, dispatch.environment)
    transitions.record(dispatch, reply)


def house(slug: str) -> House:
    tenant = Tenant.objects.create(slug=slug, name=slug.title())
    staging = Environment.objects.create(tenant=tenant, name="staging", klass="staging")
    production = Environment.objects.create(tenant=tenant, name="production", klass="production", protected=True)
    return House(tenant, staging, production)


def assemble() -> tuple[House, House]:
    Deploy.sent.clear()
    northgate, harbour = house("northgate"), house("harbour")
    for name, *roles in [
        ("Ada", "approver"), ("Bob", "approver"), ("Sam", "responder"), ("Olga", "operator"), ("Ann", "admin"),
        ("Rita",), ("Omar", "approver"), ("Jo", "approver"), ("Stan", "approver@staging", "operator@staging"),
    ]:  # fmt: skip
        northgate.join(name, *roles)
    for name in ("Mallory", "Max"):
        harbour.join(name, "viewer", "responder", "approver", "operator", "admin")
    harbour.join("Jo", "responder")
    for each, owner in ((northgate, "Omar"), (harbour, "Max")):
        for environment in (each.staging, each.production):
            Instance.objects.create(
                tenant=each.tenant, agent="deployer", environment=environment, owner=each.people[owner]
            )
    return northgate, harbour


__all__ = [
    "Answer", "Approve", "Deny", "Deploy", "Finding", "House", "KEY_NAME", "PASSWORD", "Recover", "Unknown", "WORKER",
    "assemble", "claim", "deployment", "intend", "send",
]  # fmt: skip
