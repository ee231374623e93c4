"""Every verb, and the only writers of a state. Each public name is one transaction (R05)."""

from .cancellation import cancel, stopped
from .dispatching import Dispatch, intend, record
from .evidence import add_evidence, provider_says
from .holding import hold, release, void
from .output import output, remove_output
from .pausing import pause, unpause
from .raising import Ask, Child, Question, Wait, check, check_child
from .refusals import record_refusal
from .remedies import Recovery, compensate, recovered, recovering
from .responding import respond
from .runs import (
    NewEntry,
    Turn,
    beat,
    children_of,
    claim,
    finish,
    give_back,
    journal,
    leave,
    start,
    suspend,
    waits_of,
)
from .scheduling import start_scheduled
from .supplying import supply
from .sweeping import sweep

__all__ = [
    "Ask", "Child", "Dispatch", "NewEntry", "Question", "Recovery", "Turn", "Wait", "add_evidence", "beat", "cancel",
    "check", "check_child", "children_of", "claim", "compensate", "finish", "give_back", "hold", "intend", "journal",
    "leave", "output", "pause", "provider_says", "record", "record_refusal", "recovered", "recovering", "release",
    "remove_output", "respond", "start", "start_scheduled", "stopped", "supply", "suspend", "sweep", "unpause",
    "void", "waits_of",
]  # fmt: skip
