"""Which versions of agents and actions the live workers know: what none of them knows waits, and says so (R27)."""

from dataclasses import dataclass

from ..models import Effect, Run
from .waiting import alive


@dataclass
class Lacking:
    """What a worker would have to bring."""

    what: str
    name: str
    version: str


def lacking(runs: list[Run], effects: list[Effect] = ()) -> None:
    """Mark each queued Run, and each prepared Effect, with `lacks`: what no live worker has. One query, and none where
    nothing is queued or prepared. Without any worker the page says that, and nothing here."""
    runs = [run for run in runs if run.state == "queued" and run.hosted and not run.recovers_id]
    effects = [effect for effect in effects if effect.state == "prepared"]
    if not runs and not effects:
        return
    known = [each for each in alive().values_list("knows", flat=True)]
    if not known or not all(known):  # a worker that says nothing of itself takes whatever comes
        return
    for run in runs:
        if not _known(known, "agents", run.agent, run.agent_version):
            run.lacks = Lacking("agent", run.agent, run.agent_version)
    for effect in effects:
        if not _known(known, "actions", effect.action_name, effect.action_version):
            effect.lacks = Lacking("action", effect.action_name, effect.action_version)


def _known(known: list[dict], kind: str, name: str, version: str) -> bool:
    versions = [each.get(kind, {}).get(name) for each in known]
    return any(each is not None and (not version or version in each) for each in versions)
