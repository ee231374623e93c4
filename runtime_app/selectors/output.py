"""What the commands of a Run wrote, as it came (R36)."""

from dataclasses import dataclass
from uuid import UUID

from ..models import Chunk, Run

MOST = 500
SHOWN = 20_000  # characters of one stream: its end


@dataclass
class Output:
    """The end of one stream; `cut`: characters before it that are not shown."""

    stream: str
    text: str = ""
    cut: int = 0


def chunks(run: Run, after: UUID | None = None) -> list[Chunk]:
    """The chunks of a Run's streams written after the one with this id, oldest first, at most MOST."""
    rows = Chunk.objects.filter(run_id=run.pk)
    return list((rows.filter(pk__gt=after) if after else rows).order_by("pk")[:MOST])


def outputs(run: Run) -> list[Output]:
    """The streams among the newest chunks of a Run, in the order they began: one query."""
    newest = list(Chunk.objects.filter(run_id=run.pk).order_by("-pk")[:MOST])
    found: dict[str, Output] = {}
    for chunk in reversed(newest):
        shown = found.setdefault(chunk.stream, Output(chunk.stream, cut=chunk.offset))
        text = shown.text + chunk.text
        shown.cut += max(0, len(text) - SHOWN)
        shown.text = text[-SHOWN:]
    return list(found.values())
