"""Requests, the Responses to them, and the Grants that approvals make."""

import json

import pgtrigger
from django.conf import settings
from django.db import models
from django.db.models import Q

from .. import states
from .base import Now, TenantKey, TenantRow, kept, one_of, steps_only
from .tenancy import Environment
from .work import Blocker, Run, Session

KINDS = ["wait_user", "wait_approval", "wait_effect"]
SAID = [
    "answer",
    "approve",
    "deny",
    "finding",
    "recover",
    "cancel",
    "void",
    "hold",
    "release",
    "compensate",
    "evidence",
    "pause",
    "unpause",
]


class Request(TenantRow):
    """One thing a Run has stopped at. What it asks never changes; a change is another Request that supersedes it."""

    session = TenantKey(Session)
    run = TenantKey(Run)
    environment = TenantKey(Environment)
    kind = models.CharField(max_length=20, choices=[(kind, kind) for kind in KINDS])
    key = models.CharField(
        max_length=200, db_comment="the agent's own name of this wait in its Run (R04); `given` until a successor asks"
    )
    number = models.IntegerField(default=1)
    replaces = TenantKey("self", null=True)
    stops = models.BooleanField(default=True, db_comment="false: raised after its Run went on or ended (R23)")
    state = models.CharField(max_length=20, choices=states.choices(states.REQUEST), default="pending")
    outcome = models.CharField(max_length=20, choices=states.choices(states.OUTCOMES), null=True)
    accepts = models.JSONField(db_comment="which responses it accepts, as data (R02)")
    epoch = models.IntegerField(default=1)

    # wait_user: untrusted text and the form
    prompt = models.TextField(blank=True)
    schema = models.JSONField(null=True)

    # wait_approval: the Action, bound once
    action_name = models.CharField(max_length=200, blank=True)
    action_version = models.CharField(max_length=40, blank=True)
    action_bytes = models.BinaryField(null=True, db_comment="made once; shown, digested and dispatched from here")
    action_hash = models.CharField(max_length=64, blank=True, db_comment="equal Actions have equal hashes")
    digest = models.CharField(max_length=64, blank=True)
    described = models.JSONField(default=dict, db_comment="title, consequence, reversibility, from the registration")
    claim = models.TextField(blank=True, db_comment="what the agent says; unchecked")
    policy = models.JSONField(null=True, db_comment="the Policy as it was when this was raised (R17)")
    sent = models.TextField(blank=True, db_comment="what else a remote agent sent with it, as it came; JSON")

    # wait_effect
    effect = TenantKey("runtime_app.Effect", null=True)

    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True)
    resolved_at = models.DateTimeField(null=True)
    resolved_by = models.CharField(max_length=150, blank=True, db_comment="a stable name; the Response has the account")

    @property
    def bound(self) -> dict:
        """The header line of the Action's bytes: action, version, environment (id and name), actor."""
        return json.loads(bytes(self.action_bytes).partition(b"\n")[0])

    @property
    def parameters(self) -> bytes:
        """The canonical bytes of the parameters: what follows the header line of the Action's bytes."""
        return bytes(self.action_bytes).partition(b"\n")[2]

    class Meta:
        constraints = [
            one_of("kind", KINDS, "request_kind_known"),
            one_of("state", states.REQUEST, "request_state_known"),
            models.CheckConstraint(
                condition=Q(state="resolved", outcome__isnull=False) | ~Q(state="resolved") & Q(outcome=None),
                name="request_outcome_when_resolved",
            ),
            models.CheckConstraint(
                condition=Q(state="pending", resolved_at=None) | ~Q(state="pending") & Q(resolved_at__isnull=False),
                name="request_ended_says_when",
            ),
            models.CheckConstraint(
                condition=~Q(kind="wait_approval")
                | Q(action_bytes__isnull=False, policy__isnull=False) & ~Q(digest=""),
                name="request_approval_is_bound",
            ),
            # an unknown never expires, and has an Effect (R23)
            models.CheckConstraint(
                condition=~Q(kind="wait_effect") | Q(effect__isnull=False, expires_at=None),
                name="request_effect_never_expires",
            ),
            # an agent's key names one wait of its Run (R04)
            models.UniqueConstraint(fields=["run", "key", "number"], name="request_key_once"),
            models.UniqueConstraint(
                fields=["run", "key"], condition=Q(state="pending"), name="request_key_pending_once"
            ),
            # exactly one pending question about one Effect (R23)
            models.UniqueConstraint(
                fields=["effect"], condition=Q(state="pending", kind="wait_effect"), name="request_effect_asked_once"
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "expires_at", "id"], condition=Q(state="pending"), name="request_pending"),
            models.Index(
                fields=["expires_at"], condition=Q(state="pending", expires_at__isnull=False), name="request_expiring"
            ),
            models.Index(fields=["tenant", "action_hash"], condition=~Q(action_hash=""), name="request_equal_action"),
        ]
        triggers = [
            kept(),
            steps_only(states.steps(states.REQUEST)),
            # what was given to a successor takes its key when it is asked for, once (R34)
            pgtrigger.Protect(
                name="key_bound",
                operation=pgtrigger.Update,
                condition=pgtrigger.Q(old__key__df=pgtrigger.F("new__key")) & ~pgtrigger.Q(old__key="given"),
            ),
            pgtrigger.ReadOnly(
                name="bound",
                fields=[
                    "tenant",
                    "session",
                    "run",
                    "environment",
                    "kind",
                    "number",
                    "replaces",
                    "accepts",
                    "prompt",
                    "schema",
                    "action_name",
                    "action_version",
                    "action_bytes",
                    "action_hash",
                    "digest",
                    "described",
                    "claim",
                    "policy",
                    "sent",
                    "effect",
                    "created_at",
                    "expires_at",
                ],
            ),
        ]


class Response(TenantRow):
    """What one actor said: to one Request, of one Run (cancel), of an Effect (evidence, compensate), of a Grant (void),
    of an Environment (hold, release), of a Schedule (pause, unpause). Only what was accepted is kept (R09)."""

    session = TenantKey(Session)
    run = TenantKey(Run, null=True, db_comment="none: of an Environment or of a Schedule")
    request = TenantKey(Request, null=True)
    blocker = TenantKey(Blocker, null=True, db_comment="a vote before its Request is there; the quorum makes it (R34)")
    kind = models.CharField(max_length=10, choices=[(kind, kind) for kind in SAID])
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", db_index=False)
    name = models.CharField(max_length=150, db_comment="the person's name at that time")
    response_id = models.UUIDField()
    same = models.CharField(max_length=64, db_comment="hash of kind, content and message: what a repeat must equal")
    content = models.JSONField(default=dict)
    suggestion = models.TextField(blank=True, db_comment="canonical JSON of suggested parameters (R19)")
    message = models.TextField(blank=True)
    recorded = models.JSONField(default=dict, db_comment="the outcome a repeat gets again")
    at = models.DateTimeField(db_default=Now())
    spent_at = models.DateTimeField(null=True, db_comment="a vote whose author lost the right (R18)")

    class Meta:
        constraints = [
            one_of("kind", SAID, "response_kind_known"),
            models.UniqueConstraint(fields=["tenant", "user", "response_id"], name="response_id_once"),
            # one person, one vote that counts (T22)
            models.UniqueConstraint(
                fields=["request", "user"],
                condition=Q(kind__in=["approve", "deny"], spent_at=None),
                name="response_one_vote",
            ),
            models.UniqueConstraint(
                fields=["blocker", "user"],
                condition=Q(blocker__isnull=False, spent_at=None),
                name="response_one_vote_a_blocker",
            ),
        ]
        indexes = [
            models.Index(fields=["request"], condition=Q(request__isnull=False), name="response_of_request"),
            models.Index(fields=["run"], condition=~Q(suggestion=""), name="response_suggested"),
        ]
        triggers = [
            kept(),
            # a vote on a Blocker gets its Request, once, when the quorum makes that
            pgtrigger.Protect(
                name="request_bound",
                operation=pgtrigger.Update,
                condition=pgtrigger.Condition(
                    "OLD.request_id IS DISTINCT FROM NEW.request_id"
                    " AND (OLD.request_id IS NOT NULL OR OLD.blocker_id IS NULL)"
                ),
            ),
            pgtrigger.ReadOnly(
                name="said",
                fields=[
                    "tenant",
                    "run",
                    "blocker",
                    "kind",
                    "user",
                    "name",
                    "response_id",
                    "same",
                    "content",
                    "suggestion",
                    "message",
                    "at",
                ],
            ),
        ]


class Grant(TenantRow):
    """One dispatch of one digest, until a stated time (R16)."""

    request = TenantKey(Request)
    run = TenantKey(Run)
    digest = models.CharField(max_length=64)
    state = models.CharField(max_length=10, choices=states.choices(states.GRANT), default="unused")
    by_policy = models.BooleanField(default=False)
    epoch = models.IntegerField(default=1)
    made_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    void_why = models.CharField(max_length=200, blank=True)
    used_key = models.CharField(max_length=255, blank=True, db_comment="under which a remote agent took it")
    report = models.JSONField(null=True, db_comment="what that agent said became of it: status, note, at")

    class Meta:
        constraints = [
            one_of("state", states.GRANT, "grant_state_known"),
            models.UniqueConstraint(fields=["request"], name="grant_one_a_request"),
        ]
        indexes = [models.Index(fields=["run"], condition=Q(state="unused"), name="grant_unused")]
        triggers = [
            kept(),
            steps_only(states.steps(states.GRANT)),
            pgtrigger.ReadOnly(
                name="bound", fields=["tenant", "request", "run", "digest", "by_policy", "epoch", "expires_at"]
            ),
        ]


class Secret(TenantRow):
    """One secret field of an answer: encrypted before it comes here, opened by the code of the Run that asked, and
    destroyed when its step is journaled, or the Run acknowledges it or ends (R12)."""

    request = TenantKey(Request)
    run = TenantKey(Run)
    field = models.CharField(max_length=200)
    sealed = models.BinaryField(null=True, db_comment="none: destroyed")
    made_at = models.DateTimeField(db_default=Now())
    opened_at = models.DateTimeField(null=True)
    destroyed_at = models.DateTimeField(null=True)

    @property
    def reference(self) -> str:
        """What stands for it wherever the answer is told."""
        return f"secret:{self.pk}"

    @property
    def purpose(self) -> str:
        """What it is sealed for: it opens for no other Request or field."""
        return f"secret {self.request_id} {self.field}"

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["request", "field"], name="secret_field_once"),
            models.CheckConstraint(
                condition=Q(sealed=None, destroyed_at__isnull=False) | Q(sealed__isnull=False, destroyed_at=None),
                name="secret_destroyed_says_when",
            ),
        ]
        indexes = [models.Index(fields=["run"], condition=Q(sealed__isnull=False), name="secret_of_run")]
        triggers = [kept(), pgtrigger.ReadOnly(name="bound", fields=["tenant", "request", "run", "field", "made_at"])]
