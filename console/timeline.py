"""Where a Run's time went: three lanes, drawn twice (across and down) from the same numbers, with a table twin."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

LANES = ["Agent", "People", "Outside"]
AGENT, PEOPLE, OUTSIDE = range(3)
MOST = 24  # bars and points; beyond that the table tells the rest
KINDS = {"wait_user": "ask", "wait_approval": "decide", "wait_effect": "unknown"}
WAITED = {"wait_user": "an answer", "wait_approval": "a decision", "wait_effect": "evidence"}
STEPS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 604800]  # seconds


@dataclass
class Item:
    """One row of the table; drawn as a bar, a wait in its edge style, or a point."""

    number: int
    lane: int
    what: str
    start: datetime
    end: datetime | None = None
    kind: str = "work"
    open: bool = False

    @property
    def lane_name(self) -> str:
        return LANES[self.lane]


@dataclass
class Drawing:
    """The numbers of one picture; the template writes the SVG."""

    items: list[Item]
    start: datetime
    end: datetime
    across: dict
    down: dict
    running: bool
    waited: timedelta


def of(found) -> Drawing | None:
    """The timeline of a RunPage, or None for a Run that has not begun."""
    run, now = found.run, found.now
    if run.started_at is None:
        return None
    last = [effect.settled_at or effect.uncertain_at for effect in found.effects]
    end = max([run.ended_at or now, *(at for at in last if at)])
    items = sorted(_items(found, end), key=lambda item: (item.start, item.lane))[:MOST]
    for number, item in enumerate(items, 1):
        item.number = number
    start = min([run.started_at, *(item.start for item in items)])
    if end - start < timedelta(seconds=1):
        end = start + timedelta(seconds=1)
    waited = _total([(each.created_at, each.resolved_at or end) for each in found.requests if each.stops])
    shown = _ticks(start, end)
    across = _drawn(items, start, end, shown, size=776, at=76, lanes=(34, 86, 138))
    down = _drawn(items, start, end, shown, size=max(360, 40 * len(items)), at=40, lanes=(84, 180, 276))
    return Drawing(items, start, end, across, down, run.ended_at is None, waited)


def _items(found, end):
    run = found.run
    for first, after in _work(found, end):
        yield Item(0, AGENT, "Worked", first, after)
    for request in found.requests:
        what = f"Waited for {WAITED[request.kind]}" if request.resolved_at else f"Waits for {WAITED[request.kind]}"
        lane = OUTSIDE if request.kind == "wait_effect" else AGENT
        if request.created_at != request.resolved_at:
            yield Item(
                0, lane, what, request.created_at, request.resolved_at or end, KINDS[request.kind],
                open=request.resolved_at is None,
            )  # fmt: skip
    for said in found.responses:
        yield Item(0, PEOPLE, f"{said.name} {SAID[said.kind]}", said.at, kind="point")
    for effect in found.effects:
        if effect.intent_at:
            until = max(effect.uncertain_at or effect.settled_at or end, effect.intent_at)
            name = effect.request.described.get("title") or effect.action_name
            yield Item(0, OUTSIDE, f"{name}: {STANDS[effect.state]}", effect.intent_at, until, "out")
    if run.cancel_requested_at and not any(said.kind == "cancel" for said in found.responses):
        yield Item(0, PEOPLE, f"{run.cancelled_by} cancelled", run.cancel_requested_at, kind="point")


SAID = {
    "answer": "answered", "approve": "approved", "deny": "denied", "finding": "recorded a finding",
    "recover": "started a recovery action", "cancel": "cancelled", "void": "took back the approval",
    "evidence": "added late evidence", "compensate": "started a compensation",
}  # fmt: skip
STANDS = {
    "prepared": "not started", "in_flight": "sending", "uncertain": "outcome unknown", "committed": "happened",
    "not_committed": "did not happen", "withdrawn": "withdrawn",
}  # fmt: skip


def _work(found, end) -> list[tuple[datetime, datetime]]:
    """From the first turn to the end, less what it stood still for."""
    run = found.run
    still = [(each.created_at, each.resolved_at or end) for each in found.requests if each.stops]
    still += [
        (effect.prepared_at, effect.settled_at or effect.accepted_at or end)
        for effect in found.effects
        if effect.state != "withdrawn"
    ]
    if run.state == "queued":
        still.append((run.queued_at, end))
    work, at, over = [], run.started_at, run.ended_at or end
    for first, after in _merged(still):
        if at < first <= over:
            work.append((at, first))
        at = max(at, after)
    if at < over:
        work.append((at, over))
    return work


def _merged(spans):
    merged = []
    for first, after in sorted(spans):
        if merged and first <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], after)
        else:
            merged.append([first, after])
    return merged


def _total(spans) -> timedelta:
    return sum((after - first for first, after in _merged(spans)), timedelta())


def _ticks(start: datetime, end: datetime) -> list[datetime]:
    length = (end - start).total_seconds()
    step = next((each for each in STEPS if length / each <= 6), STEPS[-1] * (1 + int(length / STEPS[-1] / 6)))
    first = (int(start.timestamp()) // step + 1) * step
    return [datetime.fromtimestamp(at, start.tzinfo) for at in range(first, int(end.timestamp()) + 1, step)][:8]


def _drawn(items, start, end, ticks, *, size, at, lanes) -> dict:
    length = (end - start).total_seconds()

    def place(moment) -> float:
        return round(at + size * max(0.0, min(1.0, (moment - start).total_seconds() / length)), 1)

    clock = "%H:%M:%S" if length < 360 else "%H:%M"
    return {
        "size": at + size,
        "end": at + size + 28,
        "lanes": [{"name": name, "at": where} for name, where in zip(LANES, lanes, strict=True)],
        "ticks": [
            {"at": place(each), "text": timezone.localtime(each).strftime(clock)} for each in ticks
        ],
        "bars": [_bar(item, place, lanes[item.lane]) for item in items if item.end],
        "points": _points(items, place, lanes),
        "now": place(end),
    }


def _points(items, place, lanes) -> list[dict]:
    """The numbers on their lanes, moved along where they would cover one another."""
    points, taken = [], {}
    for item in items:
        at = max(place(item.start), taken.get(item.lane, -100) + 21)
        taken[item.lane] = at
        points.append({"at": at, "lane": lanes[item.lane], "number": item.number})
    return points


def _bar(item: Item, place, lane: int) -> dict:
    first, after = place(item.start), place(item.end)
    return {
        "kind": item.kind, "from": first, "to": max(after, first + 2), "long": round(max(after - first, 2), 1),
        "lane": lane, "before": lane - 8, "above": lane - 4.5, "below": lane + 4.5,
    }  # fmt: skip
