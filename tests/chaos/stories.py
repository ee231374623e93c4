"""Random stories against the plain model: people, agents, workers and the provider act in any order; after every step
the tables say what the model says, and the cheap invariants hold; at the end people settle what is left, and all do."""

import json
from datetime import timedelta

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pydantic import BaseModel

from runtime_app import permissions, transitions
from runtime_app.actions import Action, Committed, NotCommitted, Working, register
from runtime_app.errors import InvalidResponse, NotAuthorized, RunEnded, SaysoError, StaleRequest
from runtime_app.ids import uuid7
from runtime_app.models import Blocker
from runtime_app.models import Effect as Effects
from runtime_app.models import Grant as Grants
from runtime_app.models import Request as Requests
from runtime_app.models import Run as Runs
from runtime_app.permissions import Actor
from runtime_app.transitions import Ask, Child, Question, epochs
from tests import cast
from tests.cast import KEY_NAME, WORKER, Answer, Approve, Deny, Finding, Recover
from tests.chaos import invariants
from tests.chaos.model import ENDED, Model, Request, Run
from tests.database import SPARED

KEPT = SPARED | {"runtime_app_tenant", "runtime_app_environment", "runtime_app_instance", "runtime_app_membership"}
KEPT |= {"runtime_app_role", "auth_user", "runtime_app_worker"}
TURNS = ["question", "haul a", "haul b", "toss a", "both", "child", "end", "end"]
PROVIDER: list[dict] = []  # what it wrote down


class Carry(Action):
    deadline, send_within = timedelta(seconds=60), timedelta(seconds=30)

    class Parameters(BaseModel):
        what: str

    def dispatch(self, key, parameters, environment):
        raise NotImplementedError  # the story plays the provider

    def probe(self, key, parameters, environment):
        found = any(line["key"] == key and line["what"] == "committed" for line in PROVIDER)
        return Committed("found") if found else NotCommitted(statement="no such key")


@register
class Haul(Carry):
    name, title = "haul", "Haul"
    idempotent = redispatch = True
    compensation = "unhaul"


@register
class Unhaul(Carry):
    name, title = "unhaul", "Haul it back"


@register
class Toss(Carry):
    name, title = "toss", "Toss"
    probe = None


def some(look):
    """A rule that needs something to act on: `look(machine)` lists it, `drawn(data, ...)` picks one."""
    return precondition(lambda self: bool(look(self)))


def drawn(data, things):
    return data.draw(st.sampled_from(list(things)))


def running(self):
    return [run for run in self.model.runs.values() if run.state == "running" and run.pk in self.turns]


def pending(self, what=None):
    found = [each for each in self.model.requests.values() if each.state == "pending"]
    return [each for each in found if what is None or (each.content == "question") == (what == "question")]


def asked(self):
    return [each for each in self.model.effects.values() if each.asked]


def settled(self):
    return [each for each in self.model.effects.values() if each.state in ("committed", "not_committed")]


class Stories(RuleBasedStateMachine):
    house: cast.House
    owner: object
    clock: object

    def __init__(self):
        super().__init__()
        PROVIDER.clear()
        self.clock.reset()
        with self.owner.transaction():
            self.owner.execute("set local session_replication_role = replica")
            for (table,) in self.owner.execute(WORK).fetchall():
                if table not in KEPT:
                    self.owner.execute(f'delete from "{table}"')
            self.owner.execute("delete from runtime_app_epoch where number > 1")
            self.owner.execute("update runtime_app_environment set held_at = null, session_id = null")
        epochs._tell_mark(epochs._remember(epochs.Epoch.objects.get(number=1)))
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
    @rule(
        data=st.data(), what=st.sampled_from(["question", "haul a", "haul b", "toss a", "both", "child", "end", "end"])
    )
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
            self._stop(run, turn, ["haul a", "question"] if what == "both" else [what])

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
        self.model.runs[child.pk] = Run(child.pk, run.interactive, parent=run)
        run.state, run.lapses = "waiting", 0

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
        self._says("Sam", request.pk, Answer({"name": "x"}))
        request.state, request.outcome = "resolved", "answered"
        self.model.wake(request.run)

    @some(lambda self: pending(self, "approval"))
    @rule(data=st.data(), who=st.sampled_from(["Ada", "Bob"]), yes=st.sampled_from([True, True, True, False]))
    def vote(self, data, who, yes):
        request = drawn(data, pending(self, "approval"))
        digest = Requests.objects.get(pk=request.pk).digest
        response = Approve(digest) if yes else Deny(digest)
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
        with pytest.raises(StaleRequest):
            self._says("Sam" if request.content == "question" else "Bob", request.pk, response)

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

    @some(lambda self: Blocker.objects.filter(supplied_at=None, child=None).exclude(kind="wait_effect").exists())
    @rule()
    def supply(self):
        blockers = Blocker.objects.filter(supplied_at=None, child=None).exclude(kind="wait_effect")
        blocker = blockers.order_by("created_at").first()
        question = blocker.kind == "wait_user"
        response, who = (Answer({"name": "x"}), "Sam") if question else (Approve(blocker.digest), "Ada")
        said = uuid7()
        for _ in range(2):
            transitions.supply(self.house.context(who), blocker_id=blocker.pk, response=response, response_id=said)
        run = Run(blocker.successor_run, False, "waiting")
        self.model.runs[run.pk] = run
        what = "question" if question else f"{blocker.action_name} {json.loads(blocker.parameters)['what']}"
        run.given = Request(blocker.successor_request, run, what, self.model.now + 7 * 86_400)
        self.model.requests[run.given.pk] = run.given
        if question:
            run.given.state, run.given.outcome = "resolved", "answered"
            self.model.wake(run)
        else:
            self.model.vote(run.given, "Ada", True)

    # -- reality

    @precondition(lambda self: any(each.state == "unused" for each in self.model.grants.values()))
    @rule(done=st.booleans())
    def dispatch(self, done):
        model = self.model
        before = [each for each in model.dispatchable() if model.drifted(each)]
        dispatch = cast.intend()
        for grant in before:
            if Grants.objects.get(request_id=grant.request.pk).state == "void":
                self._drift(grant)
        if dispatch is None:
            assert not model.dispatchable(), "a Grant was passed over"
            return
        grant = next(each for each in model.dispatchable() if str(each.effect.request.pk) == dispatch.key)
        assert not model.drifted(grant)
        model.intend(grant)
        PROVIDER.append({"key": dispatch.key, "what": "committed" if done else "down", "order": None})
        self.sent.append((dispatch, grant.effect, done, grant.effect.attempts))

    def _drift(self, grant):
        model, old = self.model, grant.request
        model.void(grant)
        if not old.again or grant.effect.state == "uncertain":
            how = model.asks(old.content, besides=old.again)
            if old.run.interactive or how != "pending":
                pk = Requests.objects.get(replaces_id=old.pk).pk
                fresh = Request(pk, old.run, old.content, model.now + 7 * 86_400, again=old.again)
                model.raised(fresh, by_policy=how)
            else:
                model.end(old.run, "blocked")
        model.wake(old.run)

    @some(lambda self: self.sent)
    @rule(data=st.data(), says=st.sampled_from(["truth", "truth", "lost", "working"]), forget=st.booleans())
    def reply(self, data, says, forget):
        """What came of a call; sometimes it comes again, or after everything else."""
        dispatch, effect, done, attempt = drawn(data, self.sent)
        if forget:
            self.sent.remove((dispatch, effect, done, attempt))
        truth = Committed("r") if done else NotCommitted(statement="no")
        reply = {"truth": truth, "lost": TimeoutError(), "working": Working()}[says]
        transitions.record(dispatch, reply)
        finding = {"truth": truth.finding, "lost": "unknown", "working": "working"}[says]
        self.model.conclude(effect, finding, "observed", newest=attempt == effect.attempts)
        self.model.known(effect)

    @precondition(lambda self: self.model.requests or running(self))
    @rule(hours=st.sampled_from([1 / 30, 1 / 30, 2, 200]))
    def time_passes(self, hours):
        self.clock.move(hours=hours)
        self.model.now += hours * 3600
        for _ in range(3):
            transitions.sweep()
        self.model.sweep()

    @some(asked)
    @rule(data=st.data(), who=st.sampled_from(["Olga", "Stan", "Olly"]),
          finding=st.sampled_from(["committed", "not_committed", "unknown"]))  # fmt: skip
    def find(self, data, who, finding):
        effect = drawn(data, asked(self))
        request = Requests.objects.get(effect__request_id=effect.request.pk, kind="wait_effect", state="pending")
        early = finding == "not_committed" and effect.send_by > self.model.now
        party = effect.disputed and who in effect.attested_by
        if early or party:
            with pytest.raises(InvalidResponse if early else NotAuthorized):
                self.house.says(who, request, Finding(finding, "ref"))
            return
        self.house.says(who, request, Finding(finding, "ref"))
        self.model.conclude(effect, finding, "attested", by=who)

    @some(asked)
    @rule(data=st.data(), name=st.sampled_from(["accept", "probe", "redispatch", "compensate"]))
    def recover(self, data, name):
        model, effect = self.model, drawn(data, asked(self))
        row = Effects.objects.get(request_id=effect.request.pk)
        request = Requests.objects.get(effect_id=row.pk, kind="wait_effect", state="pending")
        offered = request.accepts["recover"]
        if effect.recovering:
            refused = StaleRequest
        elif name not in offered or name in ("accept", "redispatch") and effect.state != "uncertain":
            refused = InvalidResponse
        elif name == "compensate" and self._compensated(effect):
            refused = StaleRequest
        else:
            refused = None
        if refused:
            with pytest.raises(refused):
                self.house.says("Olga", request, Recover(name))
            return
        self.house.says("Olga", request, Recover(name))
        if name == "accept":
            effect.accepted, effect.asked = True, False
            model.wake(effect.run)
        elif name == "probe":
            effect.recovering = "probe"
        else:
            self._recovery(effect, row, name)

    def _compensated(self, effect):
        return any(
            each.compensates is effect and each.state not in ("withdrawn", "not_committed")
            for each in self.model.effects.values()
        )

    def _recovery(self, effect, row, name):
        model = self.model
        effect.recovering = name
        found = Runs.objects.filter(recovers_id=row.pk).order_by("-created_at").first()
        run = Run(found.pk, True, "waiting", recovers=effect, recovery=name)
        model.runs[run.pk] = run
        content = effect.content if name == "redispatch" else f"unhaul {effect.content.partition(' ')[2]}"
        again = effect if name == "redispatch" else None
        how = model.asks(content, besides=again)
        pk = Requests.objects.get(run_id=run.pk, key=name).pk
        request = Request(pk, run, content, model.now + 7 * 86_400, again=again)
        model.raised(request, by_policy=how)
        model.wake(run)

    @some(settled)
    @rule(data=st.data())
    def compensate(self, data):
        effect = drawn(data, settled(self))
        row = Effects.objects.get(request_id=effect.request.pk)
        may = effect.state == "committed" and effect.content.startswith("haul") and not effect.compensates
        if not may or effect.recovering or self._compensated(effect):
            with pytest.raises(InvalidResponse if not may else StaleRequest):
                transitions.compensate(self.house.context("Olga"), effect_id=row.pk, response_id=uuid7())
            return
        transitions.compensate(self.house.context("Olga"), effect_id=row.pk, response_id=uuid7())
        self._recovery(effect, row, "compensate")

    @some(lambda self: [each for each in self.model.effects.values() if each.asked or each.state == "uncertain"])
    @rule()
    def probes(self):
        """Whatever is due is asked."""
        for _ in range(3):
            recovery = transitions.recovering(WORKER)
            if recovery is None:
                return
            effect = next(each for pk, each in self.model.effects.items() if str(pk) == recovery.key)
            found = recovery.action.probe(recovery.key, recovery.parameters, "staging")
            transitions.recovered(recovery, found)
            finding = found.finding
            if finding == "not_committed" and effect.send_by > self.model.now:
                finding = "unknown"
            if effect.recovering == "probe":
                effect.recovering = ""
            self.model.conclude(effect, finding, "observed")

    @some(settled)
    @rule(
        data=st.data(), who=st.sampled_from(["Olga", "Stan"]), finding=st.sampled_from(["committed", "not_committed"])
    )
    def late_evidence(self, data, who, finding):
        effect = drawn(data, settled(self))
        row = Effects.objects.get(request_id=effect.request.pk)

        def add():
            transitions.add_evidence(
                self.house.context(who), effect_id=row.pk, finding=finding, reference="ref", response_id=uuid7()
            )

        if effect.disputed:
            with pytest.raises(InvalidResponse):
                add()
            return
        add()
        self.model.conclude(effect, finding, "attested", by=who)

    @some(lambda self: [each for each in self.model.effects.values() if each.attempts])
    @rule(data=st.data(), truth=st.booleans())
    def callback(self, data, truth):
        effect = drawn(data, [each for each in self.model.effects.values() if each.attempts])
        provider = permissions.Context(self.house.tenant.pk, Actor("system", "provider", "carrier"))
        self.keys += 1
        reply = Committed("r") if truth else NotCommitted("r")
        for _ in range(2):
            transitions.provider_says(
                provider, action=effect.content.partition(" ")[0], key=str(effect.request.pk),
                message_id=f"m{self.keys}", reply=reply,
            )  # fmt: skip
        self.model.conclude(effect, reply.finding, "observed")
        self.model.known(effect)

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
