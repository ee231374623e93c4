"""R12: a secret answer is sealed, referred to, opened by the Run that asked, and destroyed when it was used."""

import pytest

from runtime_app import questions, transitions
from runtime_app.errors import IdempotencyConflict, InvalidInput, InvalidResponse, NotAuthorized, NotFound, NotSignedIn
from runtime_app.ids import uuid7
from runtime_app.models import Blocker, Credential, Event, Now, Request, Response, Run, Secret
from runtime_app.selectors import secrets
from runtime_app.transitions import Question
from tests.cast import Answer, claim, elsewhere
from tests.database import everything

pytestmark = pytest.mark.django_db(transaction=True)
MARKER = "hunter2-Æ-correct-horse"
FORM = questions.check(
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "token": {"type": "string", "format": "password"}},
        "required": ["name", "token"],
    }
)
ANSWER = Answer({"name": "ci", "token": MARKER})
WANTED = Question("q", "Which token?", FORM)


@pytest.fixture
def asked(mailer):
    return mailer.asks(mailer.begins(), WANTED)


def test_no_table_has_it_in_clear(northgate, mailer, asked):
    """K13: answer, refused answer, repeat, read and acknowledgement leave nothing of it behind."""
    with pytest.raises(InvalidResponse):
        northgate.says("Sam", asked, Answer({"token": MARKER}))
    with pytest.raises(NotAuthorized):
        northgate.says("Rita", asked, ANSWER)
    northgate.says("Sam", asked, ANSWER)
    kept = Secret.objects.get()
    assert Response.objects.get().content == {"values": {"name": "ci", "token": f"secret:{kept.pk}"}}
    assert secrets.opened(mailer.context, asked.pk) == {"token": MARKER}
    assert MARKER not in everything() and "hunter2" not in everything()
    assert MARKER not in repr(ANSWER)


def test_a_repeat_does_not_compare_it_and_keeps_no_hash_of_it(northgate, asked):
    """R09, R12: the same response_id with another secret is the same response; with another name it is not."""
    said = uuid7()
    first = northgate.says("Sam", asked, ANSWER, response_id=said)
    again = northgate.says("Sam", asked, Answer({"name": "ci", "token": "other"}), response_id=said)
    assert again.pk == first.pk and Secret.objects.count() == 1
    with pytest.raises(IdempotencyConflict):
        northgate.says("Sam", asked, Answer({"name": "cd", "token": MARKER}), response_id=said)
    other = northgate.question()
    assert northgate.says("Sam", other, Answer({"name": "k"})).same != first.same


def test_it_opens_for_its_own_field_and_request_alone(northgate, mailer, asked):
    """What was sealed for one opens in no other place, however it came there."""
    northgate.says("Sam", asked, ANSWER)
    second = mailer.asks(mailer.begins(), WANTED)
    northgate.says("Sam", second, Answer({"name": "ci", "token": "second"}))
    stolen = Secret.objects.get(request=asked).sealed
    Secret.objects.filter(request=second).update(sealed=stolen)
    with pytest.raises(InvalidInput, match="sealed with another key"):
        secrets.opened(mailer.context, second.pk)


def test_only_the_run_that_asked_opens_it(northgate, harbour, mailer, asked):
    """R07, T84: no person, whatever their roles, no other Instance, no other tenant, no revoked credential."""
    northgate.says("Sam", asked, ANSWER)
    for who in ("Sam", "Ann", "Olga", "Ada"):
        for attempt in (secrets.opened, acknowledge):
            with pytest.raises(NotAuthorized):
                attempt(northgate.context(who), asked.pk)
    for other in (elsewhere(northgate, "other"), elsewhere(harbour)):
        for attempt in (secrets.opened, acknowledge):
            with pytest.raises(NotFound):
                attempt(other.context, asked.pk)
    Credential.objects.filter(instance=mailer.instance).update(revoked_at=Now())
    for attempt in (secrets.opened, acknowledge):
        with pytest.raises((NotFound, NotSignedIn)):
            attempt(mailer.context, asked.pk)
    assert Secret.objects.get().sealed


def acknowledge(context, pk):
    return transitions.acknowledge_secrets(context, request_id=pk)


def test_reading_changes_nothing_and_an_acknowledgement_destroys_it(northgate, mailer, asked):
    """R11: read as often as it takes; acknowledged again, calm."""
    assert secrets.opened(mailer.context, asked.pk) == {}
    northgate.says("Sam", asked, ANSWER)
    before = everything()
    assert [secrets.opened(mailer.context, asked.pk) for _ in range(2)] == [{"token": MARKER}] * 2
    assert everything() == before
    assert [acknowledge(mailer.context, asked.pk) for _ in range(2)] == [1, 0]
    kept = Secret.objects.get()
    assert kept.sealed is None and kept.opened_at and kept.destroyed_at
    assert secrets.opened(mailer.context, asked.pk) == {}
    told = Event.objects.get(kind="secret.acknowledged")
    assert told.data == {"fields": ["token"]} and told.subject == asked.pk


@pytest.mark.parametrize("how", ["concluded", "cancelled", "instance deleted"])
def test_the_end_of_its_run_destroys_it(how, northgate, mailer, asked):
    northgate.says("Sam", asked, ANSWER)
    run = Run.objects.get(pk=asked.run_id)
    if how == "concluded":
        transitions.take_turn(mailer.context, run_id=run.pk)
        transitions.conclude_run(mailer.context, run_id=run.pk, lease=2, state="succeeded")
    elif how == "cancelled":
        northgate.cancels("Olga", run)
    else:
        transitions.delete_instance(northgate.context("Ann"), instance_id=mailer.instance.pk)
    kept = Secret.objects.get()
    assert kept.sealed is None and kept.destroyed_at and kept.opened_at is None


def test_what_is_supplied_to_a_blocked_job_is_its_successors(northgate, mailer):
    """R34: the secret belongs to the Run that will use it."""
    run = mailer.begins(interactive=False)
    assert transitions.raise_request(mailer.context, run_id=run.pk, lease=1, wait=WANTED) is None
    blocker = Blocker.objects.get()
    transitions.supply(northgate.context("Sam"), blocker_id=blocker.pk, response=ANSWER, response_id=uuid7())
    successor = Run.objects.get(follows=run.pk)
    assert not successor.hosted and successor.state == "queued"
    given = Request.objects.get(run=successor)
    assert secrets.opened(mailer.context, given.pk) == {"token": MARKER}
    assert MARKER not in everything()


def test_an_optional_secret_may_stay_away(northgate, mailer):
    form = {"type": "object", "properties": {"token": {"type": "string", "writeOnly": True}}}
    asked = mailer.asks(mailer.begins(), Question("q", "Perhaps?", form))
    northgate.says("Sam", asked, Answer({}))
    assert not Secret.objects.exists() and secrets.opened(mailer.context, asked.pk) == {}


def test_a_hosted_runs_secret_is_no_agents_elsewhere(northgate, mailer):
    """R07."""
    (asked,) = northgate.ask(WANTED)
    northgate.says("Sam", asked, ANSWER)
    with pytest.raises(NotFound):
        secrets.opened(mailer.context, asked.pk)
    transitions.finish(claim(), state="succeeded")
    assert Secret.objects.get().sealed is None
