"""Events in words. An Event of a kind without words is shown under its own name: nothing is left out."""

from django import template
from django.utils.html import format_html

from runtime_app import canonical

from .facts import finding_word, shown, source_word

register = template.Library()

KINDS = {"wait_user": "an answer", "wait_approval": "a decision", "wait_effect": "evidence"}

WORDS = {
    "run.started": "Started",
    "run.queued": "Queued again",
    "run.running": "A worker took a turn",
    "run.waiting": "Stopped, waiting",
    "run.held": "Held: the installation’s data began a new life",
    "run.released": "Released by a person",
    "run.cancelling": "Cancel asked for; it has to stop",
    "run.succeeded": "Succeeded",
    "run.failed": "Failed",
    "run.cancelled": "Cancelled",
    "run.blocked": "Blocked",
    "request.cancelled": "A request was cancelled with the Run",
    "request.expired": "A request expired",
    "request.superseded": "A request was replaced",
    "request.vote_spent": "A vote no longer counts",
    "grant.consumed": "The grant was used for one dispatch",
    "grant.void": "The grant is void; nothing was sent",
    "effect.in_flight": "Dispatch intent written",
    "effect.uncertain": "The outcome is unknown",
    "effect.committed": "It happened",
    "effect.not_committed": "It did not happen",
    "effect.withdrawn": "Withdrawn, never sent",
    "effect.disputed": "The evidence contradicts itself",
    "effect.accepted": "Accepted that the outcome stays unknown",
    "effect.recovering": "A recovery action was started",
    "blocker.denied": "What it lacked was denied; nothing was started",
    "blocker.vote_spent": "A vote for the next run no longer counts",
    "blocker.supplied": "What it lacked was given for the next run",
    "schedule.paused": "The schedule was paused",
    "schedule.unpaused": "The schedule was started again",
    "secret.acknowledged": "It has its secret answer, which is destroyed here",
    "environment.held": "The environment was held",
    "environment.released": "The environment was released",
}


@register.filter
def told(event):
    data = event.data
    match event.kind:
        case "request.raised":
            of = format_html(": <code>{}</code>", shown(data["action"])) if data.get("action") else ""
            return format_html("Asked for {}{}", KINDS.get(data.get("request_kind"), "something"), of)
        case "request.voted" | "blocker.voted":
            verb = {"approve": "Approved", "deny": "Denied"}.get(data.get("vote"), "Voted")
            of_next = " for the next run" if event.kind == "blocker.voted" else ""
            return format_html("{}{}, {} of {} needed", verb, of_next, data.get("approvals", 0), data.get("needed", 1))
        case "request.resolved":
            return str(data.get("outcome", "resolved")).capitalize()
        case "grant.made":
            return format_html("Grant made for <code>{}</code>", canonical.fingerprint(data["digest"]))
        case "effect.prepared":
            return format_html("Effect prepared: <code>{}</code>", shown(data.get("action", "")))
        case "run.running" if event.actor_kind != "system":
            return "Its turn began"
        case "evidence.added":
            said = f"{data.get('grade', '').capitalize()}: {finding_word(data.get('finding', '')).lower()}"
            return format_html("{}, {}", said, source_word(data.get("source", ""), data.get("grade", "")))
    return WORDS.get(event.kind, event.kind)


@register.simple_tag
def late_evidence(effects):
    """What came after the end of the Run, or after the Effect was settled (R31)."""
    return [each for effect in effects for each in effect.evidence if each.late]
