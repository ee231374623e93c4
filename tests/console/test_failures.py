"""What fails on our side is said to be ours, and what is only away comes back."""

import pytest
from django.db import OperationalError


@pytest.mark.parametrize(
    "failure, status, words", [(OperationalError("gone"), 503, "cannot be reached"), (ZeroDivisionError(), 500, "ours")]
)
def test_a_failure_is_a_page_that_needs_no_database(client, monkeypatch, failure, status, words):
    """Threats 6.4: with the database away it is 503 and to be tried again, never a bare 500."""

    def fails(*_):
        raise failure

    client.raise_request_exception = False
    monkeypatch.setattr("console.middleware.Refusals.__call__", fails)
    answer = client.get("/health/")
    assert (answer.status_code, "Retry-After" in answer) == (status, status == 503)
    assert words in answer.content.decode()
