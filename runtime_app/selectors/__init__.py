"""Reads for pages and API: scoped by tenant, bounded in queries, in order without OFFSET. They decide nothing."""

from .agents import AgentsPage, agent_elsewhere, agents, registry
from .blockers import BlockerPage, blocker_page, blockers
from .callbacks import callback_secrets
from .cards import Card, card, chain
from .ledger import (
    EffectPage,
    action_names,
    effect_page,
    effects,
    evidence_file,
    files_missing,
    files_named,
    ledger,
    next_debt,
)
from .output import Output, chunks, outputs
from .places import behind, held_places
from .proposals import Proposal, proposal, proposed, provisioned_instance
from .results import terminal_result
from .schedules import active_schedules, schedules
from .trace import as_lines, trace
from .waiting import Inbox, Shell, decided, inbox, shell, workers_alive
from .work import (
    RunPage,
    SessionPage,
    environments,
    places,
    run_page,
    runs,
    session_page,
    sessions,
)

__all__ = [
    "AgentsPage", "BlockerPage", "Card", "EffectPage", "Inbox", "Output", "Proposal", "RunPage", "SessionPage",
    "Shell", "action_names", "active_schedules", "agent_elsewhere", "agents", "as_lines", "behind", "blocker_page",
    "blockers", "callback_secrets", "card", "chain", "chunks", "decided", "effect_page", "effects", "environments",
    "evidence_file", "files_missing", "files_named", "held_places", "inbox", "ledger", "next_debt", "outputs",
    "places", "proposal", "proposed", "provisioned_instance", "registry", "run_page", "runs", "schedules",
    "session_page", "sessions", "shell", "terminal_result", "trace", "workers_alive",
]  # fmt: skip
