"""What the commands of a Run wrote, as it came (R36)."""

from dataclasses import dataclass

from ..models import Chunk, Run

MOST = 500
SHOWN = 20_000  # characters of one stream: its end


@dataclass
class Output:
    """The end of one stream; `cut`: characters before it that are not shown."""

    stream: str
    text: str = ""
    cut: int = 0


def chunks(run: Run, stream: str, after: int = 0) -> tuple[list[Chunk], bool]:
    """The chunks of one stream from the character `after` on, in order, at most MOST; and whether there is a gap before
    them, because older output was removed."""
    found = list(Chunk.objects.filter(run_id=run.pk, stream=stream, offset__gte=after).order_by("offset")[:MOST])
    removed = Run.objects.filter(pk=run.pk, output_removed_at__isnull=False).exists()
    return found, removed and (not found or found[0].offset > after)


def outputs(run: Run) -> list[Output]:
    """The end of each stream among the newest chunks of a Run, in the order they began: one query."""
    newest = list(Chunk.objects.filter(run_id=run.pk).order_by("-pk")[:MOST])
    found: dict[str, Output] = {chunk.stream: Output(chunk.stream) for chunk in reversed(newest)}
    for chunk in sorted(newest, key=lambda chunk: chunk.offset):  # ids made in one millisecond are in no order
        shown = found[chunk.stream]
        if shown.cut + len(shown.text) != chunk.offset:
            shown.text, shown.cut = "", chunk.offset
        text = shown.text + chunk.text
        shown.cut += max(0, len(text) - SHOWN)
        shown.text = text[-SHOWN:]
    return list(found.values())
