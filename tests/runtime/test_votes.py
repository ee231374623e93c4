"""Quorums as tables of scenarios: who says what, and what stands after each step (R08, R09, R17, R18)."""

from functools import partial

import pytest

from runtime_app import permissions
from runtime_app.errors import InvalidResponse, NotAuthorized, StaleRequest
from runtime_app.models import Effect, Event, Grant, Membership, Request, Response, Run
from tests.cast import Approve, Deny

PENDING, APPROVED, DENIED = "pending", "approved", "denied"
VOTED, LATE, UNABLE = "already_voted", "already_resolved", "not_authorized"

# name: (approvals, denials, [(who does what, what it comes to)])
SCENARIOS = {
    "one approval is enough by default": (1, 1, [("Ada approves", APPROVED), ("Bob denies", LATE)]),
    "one denial is enough by default": (1, 1, [("Ada denies", DENIED), ("Bob approves", LATE)]),
    "two of three": (2, 1, [("Ada approves", PENDING), ("Bob approves", APPROVED), ("Jo approves", LATE)]),
    "a denial after an approval": (2, 1, [("Ada approves", PENDING), ("Bob denies", DENIED), ("Jo approves", LATE)]),
    "an approval after a denial": (
        2, 2,
        [("Ada denies", PENDING), ("Bob approves", PENDING), ("Jo approves", APPROVED)],
    ),
    "two denials": (2, 2, [("Ada denies", PENDING), ("Bob denies", DENIED), ("Jo approves", LATE)]),
    "two denials with an approval between": (
        3, 2,
        [("Ada denies", PENDING), ("Jo approves", PENDING), ("Bob denies", DENIED)],
    ),
    "a denial with a suggestion counts as a denial": (
        2, 2,
        [("Ada suggests", PENDING), ("Ada approves", VOTED), ("Bob denies", DENIED)],
    ),
    "one person is one vote": (
        2, 2,
        [("Ada approves", PENDING), ("Ada approves", VOTED), ("Ada denies", VOTED), ("Bob approves", APPROVED)],
    ),
    "a vote whose author lost the role is spent": (
        2, 1,
        [("Ada approves", PENDING), ("Ada leaves", None), ("Bob approves", PENDING), ("Jo approves", APPROVED)],
    ),
    "a denial whose author lost the role is spent": (
        1, 2,
        [("Ada denies", PENDING), ("Ada leaves", None), ("Bob denies", PENDING), ("Jo denies", DENIED)],
    ),
    "spent is for good, and its author votes anew": (
        2, 1,
        [
            ("Ada approves", PENDING), ("Ada leaves", None), ("Bob approves", PENDING), ("Ada returns", None),
            ("Ada approves", APPROVED),
        ],
    ),
    "who left and returned before anybody counted has not lost the vote": (
        2, 1,
        [
            ("Ada approves", PENDING), ("Ada leaves", None), ("Ada returns", None), ("Ada approves", VOTED),
            ("Bob approves", APPROVED),
        ],
    ),
    "a spent vote does not return by itself": (
        3, 1,
        [
            ("Ada approves", PENDING), ("Ada leaves", None), ("Bob approves", PENDING), ("Ada returns", None),
            ("Jo approves", PENDING), ("Ada approves", APPROVED),
        ],
    ),
    "who may not vote does not spend votes": (
        2, 1,
        [("Ada approves", PENDING), ("Rita approves", UNABLE), ("Sam denies", UNABLE), ("Bob approves", APPROVED)],
    ),
    "an owner's vote never counts": (2, 1, [("Omar approves", UNABLE), ("Ada approves", PENDING)]),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_votes(northgate, name):
    """R08, R09, R17, R18, T22, I5."""
    approvals, denials, script = SCENARIOS[name]
    northgate.policy(approvals=approvals, denials=denials)
    request = northgate.approval()
    for line, comes_to in script:
        assert step(northgate, request, *line.split()) == comes_to, line
    outcome = Request.objects.get(pk=request.pk).outcome
    assert Grant.objects.count() == Effect.objects.count() == (outcome == APPROVED)
    assert Run.objects.get().state == ("queued" if outcome == DENIED else "waiting")


def step(house, request, who, deed) -> str | None:
    membership = Membership.objects.filter(tenant=house.tenant, user=house.people[who])
    act = {
        "approves": partial(house.approves, who, request),
        "denies": partial(house.says, who, request, Deny(request.digest)),
        "suggests": partial(house.says, who, request, Deny(request.digest, '{"version":"0.8.9"}')),
        "leaves": partial(house.take, who, "approver"),
        "returns": lambda: house.give(membership.get(), "approver"),
    }[deed]
    try:
        said = act()
    except StaleRequest as late:
        return late.reason
    except NotAuthorized as refused:
        return refused.code
    return said and (said.recorded["outcome"] or said.recorded["state"])


def test_a_spent_vote_stays_visible(northgate):
    """R18: marked, not removed; an Event says whose it was."""
    northgate.policy(approvals=2)
    request = northgate.approval()
    northgate.approves("Ada", request)
    northgate.take("Ada", "approver")
    northgate.approves("Bob", request)
    spent = Response.objects.exclude(spent_at=None).get()
    assert (spent.name, spent.kind) == ("Ada", "approve")
    assert Event.objects.get(kind="request.vote_spent").data["of"] == "Ada"


def test_a_vote_of_somebody_deactivated_is_spent(northgate):
    """R06, R18."""
    northgate.policy(approvals=2)
    request = northgate.approval()
    northgate.approves("Ada", request)
    ada = northgate.people["Ada"]
    ada.is_active = False
    ada.save()
    assert northgate.approves("Bob", request).recorded["state"] == "pending"


def test_a_refused_vote_spends_nobodys(northgate):
    """R13, R18: the recount of a vote that is refused is rolled back with it."""
    northgate.policy(approvals=3, reason_required=True)
    request = northgate.approval()
    northgate.approves("Ada", request, message="because")
    northgate.take("Ada", "approver")
    with pytest.raises(InvalidResponse):
        northgate.approves("Bob", request)
    assert not Response.objects.exclude(spent_at=None).exists()


def test_the_policy_of_the_request_counts_and_not_a_later_one(northgate):
    """R17, T23: a snapshot is stored in the Request; loosening the policy passes nothing."""
    rule = northgate.policy(approvals=2)
    request = northgate.approval()
    rule.approvals, rule.role = 1, "operator"
    rule.save()
    assert northgate.approves("Ada", request).recorded["state"] == "pending"
    with pytest.raises(NotAuthorized):
        northgate.approves("Olga", request)
    assert not Grant.objects.exists()


def test_a_reason_and_a_typed_name_are_asked_for_where_the_policy_says_so(northgate):
    """R17: the approval alone types the environment's name; both give a reason."""
    northgate.policy(reason_required=True, typed_environment=True)
    request = northgate.approval(environment="production")
    digest = request.digest
    for response, message, field in (
        (Approve(digest, confirm="production"), " ", "message"),
        (Deny(digest), "", "message"),
        (Approve(digest), "because", "confirm"),
        (Approve(digest, confirm="staging"), "because", "confirm"),
    ):
        with pytest.raises(InvalidResponse) as refused:
            northgate.says("Ada", request, response, message=message)
        assert set(refused.value.facts["fields"]) == {field}
    northgate.says("Ada", request, Approve(digest, confirm="production"), message="because")


def test_a_fresh_sign_in_that_cannot_be_proved_is_not_waved_through(northgate):
    """R17."""
    northgate.policy(fresh_sign_in=True)
    with pytest.raises(NotAuthorized, match="fresh sign-in"):
        northgate.approves("Ada", northgate.approval())


@pytest.mark.parametrize("role, able", [("approver", "Ada"), ("operator", "Olga"), ("admin", "Ann")])
def test_the_policy_names_the_role_that_decides(northgate, role, able):
    """R17. Olga started the Run, so another operator is needed."""
    northgate.policy(role=role)
    northgate.join("Oz", "operator")
    request = northgate.approval()
    able = "Oz" if able == "Olga" else able
    for who in {"Ada", "Oz", "Ann"} - {able}:
        with pytest.raises(NotAuthorized):
            northgate.approves(who, request)
    assert able in permissions.who_could(request)
    northgate.approves(able, request)
