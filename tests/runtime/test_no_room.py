"""The disk is full."""

import pytest

from runtime_app.errors import Busy
from runtime_app.ids import uuid7
from runtime_app.models import Response
from tests.cast import Answer

FULL = """
create function no_room() returns trigger language plpgsql as
    $$ begin raise exception 'could not extend file: No space left on device' using errcode = 'disk_full'; end $$;
create trigger no_room before insert on runtime_app_response execute function no_room();
"""


def test_without_room_nothing_happens_and_the_same_may_be_said_again(northgate, owner):
    """R05, R09: Sam is told why, and nothing of his answer is half there."""
    request, said = northgate.question(), uuid7()
    owner.execute(FULL)
    try:
        with pytest.raises(Busy) as refused:
            northgate.says("Sam", request, Answer({"name": "x"}), response_id=said)
    finally:
        owner.execute("drop function no_room cascade")
    assert (refused.value.reason, refused.value.status) == ("no_room", 503)
    request.refresh_from_db()
    assert request.state == "pending" and not Response.objects.exists()
    northgate.says("Sam", request, Answer({"name": "x"}), response_id=said)
    request.refresh_from_db()
    assert request.outcome == "answered"
