"""What is given to the next run of a blocked job: an answer, or as many votes as the policy asks for (R33, R34)."""

import json

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import rule

from runtime_app import transitions
from runtime_app.errors import StaleRequest
from runtime_app.ids import uuid7
from runtime_app.models import Blocker
from runtime_app.models import Run as Runs
from tests.cast import Answer, Approve, Deny
from tests.chaos.looks import drawn, some
from tests.chaos.model import Request, Run
from tests.chaos.upheaval import Upheaval


def suppliable():
    """What a job itself lacked: what its child lacked is given to the child."""
    found = Blocker.objects.filter(supplied_at=None, denied_at=None, child=None).exclude(kind="wait_effect")
    return list(found.order_by("created_at"))


class Jobs(Upheaval):
    @some(lambda self: suppliable())
    @rule(data=st.data(), who=st.sampled_from(["Ada", "Bob"]), yes=st.sampled_from([True, True, True, False]))
    def supply(self, data, who, yes):
        blocker = suppliable()[drawn(data, range(len(suppliable())))]
        if blocker.kind == "wait_user":
            who, response = "Sam", Answer({"name": "x"})
        else:
            response = Approve(blocker.digest) if yes else Deny(blocker.digest)
        said = uuid7()

        def give():
            transitions.supply(self.house.context(who), blocker_id=blocker.pk, response=response, response_id=said)

        if blocker.pk in self.model.closed and self.model.lost.get(who) != "account":
            with pytest.raises(StaleRequest):
                give()
            return
        if self.refused(who, give):
            return
        gift = self._gift(blocker)
        if who in gift.voters:
            with pytest.raises(StaleRequest):
                give()
            return
        give()
        give()  # a calm repeat
        gift.voters = [*self.model.counted(gift), who]
        if gift.content == "question":
            self._started(blocker, gift, "answered")
        elif not yes:
            self._denied(self.model.runs[blocker.run_id])
            self._close(blocker, gift)
        elif len(gift.voters) >= self.model.approvals:
            self._started(blocker, gift, "approved")

    def _gift(self, blocker):
        """What the votes on this Blocker collect for."""
        what = self._what(blocker)
        return self.model.gifts.setdefault(blocker.pk, Request(blocker.successor_request, None, what, 0))

    def _what(self, blocker):
        if blocker.kind == "wait_user":
            return "question"
        return f"{blocker.action_name} {json.loads(blocker.parameters)['what']}"

    def _started(self, blocker, gift, outcome):
        model = self.model
        run = self._follow(model.runs[blocker.run_id])
        gift.run, gift.expires, gift.state, gift.outcome = run, model.now + 7 * 86_400, "resolved", outcome
        run.given = model.requests[gift.pk] = gift
        if outcome == "approved":
            model.grant(gift)
        model.wake(run)
        self._close(blocker, gift)

    def _close(self, blocker, gift):
        """What this one was given, or denied, no equal one of its job still lacks, from the moment it arose."""
        job = (blocker.run.agent, blocker.run.message)
        equal = [each for each in suppliable() if (each.run.agent, each.run.message) == job]
        self.model.closed |= {each.pk for each in equal if self._what(each) == gift.content}

    def _follow(self, blocked, state="waiting"):
        """The successor of this Run, under the successor of the parent that was blocked by it."""
        blocked.over, above = True, self._above(blocked)
        run = Run(Runs.objects.get(follows_id=blocked.pk).pk, False, state)
        if above:
            run.parent, run.state, run.unasked = self._follow(above, "queued"), "waiting", True
        self.model.runs[run.pk] = run
        return run

    def _denied(self, blocked):
        blocked.over = True
        if above := self._above(blocked):
            self._denied(above)

    def _above(self, blocked):
        above = blocked.parent
        return above if above and above.blocked_by is blocked and not above.over else None
