"""The fields of a question, ready for the form."""

from django import template

from runtime_app import questions
from runtime_app.fields import written

register = template.Library()

MULTIPLE = {"choice", "boolean", "several"}


class Fields(list):
    @property
    def labels(self) -> dict[str, str]:
        return {each.name: each.title for each in self}


@register.simple_tag
def form_fields(schema):
    return Fields(questions.fields(schema))


@register.simple_tag
def texts(field, kept, error):
    """What stands in the field: what was typed, else the default; in a secret one, nothing (R12)."""
    if field.kind == "secret":
        return []
    return kept.get(field.name, []) if error else field.initial


@register.filter
def grouped(field) -> bool:
    """Whether it is a group of choices under a legend."""
    return field.kind in MULTIPLE


@register.filter
def limits(field) -> str:
    """The limits in words, so that nobody finds them by an error."""
    low, high = (field.limits.get(name) for name in LIMITS.get(field.kind, ("", "")))
    if field.kind in ("text", "long", "secret") and high and high >= 20_000:
        high = None
    written_in = " characters"
    unit = {"text": written_in, "long": written_in, "secret": written_in, "several": " of them"}.get(field.kind, "")
    if low and high is not None:
        return f"From {written(low)} to {written(high)}{unit}."
    if low:
        return f"At least {written(low)}{unit}."
    return f"At most {written(high)}{unit}." if high is not None else ""


LIMITS = {
    "text": ("minLength", "maxLength"),
    "long": ("minLength", "maxLength"),
    "secret": ("minLength", "maxLength"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "several": ("minItems", "maxItems"),
}
