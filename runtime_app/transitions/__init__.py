"""Every verb, and the only writers of a state. Each public name is one transaction (R05)."""

from .cancellation import cancel, stopped
from .dispatching import Dispatch, intend, record
from .raising import Ask, Question, Wait, check
from .refusals import record_refusal
from .remedies import Recovery, recovered, recovering
from .responding import respond
from .runs import NewEntry, Turn, beat, claim, finish, give_back, journal, leave, start, suspend, waits_of
from .sweeping import sweep

__all__ = [
    "Ask", "Dispatch", "NewEntry", "Question", "Recovery", "Turn", "Wait", "beat", "cancel", "check", "claim",
    "finish", "give_back", "intend", "journal", "leave", "record", "record_refusal", "recovered", "recovering",
    "respond", "start", "stopped", "suspend", "sweep", "waits_of",
]  # fmt: skip
