"""Pages ask the database a bounded number of questions, however much they show (goal 14)."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.console import stage

MOST = {  # session and account among them
    "inbox": 8, "runs": 10, "sessions": 8, "effects": 27, "request": 26, "run": 26, "session": 13, "cancel": 20,
    "effect": 22, "begin": 9, "blockers": 9, "blocker": 16, "environments": 9, "schedules": 11, "result.json": 12,
    "agents": 13, "agent": 13, "actions": 9, "action": 9, "trace.jsonl": 14,
}  # fmt: skip

WHOLE = {"begin", "cancel", "result.json", "trace.jsonl"}  # named by the last part of their address


def count(client, address: str) -> int:
    with CaptureQueriesContext(connection) as asked:
        assert client.get(address).status_code == 200, address
    return len([each for each in asked if each["sql"].split()[0] in ("SELECT", "INSERT", "UPDATE", "DELETE")])


@pytest.mark.parametrize("who", ["Ada", "Olga", "Rita"])
def test_no_page_asks_more_than_its_share(everything, northgate, who):
    client = stage.visitor(northgate.people[who])
    for address in everything.addresses():
        parts = address.split("?")[0].strip("/").split("/")[2:]
        name = "begin" if parts[-1] == "new" else parts[-1] if parts[-1] in WHOLE else parts[0]
        name = name if len(parts) == 1 or name in WHOLE else name.removesuffix("s")
        assert count(client, address) <= MOST[name], address


def test_fifty_rows_cost_what_one_costs(northgate):
    client = stage.visitor(northgate.people["Ada"])
    northgate.approval(version="0.0.0"), northgate.unknown(version="0.0.1")
    addresses = [f"/t/northgate/{name}/" for name in ("inbox", "runs", "effects", "sessions", "environments")]
    one = {address: count(client, address) for address in addresses}
    for each in range(1, 26):
        northgate.approval(version=f"1.0.{each}"), northgate.unknown(version=f"2.0.{each}")
    assert {address: count(client, address) for address in addresses} == one


def test_a_run_with_many_waits_costs_what_one_with_few_costs(northgate):
    from tests import cast

    few = northgate.ask(*(cast.deployment(f"1.{n}", key=f"d{n}") for n in range(2)))[0]
    many = northgate.ask(*(cast.deployment(f"2.{n}", key=f"d{n}") for n in range(20)))[0]
    client = stage.visitor(northgate.people["Ada"])
    for what in ("runs/{0.run_id}/", "sessions/{0.session_id}/", "runs/{0.run_id}/cancel/"):
        assert count(client, f"/t/northgate/{what.format(many)}") == count(client, f"/t/northgate/{what.format(few)}")
