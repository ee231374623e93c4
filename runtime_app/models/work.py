"""Sessions, Runs, what a Run has journaled, what blocked it, and the workers alive."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from .. import states
from .base import Now, TenantKey, TenantRoot, TenantRow, append_only, kept, one_of, steps_only
from .tenancy import Environment, Instance


class Session(TenantRoot):
    """A thread of work: messages and Runs, in order. Its row is the lock under which its Events are numbered (R36)."""

    title = models.CharField(max_length=200)
    last_seq = models.BigIntegerField(default=0)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        triggers = [kept()]


class Run(TenantRow):
    """One execution, started by one message. Hosted: our worker runs its loop."""

    session = TenantKey(Session)
    environment = TenantKey(Environment)
    instance = TenantKey(Instance)
    agent = models.CharField(max_length=80)
    agent_version = models.CharField(max_length=40, default="1")
    parent = TenantKey("self", null=True)
    follows = TenantKey("self", null=True, db_comment="the blocked Run this one succeeds (R34)")
    interactive = models.BooleanField(default=True)
    hosted = models.BooleanField(default=True)
    message = models.TextField()
    initiator = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+", db_index=False)
    initiator_name = models.CharField(max_length=150, blank=True)
    schedule = models.CharField(max_length=120, blank=True)
    start_id = models.UUIDField(null=True, db_comment="the client's own id of the start (R09)")
    state = models.CharField(max_length=20, choices=states.choices(states.RUN), default="queued")
    epoch = models.IntegerField(default=1)
    held_at = models.DateTimeField(null=True, db_comment="not dispatched until a person releases it (R27)")

    # the Lease: one worker's turn
    lease_number = models.IntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    lease_worker = models.UUIDField(null=True)
    lapses = models.IntegerField(default=0, db_comment="Leases that ran out in a row; the fifth fails the Run (R30)")

    cancel_requested_at = models.DateTimeField(null=True)
    cancelled_by = models.CharField(max_length=150, blank=True)
    cancel_reason = models.TextField(blank=True)

    result = models.TextField(blank=True, db_comment="what the agent said at its end; untrusted text")
    reason = models.TextField(blank=True, db_comment="why it failed")
    created_at = models.DateTimeField(db_default=Now())
    queued_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True)
    waiting_since = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    @property
    def title(self) -> str:
        """How its message begins, for lists and headings: the Runs of one Session differ in nothing else."""
        line = " ".join(self.message.split())
        return line if len(line) <= 120 else line[:119] + "…"

    class Meta:
        constraints = [
            one_of("state", states.RUN, "run_state_known"),
            # a Lease exists exactly while somebody runs it
            models.CheckConstraint(
                condition=Q(state="running", lease_until__isnull=False) | ~Q(state="running") & Q(lease_until=None),
                name="run_lease_while_running",
            ),
            # an ended Run says when
            models.CheckConstraint(
                condition=Q(state__in=states.ENDED, ended_at__isnull=False)
                | ~Q(state__in=states.ENDED) & Q(ended_at=None),
                name="run_ended_says_when",
            ),
            # a start repeated under its id is the same Run (B23)
            models.UniqueConstraint(
                fields=["tenant", "initiator", "start_id"], condition=Q(start_id__isnull=False), name="run_started_once"
            ),
        ]
        indexes = [
            models.Index(fields=["queued_at"], condition=Q(state="queued"), name="run_queued"),
            models.Index(fields=["lease_until"], condition=Q(state="running"), name="run_leased"),
            models.Index(fields=["session", "id"], name="run_of_session"),
            models.Index(fields=["tenant", "-created_at", "-id"], name="run_newest"),
        ]
        triggers = [kept(), steps_only(states.steps(states.RUN))]


class Entry(TenantRow):
    """One journaled step of a hosted Run (R22): `reply` holds the request to the model and its reply, before any of its
    calls starts; `result` holds what a finished tool returned. Text, never re-serialised; appended, never rewritten."""

    run = TenantKey(Run)
    position = models.IntegerField()
    kind = models.CharField(max_length=10, choices=[("reply", "reply"), ("result", "result")])
    call = models.CharField(max_length=200, blank=True)
    content = models.TextField()
    lease_number = models.IntegerField()
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            # a finished step is journaled once, whoever ran it
            models.UniqueConstraint(fields=["run", "position", "kind", "call"], name="entry_once"),
        ]
        triggers = append_only()


class Blocker(TenantRow):
    """The concrete thing a noninteractive Run could not get (R33)."""

    session = TenantKey(Session)
    run = TenantKey(Run)
    kind = models.CharField(max_length=20)
    prompt = models.TextField(blank=True)
    schema = models.JSONField(null=True)
    action_name = models.CharField(max_length=200, blank=True)
    action_version = models.CharField(max_length=40, blank=True)
    action_bytes = models.BinaryField(null=True)
    action_hash = models.CharField(max_length=64, blank=True)
    digest = models.CharField(max_length=64, blank=True)
    claim = models.TextField(blank=True)
    described = models.JSONField(default=dict)
    policy = models.JSONField(null=True)
    effect = models.UUIDField(null=True)
    unblocks = models.TextField(db_comment="what would unblock it, in a sentence")
    successor_run = models.UUIDField(null=True, db_comment="the id its one successor Run will have (R34)")
    successor_request = models.UUIDField(null=True)
    supplied_at = models.DateTimeField(null=True)
    count = models.IntegerField(default=1)
    created_at = models.DateTimeField(db_default=Now())

    @property
    def parameters(self) -> bytes:
        """As `Request.parameters`."""
        return bytes(self.action_bytes).partition(b"\n")[2]

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run"], name="blocker_one_a_run")]
        triggers = [kept()]


class Worker(models.Model):
    """A worker process, alive while it beats."""

    id = models.UUIDField(primary_key=True)
    name = models.CharField(max_length=200)
    started_at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(db_default=Now())
