"""What an admin's form posted about agents elsewhere and their actions: nothing missing, nothing guessed."""

from datetime import timedelta

from runtime_app import clock
from runtime_app.ids import parse_id
from runtime_app.models.credentials import SCOPES

from .forms import _read, _refuse

LIVES = {"30": "30 days", "90": "90 days", "365": "a year", "": "until it is revoked"}
OVERLAPS = {"": "until it is revoked", "1": "one more hour", "24": "one more day", "168": "seven more days"}
ID = "The form has lost its id. Open the page again."


def credential(post) -> dict:
    """A provisioner token, or an instance credential: of a new agent, or of the one that `instance` names."""
    said = _read(post, {"credential_id", "kind", "name", "agent", "environment", "lives", "instance", *SCOPES})
    scopes = [each for each in SCOPES if said[each]]
    wrong = {} if parse_id(said["credential_id"]) else {"credential_id": ID}
    if said["lives"] not in LIVES:
        wrong["lives"] = "Choose how long it lives."
    if not scopes:
        wrong["scopes"] = "Choose at least one interface."
    for name, missing in (("kind", "Choose what it is for."), ("environment", "Choose where it may act.")):
        if not said[name]:
            wrong[name] = missing
    if not said["name"].strip():
        wrong["name"] = "Write what people call it."
    _refuse(wrong)
    made = {name: said[name].strip() for name in ("kind", "name", "environment", "agent")}
    if said["instance"]:
        made |= {"instance_id": said["instance"]}
    expires_at = clock.now() + timedelta(days=int(said["lives"])) if said["lives"] else None
    return made | {"scopes": scopes, "expires_at": expires_at, "credential_id": parse_id(said["credential_id"])}


def rotation(post) -> dict:
    said = _read(post, {"credential_id", "overlap", "lives"})
    wrong = {} if parse_id(said["credential_id"]) else {"credential_id": ID}
    if said["overlap"] not in OVERLAPS or said["lives"] not in LIVES:
        wrong["overlap"] = "Choose from the list."
    _refuse(wrong)
    return {
        "overlap": timedelta(hours=int(said["overlap"])) if said["overlap"] else None,
        "expires_at": clock.now() + timedelta(days=int(said["lives"])) if said["lives"] else None,
        "new_id": parse_id(said["credential_id"]),
    }


def nothing(post) -> dict:
    """Of a form whose button says it all."""
    _read(post, {"response_id"})
    return {}


def registration(post) -> dict:
    """What is said of an action: a tick is sent or it is not; names of parameters are one a line."""
    said = _read(post, {"pattern", "title", "consequence", "reversible", "changes", "conclusive", "minutes", "risky"})
    minutes = said["minutes"].strip()
    if not (minutes.isascii() and minutes.isdigit() and 0 < len(minutes) <= 6 and int(minutes)):
        _refuse({"minutes": "Must be a whole number of minutes, such as 10."})
    return {
        **{name: said[name].strip() for name in ("pattern", "title", "consequence", "reversible")},
        "changes": bool(said["changes"]), "failure_conclusive": bool(said["conclusive"]),
        "deadline": timedelta(minutes=int(minutes)),
        "risky": [line.strip() for line in said["risky"].splitlines() if line.strip()],
    }  # fmt: skip
