"""Sessions, Runs, what a Run has journaled, what blocked it, and the workers alive."""

import pgtrigger
from django.conf import settings
from django.db import models
from django.db.models import Q

from .. import states
from .base import Now, TenantKey, TenantRoot, TenantRow, append_only, kept, one_of, steps_only
from .tenancy import Environment, Instance


class Session(TenantRoot):
    """A thread of work: messages and Runs, in order. Its row is the lock under which its Events are numbered (R36)."""

    title = models.CharField(max_length=200)
    instance = TenantKey(Instance, null=True, db_comment="of the remote agent whose thread this is; no other sees it")
    thread = models.CharField(max_length=200, blank=True, db_comment="that agent's own name of the thread")
    last_seq = models.BigIntegerField(default=0)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            # a remote agent's thread is one Session
            models.UniqueConstraint(fields=["instance", "thread"], condition=~Q(thread=""), name="session_thread_once"),
        ]
        triggers = [kept()]


class Run(TenantRow):
    """One execution, started by one message. Hosted: our worker runs its loop; remote: it runs elsewhere and calls."""

    session = TenantKey(Session)
    environment = TenantKey(Environment)
    instance = TenantKey(Instance)
    agent = models.CharField(max_length=80)
    agent_version = models.CharField(max_length=40, blank=True, db_comment="of its first turn")
    parent = TenantKey("self", null=True)
    follows = TenantKey("self", null=True, db_comment="the blocked Run this one succeeds (R34)")
    interactive = models.BooleanField(default=True)
    hosted = models.BooleanField(default=True)
    single = models.BooleanField(default=False, db_comment="it is one Request, and ends with it (R08, AAP)")
    secrets = models.BooleanField(default=False, db_comment="it was given some, to be destroyed at its end (R12)")
    message = models.TextField()
    initiator = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+", db_index=False)
    initiator_name = models.CharField(max_length=150, blank=True)
    key = models.CharField(max_length=200, blank=True, db_comment="a child's name in its parent (R28)")
    schedule = TenantKey("runtime_app.Schedule", null=True)
    recovers = TenantKey("runtime_app.Effect", null=True, db_comment="the Effect this Run recovers (R24)")
    recovery = models.CharField(max_length=40, blank=True, db_comment="redispatch or compensate")
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
    output_removed_at = models.DateTimeField(null=True, db_comment="since when older output is not kept any more (R36)")

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
            models.Index(fields=["parent"], condition=Q(parent__isnull=False), name="run_of_parent"),
            models.Index(
                fields=["schedule", "-created_at"], condition=Q(schedule__isnull=False), name="run_of_schedule"
            ),
            models.Index(fields=["recovers"], condition=Q(recovers__isnull=False), name="run_recovers"),
            models.Index(
                fields=["instance"],
                condition=Q(hosted=False, state__in=["queued", "running", "waiting"]),
                name="run_live_elsewhere",
            ),
        ]
        triggers = [kept(), steps_only(states.steps(states.RUN))]


class Schedule(TenantRow):
    """A job that starts by the clock, with nobody on the line, as the person who set it."""

    agent = models.SlugField(max_length=80)
    environment = TenantKey(Environment)
    message = models.TextField()
    cron = models.CharField(max_length=120, help_text="minute hour day month weekday, in UTC: 0 6 * * 1")
    set_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    active = models.BooleanField(default=True)
    refused = models.TextField(blank=True, editable=False, db_comment="why it did not start when it last was due")
    refused_at = models.DateTimeField(null=True, editable=False)
    paused_at = models.DateTimeField(null=True, editable=False)
    paused_by = models.CharField(max_length=150, blank=True, editable=False)
    session = TenantKey(Session, null=True, editable=False, db_comment="where its pauses are told")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    def __str__(self):
        return f"{self.agent} in {self.environment}, {self.cron}"


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


class Chunk(TenantRow):
    """A piece of streamed output, by its place in its stream (R36). Beside the Run: no Session lock, no Event."""

    run = TenantKey(Run)
    stream = models.CharField(max_length=200, db_comment="the journaled place of the call, and the Lease it ran under")
    offset = models.BigIntegerField(db_comment="how many characters of the stream came before")
    text = models.TextField()
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "stream", "offset"], name="chunk_once")]
        triggers = [
            pgtrigger.Protect(name="append_only", operation=pgtrigger.Update),
            # the output of a Run that goes on, or ended a moment ago, is not removed by anybody
            pgtrigger.Trigger(
                name="kept_while_new",
                operation=pgtrigger.Delete,
                when=pgtrigger.Before,
                func="""
                    IF NOT EXISTS (SELECT FROM runtime_app_run
                                   WHERE id = OLD.run_id AND ended_at < sayso_now() - interval '23 hours') THEN
                        RAISE EXCEPTION 'Cannot delete output of a Run that has not ended a day ago';
                    END IF;
                    RETURN OLD;
                """,
            ),
        ]


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
    child = models.UUIDField(null=True, db_comment="the child Run that met it (R28)")
    same = models.CharField(max_length=64, blank=True, db_comment="equal Blockers of one job have equal hashes")
    unblocks = models.TextField(db_comment="what would unblock it, in a sentence")
    successor_run = models.UUIDField(null=True, db_comment="the id its one successor Run will have (R34)")
    successor_request = models.UUIDField(null=True)
    supplied_at = models.DateTimeField(null=True)
    supplied_by = models.CharField(max_length=150, blank=True)
    denied_at = models.DateTimeField(null=True, db_comment="as many as the policy says denied it: nothing was started")
    denied_by = models.CharField(max_length=150, blank=True)
    replaced_at = models.DateTimeField(null=True, db_comment="a newer equal Blocker counts this one")
    count = models.IntegerField(default=1)
    created_at = models.DateTimeField(db_default=Now())

    OPEN = Q(supplied_at=None, denied_at=None, replaced_at=None)

    @property
    def over(self) -> bool:
        """It was given, or denied."""
        return bool(self.supplied_at or self.denied_at)

    @property
    def parameters(self) -> bytes:
        """As `Request.parameters`."""
        return bytes(self.action_bytes).partition(b"\n")[2]

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run"], name="blocker_one_a_run")]
        indexes = [
            models.Index(
                fields=["tenant", "-created_at"],
                condition=Q(supplied_at=None, denied_at=None, replaced_at=None),
                name="blocker_open",
            ),
            models.Index(
                fields=["tenant", "same"], condition=Q(supplied_at=None, denied_at=None), name="blocker_same"
            ),
        ]
        triggers = [kept()]


class Worker(models.Model):
    """A worker process, alive while it beats."""

    id = models.UUIDField(primary_key=True)
    name = models.CharField(max_length=200)
    started_at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(db_default=Now())
    knows = models.JSONField(default=dict, db_comment="its agents and actions, with the versions it can go on with")
