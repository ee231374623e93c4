"""What a form posted, as a Response: nothing missing, nothing twice, nothing unknown, nothing guessed (R02, R14)."""

from runtime_app import canonical, questions
from runtime_app.errors import InvalidResponse
from runtime_app.ids import parse_id
from runtime_app.models import Request
from runtime_app.responses import Answer, Approve, Deny, Finding, Recover, Resume

COMMON = ("response_id", "session", "message")
CALM = {"csrfmiddlewaretoken"}
LINE = 2_000  # characters of a field of one line


def decision(post, request: Request) -> Resume:
    """`decision` is approve or deny, of exactly the `digest` that was shown."""
    said = _read(post, {"decision", "digest", "suggestion", "confirm"})
    wrong = _wrong_common(said)
    if said["decision"] not in ("approve", "deny"):
        wrong["decision"] = "Choose to approve or to deny."
    if not said["digest"]:
        wrong["digest"] = "The form does not say which action it showed. Open the request again."
    if said["suggestion"] and said["decision"] != "deny":
        wrong["suggestion"] = "A suggestion goes with a denial: nobody asked for the changed action yet."
    _refuse(wrong)
    if said["decision"] == "approve":
        return _resume(said, request, Approve(said["digest"], said["confirm"]))
    return _resume(said, request, Deny(said["digest"], said["suggestion"] or None))


def answer(post, request: Request) -> Resume:
    """The fields of the Request's own schema, beside what every form carries."""
    fields = {name: texts for name, texts in post.lists() if name not in COMMON and name not in CALM}
    said = _read({name: post.getlist(name) for name in (*COMMON, *CALM) if name in post}, set())
    _refuse(_wrong_common(said))
    values = questions.read_form(request.schema, fields) if request.kind == "wait_user" else {}
    return _resume(said, request, Answer(values))


def finding(post, request: Request) -> Resume:
    """What was established, with a `reference`; or one `recovery` action to start. `desk`: sent from the list."""
    said = _read(post, {"finding", "reference", "recovery", "desk"})
    wrong = _wrong_common(said)
    if said["recovery"] and said["finding"]:
        wrong["finding"] = "Record a finding or start a recovery action, not both at once."
    elif said["recovery"] == "accept" and not said["message"].strip():
        wrong["message"] = "Write why it is right to go on without knowing."
    elif not said["recovery"]:
        wrong |= _wrong_finding(said)
    _refuse(wrong)
    if said["recovery"]:
        return _resume(said, request, Recover(said["recovery"]))
    return _resume(said, request, Finding(said["finding"], said["reference"].strip()))


def evidence(post) -> dict:
    """What was found about an Effect that is settled already."""
    said = _read(post, {"finding", "reference"})
    _refuse(_wrong_id(said) | _wrong_finding(said))
    found = {"finding": said["finding"], "reference": said["reference"].strip(), "message": said["message"]}
    return found | {"response_id": parse_id(said["response_id"])}


def supply(post, given: Request) -> dict:
    """What a blocked job lacked: the fields of its question, or its exact action's digest."""
    if given.kind == "wait_user":
        fields = {name: texts for name, texts in post.lists() if name not in COMMON and name not in CALM}
        said = _read({name: post.getlist(name) for name in (*COMMON, *CALM) if name in post}, set())
        _refuse(_wrong_id(said))
        response = Answer(questions.read_form(given.schema, fields))
    else:
        said = _read(post, {"decision", "digest", "confirm"})
        wrong = _wrong_id(said)
        if said["decision"] not in ("approve", "deny"):
            wrong["decision"] = "Choose to grant or to deny."
        if not said["digest"]:
            wrong["digest"] = "The form does not say which action it showed. Open the page again."
        _refuse(wrong)
        response = Deny(said["digest"])
        if said["decision"] == "approve":
            response = Approve(said["digest"], said["confirm"])
    return {"response": response, "message": said["message"], "response_id": parse_id(said["response_id"])}


def reason(post) -> dict:
    """Of a form that does one thing: why, and its own id."""
    said = _read(post, set())
    _refuse(_wrong_id(said))
    return {"response_id": parse_id(said["response_id"]), "reason": said["message"].strip()}


def start(post) -> dict:
    """A message that starts a Run: which agent, where, under which client-made id."""
    said = _read(post, {"agent", "environment", "start_id", "title"})
    wrong = {} if parse_id(said["start_id"]) else {"start_id": "The form has lost its id. Open the page again."}
    if not said["message"].strip():
        wrong["message"] = "Write what the agent is to do."
    for name, missing in (("agent", "Choose an agent."), ("environment", "Choose where it may act.")):
        if not said[name]:
            wrong[name] = missing
    _refuse(wrong)
    return {name: said[name] for name in ("agent", "environment", "message")} | {
        "start_id": parse_id(said["start_id"]), "title": said["title"].strip()
    }  # fmt: skip


def cancel(post) -> dict:
    said = _read(post, {"reason", "confirm"})
    _refuse(_wrong_id(said))
    return {"response_id": parse_id(said["response_id"]), "reason": said["reason"].strip(), "confirm": said["confirm"]}


def fields(request, files: str = ""):
    """What was posted, once it is known to bring no file but under the name `files`."""
    _refuse({_named(name): "This form takes no file." for name in request.FILES if name != files})
    if not files or any(request.POST.getlist(files)):
        return request.POST
    post = request.POST.copy()
    post.pop(files, None)  # what a browser sends for a file that was not chosen: a field with nothing in it
    return post


def typed(post, schema=None) -> dict[str, list[str]]:
    """What was typed, to be shown again after a refusal; a text too long to be a field's is let go, and so is what the
    form's `schema` calls secret (R12)."""
    gone = CALM | questions.secret(schema)
    return {name: texts for name, texts in post.lists() if name not in gone and sum(map(len, texts)) <= 60_000}


def written(post, schema=None) -> list[tuple[str, str]]:
    """The words and choices of a form that came too late, by name: whoever wrote them may copy them."""
    carried = {"response_id", "session", "digest", "decision", "recovery"}
    found = typed(post, schema)
    return [(name, text) for name in found if name not in carried for text in found[name] if text.strip()]


def _read(post, allowed: set[str]) -> dict[str, str]:
    """One text a known name, "" where it is absent. InvalidResponse for a name that is unknown or comes twice."""
    known, wrong, said = allowed | set(COMMON), {}, {}
    lists = post.lists() if hasattr(post, "lists") else post.items()
    for name, texts in lists:
        if name in CALM:
            continue
        if name not in known:
            wrong[_named(name)] = "This form has no such field."
        elif len(texts) > 1:
            wrong[name] = "This was sent more than once."
        elif fault := canonical.fault(texts[0]):
            wrong[name] = f"The text {fault}."
        elif name not in ("message", "suggestion") and len(texts[0]) > LINE:
            wrong[name] = f"At most {LINE:,} characters; this has {len(texts[0]):,}."
        else:
            said[name] = texts[0].replace("\r\n", "\n")
    _refuse(wrong)
    return dict.fromkeys(known, "") | said


def _wrong_finding(said: dict[str, str]) -> dict[str, str]:
    if said["finding"] not in ("committed", "not_committed", "unknown"):
        return {"finding": "Choose what you found."}
    if said["finding"] != "unknown" and not said["reference"].strip():
        return {"reference": "Say where you looked, so that another person can follow."}
    return {}


def _wrong_id(said: dict[str, str]) -> dict[str, str]:
    return {} if parse_id(said["response_id"]) else {"response_id": "The form has lost its id. Open the page again."}


def _named(name: str) -> str:
    return name[:60].encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def _wrong_common(said: dict[str, str]) -> dict[str, str]:
    lost = "The form has lost this. Open the request again."
    return {name: lost for name in ("response_id", "session") if parse_id(said[name]) is None}


def _refuse(wrong: dict[str, str]) -> None:
    if wrong:
        count = "One field is" if len(wrong) == 1 else f"{len(wrong)} fields are"
        raise InvalidResponse(f"{count} not as the form asks. Nothing was recorded.", fields=wrong)


def _resume(said: dict[str, str], request: Request, response) -> Resume:
    return Resume(
        session_id=said["session"], request_id=request.pk, response=response, message=said["message"],
        response_id=parse_id(said["response_id"]),
    )  # fmt: skip
