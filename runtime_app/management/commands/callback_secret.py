"""`callback_secret northgate deploy`: what the provider of an action signs its callbacks with."""

import base64
import secrets

from django.core.management import BaseCommand, CommandError

from runtime_app import actions
from runtime_app.ids import parse_id
from runtime_app.models import CallbackSecret, Now, Tenant
from runtime_app.sealed import seal
from runtime_app.selectors.callbacks import SEALED_FOR

LIVE = 2  # an old one and a new one, while the provider changes over


class Command(BaseCommand):
    help = (
        "Make a secret and print it, once: the provider signs with it as Standard Webhooks says, and posts to "
        "/callbacks/TENANT/ACTION/. Two may be live, so that one can follow the other; --revoke ends one."
    )

    def add_arguments(self, parser):
        parser.add_argument("tenant", help="its slug")
        parser.add_argument("action", help="the name of a registered action")
        parser.add_argument("--revoke", metavar="ID", help="end this one instead of making one")

    def handle(self, tenant, action, revoke=None, **options):
        found = Tenant.objects.filter(slug=tenant).first()
        if found is None:
            raise CommandError(f"There is no tenant {tenant}.")
        live = CallbackSecret.objects.filter(tenant=found, action=action, revoked_at=None)
        if revoke:
            return self._revoke(live, revoke)
        if actions.registered(action) is None:
            raise CommandError(f"There is no action {action}. Registered: {', '.join(actions.names()) or 'none'}.")
        if live.count() >= LIVE:
            told = ", ".join(f"{each.pk} of {each.made_at:%Y-%m-%d %H:%M}" for each in live.order_by("made_at"))
            raise CommandError(f"{LIVE} are live already: {told}. End one with --revoke ID.")
        secret = secrets.token_bytes(32)
        made = CallbackSecret.objects.create(tenant=found, action=action, secret=seal(secret, SEALED_FOR))
        self.stdout.write(f"whsec_{base64.b64encode(secret).decode()}")
        self.stderr.write(f"Shown this once. Its id is {made.pk}; callbacks go to /callbacks/{tenant}/{action}/.")

    def _revoke(self, live, asked: str):
        if not live.filter(pk=parse_id(asked)).update(revoked_at=Now()):
            raise CommandError(f"No live secret of this action has the id {asked}. Nothing was changed.")
        self.stderr.write(f"{asked} is revoked: nothing signed with it is accepted any more.")
