"""`create_tenant northgate "Northgate Payments" ann`: a tenant, its environments, its administrator, its agents."""

import getpass
import sys

from django.contrib.auth import get_user_model
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management import BaseCommand, CommandError
from django.core.validators import validate_slug
from django.db import transaction

from runtime_app.hosted import registry
from runtime_app.models import Environment, Instance, Membership, Role, Tenant

ENVIRONMENTS = {"staging": False, "production": True}  # the name, which is its class too, and whether it is protected
ROLES = ("admin", "operator", "responder", "approver")


class Command(BaseCommand):
    help = (
        "Make a tenant with the environments staging and production (protected), and its first member, who holds the "
        "roles admin, operator, responder and approver. A new account's password is asked for, or read from standard "
        "input. The agents in SAYSO_AGENTS are set up in both environments and owned by that member, who therefore "
        "cannot approve what they ask (R18): add another approver in the Django admin."
    )

    def add_arguments(self, parser):
        parser.add_argument("slug", help="appears in addresses: /t/<slug>/")
        parser.add_argument("name", help="as people call it")
        parser.add_argument("username", help="of its administrator; an account that exists keeps its password")

    @transaction.atomic
    def handle(self, slug, name, username, **options):
        self._legal(slug, name)
        tenant = Tenant.objects.create(slug=slug, name=name)
        user = get_user_model().objects.filter(username=username).first() or self._account(username)
        membership = Membership.objects.create(tenant=tenant, user=user)
        for role in ROLES:
            Role.objects.create(tenant=tenant, membership=membership, name=role)
        for where, protected in ENVIRONMENTS.items():
            environment = Environment.objects.create(tenant=tenant, name=where, klass=where, protected=protected)
            for agent in registry.registered():
                Instance.objects.create(tenant=tenant, agent=agent.name, environment=environment, owner=user)
        self.stdout.write(f"{name} is at /t/{slug}/. {username} signs in there as {', '.join(ROLES)}.")

    def _legal(self, slug: str, name: str) -> None:
        try:
            validate_slug(slug)
        except ValidationError:
            raise CommandError(f"{slug!r} cannot be part of an address: letters, digits, - and _ can.") from None
        if not name.strip():
            raise CommandError("The tenant needs a name.")
        try:
            Tenant(slug=slug, name=name).full_clean(validate_unique=False)
        except ValidationError as wrong:
            raise CommandError(" ".join(wrong.messages)) from None
        if Tenant.objects.filter(slug=slug).exists():
            raise CommandError(f"There is a tenant {slug} already. Nothing was changed.")

    def _account(self, username: str):
        user = get_user_model()(username=username)
        password = self._password(username)
        try:
            user.full_clean(exclude=["password"])
            validate_password(password, user)
        except ValidationError as wrong:
            raise CommandError(" ".join(wrong.messages)) from None
        user.set_password(password)
        user.save()
        return user

    def _password(self, username: str) -> str:
        if not sys.stdin.isatty():
            return sys.stdin.readline().rstrip("\n")
        password = getpass.getpass(f"Password of {username}: ")
        if getpass.getpass("Again: ") != password:
            raise CommandError("The passwords differ. Nothing was changed.")
        return password
