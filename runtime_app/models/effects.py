"""The ledger: Effects, the Attempts to send them, the Evidence about them."""

import pgtrigger
from django.conf import settings
from django.db import models
from django.db.models import Q

from .. import states
from .base import Now, TenantKey, TenantRoot, TenantRow, append_only, kept, one_of, steps_only
from .requests import Grant, Request
from .tenancy import Environment
from .work import Run, Session

GRADES = ["claimed", "attested", "observed"]  # weakest first
FINDINGS = ["committed", "not_committed", "unknown", "working"]


class Effect(TenantRow):
    """One external effect, written before anything is sent. Its key, the id of its Request, never expires (R22)."""

    session = TenantKey(Session)
    run = TenantKey(Run)
    environment = TenantKey(Environment)
    request = TenantKey(Request, db_comment="whose approval prepared it; its id is the key the provider gets")
    compensates = TenantKey("self", null=True)
    action_name = models.CharField(max_length=200)
    action_version = models.CharField(max_length=40)
    action_hash = models.CharField(max_length=64)
    state = models.CharField(max_length=20, choices=states.choices(states.EFFECT), default="prepared")
    epoch = models.IntegerField(default=1)
    disputed = models.BooleanField(default=False)
    accepted_at = models.DateTimeField(null=True, db_comment="the uncertainty was accepted; it stays uncertain (R24)")
    accepted_by = models.CharField(max_length=150, blank=True)
    accepted_why = models.TextField(blank=True)
    recovering = models.CharField(max_length=40, blank=True, db_comment="the one recovery action under way")
    recovering_since = models.DateTimeField(null=True)
    recovering_by = models.CharField(max_length=150, blank=True)
    probe_at = models.DateTimeField(null=True, db_comment="when the next probe is due")
    probes = models.IntegerField(default=0)
    prepared_at = models.DateTimeField(db_default=Now())
    intent_at = models.DateTimeField(null=True)
    deadline_at = models.DateTimeField(null=True, db_comment="past it, without a reply, it is uncertain (R23)")
    uncertain_at = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(null=True)

    @property
    def key(self) -> str:
        """What the provider de-duplicates and looks up by."""
        return str(self.request_id)

    @property
    def closed(self) -> bool:
        """Settled, or accepted as unknown: what is stated of it now is late evidence, and no Response (R25)."""
        settled = self.state in ("committed", "not_committed") or self.state == "uncertain" and self.accepted_at
        return bool(settled) and not self.disputed

    class Meta:
        constraints = [
            one_of("state", states.EFFECT, "effect_state_known"),
            models.UniqueConstraint(fields=["request"], name="effect_one_a_request"),
            models.CheckConstraint(
                # after a restore what was only prepared here may have been sent: evidence settles that too (R27)
                condition=Q(state__in=["prepared", "withdrawn", "uncertain"])
                | Q(intent_at__isnull=False)
                | Q(state__in=["committed", "not_committed"], uncertain_at__isnull=False),
                name="effect_sent_after_intent",
            ),
        ]
        indexes = [
            models.Index(fields=["prepared_at"], condition=Q(state="prepared"), name="effect_prepared"),
            models.Index(fields=["deadline_at"], condition=Q(state="in_flight"), name="effect_in_flight"),
            models.Index(
                fields=["tenant", "uncertain_at"],
                condition=Q(state="uncertain") | Q(disputed=True),
                name="effect_uncertain",
            ),
            models.Index(fields=["probe_at"], condition=Q(probe_at__isnull=False), name="effect_probe_due"),
            models.Index(fields=["run"], name="effect_of_run"),
            models.Index(fields=["tenant", "-prepared_at", "-id"], name="effect_newest"),
        ]
        triggers = [
            kept(),
            steps_only(states.steps(states.EFFECT)),
            pgtrigger.ReadOnly(
                name="bound",
                fields=[
                    "tenant",
                    "session",
                    "run",
                    "environment",
                    "request",
                    "action_name",
                    "action_version",
                    "action_hash",
                ],
            ),
        ]


class CallbackSecret(TenantRoot):
    """What an action's provider signs its callbacks with (Standard Webhooks), per tenant and action."""

    action = models.CharField(max_length=200)
    secret = models.BinaryField(db_comment="encrypted with a key of the installation")
    made_at = models.DateTimeField(db_default=Now(), editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["tenant", "action"], name="callback_secret_of_action")]


class Attempt(TenantRow):
    """One try to send an Effect, numbered; only the newest may write. Each is written with the Grant it consumed."""

    effect = TenantKey(Effect)
    number = models.IntegerField()
    grant = TenantKey(Grant)
    worker = models.UUIDField()
    intent_at = models.DateTimeField(db_default=Now())
    send_by = models.DateTimeField(db_comment="checked just before the call: later, nothing is sent (R23)")
    replied_at = models.DateTimeField(null=True)
    reply = models.CharField(max_length=20, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["effect", "number"], name="attempt_number_once"),
            # a Grant serves one dispatch (R16)
            models.UniqueConstraint(fields=["grant"], name="attempt_one_a_grant"),
        ]
        triggers = [
            kept(),
            pgtrigger.ReadOnly(
                name="intent", fields=["tenant", "effect", "number", "grant", "worker", "intent_at", "send_by"]
            ),
        ]


class Evidence(TenantRow):
    """An append-only statement about an Effect, from whom, with a reference (R25)."""

    effect = TenantKey(Effect)
    attempt = TenantKey(Attempt, null=True)
    grade = models.CharField(max_length=10, choices=[(grade, grade) for grade in GRADES])
    finding = models.CharField(max_length=20, choices=[(finding, finding) for finding in FINDINGS])
    source = models.CharField(max_length=40, db_comment="reply, probe, callback, statement, deadline, worker")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+", db_index=False)
    name = models.CharField(max_length=150)
    reference = models.TextField(blank=True)
    statement = models.TextField(blank=True)
    message_id = models.CharField(
        max_length=200, blank=True, db_comment="a signed callback's own id: replays are known by it"
    )
    late = models.BooleanField(default=False, db_comment="it came after the Effect was settled or its Run ended")
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            one_of("grade", GRADES, "evidence_grade_known"),
            one_of("finding", FINDINGS, "evidence_finding_known"),
            # a callback delivered twice is one piece of evidence (T88)
            models.UniqueConstraint(
                fields=["effect", "message_id"], condition=~Q(message_id=""), name="evidence_callback_once"
            ),
        ]
        indexes = [models.Index(fields=["effect", "at"], name="evidence_of_effect")]
        triggers = append_only()


class EvidenceFile(TenantRow):
    """A file beside a person's statement. Served inert, under a random name, never unpacked (T70)."""

    evidence = TenantKey(Evidence, db_index=True)
    name = models.CharField(max_length=200, db_comment="as it was called; shown, never used as a path")
    stored = models.CharField(max_length=64, db_comment="its random name on disk")
    size = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        triggers = append_only()
