"""Who waits, or follows: an agent by its credential, or a signed-in person by their session; and whether they still
may. What one has lost since ends the call (R06, R40)."""

from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace

from django.conf import settings
from django.contrib.auth import get_user
from django.http import parse_cookie

from .. import credentials, permissions
from ..errors import NotSignedIn
from ..permissions import Context
from . import doors

TENANT = "sayso-tenant"  # the header in which a person's call names the tenant


@dataclass(frozen=True)
class Bearer:
    """By the credential in the `Authorization` header."""

    token: str
    scope: str
    address: str

    def begins(self) -> Context:
        """Who it is. Raises NotSignedIn, TooMany."""
        credential, context = credentials.authenticate(
            self.token, scope=self.scope, kind="instance", address=self.address
        )
        doors.limit(credential)
        return context

    def may_still(self, context: Context) -> None:
        permissions.still_live(context)


@dataclass(frozen=True)
class SignedIn:
    """By the session of the cookie. It only reads: what changes something takes the CSRF token as well."""

    session: str
    tenant: str

    def begins(self) -> Context:
        """Who it is. Raises NotSignedIn, NotFound, TooMany."""
        user = self._user()
        doors.limit(user)
        return permissions.member(user, self.tenant)[1]

    def may_still(self, context: Context) -> None:
        permissions.member(self._user(), self.tenant)

    def _user(self):
        session = import_module(settings.SESSION_ENGINE).SessionStore(self.session)
        user = get_user(SimpleNamespace(session=session))
        if not user.is_authenticated:
            raise NotSignedIn
        return user


def of(headers: dict[str, str], peer: str, scope: str) -> Bearer | SignedIn:
    """Who shows these headers. A credential is never a person: who shows both is what the credential is."""
    if "authorization" in headers or scope != "api":
        token = doors.bearer(headers.get("authorization", ""))
        return Bearer(token, scope, doors.address_of(peer, headers.get("x-forwarded-for", "")))
    return SignedIn(session_of(headers.get("cookie", "")), headers.get(TENANT, ""))


def session_of(cookies: str) -> str:
    return parse_cookie(cookies).get(settings.SESSION_COOKIE_NAME, "")
