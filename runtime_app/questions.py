"""The forms of `wait_user`: a small vocabulary of JSON Schema, and the answers it accepts (R02).

A form is ``{"type": "object", "properties": {…}, "required": […]}``. A property is one of

    text      {"type": "string"}, with minLength, maxLength
    long      {"type": "string", "format": "long"}, several lines, the same limits
    date      {"type": "string", "format": "date"}, ``2026-12-14``
    secret    {"type": "string", "format": "password"} or "writeOnly": true, the same limits, no default (R12)
    integer   {"type": "integer"}, with minimum, maximum
    number    {"type": "number"}, with minimum, maximum
    boolean   {"type": "boolean"}
    choice    {"enum": [scalars]} or {"oneOf": [{"const": scalar, "title": label}, …]}
    several   {"type": "array", "items": a choice}, with minItems, maxItems; each at most once

with title, description (the hint) and default. Anything else is refused, `$ref` and patterns among it, and a field that
is named as a secret and is none. Columns may reorder an object's keys, so a checked form says its order in ``order``.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from . import canonical
from .canonical import Number
from .errors import InvalidInput, InvalidResponse
from .fields import CHOICES, TEXT, Choice, Field, Wrong, exact, legal, typed, unchanged, written

FIELDS = 50
LABEL = 200  # characters of a title or a choice
HINT = 2_000  # characters of a description

RESERVED = frozenset({"response_id", "session", "message", "csrfmiddlewaretoken"})

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_SECRET_NAME = re.compile(r"(?i)(current[_-]|new[_-])?(password|passwd|passphrase)|one[_-]?time[_-]?code|otp|cvc|cvv")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

_COMMON = frozenset({"type", "title", "description", "default"})
_LIMITS = {
    "text": ("minLength", "maxLength"),
    "long": ("minLength", "maxLength"),
    "secret": ("minLength", "maxLength"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "several": ("minItems", "maxItems"),
}
_EXTRA = {"text": {"format"}, "long": {"format"}, "date": {"format"}, "several": {"items", "uniqueItems"}}
_EXTRA |= {"secret": {"format", "writeOnly"}}
_MISSING = {
    "text": "Enter an answer.",
    "long": "Enter an answer.",
    "date": "Enter a date.",
    "secret": "Enter it.",
    "integer": "Enter a whole number.",
    "number": "Enter a number.",
    "several": "Choose at least one.",
}


def check(schema: Any) -> dict:
    """The form in its one normal shape, safe to store and to show, or `InvalidInput` that says what is wrong where."""
    found = fields(schema)
    return {
        "type": "object",
        "properties": {each.name: _property(each) for each in found},
        "required": [each.name for each in found if each.required],
        "order": [each.name for each in found],
    }


def fields(schema: Any) -> list[Field]:
    """The fields in their order. `InvalidInput` as `check`."""
    form = _object(schema, "the form")
    _only(form, {"type", "title", "description", "properties", "required", "order", "additionalProperties"}, "the form")
    if form.get("type") != "object" or form.get("additionalProperties", False) is not False:
        raise InvalidInput('A form is {"type": "object", "properties": {…}} without additional properties.')
    properties = _object(form.get("properties"), "`properties`")
    if not 1 <= len(properties) <= FIELDS:
        raise InvalidInput(f"A form has 1 to {FIELDS} fields; this one has {len(properties):,}.")
    required = _names(form.get("required", []), properties, "required")
    order = _names(form.get("order", list(properties)), properties, "order")
    if len(order) != len(properties):
        raise InvalidInput("`order` names every field once.")
    return [_field(name, properties[name], name in required) for name in order]


def secret(schema: Any) -> set[str]:
    """The names of the secret fields of a checked form (R12)."""
    return {name for name, each in (schema or {}).get("properties", {}).items() if each.get("format") == "password"}


def accept(schema: Any, values: Any) -> dict:
    """The typed values of an answer, or `InvalidResponse` whose fact `fields` has a sentence for each wrong one (R02).

    Nothing is converted or filled in: ``true`` is not ``"true"``, 1 is not ``"1"`` nor ``true``, 1.0 is no integer,
    an absent field stays absent. Numbers come back as `int` and `float`; one that a float would change is refused.
    """
    if not isinstance(values, dict):
        raise InvalidResponse("An answer is an object with the form's fields.")
    return _judged(fields(schema), values, {})


def read_form(schema: Any, data: Mapping[str, list[str]]) -> dict:
    """`accept` for what an HTML form posted: under each field's own name, lists of strings.

    Nothing typed or chosen is an absent field. A choice is matched by its exact text, never by its label. Line ends
    become ``\\n``. The names in `RESERVED` are not fields and are passed over.
    """
    found = fields(schema)
    posted = {name: texts for name, texts in data.items() if name not in RESERVED}
    values, wrong = {name: None for name in posted.keys() - {each.name for each in found}}, {}
    for each in found:
        texts = [text for text in posted.get(each.name, []) if text != ""]
        try:
            if len(posted.get(each.name, [])) > 1 and each.kind != "several":
                raise Wrong("This was sent more than once.")
            if texts:
                values[each.name] = typed(each, texts)
        except Wrong as error:
            wrong[each.name] = str(error)
    return _judged(found, values, wrong)


def _field(name: str, given: Any, required: bool) -> Field:
    where = f"`{name}`"
    if not _NAME.fullmatch(name):
        raise InvalidInput("The name of a field is 1 to 64 letters, digits, - or _, and starts with a letter.")
    if name in RESERVED:
        raise InvalidInput(f"A field cannot be named {where}; the form itself uses {', '.join(sorted(RESERVED))}.")
    given = _object(given, where)
    kind = _kind(given, where)
    if _SECRET_NAME.fullmatch(name) and kind != "secret":
        raise InvalidInput(f'{where} asks for a secret: give it "format": "password", and it is kept as one.')
    limits = _LIMITS.get(kind, ())
    form = {"enum", "oneOf"} if kind == "choice" else _EXTRA.get(kind, set())
    _only(given, _COMMON | form | set(limits), where)
    made = Field(
        name=name,
        title=_label(given, "title", LABEL, where) or name.replace("_", " ").replace("-", " ").capitalize(),
        kind=kind,
        hint=_label(given, "description", HINT, where),
        choices=_choices(given, kind, where),
        required=required,
        limits=_limits(given, kind, limits, where),
    )
    return _with_default(made, given, where)


def _kind(given: dict, where: str) -> str:
    if given.get("writeOnly", True) is not True or "default" in given and _is_secret(given):
        raise InvalidInput(f"{where}: a secret is writeOnly, and has no default.")
    if _is_secret(given) and given.get("type") == "string" and given.get("format", "password") == "password":
        return "secret"
    if "enum" in given or "oneOf" in given:
        return "choice"
    match given.get("type"), given.get("format"):
        case "string", None:
            return "text"
        case "string", "long" | "date" as form:
            return form
        case "integer" | "number" | "boolean" as kind, None:
            return kind
        case "array", None:
            return "several"
    raise InvalidInput(f"{where} has no type this form knows: string, integer, number, boolean, enum, oneOf or array.")


def _is_secret(given: dict) -> bool:
    return "writeOnly" in given or given.get("format") == "password"


def _choices(given: dict, kind: str, where: str) -> list[Choice]:
    if kind == "boolean":
        return [Choice(True, "Yes"), Choice(False, "No")]
    if kind == "choice":
        return _options(given, where)
    if kind != "several":
        return []
    if given.get("uniqueItems", True) is not True:
        raise InvalidInput(f"{where}: each choice can be taken once; uniqueItems cannot be false.")
    items = _object(given.get("items"), f"{where}.items")
    _only(items, {"type", "enum", "oneOf"}, f"{where}.items")
    return _options(items, f"{where}.items")


def _options(given: dict, where: str) -> list[Choice]:
    if ("enum" in given) == ("oneOf" in given):
        raise InvalidInput(f"{where} lists its choices in either enum or oneOf.")
    listed = given.get("enum", given.get("oneOf"))
    if not isinstance(listed, list) or not 1 <= len(listed) <= CHOICES:
        raise InvalidInput(f"{where} has 1 to {CHOICES} choices.")
    options = [_option(each, "oneOf" in given, given.get("type"), where) for each in listed]
    if min(len({each.text for each in options}), len({each.label for each in options})) < len(options):
        raise InvalidInput(f"{where} has two choices that are written alike.")
    return options


def _option(given: Any, titled: bool, type_: Any, where: str) -> Choice:
    label = None
    if titled:
        given = _object(given, f"a choice of {where}")
        _only(given, {"const", "title"}, f"a choice of {where}")
        label = _label(given, "title", LABEL, f"a choice of {where}")
        given = given.get("const")
    if not isinstance(given, str | int | float | Number):
        raise InvalidInput(f"A choice of {where} is a text, a number or a boolean.")
    value = given if isinstance(given, str) else _number(given, where)
    names = {bool: ("boolean",), str: ("string",), int: ("integer", "number"), float: ("number",)}[type(value)]
    if type_ is not None and type_ not in names:
        raise InvalidInput(f"A choice of {where} is not of the type stated.")
    if isinstance(value, str):
        _line(value, LABEL, f"a choice of {where}")
    return Choice(value, label or written(value))


def _limits(given: dict, kind: str, names: tuple[str, ...], where: str) -> dict:
    limits = {}
    for name in names:
        if name not in given:
            continue
        limit = given[name]
        real = isinstance(limit, int | float | Number) if kind == "number" else isinstance(limit, int)
        if not real or isinstance(limit, bool):
            raise InvalidInput(f"{where}: {name} is a {'number' if kind == 'number' else 'whole number'}.")
        most = {"minLength": TEXT, "maxLength": TEXT, "minItems": CHOICES, "maxItems": CHOICES}.get(name)
        if most is not None and not 0 <= limit <= most:
            raise InvalidInput(f"{where}: {name} is from 0 to {most:,}.")
        limits[name] = _number(limit, where)
    if kind in ("text", "long", "secret"):
        limits.setdefault("maxLength", TEXT)
    low, high = (limits.get(name) for name in names or ("", ""))
    if low is not None and high is not None and exact(low) > exact(high):
        raise InvalidInput(f"{where}: {names[0]} is over {names[1]}.")
    return limits


def _with_default(made: Field, given: dict, where: str) -> Field:
    if "default" not in given:
        return made
    try:
        return replace(made, default=legal(made, given["default"]))
    except Wrong as error:
        raise InvalidInput(f"The default of {where} is not an answer it would accept: {error}") from None


def _property(made: Field) -> dict:
    """What `fields` would read as this field."""
    match made.kind:
        case "choice":
            written_as = _listed(made.choices)
        case "several":
            written_as = {"type": "array", "items": _listed(made.choices), "uniqueItems": True}
        case "text":
            written_as = {"type": "string"}
        case "secret":
            written_as = {"type": "string", "format": "password"}
        case "long" | "date":
            written_as = {"type": "string", "format": made.kind}
        case _:
            written_as = {"type": made.kind}
    hint = {"description": made.hint} if made.hint else {}
    default = {} if made.default is None else {"default": made.default}
    return {"title": made.title} | hint | written_as | made.limits | default


def _listed(choices: list[Choice]) -> dict:
    if all(each.label == each.text for each in choices):
        return {"enum": [each.value for each in choices]}
    return {"oneOf": [{"const": each.value, "title": each.label} for each in choices]}


def _judged(found: list[Field], values: dict, wrong: dict[str, str]) -> dict:
    accepted = {}
    for each in found:
        if each.name in wrong:
            continue
        try:
            if each.name in values:
                accepted[each.name] = legal(each, values[each.name])
            elif each.required:
                raise Wrong(_MISSING.get(each.kind, "Choose one."))
        except Wrong as error:
            wrong[each.name] = str(error)
    known = {each.name for each in found}
    wrong |= {str(name)[:LABEL]: "This form has no such field." for name in values if name not in known}
    if wrong:
        count = "One field is" if len(wrong) == 1 else f"{len(wrong)} fields are"
        raise InvalidResponse(f"{count} not as the form asks. Nothing was recorded.", fields=wrong)
    return accepted


def _number(given: Any, where: str) -> int | float:
    try:
        return unchanged(given)
    except Wrong as error:
        raise InvalidInput(f"{where}, a number: {error}") from None


def _object(given: Any, where: str) -> dict:
    if not isinstance(given, dict):
        raise InvalidInput(f"{where} is not an object.")
    return given


def _only(given: dict, known: set[str], where: str) -> None:
    for keyword in given:
        if keyword not in known:
            raise InvalidInput(f"{where} has a keyword forms do not know: {str(keyword)[:LABEL]}.")


def _names(given: Any, properties: dict, keyword: str) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(name, str) and name in properties for name in given):
        raise InvalidInput(f"`{keyword}` lists names of fields.")
    if len(set(given)) != len(given):
        raise InvalidInput(f"`{keyword}` names a field twice.")
    return given


def _label(given: dict, keyword: str, most: int, where: str) -> str:
    label = given.get(keyword, "")
    if not isinstance(label, str) or len(label) > most or canonical.fault(label):
        raise InvalidInput(f"{where}: {keyword} is text of at most {most:,} characters.")
    return label


def _line(text: str, most: int, where: str) -> None:
    if not text or len(text) > most or _CONTROL.search(text) or canonical.fault(text):
        raise InvalidInput(f"{where} is one line of 1 to {most} characters.")
