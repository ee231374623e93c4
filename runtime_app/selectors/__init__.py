"""Reads for pages and API: scoped by tenant, bounded in queries, in order without OFFSET. They decide nothing."""

from .cards import Card, card, chain
from .ledger import EffectPage, effect_page, effects, ledger
from .waiting import Inbox, Shell, decided, inbox, shell, workers_alive
from .work import RunPage, SessionPage, environments, places, run_page, runs, session_page, sessions, terminal_result

__all__ = [
    "Card", "EffectPage", "Inbox", "RunPage", "SessionPage", "Shell", "card", "chain", "decided", "effect_page",
    "effects", "environments", "inbox", "ledger", "places", "run_page", "runs", "session_page", "sessions", "shell",
    "terminal_result", "workers_alive",
]  # fmt: skip
