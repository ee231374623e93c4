"""Every verb, and the only writers of a state. Each public name is one transaction (R05)."""

from .acting import Sending, claim_evidence, dispatch, end_instance, report
from .cancellation import cancel, stopped
from .credentials import delete_instance, make_credential, revoke_credential, rotate_credential
from .deliveries import Parcel, delivered, take_deliveries
from .dispatching import Dispatch, intend, record
from .evidence import add_evidence, provider_says
from .holding import hold, release, void
from .instances import (
    KEEP,
    Address,
    InstanceDeleted,
    Provisioned,
    make_instance,
    one_at_a_time,
    provisioned,
    update_instance,
    updated,
)
from .output import output, remove_output
from .pausing import pause, unpause
from .raising import Ask, Child, Question, Wait, check, check_child
from .refusals import record_refusal
from .registering import register_action, unregister_action
from .remedies import Recovery, compensate, recovered, recovering
from .remote import (
    begin,
    cancel_own,
    conclude_run,
    heartbeat,
    open_session,
    propose,
    raise_request,
    retract,
    stand_down,
    take_turn,
)
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
from .secrets import acknowledge_secrets
from .supplying import supply
from .sweeping import sweep

__all__ = [
    "Address", "Ask", "Child", "Dispatch", "InstanceDeleted", "KEEP", "NewEntry", "Parcel", "Provisioned", "Question",
    "Recovery", "Sending", "Turn", "Wait", "acknowledge_secrets", "add_evidence", "beat", "begin", "cancel",
    "cancel_own", "check", "check_child", "children_of", "claim", "claim_evidence", "compensate", "conclude_run",
    "delete_instance", "delivered", "dispatch", "end_instance", "finish", "give_back", "heartbeat", "hold", "intend",
    "journal", "leave", "make_credential", "make_instance", "one_at_a_time", "open_session", "output", "pause",
    "propose", "provider_says", "provisioned", "raise_request", "record", "record_refusal", "recovered", "recovering",
    "register_action", "release", "remove_output", "report", "respond", "retract", "revoke_credential",
    "rotate_credential", "stand_down", "start", "start_scheduled", "stopped", "supply", "suspend", "sweep",
    "take_deliveries", "take_turn", "unpause", "unregister_action", "update_instance", "updated", "void", "waits_of",
]  # fmt: skip
