"""Run, Request, Effect, Grant: each state, what it means, and what may follow it.

The database refuses every other step (a trigger per table is built from these tables, see `models`).
"""

RUN = {
    # state: (what it means, what may follow)
    "queued": ("claimable: a worker may take its next turn", {"running", "cancelled"}),
    "running": ("a worker holds a Lease on it", {"queued", "waiting", "succeeded", "failed", "cancelled", "blocked"}),
    "waiting": ("it stopped at Requests, or at what was granted and is not known", {"queued", "cancelled", "blocked"}),
    "succeeded": ("it did what it set out to do", set()),
    "failed": ("it could not", set()),
    "cancelled": ("a person stopped it", set()),
    "blocked": ("nobody was on the line for what it needed", set()),
}

REQUEST = {
    "pending": ("it waits for a Response", {"resolved", "cancelled", "expired", "superseded"}),
    "resolved": ("one Response, or a quorum of votes, settled it", set()),
    "cancelled": ("its Run ended first", set()),
    "expired": ("its deadline passed first", set()),
    "superseded": ("the agent asked anew in its place", set()),
}

OUTCOMES = {
    "answered": "a person answered the question",
    "approved": "authority for one exact action was granted",
    "denied": "authority was refused",
    "settled": "evidence established what happened",
    "accepted": "an operator accepted that it stays unknown",
}

EFFECT = {
    "prepared": ("granted, not sent", {"in_flight", "withdrawn", "uncertain"}),
    "in_flight": ("the dispatch intent is written; it may have been sent", {"committed", "not_committed", "uncertain"}),
    "uncertain": ("nobody knows whether it happened", {"committed", "not_committed", "in_flight"}),
    "committed": ("it happened", {"not_committed"}),
    "not_committed": ("it did not happen", {"committed"}),
    "withdrawn": ("it was never sent and never will be", set()),
}
# committed <-> not_committed: only a person settling a dispute takes this step (R25).

GRANT = {
    "unused": ("one dispatch of one digest is allowed until it expires", {"consumed", "void"}),
    "consumed": ("its one dispatch intent was written", set()),
    "void": ("it can never be used", set()),
}

ENDED = frozenset(state for state, (_, after) in RUN.items() if not after)
SETTLED = frozenset({"committed", "not_committed", "withdrawn"})


def choices(table: dict) -> list[tuple[str, str]]:
    return [(state, state.replace("_", " ")) for state in table]


def steps(table: dict) -> list[tuple[str, str]]:
    """Every (before, after) pair that is allowed."""
    return [(before, after) for before, (_, following) in table.items() for after in sorted(following)]
