"""Where we are, and links that keep what was asked."""

from urllib.parse import urlencode

from django import template
from django.utils.safestring import mark_safe

from runtime_app.ids import uuid7

register = template.Library()


@register.simple_tag(takes_context=True)
def here(context, *names):
    """Marks the link of the page we are on, or of the list it belongs to."""
    match = getattr(context.get("request"), "resolver_match", None)
    return mark_safe(' aria-current="page"') if match and match.url_name in names else ""


@register.simple_tag
def query(asked, **more):
    """The filters of a list and what is added to them, as the end of an address."""
    kept = {name: value for name, value in ((asked or {}) | more).items() if value}
    return f"?{urlencode(kept)}" if kept else "?"


@register.filter
def kept(typed, name):
    """The texts typed under a name, as they were."""
    return (typed or {}).get(name, [])


@register.filter
def kept_one(typed, name):
    return next(iter(kept(typed, name)), "")


@register.filter
def wrong(error, name):
    """The sentence that says what is wrong with a field, if anything is."""
    return (error.facts.get("fields") or {}).get(name, "") if error else ""


@register.filter
def wrongs(error):
    return list((error.facts.get("fields") or {}).items()) if error else []


LABELS = {
    "message": "Reason", "confirm": "Environment’s name", "suggestion": "Suggestion", "decision": "Decision",
    "digest": "Digest", "response_id": "Form", "session": "Session", "finding": "What happened",
    "reference": "Where you looked", "recovery": "Recovery action", "agent": "Agent", "environment": "Environment",
    "kind": "Kind", "name": "Name", "scopes": "Interfaces", "lives": "Lives", "overlap": "Old one", "pattern": "Name",
    "consequence": "Consequence", "reversible": "Can it be undone?", "minutes": "Minutes", "risky": "Risky parameters",
    "expires_at": "Lives", "deadline": "Minutes", "credential_id": "Form",
    "start_id": "Form", "title": "Title", "reason": "Reason", "files": "Files",
}  # fmt: skip


@register.filter
def label(labels, name):
    """The name of a field as the form calls it."""
    return labels.get(name, name) if isinstance(labels, dict) else LABELS.get(name, name)


@register.simple_tag
def fresh_id():
    """A response_id of its own for each form of a page."""
    return uuid7()


@register.simple_tag
def names_of(places, part: str) -> list[str]:
    """The agents, or the environments, that a Run can be started with; the least dangerous environment first."""
    if part == "agent":
        return sorted({each.agent for each in places})
    order = {"development": 0, "staging": 1, "production": 2}
    found = {each.environment.name: order[each.environment.klass] for each in places}
    return sorted(found, key=lambda name: (found[name], name))
