"""A tenant with one of everything, the routes that lead there, and visitors."""

import re
from dataclasses import dataclass

from django.test import Client
from django.urls import URLResolver, get_resolver

from runtime_app import evidence_files, transitions
from runtime_app.ids import uuid7
from runtime_app.models import Blocker, Credential, EvidenceFile, Registration, Request, Run, Schedule
from runtime_app.responses import Finding
from tests import cast
from tests.cast import House

NONCES = re.compile(rb'(?<=nonce=")[^"]*|(?<=name="csrfmiddlewaretoken" value=")[^"]*')
PUBLIC = {"account_login", "help", "health"}
SIGNED = {"callback"}  # neither cookie nor token: whoever posts signs


@dataclass
class Stage:
    house: House
    question: Request
    approval: Request
    unknown: Request
    cancelled: Run
    blocked: Run
    blocker: Blocker
    file: EvidenceFile
    schedule: Schedule
    agent: cast.Elsewhere
    credential: Credential
    registration: Registration
    proposal: Request

    def ids(self) -> dict[str, str]:
        """An id for each name that stands in a route."""
        return {
            "request_id": str(self.approval.pk), "session_id": str(self.approval.session_id),
            "run_id": str(self.approval.run_id), "effect_id": str(self.unknown.effect_id), "action": "deploy",
            "blocker_id": str(self.blocker.pk), "environment_id": str(self.house.staging.pk),
            "file_id": str(self.file.pk), "schedule_id": str(self.schedule.pk),
            "instance_id": str(self.agent.instance.pk), "credential_id": str(self.credential.pk),
            "registration_id": str(self.registration.pk),
        }  # fmt: skip

    def addresses(self) -> list[str]:
        """Every page of this tenant, each kind of thing in each of its states."""
        root = f"/t/{self.house.tenant.slug}/"
        runs = [self.question.run_id, self.approval.run_id, self.unknown.run_id, self.cancelled.pk, self.blocked.pk]
        return [
            *(f"{root}inbox/{tab}" for tab in ("", "?tab=others", "?tab=unknown", "?tab=decided")),
            *(f"{root}requests/{each.pk}/" for each in (self.question, self.approval, self.unknown)),
            f"{root}sessions/", f"{root}sessions/new/", f"{root}sessions/{self.question.session_id}/",
            f"{root}sessions/{self.cancelled.session_id}/",
            f"{root}runs/", *(f"{root}runs/{pk}/" for pk in runs), f"{root}runs/{self.question.run_id}/cancel/",
            f"{root}runs/{self.unknown.run_id}/cancel/", f"{root}runs/{self.cancelled.pk}/cancel/",
            f"{root}effects/", f"{root}effects/?open={self.unknown.effect_id}",
            f"{root}effects/{self.unknown.effect_id}/", f"{root}blockers/", f"{root}blockers/{self.blocker.pk}/",
            f"{root}agents/", f"{root}agents/?show=deleted", f"{root}agents/new/",
            f"{root}agents/new/?agent={self.agent.instance.pk}", f"{root}actions/", f"{root}actions/new/",
            f"{root}actions/{self.registration.pk}/", f"{root}requests/{self.proposal.pk}/",
            f"{root}runs/{self.proposal.run_id}/", f"{root}environments/", f"{root}schedules/",
            f"{root}runs/?schedule={self.schedule.pk}", f"{root}runs/{self.cancelled.pk}/result.json",
            f"{root}runs/{self.unknown.run_id}/trace.jsonl",
        ]  # fmt: skip


def everything(house: House) -> Stage:
    """A question, an approval for production, an unknown outcome, a cancelled Run with another, a blocked job."""
    unknown = house.unknown(version="4.2.1", environment="production")
    lost = house.unknown(version="4.2.2", environment="production")
    house.cancels("Olga", Run.objects.get(pk=lost.run_id), reason="wrong branch")
    house.policy("deploy", klass="production", typed_environment=True)
    question, approval = house.question(), house.approval(environment="production")
    schedule = Schedule.objects.create(
        tenant=house.tenant, agent="deployer", environment=house.production, message="nightly", cron="0 6 * * 1-5",
        set_by=house.people["Olga"],
    )  # fmt: skip
    job = house.start(environment="production", message="nightly", interactive=False, schedule_id=schedule.pk)
    turn = cast.claim(job)
    transitions.suspend(turn, waits=[cast.deployment("2.0.4", claim="Every check has passed.")])
    read = Run.objects.get
    blocker = Blocker.objects.get(run_id=job.pk)
    file = _file(house, unknown)
    agent = cast.elsewhere(house)
    made = Credential.objects.get(instance=agent.instance)
    described = Registration.objects.create(tenant=house.tenant, pattern="mail/*", title="Send a mail")
    return Stage(
        house, question, approval, unknown, read(pk=lost.run_id), read(pk=job.pk), blocker, file, schedule, agent, made,
        described, agent.proposes(),
    )  # fmt: skip


def _file(house: House, asked: Request) -> EvidenceFile:
    """Beside a statement that settles nothing."""
    coming = evidence_files.folder() / f"coming-{uuid7()}"
    coming.write_bytes(b"what the page said")
    kept = evidence_files.keep(str(coming), "page.txt")
    coming.unlink()
    house.says("Olga", asked, Finding("unknown", "", (kept,)))
    return EvidenceFile.objects.get(stored=kept.stored)


def visitor(user=None, **options) -> Client:
    """This person's browser, or a stranger's."""
    client = Client(raise_request_exception=True, **options)
    if user:
        client.force_login(user)
    return client


def signs_in(user, **more):
    """What the sign-in page answers to the right password."""
    user.set_password(cast.PASSWORD)
    user.save()
    return visitor().post("/sign-in/", {"login": user.username, "password": cast.PASSWORD, **more})


def routes() -> dict[str, str]:
    """Every route of a person by its name, but those of the administration: `/t/{slug}/runs/{run_id}/`."""
    return dict(_walk(get_resolver(), "/"))


def _walk(resolver, root: str):
    for pattern in resolver.url_patterns:
        path = root + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(pattern.pattern))
        if isinstance(pattern, URLResolver):
            if pattern.app_name != "admin" and not path.startswith("/api/"):
                yield from _walk(pattern, path)
        else:
            yield pattern.name, path


def form(name: str, stage: Stage) -> dict[str, str]:
    """What a form at this route posts, complete, so that only who posts it can be wrong."""
    common = {"response_id": str(uuid7()), "message": "because"}
    asked = common | {"session": str(stage.approval.session_id)}
    return {
        "answer": asked | {"name": "ci-october"},
        "decision": asked | {"decision": "approve", "digest": stage.approval.digest, "confirm": "production"},
        "finding": asked | {"finding": "unknown"},
        "cancel": {"response_id": str(uuid7()), "reason": "because"},
        "session": {"agent": "deployer", "environment": "staging", "message": "go", "start_id": str(uuid7())},
        "void": common, "hold": common, "release": common, "compensate": common,
        "pause": common, "unpause": common,
        "evidence": common | {"finding": "unknown"},
        "supply": common | {"decision": "approve", "digest": stage.blocker.digest, "confirm": "production"},
        "rotate": {"credential_id": str(uuid7()), "lives": "90"},
        "credential_new": {"credential_id": str(uuid7()), "kind": "instance", "name": "billing", "api": "on",
                           "environment": "staging", "lives": "90"},
        "action_new": {"pattern": "rm/*", "title": "Remove", "minutes": "10", "changes": "on", "conclusive": "on"},
        "action": {"pattern": "mail/*", "title": "Write a letter", "minutes": "5"},
        "begin": {"agent": "deployer", "environment": "staging", "message": "go", "start_id": str(uuid7())},
    }.get(name, {})


def said(response) -> tuple:
    """What an answer says, without what is random in it."""
    body = NONCES.sub(b"", response.content)
    headers = {name: value for name, value in response.headers.items() if name != "Content-Security-Policy"}
    return response.status_code, headers, body
