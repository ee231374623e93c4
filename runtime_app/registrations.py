"""Actions that have no code here, as their tenant's admins describe them; an undescribed one is shown as such."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from uuid import UUID

from . import actions, canonical, statements
from .errors import InvalidInput
from .models import Registration, Run

UNREGISTERED = "Nothing is registered about this action: its consequence and whether it can be undone are not known."


@dataclass(frozen=True)
class Declared:
    """An action of an agent elsewhere: what an Action in code says of itself, without the code that sends."""

    name: str
    title: str
    consequence: str = ""
    reversible: str = ""
    risky: tuple[str, ...] = ()
    version: str = ""
    changes: bool = True
    failure_conclusive: bool = True
    deadline: timedelta = timedelta(minutes=10)
    lag: timedelta = timedelta(0)
    registered: bool = True

    @property
    def send_within(self) -> timedelta:
        """Nobody here knows when it sends: until its deadline it may (R23)."""
        return self.deadline

    def bind(self, raw: str | bytes) -> bytes:
        """The parameters as they came: what a remote agent sent is bound so (R15). Raises InvalidInput."""
        value = canonical.parse(raw)
        if not isinstance(value, dict):
            raise InvalidInput("The parameters of an action are a JSON object.", fields={"parameters": "not an object"})
        return canonical.dump(value)


def action_of(run: Run, name: str):
    """What is known of this action for this Run, or None: a hosted Run has only what is registered in code."""
    return actions.registered(name) if run.hosted else declared(run.tenant_id, name)


def declared(tenant_id: UUID, name: str) -> Declared:
    """Code that knows the action describes it; else the tenant's Registration that fits best; else nobody does."""
    if known := actions.registered(name):
        return Declared(
            name, known.title, known.consequence, known.reversible, known.risky, known.version, deadline=known.deadline
        )
    best = fits(statements.rows(Registration, "where tenant_id = %s", tenant_id), name)
    if best is None:
        return Declared(name, name, consequence=UNREGISTERED, registered=False)
    return Declared(
        name, best.title, best.consequence, best.reversible, tuple(best.risky), changes=best.changes,
        failure_conclusive=best.failure_conclusive, deadline=best.deadline,
    )  # fmt: skip


def fits(said: Iterable[Registration], name: str) -> Registration | None:
    """The one of these that fits best. A name with a bracket or a star in it fits itself, too."""
    fitting = [each for each in said if name == each.pattern or fnmatchcase(name, each.pattern)]
    return max(fitting, key=lambda each: (each.pattern == name, len(each.pattern)), default=None)


def described(action) -> dict:
    """What the card keeps of it (R03): as `actions.described`, and what only agents elsewhere have."""
    told = actions.described(action)
    if isinstance(action, Declared):
        told |= {
            "changes": action.changes, "registered": action.registered,
            "failure_conclusive": action.failure_conclusive, "deadline": action.deadline.total_seconds(),
        }  # fmt: skip
    return told
