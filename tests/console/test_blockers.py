"""What a job lacked is given on a page, for its next run (R33, R34)."""

from runtime_app import transitions
from runtime_app.ids import uuid7
from runtime_app.models import Blocker, Refusal, Request, Run
from tests.cast import KEY_NAME, claim, deployment, intend
from tests.console.stage import visitor
from tests.runtime.test_reality import Ship


def text(answer) -> str:
    return answer.content.decode()


def blocked(northgate, wait=None, **more) -> Blocker:
    job = northgate.start(interactive=False, message="nightly", **more)
    transitions.suspend(claim(job), waits=[wait or deployment("2.0.4")])
    return Blocker.objects.get(run_id=job.pk)


def grant(blocker: Blocker, **more) -> dict:
    said = {"response_id": str(uuid7()), "digest": blocker.digest, "decision": "approve", "message": "", "confirm": ""}
    return said | more


def test_ada_grants_that_exact_action_for_the_next_run_and_both_pages_link(northgate):
    """R34: the digest shown is the digest granted."""
    blocker = blocked(northgate)
    ada, address = visitor(northgate.people["Ada"]), f"/t/northgate/blockers/{blocker.pk}/"
    page = text(ada.get(address))
    assert blocker.digest in page and "2.0.4" in page and "for the next run" in page
    assert address in text(ada.get(f"/t/northgate/runs/{blocker.run_id}/"))
    assert ada.post(f"{address}supply/", grant(blocker))["Location"] == address
    successor = Run.objects.get(follows_id=blocker.run_id)
    assert Request.objects.get(run_id=successor.pk).digest == blocker.digest
    page = text(ada.get(address))
    assert f"/runs/{successor.pk}/" in page and "Ada" in page and 'id="supply"' not in page
    assert f"/runs/{blocker.run_id}/" in text(ada.get(f"/t/northgate/runs/{successor.pk}/"))
    assert f"/runs/{successor.pk}/" in text(ada.get(f"/t/northgate/runs/{blocker.run_id}/"))


def test_one_person_wins_and_the_other_is_told_who(northgate):
    blocker = blocked(northgate)
    address = f"/t/northgate/blockers/{blocker.pk}/supply/"
    visitor(northgate.people["Ada"]).post(address, grant(blocker))
    answer = visitor(northgate.people["Bob"]).post(address, grant(blocker))
    assert answer.status_code == 409
    assert "Ada already supplied this" in text(answer) and "not recorded" in text(answer)
    assert Run.objects.filter(follows_id=blocker.run_id).count() == 1


def test_sam_answers_for_the_next_run(northgate):
    blocker = blocked(northgate, transitions.Question("q", "What is the key called?", KEY_NAME))
    sam, address = visitor(northgate.people["Sam"]), f"/t/northgate/blockers/{blocker.pk}/"
    assert 'name="name"' in text(sam.get(address))
    wrong = sam.post(f"{address}supply/", {"response_id": str(uuid7()), "name": "x" * 81})
    assert wrong.status_code == 422 and "x" * 81 in text(wrong)
    assert sam.post(f"{address}supply/", {"response_id": str(uuid7()), "name": "ci"})["Location"] == address
    successor = Run.objects.get(follows_id=blocker.run_id)
    assert successor.state == "queued" and successor.initiator_id == northgate.people["Olga"].pk


def test_who_may_not_sees_why_and_who_could(northgate):
    """R18, R21: whoever started the blocked Run has a stake in it."""
    blocker = blocked(northgate)
    address = f"/t/northgate/blockers/{blocker.pk}/"
    for who, why in (("Rita", "role approver"), ("Olga", "role approver"), ("Omar", "own the agent")):
        client = visitor(northgate.people[who])
        page = text(client.get(address))
        assert why in page and 'id="supply"' not in page and "Ada, Bob, Jo, Stan" in page, who
        assert client.post(f"{address}supply/", grant(blocker)).status_code == 403
    assert Refusal.objects.filter(verb="supply").count() == 3
    assert not Run.objects.filter(follows_id=blocker.run_id).exists()


def test_a_grant_names_what_was_shown(northgate):
    """R14."""
    blocker = blocked(northgate)
    ada, address = visitor(northgate.people["Ada"]), f"/t/northgate/blockers/{blocker.pk}/supply/"
    assert ada.post(address, grant(blocker, digest="0" * 64)).status_code == 409
    assert ada.post(address, grant(blocker, digest="")).status_code == 422
    assert ada.post(address, grant(blocker, approved="1")).status_code == 422
    assert ada.post(address, grant(blocker, decision="")).status_code == 422
    assert not Run.objects.filter(follows_id=blocker.run_id).exists()


def test_the_environments_name_is_typed_where_the_policy_wants_it(northgate):
    """R17."""
    northgate.policy("deploy", klass="production", typed_environment=True)
    blocker = blocked(northgate, environment="production")
    ada, address = visitor(northgate.people["Ada"]), f"/t/northgate/blockers/{blocker.pk}/supply/"
    wrong = ada.post(address, grant(blocker, confirm="productoin", message="tested"))
    assert wrong.status_code == 422 and "productoin" in text(wrong) and "tested" in text(wrong)
    assert ada.post(address, grant(blocker, confirm="production")).status_code == 303


def test_equal_ones_of_a_job_are_counted_in_one_row(northgate):
    """R34."""
    made = [blocked(northgate) for _ in range(3)]
    other = blocked(northgate, deployment("9.9.9"))
    ada = visitor(northgate.people["Ada"])
    page = text(ada.get("/t/northgate/blockers/"))
    first = page.split("Given, denied, or counted elsewhere")[0]
    assert "3 times" in first and f"b-{made[2].pk}" in first and f"b-{made[0].pk}" not in first
    assert f"b-{other.pk}" in first
    assert f"/blockers/{made[2].pk}/" in text(ada.get(f"/t/northgate/blockers/{made[0].pk}/"))
    assert "3 runs of this job" in text(ada.get(f"/t/northgate/blockers/{made[2].pk}/"))


def test_two_approvals_collect_on_the_page_before_the_next_run_starts(northgate):
    """R33, R34: the page says 1 of 2, and to whom it is said already."""
    northgate.policy("deploy", approvals=2)
    blocker = blocked(northgate)
    address = f"/t/northgate/blockers/{blocker.pk}/"
    ada, bob = visitor(northgate.people["Ada"]), visitor(northgate.people["Bob"])
    assert "Grant this exact action, as 1 of 2" in text(ada.get(address))
    ada.post(f"{address}supply/", grant(blocker, message="looks right"))
    page = text(ada.get(address))
    assert "1 of 2 approvals" in page and "looks right" in page
    assert "You have voted" in page and 'id="supply"' not in page
    assert "1 of 2 approvals" in text(ada.get("/t/northgate/blockers/"))
    assert not Run.objects.filter(follows_id=blocker.run_id).exists()
    again = ada.post(f"{address}supply/", grant(blocker))
    assert again.status_code == 409 and "you voted before" in text(again)
    page = text(bob.get(address))
    assert "1 of 2 approvals" in page and "and start the next run" in page
    assert bob.post(f"{address}supply/", grant(blocker)).status_code == 303
    assert Run.objects.get(follows_id=blocker.run_id).state == "queued"


def test_a_denial_starts_nothing_and_the_page_says_by_whom(northgate):
    """R34."""
    blocker = blocked(northgate)
    address = f"/t/northgate/blockers/{blocker.pk}/"
    ada = visitor(northgate.people["Ada"])
    assert ada.post(f"{address}supply/", grant(blocker, decision="deny", message="not this one")).status_code == 303
    page = text(ada.get(address))
    assert "No next run was started" in page and "Ada" in page and "not this one" in page and 'id="supply"' not in page
    late = visitor(northgate.people["Bob"]).post(f"{address}supply/", grant(blocker))
    assert late.status_code == 409 and "Ada already denied this" in text(late)
    listed = text(ada.get("/t/northgate/blockers/"))
    assert "No job lacks anything" in listed and "Denied" in listed
    assert not Run.objects.filter(follows_id=blocker.run_id).exists()


def test_what_a_child_lacked_is_shown_once_and_both_pages_link(northgate):
    """R28, R34: the parent's page leads to where it is given, and both of its Runs to each other."""
    job = northgate.start(interactive=False, message="nightly")
    transitions.suspend(claim(job), waits=[transitions.Child("c", "deployer", "deploy it")])
    child = Run.objects.get(parent_id=job.pk)
    transitions.suspend(claim(child), waits=[deployment("2.0.4")])
    risen, blocker = Blocker.objects.get(run_id=job.pk), Blocker.objects.get(run_id=child.pk)
    ada, address = visitor(northgate.people["Ada"]), f"/t/northgate/blockers/{blocker.pk}/"
    assert f"b-{blocker.pk}" in text(ada.get("/t/northgate/blockers/"))
    assert f"b-{risen.pk}" not in text(ada.get("/t/northgate/blockers/"))
    assert address in text(ada.get(f"/t/northgate/blockers/{risen.pk}/"))
    page = text(ada.get(address))
    assert f"/runs/{job.pk}/" in page and "A Run waited for this one" in page
    assert ada.post(f"{address}supply/", grant(blocker)).status_code == 303
    successor, below = Run.objects.get(follows_id=job.pk), Run.objects.get(follows_id=child.pk)
    page = text(ada.get(f"/t/northgate/runs/{successor.pk}/"))
    assert f"/runs/{job.pk}/" in page and f"/runs/{below.pk}/" in page and "not asked for yet" in page
    assert f"/runs/{successor.pk}/" in text(ada.get(f"/t/northgate/runs/{job.pk}/"))
    assert f"/runs/{successor.pk}/" in text(ada.get(f"/t/northgate/runs/{below.pk}/"))
    assert f"/runs/{below.pk}/" in text(ada.get(address))


def test_a_job_blocked_on_an_outcome_leads_to_its_effect(northgate):
    """R35: it is established there; nothing is given here."""
    northgate.policy("ship", verdict="allow")
    job = northgate.start(interactive=False)
    turn = claim(job)
    transitions.suspend(turn, waits=[transitions.Ask("s", Ship.name, '{"parcel":"p1"}')])
    transitions.record(intend(), TimeoutError())
    blocker = Blocker.objects.get(run_id=job.pk)
    ada = visitor(northgate.people["Ada"])
    page = text(ada.get(f"/t/northgate/blockers/{blocker.pk}/"))
    assert f"/effects/{blocker.effect}/" in page and 'id="supply"' not in page
    assert ada.post(f"/t/northgate/blockers/{blocker.pk}/supply/", grant(blocker, digest="0")).status_code == 403
