"""Random stories against the plain model: people, agents, workers and the provider act in any order; after every step
the tables say what the model says, and the cheap invariants hold; at the end people settle what is left, and all do."""

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import initialize, invariant, precondition, rule

from runtime_app import transitions
from runtime_app.errors import RunEnded, SaysoError, StaleRequest
from runtime_app.ids import uuid7
from runtime_app.models import Effect as Effects
from runtime_app.models import Grant as Grants
from runtime_app.models import Request as Requests
from runtime_app.models import Run as Runs
from runtime_app.transitions import Ask, Child, Question, epochs
from tests import cast
from tests.cast import KEY_NAME, Answer, Approve, Deny, Finding
from tests.chaos import invariants
from tests.chaos.freight import PROVIDER
from tests.chaos.gifts import Jobs
from tests.chaos.looks import drawn, pending, running, some
from tests.chaos.model import ENDED, Model, Request, Run
from tests.database import SPARED

KEPT = SPARED | {"runtime_app_tenant", "runtime_app_environment", "runtime_app_instance", "runtime_app_membership"}
KEPT |= {"runtime_app_role", "auth_user", "runtime_app_worker"}
TURNS = ["question", "haul a", "haul b", "toss a", "both", "two", "child", "end", "end"]
SEVERAL = {"both": ["haul a", "question"], "two": ["haul a", "toss b"]}


class Stories(Jobs):
    house: cast.House
    owner: object
    clock: object

    def __init__(self):
        super().__init__()
        PROVIDER.clear()
        self.clock.reset()
        with self.owner.transaction():
            self.owner.execute("set local session_replication_role = replica")
            tables = [table for (table,) in self.owner.execute(WORK).fetchall() if table not in KEPT]
            self.owner.execute(";".join(f'delete from "{table}"' for table in tables))
            self.owner.execute("delete from runtime_app_epoch where number > 1")
            self.owner.execute("update runtime_app_environment set held_at = null, session_id = null")
        epochs._tell_mark(epochs._remember(epochs.Epoch.objects.get(number=1)))
        while self.spoilt:
            self.give_back(self.spoilt.pop())
        self.turns, self.sent, self.keys = {}, [], 0

    @initialize(approvals=st.integers(1, 2), verdict=st.sampled_from(["ask", "ask", "allow", "deny"]))
    def policy(self, approvals, verdict):
        self.model = Model(approvals, verdict)
        self.house.policy("haul", approvals=approvals, verdict=verdict)
        self.house.policy("toss", approvals=approvals, verdict=verdict)
        self.house.policy("unhaul", approvals=approvals, verdict=verdict)

    # -- agents and workers

    @precondition(lambda self: sum(run.state not in ENDED for run in self.model.runs.values()) < 5)
    @rule(interactive=st.sampled_from([True, True, False]))
    def start(self, interactive):
        run = self.house.start(interactive=interactive)
        self.model.runs[run.pk] = Run(run.pk, interactive)

    @some(lambda self: [run for run in self.model.runs.values() if run.state == "queued" and not run.held])
    @rule(data=st.data(), what=st.sampled_from([*TURNS, ""]))
    def take_turn(self, data, what):
        queued = [run for run in self.model.runs.values() if run.state == "queued" and not run.held]
        run = drawn(data, queued)
        self.turns[run.pk] = cast.claim(Runs.objects.get(pk=run.pk))
        run.state, run.turns = "running", run.turns + 1
        if what:
            self._act(run, what)

    @some(running)
    @rule(data=st.data(), what=st.sampled_from(TURNS))
    def go_on(self, data, what):
        self._act(drawn(data, running(self)), what)

    def _act(self, run, what):
        turn = self.turns.pop(run.pk)
        if run.recovers or run.marked:
            what = "end"
        if run.marked:
            with pytest.raises(RunEnded):
                transitions.finish(turn, state="succeeded")
            transitions.stopped(turn)
            self.model.end(run, "cancelled")
        elif what == "end":
            transitions.finish(turn, state="succeeded")
            self.model.end(run, "succeeded")
        elif what == "child":
            self._child(run, turn)
        else:
            self._stop(run, turn, SEVERAL.get(what, [what]))

    def _child(self, run, turn):
        depth, above = 1, run
        while above.parent:
            depth, above = depth + 1, above.parent
        if depth >= 5:
            self.turns[run.pk] = turn
            return
        self.keys += 1
        transitions.suspend(turn, waits=[Child(f"c{self.keys}", "deployer", "go")])
        child = Runs.objects.get(parent_id=run.pk, key=f"c{self.keys}")
        run.state, run.lapses = "waiting", 0
        if child.pk in self.model.runs:  # what it lacked was given
            self.model.runs[child.pk].unasked = False
            self.model.wake(self.model.runs[child.pk])
        else:
            self.model.runs[child.pk] = Run(child.pk, run.interactive, parent=run)

    def _stop(self, run, turn, contents):
        model, waits = self.model, {}
        for content in contents:
            self.keys += 1
            action, _, what = content.partition(" ")
            key = f"k{self.keys}"
            question = Question(key, "Which?", KEY_NAME)
            waits[key] = question if content == "question" else Ask(key, action, f'{{"what":"{what}"}}')
        decided = {key: model.asks(content) for key, content in zip(waits, contents, strict=True)}
        given = run.given if run.given and run.given.content in contents else None
        transitions.suspend(turn, waits=list(waits.values()))
        unmet = [c for c, (key, how) in zip(contents, decided.items(), strict=True) if how == "pending"]
        if given and given.content in unmet:
            unmet.remove(given.content)
        if not run.interactive and unmet:
            model.end(run, "blocked")
            return
        for content, (key, how) in zip(contents, decided.items(), strict=True):
            if given and content == given.content:
                run.given = None
                continue
            lasts = 7 * 86_400
            pk = Requests.objects.get(run_id=run.pk, key=key).pk
            model.raised(Request(pk, run, content, model.now + lasts), by_policy=how)
        if model.stopped(run):
            run.state, run.lapses = "waiting", 0
        else:
            self.turns[run.pk] = turn

    @some(lambda self: [run for run in self.model.runs.values() if run.state not in ENDED or run.pk])
    @rule(data=st.data())
    def cancel(self, data):
        run = drawn(data, self.model.runs.values())
        if run.state in ENDED or run.marked:
            with pytest.raises(RunEnded):
                self.house.cancels("Olga", run)
            return
        self.house.cancels("Olga", run)
        if run.state == "running":
            run.marked = True
        else:
            self.model.end(run, "cancelled")

    # -- people

    @some(lambda self: pending(self, "question"))
    @rule(data=st.data())
    def answer(self, data):
        request = drawn(data, pending(self, "question"))
        if self.refused("Sam", lambda: self._says("Sam", request.pk, Answer({"name": "x"}))):
            return
        self._says("Sam", request.pk, Answer({"name": "x"}))
        request.state, request.outcome = "resolved", "answered"
        self.model.wake(request.run)

    @some(lambda self: pending(self, "approval"))
    @rule(data=st.data(), who=st.sampled_from(["Ada", "Bob"]), yes=st.sampled_from([True, True, True, False]))
    def vote(self, data, who, yes):
        request = drawn(data, pending(self, "approval"))
        digest = Requests.objects.get(pk=request.pk).digest
        response = Approve(digest) if yes else Deny(digest)
        if self.refused(who, lambda: self._says(who, request.pk, response)):
            return
        if who in request.voters:
            with pytest.raises(StaleRequest):
                self._says(who, request.pk, response)
            return
        said = uuid7()
        self._says(who, request.pk, response, response_id=said)
        self._says(who, request.pk, response, response_id=said)  # a calm repeat
        self.model.vote(request, who, yes)

    @some(lambda self: [each for each in self.model.requests.values() if each.state != "pending"])
    @rule(data=st.data())
    def too_late(self, data):
        request = drawn(data, [each for each in self.model.requests.values() if each.state != "pending"])
        digest = Requests.objects.get(pk=request.pk).digest
        response = Answer({"name": "y"}) if request.content == "question" else Approve(digest)
        who = "Sam" if request.content == "question" else "Bob"
        if not self.refused(who, lambda: self._says(who, request.pk, response)):
            with pytest.raises(StaleRequest):
                self._says(who, request.pk, response)

    def _says(self, who, pk, response, **more):
        return self.house.says(who, Requests.objects.get(pk=pk), response, **more)

    @precondition(lambda self: self.model.held or any(each.state == "unused" for each in self.model.grants.values()))
    @rule()
    def hold_or_release(self):
        verb = transitions.release if self.model.held else transitions.hold
        verb(self.house.context("Olga"), environment="staging", response_id=uuid7())
        self.model.held = not self.model.held

    @some(lambda self: [each for each in self.model.grants.values() if each.state == "unused"])
    @rule(data=st.data())
    def void(self, data):
        grant = drawn(data, [each for each in self.model.grants.values() if each.state == "unused"])
        transitions.void(self.house.context("Olga"), request_id=grant.request.pk, response_id=uuid7())
        self.model.void(grant)
        self.model.wake(grant.request.run)

    # -- what must hold

    @invariant()
    def tables_say_what_the_model_says(self):
        model = getattr(self, "model", None)
        if model is None:
            return
        runs = dict(Runs.objects.values_list("pk", "state"))
        assert runs == {run.pk: run.state for run in model.runs.values()}
        found = Requests.objects.exclude(kind="wait_effect").values_list("pk", "state", "outcome")
        assert {pk: (state, outcome or "") for pk, state, outcome in found} == {
            each.pk: (each.state, each.outcome) for each in model.requests.values()
        }
        found = Grants.objects.values_list("request_id", "state")
        assert dict(found) == {pk: each.state for pk, each in model.grants.items()}
        found = Effects.objects.values_list("request_id", "state", "disputed", "recovering")
        assert {each[0]: each[1:] for each in found} == {
            pk: (each.state, each.disputed, each.recovering) for pk, each in model.effects.items()
        }
        asks = Requests.objects.filter(kind="wait_effect", state="pending").values_list("effect__request_id", flat=True)
        assert sorted(asks) == sorted(pk for pk, each in model.effects.items() if each.asked)
        assert not (wrong := invariants.cheap()), wrong

    def teardown(self):
        """Everything can be brought to its end by named people, and then all invariants hold."""
        if not hasattr(self, "model"):
            return
        if self.model.held:
            transitions.release(self.house.context("Olga"), environment="staging", response_id=uuid7())
        if not self.model.released:
            epochs.release_epoch("Root")
        self.clock.move(hours=300)
        for _ in range(4):
            transitions.sweep()
            for run in Runs.objects.exclude(state__in=ENDED):
                try:
                    self.house.cancels("Olga", run)
                except RunEnded:
                    pass
            for request in Requests.objects.filter(kind="wait_effect", state="pending"):
                self._settle(request)
        assert not Runs.objects.exclude(state__in=ENDED).exists()
        assert not Requests.objects.filter(state="pending").exists()
        wrong = invariants.cheap() + invariants.digests() + invariants.folded()
        keys = [line["key"] for line in PROVIDER]
        wrong += [] if len(keys) == sum(each.attempts for each in self.model.effects.values()) else ["I7"]
        assert not wrong, wrong

    def _settle(self, request):
        for who in ("Olga", "Stan", "Olly", "Otto"):
            try:
                return self.house.says(who, request, Finding("committed", "ref"))
            except SaysoError as refused:
                last = refused
        raise last


WORK = "select relname from pg_class where relkind in ('r', 'p') and relname like 'runtime_app_%'"


def settings_of(examples: int, *, shrink: bool):
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    return settings(
        max_examples=examples, stateful_step_count=30, deadline=None, suppress_health_check=checks, database=None,
        print_blob=True, phases=[Phase.generate, *([Phase.shrink] if shrink else [])],
    )  # fmt: skip
