"""POST /callbacks/<tenant>/<action>/: a provider says what became of an Effect (R24, T88). Standard Webhooks.

    {"key": "…", "finding": "committed", "reference": "build-7", "statement": "…"}

`finding` is committed, not_committed or working. The signature is over the bytes as they came, checked before they are
parsed, with the secrets of this action in this tenant (`./run manage callback_secret`); at most 5 minutes old.
"""

from django.http import JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from standardwebhooks import Webhook, WebhookVerificationError

from .. import actions, canonical, selectors, transitions
from ..errors import InvalidInput, NotSignedIn, SaysoError
from ..permissions import system

BODY = 64 * 1024  # bytes
ID = 200  # characters of a webhook-id
LONGEST = {"key": 64, "reference": 2_000, "statement": 4_000}
REPLIES = {each.finding: each for each in (actions.Committed, actions.NotCommitted, actions.Working)}


@csrf_exempt  # no cookie counts here: whoever sends signs
@require_POST
def receive(request, slug, action):
    try:
        kept = _receive(request, slug, action)
    except SaysoError as refused:
        response = JsonResponse(refused.as_data(), status=refused.status)
        if "retry_after" in refused.facts:
            response["Retry-After"] = str(refused.facts["retry_after"])
        return response
    return JsonResponse({"evidence": str(kept.pk)})


def _receive(request, slug: str, action: str):
    tenant_id, secrets = selectors.callback_secrets(slug, action)
    provider = system("provider", tenant_id)
    try:
        body = _body(request)
        _signed(request, body, secrets)
        key, reply = _said(body)
    except SaysoError as refused:
        # of what nobody signed, no word is written down but the name of an action that there is
        known = action if actions.registered(action) else ""
        transitions.record_refusal(provider, "provider_says", refused, known)
        raise
    message_id = request.headers["webhook-id"]
    return transitions.provider_says(provider, action=action, key=key, message_id=message_id, reply=reply)


def _body(request) -> bytes:
    body = request.read(BODY + 1)
    if len(body) > BODY:
        raise InvalidInput(f"This is larger than the {BODY:,} bytes accepted here.", reason="too_large")
    return body


def _signed(request, body: bytes, secrets: list[bytes]) -> None:
    """One answer for an unknown tenant, an action without a secret, a wrong signature and an old one."""
    message_id = request.headers.get("webhook-id", "")
    if 0 < len(message_id) <= ID and message_id.isprintable():
        for secret in secrets:
            try:
                return Webhook(secret).verify(body, request.headers, json_parse=False)
            except (WebhookVerificationError, ValueError):  # ValueError: a signature or a body that is no text at all
                continue
    raise NotSignedIn("No signature here that this tenant's secrets for this action make, of the last 5 minutes.")


def _said(body: bytes) -> tuple[str, actions.Reply]:
    said = canonical.parse(body)
    wrong = {}
    if not isinstance(said, dict):
        raise InvalidInput("A callback is a JSON object.")
    for name in sorted(said.keys() - {"finding", *LONGEST}):
        wrong[name[:60]] = "no such field"
    for name, longest in LONGEST.items():
        if not isinstance(said.setdefault(name, ""), str) or len(said[name]) > longest:
            wrong[name] = f"a text of at most {longest:,} characters"
    if not isinstance(said.get("finding"), str) or said["finding"] not in REPLIES:
        wrong["finding"] = f"one of {', '.join(REPLIES)}"
    if wrong:
        raise InvalidInput("This callback cannot be read as one.", fields=wrong)
    return said["key"], REPLIES[said["finding"]](said["reference"], said["statement"])
