"""Sayso itself: the transitions that the pages use, and the real worker process. `drive plain` has a scripted loop,
`drive conversing` the agent library with a scripted model."""

import sys
from functools import partial

import django

from console import environ

django.setup()

from django.conf import settings  # noqa: E402

# as each floor's driver: a connection for every thread, for good
settings.DATABASES["default"].update(environ.database(settings.DATABASE_URL, pooled=False) | {"CONN_MAX_AGE": None})

from django.contrib.auth import get_user_model  # noqa: E402

from bench.cycle import Marks, measure  # noqa: E402
from console.processes import Children  # noqa: E402
from runtime_app import permissions, transitions  # noqa: E402
from runtime_app.models import Environment, Instance, Membership, Request, Role, Tenant  # noqa: E402
from runtime_app.responses import Answer, Resume  # noqa: E402


def prepare() -> None:
    tenant = Tenant.objects.create(slug="bench", name="Bench")
    environment = Environment.objects.create(tenant=tenant, name="staging", klass="staging")
    ada = get_user_model().objects.create_user("ada")
    membership = Membership.objects.create(tenant=tenant, user=ada)
    for role in ("responder", "operator"):
        Role.objects.create(tenant=tenant, membership=membership, name=role)
    for agent in ("plain", "conversing", "stubborn"):
        Instance.objects.create(tenant=tenant, agent=agent, environment=environment, owner=ada)


def drive(agent: str) -> None:
    _, ada = permissions.member(get_user_model().objects.get(username="ada"), "bench")
    marks = Marks()
    with Children() as children:
        worker = children.start("worker", [sys.executable, "-m", "console.cli", "worker"])
        measure(marks, worker.pid, partial(start, ada, agent), partial(answer, ada), question)


def start(context: permissions.Context, agent: str):
    return transitions.start(context, agent=agent, environment="staging", message="Find out the key's name.").pk


def question(run_id) -> tuple:
    """What Ada's page shows."""
    return Request.objects.values_list("session_id", "pk").get(run_id=run_id)


def answer(context: permissions.Context, asked: tuple) -> None:
    session_id, request_id = asked
    transitions.respond(context, resume=Resume(session_id, request_id, Answer({"name": "ci"})))


if __name__ == "__main__":
    {"prepare": prepare, "drive": drive}[sys.argv[1]](*sys.argv[2:])
