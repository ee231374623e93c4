"""What a Run leaves, what a cancel stops and cannot stop, what holds everything still (R27-R31)."""

import json

from runtime_app import transitions
from runtime_app.ids import uuid7
from runtime_app.models import Effect, Epoch, Request, Run, Worker
from runtime_app.responses import Finding
from tests.cast import WORKER, claim, deployment, intend
from tests.console.stage import visitor


def text(answer) -> str:
    return answer.content.decode()


def document(client, run_id) -> dict:
    answer = client.get(f"/t/northgate/runs/{run_id}/result.json")
    assert answer.status_code == 200 and answer["Content-Type"] == "application/json"
    return json.loads(answer.content)


def test_a_cancelled_run_says_by_whom_when_why_what_stopped_and_what_stays_uncertain(northgate):
    """R31: page and document say the same."""
    run = northgate.start()
    transitions.suspend(claim(run), waits=[deployment("1"), deployment("2", key="e"), deployment("3", key="f")])
    for request in Request.objects.filter(key__in=["d", "e"]).order_by("key"):
        northgate.approves("Ada", request)
    transitions.record(intend(), TimeoutError())
    northgate.cancels("Olga", run, reason="wrong branch")
    olga = visitor(northgate.people["Olga"])
    left = document(olga, run.pk)
    assert (left["state"], left["cancelled"]["by"], left["cancelled"]["why"]) == ("cancelled", "Olga", "wrong branch")
    stopped = {each["what"] for each in left["cancelled"]["stopped"]}
    assert {"the Run", "a request nobody can answer any more", "an effect that was granted and not sent"} <= stopped
    assert all(0 <= each["after_seconds"] < 60 for each in left["cancelled"]["stopped"])
    by_state = {each["state"]: each for each in left["effects"]}
    assert set(by_state) == {"uncertain", "withdrawn"}
    assert "will not be sent again" in by_state["uncertain"]["remains"] and by_state["withdrawn"]["remains"] == ""
    page = text(olga.get(f"/t/northgate/runs/{run.pk}/"))
    for words in ("Observed: ", "Nobody yet", "download="):
        assert words in page, words
    for words in ("wrong branch", "nobody can answer it now", by_state["uncertain"]["remains"], "result.json"):
        assert words in page, words


def test_evidence_that_came_later_stands_apart_and_is_marked_late(northgate):
    """R31."""
    asked = northgate.unknown()
    northgate.cancels("Olga", Run.objects.get(pk=asked.run_id))
    northgate.says("Olga", asked, Finding("committed", "build 1"))
    olga = visitor(northgate.people["Olga"])
    (effect,) = document(olga, asked.run_id)["effects"]
    assert [each["finding"] for each in effect["later_evidence"]] == ["committed"]
    assert [each["finding"] for each in effect["evidence"]] == ["unknown"]
    assert effect["owner"] == "Olga" and effect["remains"] == ""
    page = text(olga.get(f"/t/northgate/runs/{asked.run_id}/"))
    assert "Later evidence" in page and '<span class="late">later evidence</span>' in page


def test_the_cancel_page_names_children_and_what_cannot_be_recalled(northgate):
    """R28, R31."""
    run = northgate.start()
    waits = [deployment("1"), transitions.Child("helper", "deployer", "look around")]
    transitions.suspend(claim(run), waits=waits)
    northgate.approves("Ada", Request.objects.get())
    intend()
    child = Run.objects.get(parent_id=run.pk)
    olga = visitor(northgate.people["Olga"])
    page = text(olga.get(f"/t/northgate/runs/{run.pk}/cancel/"))
    assert f"/runs/{child.pk}/" in page and "called helper" not in page and "helper" in page
    assert "cannot be recalled" in page
    assert f"/runs/{child.pk}/" in text(olga.get(f"/t/northgate/runs/{run.pk}/"))
    assert f"/runs/{run.pk}/" in text(olga.get(f"/t/northgate/runs/{child.pk}/"))
    northgate.cancels("Olga", run)
    assert document(olga, run.pk)["children"] == [{"run": str(child.pk), "agent": "deployer", "state": "cancelled"}]
    assert Effect.objects.get().state == "in_flight"


def test_a_running_run_is_named_as_such_where_it_is_cancelled(northgate):
    run = northgate.start()
    claim(run)
    page = text(visitor(northgate.people["Olga"]).get(f"/t/northgate/runs/{run.pk}/cancel/"))
    assert "A worker is at it now" in page


def test_every_page_says_that_a_new_life_was_not_released(everything, northgate):
    """R27: since when, why, what it means, what to run."""
    olga = visitor(northgate.people["Olga"])
    assert "began a new life" not in text(olga.get("/t/northgate/inbox/"))
    epoch = Epoch.objects.create(number=Epoch.objects.latest("number").number + 1, why="the database was made anew")
    try:
        Run.objects.filter(pk=everything.question.run_id).update(held_at=epoch.began_at)
        for address in everything.addresses():
            if not address.endswith((".json", ".jsonl")):
                page = text(olga.get(address))
                assert "The database was made anew" in page and "release_epoch --by NAME" in page, address
        assert "This Run is held" in text(olga.get(f"/t/northgate/runs/{everything.question.run_id}/"))
        assert "until this installation is released" in text(olga.get("/t/northgate/runs/"))
        Epoch.objects.filter(pk=epoch.pk).update(released_at=epoch.began_at)
        assert "began a new life" not in text(olga.get("/t/northgate/inbox/"))
    finally:
        epoch.delete()


def test_a_run_that_no_worker_can_go_on_with_says_what_it_waits_for(northgate):
    """R27."""
    run = northgate.start()
    transitions.give_back(claim(run))
    Run.objects.filter(pk=run.pk).update(agent_version="1")
    effect = northgate.granted(version="5")
    olga = visitor(northgate.people["Olga"])
    assert "waits for a worker" not in text(olga.get("/t/northgate/runs/")), "a worker that says nothing takes all"
    transitions.beat(WORKER, "worker", [], {"agents": {"deployer": ["2"]}, "actions": {"deploy": ["7"]}})
    assert "waits for a worker that has agent deployer version 1" in text(olga.get("/t/northgate/runs/"))
    assert "waits for a worker that has agent deployer version 1" in text(olga.get(f"/t/northgate/runs/{run.pk}/"))
    page = text(olga.get(f"/t/northgate/runs/{effect.run_id}/"))
    assert "waits for a worker that has action deploy version 1" in page
    transitions.beat(uuid7(), "older", [], {"agents": {"deployer": ["1"]}, "actions": {"deploy": ["7", "1"]}})
    for address in ("runs/", f"runs/{run.pk}/", f"runs/{effect.run_id}/"):
        assert "waits for a worker" not in text(olga.get(f"/t/northgate/{address}")), address
    Worker.objects.all().delete()
    assert "No worker is running" in text(olga.get("/t/northgate/runs/"))


def test_a_result_of_elsewhere_is_not_found(northgate, harbour):
    run = northgate.start()
    assert visitor(harbour.people["Mallory"]).get(f"/t/harbour/runs/{run.pk}/result.json").status_code == 404
