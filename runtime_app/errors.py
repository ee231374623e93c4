"""Every refusal Sayso can give: one class, one code, one HTTP status (spec section 9).

The same code appears in Python, in the API and on the page. `message` is a sentence for people: what was wrong,
what stands now, what they can do. `reason` narrows a code (``already_resolved``, ``already_consumed`` ...).
`facts` carries plain data for the page and the API; it never holds the content of a response or a secret.
"""


class SaysoError(Exception):
    """Base of all refusals. Raised inside a transition it rolls everything back; nothing half done remains."""

    code = "error"
    status = 500
    default = "The request was refused."
    recorded = False  # written down already (R13)

    def __init__(self, message: str | None = None, *, reason: str | None = None, **facts):
        self.message = message or self.default
        self.reason = reason
        self.facts = facts
        super().__init__(self.message)

    def as_data(self) -> dict:
        """The error as the API and `aria` text give it."""
        data = {"code": self.code, "message": self.message, **self.facts}
        return data | {"reason": self.reason} if self.reason else data


class NotSignedIn(SaysoError):
    code, status = "not_signed_in", 401
    default = "Sign in to continue."


class NotFound(SaysoError):
    """R07: unknown, foreign tenant and foreign Session are one answer."""

    code, status = "not_found", 404
    default = "Nothing here that you can see. It may not exist, or belong to a tenant you are not a member of."


class NotAuthorized(SaysoError):
    """R06, R18: names the missing permission (`permission`) or the stake (`stake`)."""

    code, status = "not_authorized", 403
    default = "You may not do this."


class StaleRequest(SaysoError):
    """R08, R24: reason is already_resolved, already_voted, recovering, cancelled, expired or superseded."""

    code, status = "stale_request", 409
    default = "This was decided before your response arrived. Your response was not recorded."


class DigestMismatch(SaysoError):
    """R14: the action shown is not the action the Request has."""

    code, status = "digest_mismatch", 409
    default = "The action you were shown is not the action this request has. Nothing was recorded."


class IdempotencyConflict(SaysoError):
    """R04, R09: the same key or response_id was used for something else."""

    code, status = "idempotency_conflict", 409
    default = "This id was already used for something else. Nothing was changed."


class GrantUnusable(SaysoError):
    """R16: reason is already_consumed, approval_expired, not_approved or void."""

    code, status = "grant_unusable", 409
    default = "There is no usable approval for this action."


class RunEnded(SaysoError):
    """R32: reason is how the Run ended, or `cancelling`."""

    code, status = "run_ended", 409
    default = "This Run has already ended."


class LeaseLost(SaysoError):
    """R29: another worker has the Run, or nobody; the write was refused."""

    code, status = "lease_lost", 409
    default = "This worker no longer holds the Run."


class InvalidResponse(SaysoError):
    """R02: reason is wrong_kind, or `fields` says which field is wrong and why."""

    code, status = "invalid_response", 422
    default = "The response is not one this request accepts."


class InvalidInput(SaysoError):
    """R15: what was sent cannot be accepted. `unparsable` gives 400, `too_large` 413, `content_type` 415."""

    code, status = "invalid_input", 422
    default = "What was sent cannot be accepted."

    def __init__(self, message: str | None = None, *, reason: str | None = None, **facts):
        super().__init__(message, reason=reason, **facts)
        self.status = {"unparsable": 400, "too_large": 413, "content_type": 415}.get(reason, 422)


class CursorInvalid(SaysoError):
    """R37: not a cursor of this subscription, or of the future."""

    code, status = "cursor_invalid", 400
    default = "This cursor does not belong to what you asked for."


class TooMany(SaysoError):
    """Rate limited. `retry_after` is in seconds."""

    code, status = "too_many", 429
    default = "Too many requests. Try again shortly."


class Busy(SaysoError):
    """A lock or statement timeout, or a full disk (`no_room`); nothing happened. `retry_after` is in seconds."""

    code, status = "busy", 503
    default = "Somebody else is changing this right now. Nothing happened; try again."
