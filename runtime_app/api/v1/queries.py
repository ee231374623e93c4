"""What an address may ask, in one place."""

from typing import Annotated

from ninja import Query

Limit = Annotated[int, Query(ge=1, le=100, description="At most so many.")]
Before = Annotated[str, Query(max_length=64, description="Those older than this one: `next` of the page before.")]
After = Annotated[str, Query(max_length=300, description="A cursor: what came after it. Without: from the start.")]
EventLimit = Annotated[int, Query(ge=1, le=500, description="At most so many.")]
Wait = Annotated[
    str,
    Query(
        pattern=r"^[1-9][0-9]*(s|m|h)$",
        description="With a credential: wait for something at most so long, and 30 s: `30s`. A signed-in person is "
        "answered at once.",
    ),
]
