"""`create_credential northgate --environment staging --kind instance --name billing --by ann`: prints a token, once."""

from datetime import timedelta

from django.contrib.auth import get_user_model
from django.core.management import BaseCommand, CommandError

from runtime_app import clock, permissions, transitions
from runtime_app.errors import NotFound, SaysoError
from runtime_app.models import Credential
from runtime_app.models.credentials import SCOPES


class Command(BaseCommand):
    help = (
        "Make a credential for an agent elsewhere and print its token. Nothing here can print it again: only a hash is "
        "kept. An instance credential makes the agent it is for, owned by --by; a provisioner token makes agents."
    )

    def add_arguments(self, parser):
        parser.add_argument("tenant", help="its slug")
        parser.add_argument("--environment", required=True, help="the one environment it acts in, by name")
        parser.add_argument("--kind", required=True, choices=[kind for kind, _ in Credential.KINDS])
        parser.add_argument("--name", required=True, help="what people call it")
        parser.add_argument("--by", required=True, metavar="USER", help="an admin of the tenant, who answers for it")
        parser.add_argument("--agent", default="", help="the agent's name (that of the credential)")
        parser.add_argument("--scopes", default=",".join(SCOPES), help="aap, api or both (aap,api)")
        parser.add_argument("--expires-days", type=int, metavar="N", help="how long it lives (until it is revoked)")

    def handle(self, tenant, environment, kind, name, by, agent, scopes, expires_days, **options):
        context = context_of(tenant, by)
        if expires_days is not None and not 1 <= expires_days <= 3650:
            raise CommandError("It lives 1 to 3650 days, or until it is revoked.")
        expires_at = clock.now() + timedelta(days=expires_days) if expires_days else None
        try:
            made = transitions.make_credential(
                context, kind=kind, name=name, environment=environment, agent=agent, expires_at=expires_at,
                scopes=[each.strip() for each in scopes.split(",") if each.strip()],
            )  # fmt: skip
        except SaysoError as refused:
            raise CommandError(refused.message) from None
        self.stderr.write(f"{made.credential} is made. Its token is shown this once:")
        self.stdout.write(made.token)


def context_of(slug: str, username: str) -> permissions.Context:
    """This person in this tenant, for a command. Whether they administer it, the transition asks."""
    user = get_user_model().objects.filter(username=username).first()
    if user is None:
        raise CommandError(f"There is no account {username!r}.")
    try:
        return permissions.member(user, slug)[1]
    except NotFound:
        raise CommandError(f"There is no tenant {slug!r} that {username} is a member of.") from None
