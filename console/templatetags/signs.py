"""Icons, environments, and the sign and word of each state. A hue only repeats what the word says."""

from django import template
from django.templatetags.static import static
from django.utils.html import format_html

register = template.Library()

KINDS = {
    "wait_user": {"class": "ask", "icon": "question", "verb": "Answer", "name": "Question"},
    "wait_approval": {"class": "decide", "icon": "decision", "verb": "Decide", "name": "Needs a decision"},
    "wait_effect": {"class": "unknown", "icon": "unknown", "verb": "Establish", "name": "Outcome unknown"},
}

RUNS = {
    "queued": ("", "queued", "Queued"),
    "running": ("", "running", "Running"),
    "waiting": ("", "waiting", "Waiting"),
    "succeeded": ("happened", "happened", "Succeeded"),
    "failed": ("", "denied", "Failed"),
    "cancelled": ("", "cancelled", "Cancelled"),
    "blocked": ("", "blocked", "Blocked"),
}

REQUESTS = {
    "answered": ("", "approved", "Answered"),
    "approved": ("", "approved", "Approved"),
    "denied": ("", "denied", "Denied"),
    "settled": ("", "approved", "Settled"),
    "accepted": ("unknown", "unknown", "Accepted as unknown"),
    "cancelled": ("", "cancelled", "Cancelled"),
    "expired": ("", "expired", "Expired"),
    "superseded": ("", "replaced", "Replaced"),
}

EFFECTS = {
    "prepared": ("quiet", "queued", "Not started"),
    "in_flight": ("", "running", "Sending"),
    "uncertain": ("unknown", "unknown", "Outcome unknown"),
    "committed": ("happened", "happened", "Happened"),
    "not_committed": ("", "not-happened", "Did not happen"),
    "withdrawn": ("quiet", "cancelled", "Withdrawn"),
}


@register.simple_tag
def icon(name: str):
    return format_html(
        '<svg class="icon" aria-hidden="true"><use href="{}#{}"/></svg>', static("sayso/icons.svg"), name
    )


@register.filter
def kind(request, part: str) -> str:
    """`class`, `icon`, `verb` or `name` of a Request's kind."""
    return KINDS[request.kind][part]


@register.simple_tag
def run_sign(run, word="Waiting"):
    if run.state == "waiting" and (waits := getattr(run, "waits", None)):
        return _sign(KINDS[waits[0].kind]["class"], KINDS[waits[0].kind]["icon"], word)
    if run.cancel_requested_at and run.state == "running":
        return _sign("", "cancelled", "Cancelling")
    return _sign(*RUNS[run.state])


@register.filter
def waits_for(request) -> str:
    """"Waiting for a decision": of a Run, by the first of its Requests."""
    return {"wait_user": "Waiting for an answer", "wait_approval": "Waiting for a decision"}.get(
        request.kind, "Waiting for evidence"
    )


@register.simple_tag
def request_sign(request):
    if request.state == "pending":
        return _sign(KINDS[request.kind]["class"], KINDS[request.kind]["icon"], "Waiting")
    return _sign(*REQUESTS[request.outcome or request.state])


@register.simple_tag
def effect_sign(effect):
    if effect.disputed:
        return _sign("unknown", "unknown", "Disputed")
    if effect.state == "uncertain" and effect.accepted_at:
        return _sign("unknown", "unknown", "Unknown, accepted")
    return _sign(*EFFECTS[effect.state])


@register.simple_tag
def state_words(of: str) -> list[tuple[str, str]]:
    """The states a list can be filtered by, with their words."""
    return [(state, word) for state, (_, _, word) in {"run": RUNS, "effect": EFFECTS}[of].items()]


@register.simple_tag
def env(environment):
    """Production shouts, staging has a line, development is a word."""
    return format_html(
        '<span class="env {}"><b>{}</b> <code>{}</code></span>',
        environment.klass, environment.get_klass_display(), environment.name,
    )  # fmt: skip


@register.simple_tag
def band(environment):
    """The band over a card: a filled one for production, an outlined one for staging, none for development."""
    if environment.klass == "development":
        return ""
    return format_html(
        '<p class="band {}"><b>{}</b> <code>{}</code></p>',
        environment.klass, environment.get_klass_display(), environment.name,
    )  # fmt: skip


@register.simple_tag
def actor(name: str, of_kind: str):
    """ "deployer (software)", "Ada (person)": shape and word both, never the one without the other."""
    sort = {"agent": "software", "system": "system"}.get(of_kind, of_kind)
    shape = {"software": "software", "system": "software", "person": "person", "provider": "outside"}[sort]
    return format_html('<span class="actor">{} {} ({})</span>', icon(shape), _visible(name), sort)


def _visible(text: str):
    from .facts import shown

    return shown(text)


def _sign(hue: str, name: str, word: str):
    return format_html('<span class="sign {}">{} {}</span>', hue, icon(name), word)
