"""What becomes of the people and of the installation meanwhile: a role is withdrawn, an account is deactivated and
given back, the data turns out to be older than what was sent, and a person releases it."""

import hypothesis.strategies as st
from django.contrib.auth import get_user_model
from hypothesis.stateful import precondition, rule

from runtime_app.ids import uuid7
from runtime_app.models import Membership
from runtime_app.transitions import epochs
from tests.chaos.looks import drawn, some
from tests.chaos.reality import Reality

# who may lose it. Olga and Otto stay, so that there is always somebody.
PEOPLE = {"Ada": "approver", "Bob": "approver", "Sam": "responder", "Stan": "operator@staging", "Olly": "operator"}


class Upheaval(Reality):
    spoilt: set = set()  # whoever lost something in any story

    @rule(who=st.sampled_from(sorted(PEOPLE)), what=st.sampled_from(["role", "account"]))
    def lose(self, who, what):
        if who in self.model.lost:
            return
        if what == "account":
            get_user_model().objects.filter(pk=self.house.people[who].pk).update(is_active=False)
        else:
            self.house.take(who, PEOPLE[who].partition("@")[0])
        self.model.lost[who] = what
        self.spoilt.add(who)

    @some(lambda self: self.model.lost)
    @rule(data=st.data())
    def regain(self, data):
        who = drawn(data, self.model.lost)
        self.give_back(who)
        del self.model.lost[who]

    def give_back(self, who):
        """As it was before anybody lost anything."""
        account = self.house.people[who]
        get_user_model().objects.filter(pk=account.pk).update(is_active=True)
        self.house.take(who, PEOPLE[who].partition("@")[0])
        self.house.give(Membership.objects.get(tenant=self.house.tenant, user=account), PEOPLE[who])

    @precondition(lambda self: self.model.runs and self.model.epoch < 3)
    @rule()
    def restore(self):
        """Five intents more were sent than this database knows of."""
        epochs.mark(epochs._facts()[3] + 5, uuid7())
        epochs.watch()
        self.model.begin_epoch()

    @precondition(lambda self: not self.model.released)
    @rule()
    def release_epoch(self):
        epochs.release_epoch("Root")
        self.model.release_epoch()
