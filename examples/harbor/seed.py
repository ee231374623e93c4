"""Two tenants, people for every role, and Runs that stopped: made once, by the same calls that anybody else makes."""

import json
import time
import urllib.request
from datetime import UTC, datetime, timedelta
from uuid import NAMESPACE_URL, uuid5

from django.contrib.auth.models import User
from django.db import transaction

from runtime_app import credentials, permissions, transitions
from runtime_app.errors import NotSignedIn
from runtime_app.models import Environment, Instance, Membership, Policy, Request, Role, Run, Schedule, Tenant
from runtime_app.responses import Approve, Resume

TENANTS = {"northgate": "Northgate Payments", "harbour": "Harbour Logistics"}
ENVIRONMENTS = {"staging": False, "production": True}  # the name, which is its class too, and whether it is protected

# (username, first name, last name, tenant, roles); a role limited to an environment is written role@environment
PEOPLE = [
    ("ada", "Ada", "Okafor", "northgate", ["approver"]),
    ("noor", "Noor", "Haddad", "northgate", ["approver"]),
    ("bob", "Bob", "Lindqvist", "northgate", ["viewer"]),
    ("olga", "Olga", "Marin", "northgate", ["operator"]),
    ("sam", "Sam", "Tanaka", "northgate", ["responder"]),
    ("ann", "Ann", "Devlin", "northgate", ["admin"]),
    ("rita", "Rita", "Sole", "northgate", ["approver@staging", "operator@staging"]),
    ("jo", "Jo", "Brandt", "northgate", ["responder"]),
    ("jo", "Jo", "Brandt", "harbour", ["approver", "responder"]),
    ("mallory", "Mallory", "Quist", "harbour", ["operator", "approver", "responder"]),
    ("hugo", "Hugo", "Amsel", "harbour", ["admin"]),
]

OWNERS = {"northgate": "olga", "harbour": "mallory"}  # of the agents; an owner has a stake in what they ask (R18)

QUESTION = "Find out which API key card-api should use, and ask for its name."
PERMISSION = "Please deploy card-api 0.8.8 to production."
UNKNOWN = "Please deploy ledger 4.2.1 to production."
NIGHTLY = "Please deploy statements 2.0.4 to production."
FIRST_NIGHT = datetime(2026, 1, 1, 2, tzinfo=UTC)

PATIENCE = 60  # seconds for our own worker to do what it does in well under one


@transaction.atomic
def tenants(password: str) -> None:
    """The tenants, their environments, policies, people and agents; what is there is kept. `password`: everybody's."""
    for slug, name in TENANTS.items():
        tenant, new = Tenant.objects.get_or_create(slug=slug, defaults={"name": name})
        if not new:
            continue
        environments = {
            name: Environment.objects.create(tenant=tenant, name=name, klass=name, protected=protected)
            for name, protected in ENVIRONMENTS.items()
        }
        _policies(tenant)
        for username, first, last, of, roles in PEOPLE:
            if of == slug:
                user = _person(username, first, last, password)
                membership = Membership.objects.create(tenant=tenant, user=user)
                for role in roles:
                    word, _, where = role.partition("@")
                    Role.objects.create(
                        tenant=tenant, membership=membership, name=word, environment=environments.get(where)
                    )
        owner = User.objects.get(username=OWNERS[slug])
        for environment in environments.values():
            Instance.objects.create(tenant=tenant, agent="deployer", environment=environment, owner=owner)


def _person(username: str, first: str, last: str, password: str) -> User:
    user = User.objects.filter(username=username).first()
    return user or User.objects.create_user(username, password=password, first_name=first, last_name=last)


def _policies(tenant: Tenant) -> None:
    Policy.objects.create(tenant=tenant, action="deploy_*", klass="production", typed_environment=True)
    Policy.objects.create(tenant=tenant, action="deploy_*", klass="staging", request_for=timedelta(days=2))


def stories(harbor: str) -> list[dict]:
    """Start the four Runs as Olga, the last by her schedule, and bring each to where it stops. A worker has to run.
    They are found again under their start_id (R09); returns each with its story."""
    question = _start("question", QUESTION)
    permission = _start("permission", PERMISSION)
    unknown = _start("unknown", UNKNOWN)
    nightly = transitions.start_scheduled(_schedule().pk, FIRST_NIGHT)
    _request(question, "wait_user")
    _request(permission, "wait_approval")
    _lose_the_reply(unknown, harbor)
    _until(lambda: Run.objects.filter(pk=nightly.pk, state="blocked").first(), "the nightly job to end blocked")
    told = {"question": question, "permission": permission, "unknown": unknown, "blocked": nightly}
    return [
        {"id": str(run.pk), "session": str(run.session_id), "tenant": "northgate", "story": story}
        for story, run in told.items()
    ]


def requests() -> list[dict]:
    """Every pending Request of both tenants."""
    pending = Request.objects.filter(state="pending").select_related("tenant").order_by("created_at")
    return [
        {"id": str(each.pk), "kind": each.kind, "run": str(each.run_id), "tenant": each.tenant.slug} for each in pending
    ]


def tokens(kept: dict[str, str]) -> dict[str, str]:
    """A provisioner token and an instance credential for agents elsewhere, in northgate's staging, as Ann makes them.
    `kept`: those of an earlier start, which stay while they live."""
    _, ann = permissions.member(User.objects.get(username="ann"), "northgate")
    found = {}
    for kind, scope in (("provisioner", "aap"), ("instance", "api")):
        try:
            credentials.authenticate(kept.get(kind, ""), scope=scope, kind=kind)
            found[kind] = kept[kind]
        except NotSignedIn:
            made = transitions.make_credential(
                ann, kind=kind, name=f"demo {kind}", environment="staging", scopes=[scope], agent="scribe"
            )
            found[kind] = made.token
    return found


def people(password: str) -> list[dict]:
    return [
        {"username": username, "password": password, "tenant": tenant, "roles": roles}
        for username, _, _, tenant, roles in PEOPLE
    ]


def _lose_the_reply(run: Run, harbor: str) -> None:
    """Ada approves; Harbor commits and cuts the line, so that nobody here can know."""
    if Request.objects.filter(run_id=run.pk, kind="wait_effect").exists():
        return
    _mode(harbor, "drop", "ledger")
    asked = _request(run, "wait_approval")
    _, ada = permissions.member(User.objects.get(username="ada"), "northgate")
    transitions.respond(
        ada,
        resume=Resume(
            session_id=run.session_id,
            request_id=asked.pk,
            response=Approve(asked.digest, confirm="production"),
            message="Agreed in the release meeting.",
            response_id=uuid5(NAMESPACE_URL, f"{asked.pk}/ada"),
        ),
    )
    _request(run, "wait_effect")
    _mode(harbor, "commit", "ledger")


def _start(story: str, message: str) -> Run:
    tenant, olga = permissions.member(User.objects.get(username="olga"), "northgate")
    return transitions.start(
        olga,
        agent="deployer",
        environment="production",
        message=message,
        start_id=uuid5(NAMESPACE_URL, f"{tenant.pk}/{story}"),
    )


def _schedule() -> Schedule:
    """Olga's: every night, with nobody on the line."""
    tenant, _ = permissions.member(User.objects.get(username="olga"), "northgate")
    production = Environment.objects.get(tenant=tenant, name="production")
    return Schedule.objects.get_or_create(
        tenant=tenant, environment=production, agent="deployer", message=NIGHTLY,
        defaults={"cron": "0 2 * * *", "set_by": User.objects.get(username="olga")},
    )[0]  # fmt: skip


def _request(run: Run, kind: str) -> Request:
    return _until(lambda: Request.objects.filter(run_id=run.pk, kind=kind).first(), f"a {kind} of {run.message!r}")


def _until(look, what: str):
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE:
        if found := look():
            return found
        time.sleep(0.05)
    raise TimeoutError(f"Waited {PATIENCE} s for {what}. Is a worker running?")


def _mode(harbor: str, mode: str, service: str) -> None:
    body = json.dumps({"mode": mode, "service": service}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{harbor}/mode", body, method="PUT"), timeout=5) as answer:
        answer.read()
