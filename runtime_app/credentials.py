"""Credentials of agents elsewhere: made once, shown once, found by their prefix, compared by their hash (R20)."""

import secrets
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest

from . import clock, sealed, statements
from .errors import NotSignedIn
from .models import Credential, Instance
from .permissions import Actor, Context

PREFIX = 12  # characters of the random part, shown and stored in clear
SEEN_EVERY = 60  # seconds: the last use is written down at most so often

WORDS = {"provisioner": "sayso_p_", "instance": "sayso_i_"}


@dataclass(frozen=True)
class Made:
    """A new credential and its token: the only time that anybody sees it."""

    credential: Credential
    token: str


def token(kind: str) -> str:
    """256 random bits, recognisable by scanners for leaked secrets."""
    return WORDS[kind] + secrets.token_hex(32)


def derived(provisioner_id, key: str, instance_id) -> str:
    """The token of an Instance that a provisioner made under a key: told again to the same call, and nowhere kept."""
    return WORDS["instance"] + sealed.derived("instance credentials", provisioner_id, key, instance_id)


def stored(token: str) -> dict[str, str]:
    """What is kept of a token: its prefix and its hash. Random bits need no slow hash."""
    return {"prefix": token[len("sayso_") :][: len("p_") + PREFIX], "hash": sha256(token.encode()).hexdigest()}


def authenticate(token: str, *, scope: str, kind: str, address: str = "") -> tuple[Credential, Context]:
    """The live credential with this token, and its Context. NotSignedIn for every other, in the same words."""
    refused = NotSignedIn("No credential here that is live, of this kind, and for this interface.")
    if not token.isascii() or not token.startswith(tuple(WORDS.values())) or len(token) > 200:
        raise refused
    kept = stored(token)
    mine = f"where prefix = %s and kind = %s and {Credential.LIVES_SQL}"
    found = statements.first(Credential, mine, kept["prefix"], kind)
    if found is None or not compare_digest(found.hash, kept["hash"]) or scope not in found.scopes:
        raise refused
    if found.instance_id:
        instance = statements.first(Instance, "where id = %s and deleted_at is null", found.instance_id)
        if instance is None:
            raise refused
        found.instance = instance
    _seen(found, address)
    return found, context_of(found)


def context_of(credential: Credential) -> Context:
    """An Instance acts as itself; a provisioner token as itself, and makes Instances only."""
    instance = credential.instance
    subject, name = (instance.pk, instance.name or instance.agent) if instance else (credential.pk, credential.name)
    return Context(credential.tenant_id, Actor("agent", str(subject), name[:150]), credential.pk)


def live():
    """Neither revoked nor expired, and of no deleted Instance."""
    return Credential.objects.filter(Credential.LIVES, instance__deleted_at=None)


def _seen(found: Credential, address: str) -> None:
    now = clock.now()
    if found.last_used_at is None or (now - found.last_used_at).total_seconds() > SEEN_EVERY:
        Credential.objects.filter(pk=found.pk).update(last_used_at=now, last_address=address[:64])


def those_alive(ids: set) -> set:
    """Of these, the credentials that live now: one query for all who wait (R40)."""
    return set(live().filter(pk__in=ids).values_list("pk", flat=True))
