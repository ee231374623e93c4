"""The rules of reality: what is sent, what comes back, what people and probes find."""

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from runtime_app import permissions, transitions
from runtime_app.actions import Committed, NotCommitted, Working
from runtime_app.errors import InvalidResponse, NotAuthorized, NotFound, StaleRequest
from runtime_app.ids import uuid7
from runtime_app.models import Effect as Effects
from runtime_app.models import Grant as Grants
from runtime_app.models import Request as Requests
from runtime_app.models import Run as Runs
from runtime_app.permissions import Actor
from tests import cast
from tests.cast import WORKER, Finding, Recover
from tests.chaos.freight import PROVIDER
from tests.chaos.looks import asked, drawn, running, settled, some
from tests.chaos.model import Request, Run


class Reality(RuleBasedStateMachine):
    def refused(self, who, say) -> bool:
        """Whether this person may not act any more: what they say is then refused, and changes nothing (R06)."""
        lost = self.model.lost.get(who)
        if lost:
            with pytest.raises(NotFound if lost == "account" else NotAuthorized):
                say()
        return bool(lost)

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
        if self.refused(who, lambda: self.house.says(who, request, Finding(finding, "ref"))):
            return
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

        if self.refused(who, add):
            return
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
