"""Which Policy applies to an Action in an Environment, and what it asks (R17). The one place that decides."""

from datetime import timedelta
from fnmatch import fnmatchcase

from . import statements
from .models import Environment, Policy

DEFAULT = {
    "verdict": "ask",
    "approvals": 1,
    "role": "approver",
    "denials": 1,
    "request_for": timedelta(days=7).total_seconds(),
    "grant_for": timedelta(hours=1).total_seconds(),
    "reason_required": False,
    "typed_environment": False,
    "fresh_sign_in": False,
    "allow_stake": False,
    "id": None,
}

_VERDICTS = {"deny": 2, "ask": 1, "allow": 0}


def applying(environment: Environment, action: str) -> dict:
    """The snapshot of the Policy in force now: plain data, times in seconds.

    One naming the environment beats one naming its class beats one naming neither; then an exact name beats a pattern,
    a longer pattern a shorter; of equals deny, then ask, then allow. Without any: `DEFAULT`.
    """
    rules = statements.rows(Policy, "where tenant_id = %s", environment.tenant_id)
    matching = [
        rule
        for rule in rules
        if fnmatchcase(action, rule.action)
        and rule.environment_id in (None, environment.id)
        and rule.klass in ("", environment.klass)
    ]
    if not matching:
        return dict(DEFAULT)
    return snapshot(max(matching, key=lambda rule: _rank(rule, action)))


def _rank(rule: Policy, action: str) -> tuple:
    place = 2 if rule.environment_id else 1 if rule.klass else 0
    exact = rule.action == action
    return place, exact, len(rule.action), _VERDICTS[rule.verdict]


def snapshot(rule: Policy) -> dict:
    return {
        "id": str(rule.id),
        "verdict": rule.verdict,
        "approvals": rule.approvals,
        "role": rule.role,
        "denials": rule.denials,
        "request_for": rule.request_for.total_seconds(),
        "grant_for": rule.grant_for.total_seconds(),
        "reason_required": rule.reason_required,
        "typed_environment": rule.typed_environment,
        "fresh_sign_in": rule.fresh_sign_in,
        "allow_stake": rule.allow_stake,
    }


def name(policy: dict) -> str:
    """Who a decision by policy is signed by."""
    return f"policy {policy['id']}" if policy["id"] else "policy (default)"
