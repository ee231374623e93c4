"""Who may do what, where; and that what one may not see does not exist (R06, R07, R18, R20, R21)."""

import re
from dataclasses import replace
from itertools import product
from uuid import uuid4

import pytest
from django.contrib.auth import get_user_model
from django.db import connection

from runtime_app import events, permissions, transitions
from runtime_app.errors import NotAuthorized, NotFound
from runtime_app.ids import uuid7
from runtime_app.models import Effect, Environment, Instance, Policy, Request, Response, Run, Session
from runtime_app.responses import Resume
from runtime_app.selectors import inbox
from tests.cast import Answer, Approve, Deny, Finding, Recover, deployment, intend

# What each may do in staging, and in production; everybody else in the grid may do nothing.
OPERATES = {"start", "cancel", "finding", "recover"}
MAY = {
    "Ada": ({"approve", "deny"}, {"approve", "deny"}),
    "Jo": ({"approve", "deny"}, {"approve", "deny"}),
    "Sam": ({"answer"}, {"answer"}),
    "Olga": (OPERATES, OPERATES),
    "Stan": (OPERATES | {"approve", "deny"}, set()),
    "All": (OPERATES | {"approve", "deny", "answer"},) * 2,
}
NOTHING = ["Ann", "Rita", "Root", "Omar"]  # an admin, a member without roles, a superuser, a stake in everything
OUTSIDERS = ["Mallory", "Gone", "God"]  # another tenant's everything, deactivated, a superuser who is no member
VERBS = ["answer", "approve", "deny", "finding", "recover", "cancel", "start"]


@pytest.fixture
def everybody(northgate, harbour):
    northgate.join("All", "viewer", "responder", "approver", "operator", "admin")
    northgate.join("Root")
    northgate.join("Gone", "responder", "approver", "operator", "admin")
    northgate.people["Mallory"] = harbour.people["Mallory"]
    northgate.people["God"] = get_user_model().objects.create(username="god")
    people = get_user_model().objects
    people.filter(username__in=["root", "god"]).update(is_superuser=True, is_staff=True)
    people.filter(username="gone").update(is_active=False)
    return northgate


def attempt(house, verb, environment):
    """Something to try the verb on, and how somebody tries it."""
    if verb == "start":
        return lambda who: house.start(who, environment=environment)
    if verb == "cancel":
        run = house.start(environment=environment)
        return lambda who: house.cancels(who, run)
    request, response = {
        "answer": lambda: (house.question(environment=environment), lambda r: Answer({"name": "ci"})),
        "approve": lambda: (house.approval(environment=environment), lambda r: Approve(r.digest)),
        "deny": lambda: (house.approval(environment=environment), lambda r: Deny(r.digest)),
        "finding": lambda: (house.unknown(environment=environment), lambda r: Finding("committed", "build 7")),
        "recover": lambda: (house.unknown(environment=environment), lambda r: Recover("accept")),
    }[verb]()
    return lambda who: house.says(who, request, response(request))


@pytest.mark.parametrize("environment", ["staging", "production"])
@pytest.mark.parametrize("verb", VERBS)
def test_the_grid_of_roles_verbs_and_environments(everybody, verb, environment):
    """R06, T11: roles add up and none implies another; being a superuser opens no door; outsiders find nothing."""
    able = [who for who, places in MAY.items() if verb in places[environment == "production"]]
    do = attempt(everybody, verb, environment)
    for who in [*MAY, *NOTHING, *OUTSIDERS]:
        if who in able:
            continue
        with pytest.raises(NotFound if who in OUTSIDERS else NotAuthorized) as refused:
            do(who)
        assert refused.value.facts.keys() <= {"permission", "stake"}, who
    for who in able:
        do(who)
        finish_all(everybody)
        do = attempt(everybody, verb, environment)


def finish_all(house):
    for run in Run.objects.filter(state__in=["queued", "waiting"]):
        house.cancels("Olga", run)


def test_who_could_and_who_may_are_one_answer(everybody):
    """R21: for every Request and every member, `who_could` and the inbox agree with `why_not`."""
    requests = [
        make(environment=environment)
        for make in (everybody.question, everybody.approval, everybody.unknown)
        for environment in ("staging", "production")
    ]
    members = [name for name in everybody.people if name not in OUTSIDERS]
    for name in members:
        context = everybody.context(name)
        mine = {request.pk for request in inbox(context, permissions.roles(context)).for_you}
        assert mine == {each.pk for each in requests if permissions.why_not(context, each) is None}, name
    for request in requests:
        may = [name for name in members if permissions.why_not(everybody.context(name), request) is None]
        assert permissions.who_could(request) == sorted(may)


def test_a_refusal_names_the_missing_permission_and_the_environment(northgate):
    """R06, R21."""
    request = northgate.approval(environment="production")
    with pytest.raises(NotAuthorized, match="approver, for the whole tenant or for production") as refused:
        northgate.approves("Stan", request)
    assert refused.value.facts == {"permission": "approver"}


# ---------------------------------------------------------------- stakes


def by_the_initiator(house, environment):
    house.join("Eve", "operator", "approver")
    return "Eve", house.approval(by="Eve", environment=environment)


def by_the_owner(house, environment):
    return "Omar", house.approval(environment=environment)


def by_who_suggested(house, environment):
    request = house.approval(environment=environment)
    house.says("Ada", request, Deny(request.digest, '{"service":"card-api","version":"0.8.9"}'))
    return "Ada", house.ask({"version": "0.8.9", "key": "e"}, run=Run.objects.get(pk=request.run_id))[-1]


RELATIONS = [by_the_initiator, by_the_owner, by_who_suggested]


@pytest.mark.parametrize("environment", ["staging", "production"])
@pytest.mark.parametrize("relaxed", [False, True])
@pytest.mark.parametrize("relation", RELATIONS)
def test_who_has_a_stake_does_not_decide(northgate, relation, relaxed, environment):
    """R18, T20: but for a policy that says so, and only where the environment is unprotected."""
    northgate.policy(allow_stake=relaxed)
    who, request = relation(northgate, environment)
    assert request.state == "pending"
    if relaxed and environment == "staging":
        northgate.approves(who, request)
        return
    assert who not in permissions.who_could(request)
    with pytest.raises(NotAuthorized) as refused:
        northgate.approves(who, request)
    assert refused.value.facts["stake"] in refused.value.message
    with pytest.raises(NotAuthorized):
        northgate.says(who, request, Deny(request.digest))
    northgate.approves("Bob", request)


def test_a_suggestion_in_another_run_is_no_stake_in_this_one(northgate):
    """R18: "that action in that Run"."""
    _, request = by_who_suggested(northgate, "staging")
    northgate.approves("Ada", northgate.approval())
    assert Request.objects.get(pk=request.pk).state == "pending"


@pytest.mark.parametrize("kind", ["question", "approval", "unknown"])
def test_no_software_answers_approves_or_settles(northgate, kind):
    """R18, T21: neither an agent's credential nor the system."""
    request = getattr(northgate, kind)()
    response = {
        "question": Answer({"name": "x"}),
        "approval": Approve(request.digest),
        "unknown": Finding("committed", "x"),
    }
    for context in (
        permissions.agent(Instance.objects.get(tenant=northgate.tenant, environment=northgate.staging)),
        permissions.system("policy", northgate.tenant.pk),
    ):
        with pytest.raises(NotAuthorized) as refused:
            transitions.respond(context, resume=Resume(request.session_id, request.pk, response[kind]))
        assert refused.value.facts["permission"] == "person"
    assert Request.objects.get(pk=request.pk).state == "pending"


def test_an_agent_neither_starts_nor_cancels(northgate):
    """R06, R20."""
    run = northgate.start()
    agent = permissions.agent(Instance.objects.get(pk=run.instance_id))
    with pytest.raises(NotAuthorized):
        transitions.start(agent, agent="deployer", environment="production", message="go")
    with pytest.raises(NotAuthorized):
        transitions.cancel(agent, run_id=run.pk, response_id=uuid7())


def test_environment_and_actor_come_from_the_run_and_not_from_the_call(northgate):
    """R20, T31, T32: what an agent writes into a call is a parameter, and unknown ones are refused."""
    for claimed in ('"environment":"staging"', '"actor":"ada"', '"run":"x"'):
        wrong = transitions.check(transitions.Ask("d", "deploy", f'{{"service":"a","version":"1",{claimed}}}'))
        assert wrong and "Extra inputs" in wrong.message
    request = northgate.approval(environment="production")
    assert request.bound == {
        "action": "deploy",
        "version": "1",
        "actor": str(Run.objects.get().instance_id),
        "environment": {"id": str(northgate.production.pk), "name": "production"},
    }


def test_a_role_in_one_tenant_is_none_in_another(northgate, harbour):
    """R06, T11, T16: Jo approves in northgate and answers in harbour."""
    theirs, question = harbour.approval(by="Mallory"), harbour.question(by="Mallory")
    with pytest.raises(NotAuthorized):
        harbour.approves("Jo", theirs)
    harbour.says("Jo", question, Answer({"name": "ci"}))
    northgate.approves("Jo", northgate.approval())
    with pytest.raises(NotAuthorized):
        northgate.says("Jo", northgate.question(), Answer({"name": "ci"}))


# ---------------------------------------------------------------- what one may not see does not exist


def statements(call) -> list[str]:
    """The text of the SQL that `call` runs until it is refused with NotFound, without its parameters."""
    seen = []

    def note(execute, sql, params, many, context):
        seen.append(re.sub(r'"s\d+_x\d+"', "savepoint", sql))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note), pytest.raises(NotFound) as refused:
        call()
    assert refused.value.as_data() == NotFound().as_data()
    return seen


NO_IDS = ["", "x", "0", "../..", "00000000", "\0", "1" * 4_000, "é", "{}", uuid4(), str(uuid4()), None, 7, -1]


@pytest.mark.parametrize("model", [Session, Run, Request, Effect], ids=lambda model: model.__name__)
def test_foreign_and_missing_are_one_answer_by_one_query(northgate, harbour, model):
    """R07, T01, T02."""
    theirs = _unknown(harbour)
    foreign = {Session: theirs.session_id, Run: theirs.run_id, Request: theirs.pk, Effect: theirs.effect_id}[model]
    ada = northgate.context("Ada")
    [expected] = statements(lambda: permissions.find(model, ada, foreign))
    for unknown in NO_IDS:
        assert statements(lambda unknown=unknown: permissions.find(model, ada, unknown)) == [expected]


def _unknown(harbour) -> Request:
    harbour.join("Moe", "approver")
    harbour.approves("Moe", harbour.ask(deployment(), by="Mallory")[0])
    transitions.record(intend(), TimeoutError())
    return Request.objects.get(effect__isnull=False)


@pytest.mark.parametrize("verb", ["respond", "cancel", "start", "events"])
def test_every_verb_treats_foreign_and_missing_alike(northgate, harbour, verb):
    """R07, T02: the same statements, refusal and all."""
    theirs = harbour.question(by="Mallory")
    mine = northgate.question()
    olga = northgate.context("Olga")

    def respond(id):
        return transitions.respond(olga, resume=Resume(mine.session_id, id, Answer({"name": "x"}), response_id=uuid7()))

    def cancel(id):
        return transitions.cancel(olga, run_id=id, response_id=uuid7())

    def start(id):
        return transitions.start(olga, agent="deployer", environment="staging", message="go", session_id=id)

    def read(id):
        return events.after(olga, id)

    call, foreign = {
        "respond": (respond, theirs.pk),
        "cancel": (cancel, theirs.run_id),
        "start": (start, theirs.session_id),
        "events": (read, theirs.session_id),
    }[verb]
    statements(lambda: call(uuid7()))  # the first NotFound of an actor is counted by an insert
    expected = statements(lambda: call(foreign))
    for unknown in [uuid7(), "x", "1" * 300]:
        assert statements(lambda unknown=unknown: call(unknown)) == expected


def test_every_mix_of_ids_that_do_not_belong_together_is_not_found(northgate, harbour):
    """R07, T05: Jo belongs to both tenants. Session of one, Request of another: nothing."""
    northgate.join("Jo", "responder")
    run = northgate.start()
    mine = [northgate.question(), *northgate.ask(_question("a"), _question("b"), run=run)]
    theirs = [harbour.question(by="Mallory"), harbour.question(by="Mallory")]
    requests = mine + theirs
    sessions = {request.session_id for request in requests}
    fitting = 0
    for house, session_id, request in product((northgate, harbour), sessions, requests):
        resume = Resume(session_id, request.pk, Answer({"name": "x"}))
        if request.session_id == session_id and request.tenant_id == house.tenant.pk:
            fitting += 1
            continue
        with pytest.raises(NotFound):
            transitions.respond(house.context("Jo"), resume=resume)
    assert fitting == len(requests)
    assert not Response.objects.exists()


def _question(key):
    return transitions.Question(key, "Which?", {"type": "object", "properties": {"name": {"type": "string"}}})


def test_a_context_remembers_no_permission(northgate):
    """R06: the same Context, before and after."""
    request = northgate.approval()
    ada = northgate.context("Ada")
    assert permissions.why_not(ada, request) is None
    northgate.take("Ada", "approver")
    assert isinstance(permissions.why_not(ada, request), NotAuthorized)
    get_user_model().objects.filter(pk=ada.user_id).update(is_active=False)
    with pytest.raises(NotFound):
        permissions.roles(ada)
    with pytest.raises(NotFound):
        permissions.find(Request, ada, request.pk)


def test_a_context_of_another_tenant_is_no_way_in(northgate, harbour):
    """R07: Ada with harbour's id in her Context."""
    theirs = harbour.question(by="Mallory")
    forged = replace(northgate.context("Ada"), tenant_id=harbour.tenant.pk)
    for model, id in ((Request, theirs.pk), (Run, theirs.run_id), (Session, theirs.session_id)):
        with pytest.raises(NotFound):
            permissions.find(model, forged, id)
    with pytest.raises(NotFound):
        transitions.start(forged, agent="deployer", environment="staging", message="go")


def test_members_find_their_tenants_and_nobody_elses(northgate, harbour):
    """R07: by the name in the address."""
    jo = northgate.people["Jo"]
    assert [tenant.slug for tenant in permissions.memberships(jo)] == ["harbour", "northgate"]
    assert permissions.member(jo, "harbour")[1].tenant_id == harbour.tenant.pk
    for slug in ("harbour", "nowhere", "", "\0", "x" * 1_000):
        with pytest.raises(NotFound):
            permissions.member(northgate.people["Ada"], slug)


def test_a_verb_needs_a_role_in_its_own_environment(northgate):
    """R06: Stan is operator and approver in staging only, whatever the policy's role is."""
    Policy.objects.all().delete()
    northgate.policy(role="operator")
    with pytest.raises(NotAuthorized):
        northgate.approves("Stan", northgate.approval(environment="production"))
    northgate.approves("Stan", northgate.approval(environment="staging"))
    assert Environment.objects.filter(name="staging").count() == 2
