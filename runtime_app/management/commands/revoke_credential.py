"""`revoke_credential i_3f2a90c1d4e5 --by ann`: from then on it proves nothing."""

from django.core.management import BaseCommand, CommandError

from runtime_app import transitions
from runtime_app.errors import SaysoError
from runtime_app.models import Credential

from .create_credential import context_of


class Command(BaseCommand):
    help = "Revoke a credential, found by the prefix that pages show. Open polls and streams end with it."

    def add_arguments(self, parser):
        parser.add_argument("prefix", help="as pages show it; a whole token will do, and is best kept off the line")
        parser.add_argument("--by", metavar="USER", help="an admin of the tenant (whoever made it)")

    def handle(self, prefix, by, **options):
        prefix = prefix.strip().rstrip("…").removeprefix("sayso_")[:14]
        found = Credential.objects.select_related("tenant", "made_by").filter(prefix=prefix).first()
        if found is None:
            raise CommandError("There is no credential with this prefix.")
        try:
            context = context_of(found.tenant.slug, by or found.made_by.username)
            transitions.revoke_credential(context, credential_id=found.pk)
        except SaysoError as refused:
            raise CommandError(refused.message) from None
        self.stdout.write(f"{found} is revoked.")
