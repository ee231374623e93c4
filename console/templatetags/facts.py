"""Untrusted text and bound values, printed so that nothing in them hides (R03)."""

from django import template
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import mark_safe

from runtime_app import canonical, questions, visible

register = template.Library()

LONG = 120  # characters; a longer text stands in a box of numbered lines


@register.filter
def shown(text, lines: bool = False):
    """Text as it is, every hidden or look-alike character a bordered token."""
    parts = visible.visible(str(text or ""), lines=lines)
    return format_html_join("", "{}", ((_part(part),) for part in parts))


@register.filter
def prose(text):
    """Untrusted text of several lines: one paragraph a line."""
    lines = [line for line in str(text or "").replace("\r\n", "\n").split("\n") if line.strip()]
    return format_html_join("", "<p>{}</p>", ((shown(line),) for line in lines))


@register.filter
def title(text):
    """Untrusted text for a <title> or an attribute: one line, tokens in brackets."""
    return visible.plain_visible(str(text or ""))


@register.filter
def short(id):
    """The end of an id, which differs between neighbours; hover or copy gives the whole."""
    return format_html('<code title="{}">{}</code>', id, str(id)[-6:])


@register.filter
def groups(digest: str) -> str:
    return " ".join(digest[i : i + 8] for i in range(0, len(digest), 8))


@register.filter
def fingerprint(digest: str) -> str:
    return canonical.fingerprint(digest)


@register.simple_tag
def values(stored, described=None):
    """One row a leaf of the bound bytes: risky ones first, else in the order of the bytes."""
    leaves = canonical.leaves(canonical.parse(bytes(stored)))
    risky = (described or {}).get("risky", [])
    leaves.sort(key=lambda leaf: next((at for at, name in enumerate(risky) if _under(leaf.path, name)), len(risky)))
    return [row(leaf.path, leaf.value) for leaf in leaves]


def row(path: str, value) -> dict:
    return {"path": _path(path), "value": value_html(value), "remark": _remark(value), "warning": _warning(path, value)}


@register.filter("value")
def value_html(value):
    """`"text"` in quotes, numbers as sent, and four different printed things for null, empty, false and missing."""
    if isinstance(value, str):
        return _text(value)
    if value is None:
        return mark_safe('<code class="null">null</code>')
    return format_html("<code>{}</code>", canonical.dump(value).decode())


@register.simple_tag
def sent_with(sent: str) -> dict:
    """What an agent elsewhere sent beside the arguments: the server and tool it named, and its context by leaf."""
    if not sent:
        return {}
    parts = canonical.parse(sent)
    named = {name: parts[name] for name in ("server", "tool") if isinstance(parts.get(name), str)}
    context = parts.get("context")
    leaves = canonical.leaves(context) if isinstance(context, dict) and context else []
    return named | {"context": [row(leaf.path, leaf.value) for leaf in leaves]}


@register.simple_tag
def answers(content, schema=None, secrets=None):
    """What a person answered, one row a value; of a secret, that it is one and what became of it (R12)."""
    hidden = questions.secret(schema)
    shown = {name: value for name, value in content.items() if name not in hidden}
    rows = [row(leaf.path, leaf.value) for leaf in canonical.leaves(shown)] if shown else []
    kept = secrets or {}
    return rows + [{"path": name, "secret": kept.get(name, True)} for name in sorted(hidden & content.keys())]


def _text(text: str):
    if "\n" not in text and len(text) <= LONG:
        # quoted as JSON quotes: a quotation mark inside cannot be taken for the end of the value
        return format_html("<code>{}</code>", shown(_quoted(text)))
    lines = text.split("\n")
    boxed = format_html_join("", "<li><span>{}</span></li>", ((shown(line),) for line in lines))
    return format_html('<ol class="lines">{}</ol>', boxed)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _remark(value) -> str:
    match value:
        case None:
            return "Sent as null, not as text and not missing"
        case "":
            return "Sent as text with nothing in it"
        case dict():
            return "Sent as an object with nothing in it"
        case list():
            return "Sent as a list with nothing in it"
        case str() if "\n" in value or len(value) > LONG:
            count = value.count("\n") + 1
            return f"Text, {count} line{'s' if count > 1 else ''}, {len(value):,} characters"
    return ""


def _warning(path: str, value) -> str:
    found = {}
    for text in (path, value if isinstance(value, str) else ""):
        for part in visible.visible(text, lines=True):
            if part.token:
                found.setdefault(part.text, [part.name, 0])[1] += 1
    if not found:
        return ""
    count = sum(times for _, times in found.values())
    named = "; ".join(f"{code}, {name}" for code, (name, _) in found.items())
    return f"Contains {count} hidden or look-alike character{'s' if count > 1 else ''}: {named}."


def _path(path: str):
    """A path may break after its dots."""
    if not path:
        return "(the whole)"
    return mark_safe("<wbr>".join(conditional_escape(shown(piece)) for piece in _pieces(path)))


def _pieces(path: str) -> list[str]:
    pieces = path.split(".")
    return [f"{piece}." for piece in pieces[:-1]] + pieces[-1:]


def _under(path: str, name: str) -> bool:
    return path == name or path.startswith((f"{name}.", f"{name}["))


def _part(part: visible.Part):
    if part.token:
        return format_html('<span class="token" title="{}">{}</span>', part.name, part.text)
    return conditional_escape(part.text)


@register.filter
def notable(stored) -> int:
    """How many of the bound values hold hidden or look-alike characters."""
    return sum(bool(_warning(leaf.path, leaf.value)) for leaf in canonical.leaves(canonical.parse(bytes(stored))))


FINDINGS = {
    "committed": "It happened",
    "not_committed": "It did not happen",
    "unknown": "Cannot tell",
    "working": "Accepted, still working",
    "not_sent": "Nothing was sent",
}
SOURCES = {
    "reply": "the provider’s reply",
    "probe": "a look-up",
    "callback": "the provider’s callback",
    "statement": "a person’s statement",
    "deadline": "the deadline",
    "worker": "the worker",
}


@register.filter
def finding_word(finding: str) -> str:
    return FINDINGS.get(finding, finding)


@register.filter
def source_word(source: str, grade: str = "") -> str:
    """Where it came from. What software says of its own work is never called a provider's (R25)."""
    if grade == "claimed":
        return {"reply": "reported by its agent", "statement": "claimed by its agent"}.get(source, source)
    return SOURCES.get(source, source)
