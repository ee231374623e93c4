"""Before anything is sent, everything is checked again (R14, R16, R22): what drifted is not sent, and is asked anew."""

import json
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime_app import canonical, transitions
from runtime_app.errors import DigestMismatch
from runtime_app.models import Attempt, Blocker, Effect, Environment, Event, Grant, Instance, Membership, Request, Run
from tests.cast import Deploy, Finding, claim, deployment, intend, send


@pytest.fixture
def forge(owner):
    """`forge(row, column=value)`: what only the owner of the tables can do, past every trigger."""

    def forge(row, **columns):
        table = row._meta.db_table
        with owner.transaction():
            owner.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
            for column, value in columns.items():
                owner.execute(f"UPDATE {table} SET {column} = %s WHERE id = %s", [value, row.pk])
            owner.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")

    return forge


def nothing_was_sent(effect, why=None):
    assert intend() is None
    effect.refresh_from_db()
    assert (effect.state, Deploy.sent) == ("withdrawn", [])
    assert not Attempt.objects.exists()
    made = Grant.objects.get(request_id=effect.request_id)
    assert made.state == "void" and (why is None or why in made.void_why)
    return Request.objects.filter(replaces_id=effect.request_id).first()


def test_what_was_approved_is_what_is_sent(northgate):
    """R16, R22, I9: the very bytes; the intent is written with its number, its deadline and its time to send."""
    effect = northgate.granted(version="0.8.8", environment="production")
    dispatch = intend()
    attempt, effect = Attempt.objects.get(), Effect.objects.get(pk=effect.pk)
    assert (attempt.number, attempt.grant_id) == (1, Grant.objects.get().pk)
    assert attempt.send_by - attempt.intent_at == Deploy.send_within
    assert effect.deadline_at - effect.intent_at == Deploy.deadline
    bound = Request.objects.get(pk=effect.request_id)
    assert json.loads(bound.parameters) == dispatch.parameters.model_dump()
    send(dispatch)
    assert Deploy.sent == [(str(bound.pk), "0.8.8", "production")]


def test_a_digest_that_is_not_the_requests_own_is_refused(northgate):
    """R14: of an earlier Request with the very same Action, too; every Request has its own."""
    first = northgate.approval()
    northgate.cancels("Olga", Run.objects.get())
    second = northgate.approval()
    assert first.action_hash == second.action_hash and first.digest != second.digest
    with pytest.raises(DigestMismatch) as refused:
        northgate.approves("Ada", second.__class__(pk=second.pk, session_id=second.session_id, digest=first.digest))
    assert refused.value.facts["digest"] == second.digest


def flipped(bound: bytes):
    """The stored bytes with one thing changed, each in turn: every field of the header and every parameter."""
    header, _, parameters = bound.partition(b"\n")
    head, body = json.loads(header), json.loads(parameters)
    for name in head:
        yield f"header {name}", canonical.dump(head | {name: "other"}) + b"\n" + parameters
    for part in head["environment"]:
        changed = head | {"environment": head["environment"] | {part: "other"}}
        yield f"environment {part}", canonical.dump(changed) + b"\n" + parameters
    for name, value in body.items():
        other = value + 1 if isinstance(value, int) else value + "!"
        yield name, header + b"\n" + canonical.dump(body | {name: other})
        yield f"no {name}", header + b"\n" + canonical.dump({k: v for k, v in body.items() if k != name})
    yield "one more", header + b"\n" + canonical.dump(body | {"force": True})
    yield "a space", header + b"\n" + parameters.replace(b":", b": ", 1)
    yield "not JSON", bound[:-1]
    yield "nothing", b""


def test_no_changed_byte_is_ever_sent(northgate, forge):
    """R14, R16, T25: each field of what was approved, changed by the owner of the tables after the approval."""
    bound = bytes(northgate.approval().action_bytes)
    northgate.cancels("Olga", Run.objects.get())
    for what, changed in flipped(bound):
        effect = northgate.granted()
        header, _, parameters = bytes(Request.objects.get(pk=effect.request_id).action_bytes).partition(b"\n")
        forge(Request.objects.get(pk=effect.request_id), action_bytes=changed)
        assert intend() is None, what
        effect.refresh_from_db()
        assert (effect.state, Deploy.sent) == ("withdrawn", []), what
        northgate.cancels("Olga", Run.objects.get(pk=effect.run_id))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 400), bit=st.integers(0, 7))
def test_no_flipped_bit_is_ever_sent(northgate, forge, place, bit):
    """T25, as a property."""
    effect = northgate.granted()
    request = Request.objects.get(pk=effect.request_id)
    changed = bytearray(request.action_bytes)
    changed[place % len(changed)] ^= 1 << bit
    forge(request, action_bytes=bytes(changed))
    assert intend() is None and Deploy.sent == []
    northgate.cancels("Olga", Run.objects.get(pk=effect.run_id))


@pytest.mark.parametrize(
    "model, column, value",
    [
        (Request, "digest", "0" * 64),
        (Grant, "digest", "0" * 64),
        (Effect, "environment_id", "production"),
        (Effect, "action_version", None),
        (Run, "instance_id", "another"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_columns_beside_the_bound_bytes_are_not_believed(northgate, forge, model, column, value):
    """R14: what is sent, to where and as whom is what the digest says, whatever a column says."""
    effect = northgate.granted()
    row = {Request: Request, Grant: Grant, Effect: Effect, Run: Run}[model].objects.get()
    if value == "production":
        value = northgate.production.pk
    if value == "another":
        value = Instance.objects.get(tenant=northgate.tenant, environment=northgate.production).pk
    if value is None:
        forge(row, action_version="2")
        assert intend() is None, "no process has the code of that version"
        return
    forge(row, **{column: value})
    assert intend() is None
    effect.refresh_from_db()
    assert (effect.state, Deploy.sent) == ("withdrawn", [])


# ---------------------------------------------------------------- drift


def approver_leaves(house, clock):
    house.take("Ada", "approver")
    return "too few"


def approver_is_deactivated(house, clock):
    get_user_model().objects.filter(username="ada").update(is_active=False)
    return "too few"


def approver_owns_the_agent_now(house, clock):
    Instance.objects.filter(tenant=house.tenant).update(owner=house.people["Ada"])
    return "too few"


def approval_expires(house, clock):
    clock.move(hours=1, seconds=1)
    return "expired"


def more_approvals_are_needed(house, clock):
    house.policy(approvals=2)
    return "too few"


def another_role_is_needed(house, clock):
    house.policy(role="admin")
    return "too few"


def environment_is_renamed(house, clock):
    Environment.objects.filter(pk=house.staging.pk).update(name="staging-old")
    return "renamed"


DRIFTS = [
    approver_leaves, approver_is_deactivated, approver_owns_the_agent_now, approval_expires, more_approvals_are_needed,
    another_role_is_needed, environment_is_renamed,
]  # fmt: skip


@pytest.mark.parametrize("drift", DRIFTS, ids=lambda drift: drift.__name__)
def test_what_drifted_is_not_sent_and_is_asked_anew(northgate, clock, drift):
    """R04, R16, T23, T24: void, withdrawn, and a new Request under the same key, the next number, linked."""
    effect = northgate.granted()
    why = drift(northgate, clock)
    anew = nothing_was_sent(effect, why)
    old = Request.objects.get(pk=effect.request_id)
    assert (old.state, old.outcome) == ("resolved", "approved"), "a resolved one stays resolved"
    assert (anew.state, anew.key, anew.number, anew.action_hash) == ("pending", old.key, 2, old.action_hash)
    assert why in anew.described["because"]
    assert anew.digest != old.digest
    assert Run.objects.get().state == "waiting"
    assert set(Event.objects.values_list("kind", flat=True)) >= {"grant.void", "effect.withdrawn"}


def test_what_was_asked_anew_can_be_granted_and_is_sent_once(northgate, clock):
    """R16, R22: a Request raised after drift has an Effect and a key of its own."""
    effect = northgate.granted()
    clock.move(hours=2)
    anew = nothing_was_sent(effect)
    northgate.approves("Ada", anew)
    send(intend())
    assert [key for key, _, _ in Deploy.sent] == [str(anew.pk)]
    assert Run.objects.get().state == "queued"


def test_a_policy_that_denies_now_tells_the_agent_so(northgate):
    """R16, R17."""
    effect = northgate.granted()
    northgate.policy(verdict="deny")
    anew = nothing_was_sent(effect, "denies")
    assert (anew.state, anew.outcome) == ("resolved", "denied")
    assert Run.objects.get().state == "queued"


def test_a_policy_that_allows_now_does_not_undo_an_approval(northgate):
    """R16: what was asked for more strictly than needed is sent."""
    northgate.granted()
    northgate.policy(verdict="allow")
    send(intend())
    assert len(Deploy.sent) == 1


def test_a_loosened_policy_sends_what_was_approved(northgate):
    """R16: the votes recorded suffice for it."""
    northgate.policy(approvals=2)
    request = northgate.approval()
    northgate.approves("Ada", request)
    northgate.approves("Bob", request)
    northgate.policy(environment=northgate.staging, approvals=1)
    northgate.take("Ada", "approver")
    assert intend()


def test_one_lapsed_vote_of_a_quorum_is_too_few(northgate):
    """R16: of two approvers one has left."""
    northgate.policy(approvals=2)
    request = northgate.approval()
    northgate.approves("Ada", request)
    northgate.approves("Bob", request)
    northgate.take("Bob", "approver")
    nothing_was_sent(Effect.objects.get(), "too few")


@pytest.mark.parametrize("verdict, ends", [("ask", "blocked"), ("deny", "queued")])
def test_drift_with_nobody_on_the_line(northgate, verdict, ends):
    """R16, R33: allowed by a policy that asks now: the Run ends `blocked`, with the exact action."""
    rule = northgate.policy(verdict="allow")
    turn = claim(northgate.start(interactive=False))
    assert transitions.suspend(turn, waits=[deployment()]) is None
    rule.verdict = verdict
    rule.save()
    assert intend() is None
    assert Run.objects.get().state == ends
    assert Effect.objects.get().state == "withdrawn" and Grant.objects.get().state == "void"
    assert not Request.objects.filter(state="pending").exists()
    if ends == "blocked":
        blocker = Blocker.objects.get()
        assert (blocker.kind, blocker.action_name) == ("wait_approval", "deploy")
        assert blocker.parameters == Request.objects.get().parameters and blocker.unblocks


def test_a_held_environment_sends_nothing_and_voids_nothing(northgate, owner):
    """R16: until its release."""
    effect = northgate.granted()
    held = "UPDATE runtime_app_environment SET held_at = %s WHERE id = %s"
    owner.execute(held, ["2026-11-29 12:00Z", northgate.staging.pk])
    assert intend() is None
    assert Grant.objects.get().state == "unused"
    owner.execute(held, [None, northgate.staging.pk])
    assert intend().effect_id == effect.pk


def test_an_ended_run_dispatches_nothing(northgate):
    """R16, R30."""
    effect = northgate.granted()
    northgate.cancels("Olga", Run.objects.get())
    assert intend() is None
    effect.refresh_from_db()
    assert (effect.state, Grant.objects.get().state) == ("withdrawn", "void")


def test_an_action_this_process_has_no_code_for_is_left_to_one_that_has(northgate, monkeypatch):
    """R22: another version waits, and nothing is voided."""
    northgate.granted()
    monkeypatch.setattr(Deploy, "version", "2")
    assert intend() is None
    assert Effect.objects.get().state == "prepared"
    monkeypatch.undo()
    assert intend()


def test_parameters_the_action_no_longer_takes_are_void_and_the_agent_is_told(northgate, forge):
    """R16: nobody can be asked for what cannot be bound; nothing is sent and the Run goes on."""
    effect = northgate.granted()
    forge(Request.objects.get(), action_bytes=b'{"action":"deploy"}\n{"gone":1}')
    assert intend() is None
    effect.refresh_from_db()
    assert effect.state == "withdrawn"
    assert Request.objects.count() == 1 and Run.objects.get().state == "queued"


# ---------------------------------------------------------------- equal Actions (R24)


def test_an_allow_does_not_send_what_may_have_happened_already(northgate):
    """R24: an equal Action is uncertain, so it asks, and that Effect heads its card."""
    doubtful = northgate.unknown()
    northgate.policy(verdict="allow")
    equal = northgate.approval()
    assert (equal.state, equal.policy["because_of"]) == ("pending", str(doubtful.effect_id))
    other = northgate.approval(version="0.8.9")
    assert other.outcome == "approved"
    northgate.says("Olga", doubtful, Finding("committed", "build 7"))
    assert northgate.approval(by="Olga").outcome == "approved"


def test_what_a_policy_allowed_is_not_sent_once_an_equal_action_is_in_doubt(northgate):
    """R24: both were allowed before either was sent."""
    northgate.policy(verdict="allow")
    first, second = northgate.approval(), northgate.approval()
    transitions.record(intend(), TimeoutError())
    assert intend() is None
    second_effect = Effect.objects.get(request=second)
    assert (second_effect.state, Effect.objects.get(request=first).state) == ("withdrawn", "uncertain")
    anew = Request.objects.get(replaces=second)
    assert (anew.state, anew.policy["because_of"]) == ("pending", str(Effect.objects.get(request=first).pk))
    northgate.approves("Ada", anew)
    assert intend().effect_id == Effect.objects.get(request=anew).pk, "a person, who saw it, may"


def test_after_acceptance_an_equal_action_goes(northgate):
    """R24."""
    from tests.cast import Recover

    doubtful = northgate.unknown()
    northgate.policy(verdict="allow")
    northgate.says("Olga", doubtful, Recover("accept"), message="we looked")
    assert northgate.approval().outcome == "approved"


def test_another_tenants_doubt_is_not_ours(northgate, harbour):
    """R07, R24."""
    northgate.unknown()
    harbour.policy(verdict="allow")
    assert harbour.approval(by="Mallory").outcome == "approved"


def test_a_grant_lasts_as_long_as_its_policy_says(northgate, clock):
    """R16, R17."""
    northgate.policy(grant_for=timedelta(minutes=5))
    northgate.granted()
    made = Grant.objects.get()
    assert abs(made.expires_at - made.made_at - timedelta(minutes=5)) < timedelta(seconds=1)
    assert Membership.objects.exists()
