"""Reads for pages and API: scoped by tenant, bounded in queries, in order without OFFSET. They decide nothing."""

from .cards import Card, card, chain
from .ledger import EffectPage, effect_page, effects, ledger
from .output import Output, chunks, outputs
from .waiting import Inbox, Shell, decided, inbox, shell, workers_alive
from .work import (
    RunPage,
    SessionPage,
    environments,
    places,
    run_page,
    runs,
    schedules,
    session_page,
    sessions,
    terminal_result,
)

__all__ = [
    "Card", "EffectPage", "Inbox", "Output", "RunPage", "SessionPage", "Shell", "card", "chain", "chunks", "decided",
    "effect_page", "effects", "environments", "inbox", "ledger", "outputs", "places", "run_page", "runs",
    "schedules", "session_page", "sessions", "shell", "terminal_result", "workers_alive",
]  # fmt: skip
