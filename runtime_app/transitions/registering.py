"""What a tenant's admins say of actions that have no code here. It changes no Request that was raised (R17)."""

from datetime import timedelta

from .. import actions, canonical, permissions
from ..errors import InvalidInput
from ..models import Registration
from .administration import ADDITION, CHANGE, DELETION, noted
from .change import Change, transition

MOST = 500  # of one tenant: each is looked at when an action is asked for
TEXT = 2_000  # characters of consequence and reversibility
RISKY = 50
DEADLINE = timedelta(days=30)


@transition("register_action", "pattern")
def register_action(
    change: Change, *, pattern: str, title: str, consequence: str = "", reversible: str = "", changes: bool = True,
    failure_conclusive: bool = True, deadline: timedelta = timedelta(minutes=10), risky=(), registration_id=None,
) -> Registration:  # fmt: skip
    """Describe the actions whose name is `pattern` or matches it, anew or (`registration_id`) in other words.

    Raises NotFound, NotAuthorized, InvalidInput.
    """
    if registration_id is None:
        if refused := permissions.may_administer(change.context):
            raise refused
        row = Registration(tenant_id=change.context.tenant_id)
    else:
        found = permissions.administered(Registration, change.context, registration_id)
        row = change.lock(Registration, found.pk)
    _legal(pattern=(pattern, 200), title=(title, 120), consequence=(consequence, TEXT), reversible=(reversible, TEXT))
    _possible(pattern, title, deadline, risky)
    if actions.registered(pattern):
        told = "described by its code here; what is said of it is not shown"
        raise InvalidInput("This action has code here, which describes it.", fields={"pattern": told})
    others = Registration.objects.filter(tenant_id=row.tenant_id).exclude(pk=row.pk)
    if others.filter(pattern=pattern).exists():
        raise InvalidInput("This name is described already.", fields={"pattern": "described already; edit that one"})
    if others.count() >= MOST:
        raise InvalidInput(f"A tenant describes at most {MOST} names. A pattern can cover several.")
    row.pattern, row.title, row.consequence, row.reversible = pattern, title, consequence, reversible
    row.changes, row.failure_conclusive, row.deadline, row.risky = changes, failure_conclusive, deadline, list(risky)
    new = row._state.adding
    row.save()
    noted(change, row, ADDITION if new else CHANGE, "Described." if new else "Described in other words.")
    return row


@transition("unregister_action", "registration_id")
def unregister_action(change: Change, *, registration_id) -> None:
    """Say nothing of these actions any more: the next one is shown as unregistered. Raises NotFound, NotAuthorized."""
    found = permissions.administered(Registration, change.context, registration_id)
    noted(change, found, DELETION, "No longer described.")
    Registration.objects.filter(pk=found.pk).delete()


def _legal(**texts: tuple[str, int]) -> None:
    for name, (text, most) in texts.items():
        wrong = canonical.fault(text) or (f"has more than {most:,} characters" if len(text) > most else "")
        if wrong:
            raise InvalidInput(f"The {name} {wrong}.", fields={name: f"The text {wrong}."})


def _possible(pattern: str, title: str, deadline: timedelta, risky) -> None:
    wrong = {}
    if not pattern.strip() or not pattern.isprintable() or pattern != pattern.strip():
        wrong["pattern"] = "Write the action's name as it is asked for, or a pattern such as github/*."
    if not title.strip() or not title.isprintable():
        wrong["title"] = "Write in a few words what it does, on one line."
    if not timedelta(0) < deadline <= DEADLINE:
        wrong["deadline"] = f"Must be longer than nothing, and {DEADLINE.days} days or less."
    if len(risky) > RISKY or not all(each and len(each) <= 200 and each.isprintable() for each in risky):
        wrong["risky"] = f"At most {RISKY} names of parameters, each on a line of its own."
    if wrong:
        raise InvalidInput("The description cannot be kept so. Nothing was changed.", fields=wrong)
