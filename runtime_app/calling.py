"""What an agent elsewhere says to the API, as steps: a generator that yields what to send, how long to pause, what to
call, and takes no part in how. `client` takes the steps, waiting or awaiting; so each verb is written once.

A line that drops, 429 and a gateway's 5xx are tried again for `patience` seconds: every POST has an Idempotency-Key,
so what arrived twice was done once. Nothing here answers, approves or settles for a person.
"""

import contextlib
import json
import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, fields
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit
from uuid import uuid4

import httpx

from .errors import GrantUnusable, InvalidResponse, LeaseLost, RunEnded, SaysoError

WAIT = 30  # seconds: the longest that one long poll is held
BEAT = 15  # seconds between two heartbeats: a quarter of the Lease
AGAIN = {429, 502, 503, 504}
CODES = {each.code: each for each in SaysoError.__subclasses__()}
T = TypeVar("T")
Steps = Generator[Any, Any, T]


class Unreachable(Exception):
    """Nobody answered within `patience` seconds. What was sent may have arrived: the same again is safe."""


class NotGiven(Exception):
    """No answer, or no approval, came of this Request: it was denied, cancelled or superseded, or it expired."""

    def __init__(self, request: "Request"):
        self.request = request
        said = (request.response or {}).get("message") or ""
        super().__init__(f"{request.outcome or request.state}{': ' if said else ''}{said}")


class _Read:
    """From the API's JSON; what is not known here is left out, so that the API can grow."""

    @classmethod
    def of(cls, data: dict):
        return cls(**{each.name: data[each.name] for each in fields(cls) if each.name in data})


@dataclass
class Run(_Read):
    """A Run of this agent, as it was when it was read; `lease` is its newest. `ends_with`: the result it is completed
    with, if nothing goes wrong."""

    id: str
    session: str
    state: str = "running"
    lease: int = 1
    cancel_requested: bool = False
    message: str = ""
    requests: list = field(default_factory=list, repr=False)
    effects: list = field(default_factory=list, repr=False)
    result: dict | None = field(default=None, repr=False)
    ends_with: str = ""
    stop: SaysoError | None = field(default=None, repr=False)

    def __post_init__(self):
        self.waits = self.state != "running"  # its next turn has to be taken before it goes on

    def check(self) -> None:
        """Raise RunEnded (`cancelling`, or how) or LeaseLost if a heartbeat was told so: stop what you are doing."""
        if self.stop:
            raise self.stop


@dataclass(frozen=True)
class Request(_Read):
    """What the Run stopped at, and what came of it. `response`: kind, values or suggestion, message, by, at."""

    id: str
    run: str
    session: str
    kind: str
    key: str
    number: int = 1
    state: str = "pending"
    outcome: str | None = None
    response: dict | None = None
    action: Any = None
    digest: str | None = None
    grant: dict | None = None
    effect: Any = None
    who_could: Any = None


@dataclass(frozen=True)
class Event(_Read):
    """A fact of a Session. `id` is the cursor after it. The kind `gap` says that what came before it is not kept."""

    id: str
    kind: str
    seq: int = 0
    run: str | None = None
    subject: str | None = None
    actor: Any = None
    at: str | None = None
    data: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """What a function may return from `effect` to say more than that it worked: succeeded, failed or unknown."""

    status: str = "succeeded"
    reference: str = ""
    note: str = ""


@dataclass(frozen=True)
class Call:
    method: str
    url: str
    content: bytes | None
    headers: dict
    timeout: float


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Do:
    function: Callable
    arguments: tuple


class Calling:
    """What can be said and asked with one credential. Errors are Sayso's own classes, and `Unreachable`."""

    def __init__(self, base_url: str, token: str, patience: float):
        parts = urlsplit(base_url)
        local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        if not (parts.scheme == "https" or parts.scheme == "http" and local) or parts.username or parts.query:
            raise ValueError("The base URL is an https one, without credentials or query; http only on this machine.")
        if not token or not token.isascii() or not token.isprintable():
            raise ValueError("The token is a text that fits a header.")
        self.base_url, self.patience = base_url.rstrip("/"), patience
        self._authorization = f"Bearer {token}"

    # ---------------------------------------------------------------- Runs

    def me(self) -> Steps[dict]:
        """Whose credential this is: instance, environment, tenant, scopes, expires_at."""
        return (yield from self._get("/me"))

    def start(
        self, message: str, *, thread: str = "", title: str = "", session: str = "", interactive: bool = True,
        key: str | None = None,
    ) -> Steps[Run]:  # fmt: skip
        """Start a Run: in a Session of its own, of a `thread` of yours, or in this one. Under a `key` of yours a
        start that is repeated, by another process too, is the same Run."""
        body = {"message": message, "interactive": interactive}
        path = f"/sessions/{quote(session)}/messages" if session else "/runs"
        if not session:
            body |= _given(thread=thread, title=title)
        return Run.of((yield from self._post(path, body, key)))

    def run(self, run_id: str) -> Steps[Run]:
        """A Run of yours, with what is known of it now."""
        return Run.of((yield from self._get(f"/runs/{quote(run_id)}")))

    def turn(self, run: Run) -> Steps[Run]:
        """Go on with a Run that waited and was answered: its next Lease."""
        before = run.lease
        try:
            now = Run.of((yield from self._post(f"/runs/{run.id}/turn", {})))
        except LeaseLost:
            if run.lease == before:
                raise
        else:
            run.lease = max(run.lease, now.lease)  # of two taken at once the newer holds
        run.waits = False
        return run

    def complete(self, run: Run, result: str = "") -> Steps[None]:
        """The Run has done what it was for."""
        yield from self._say(run, "complete", result=result)

    def fail(self, run: Run, reason: str) -> Steps[None]:
        """The Run has not, and will not."""
        yield from self._say(run, "fail", reason=reason)

    def stopped(self, run: Run) -> Steps[None]:
        """You have stopped a Run that was cancelled while it ran."""
        yield from self._say(run, "stopped")

    def cancel(self, run: Run, reason: str = "") -> Steps[None]:
        """Cancel a Run of your own."""
        yield from self._post(f"/runs/{run.id}/cancel", _given(reason=reason))

    def beat(self, run: Run) -> Steps[None]:
        """A heartbeat now and then, until the pause says stop, or the Run is over; `run.stop` says how."""
        while not (yield Pause(BEAT)):
            lease = run.lease
            try:
                yield from self._say(run, "heartbeat")
            except (RunEnded, LeaseLost) as told:
                if lease == run.lease:  # else this Run took its next turn meanwhile
                    run.stop, run.cancel_requested = told, isinstance(told, RunEnded)
                    return
            except (SaysoError, Unreachable):
                continue

    def end(self, run: Run, error: BaseException | None) -> Steps[None]:
        """Complete, failed with this exception, or stopped if it was cancelled. What ends the process leaves it. One
        that still waits cannot fail, so it is cancelled: nobody is asked for nothing."""
        if error is None:
            try:
                yield from self.complete(run, str(run.ends_with))
            except RunEnded as ended:
                yield from self._stopping(run, ended)
                raise
            return
        with contextlib.suppress(SaysoError, Unreachable):  # the block's own exception goes on
            if isinstance(error, RunEnded):
                yield from self._stopping(run, error)
            elif isinstance(error, Exception) and not isinstance(error, LeaseLost):
                yield from self._failing(run, _legal(f"{type(error).__name__}: {error}")[:2000])

    def _failing(self, run: Run, why: str) -> Steps[None]:
        try:
            yield from self.fail(run, why)
        except RunEnded as ended:
            yield from self._stopping(run, ended)
        except InvalidResponse:
            yield from self.cancel(run, why)

    def _stopping(self, run: Run, ended: RunEnded) -> Steps[None]:
        if ended.reason == "cancelling":
            yield from self.stopped(run)

    # ---------------------------------------------------------------- asking

    def question(self, run: Run, prompt: str, schema: dict, *, key: str | None = None) -> Steps[Request]:
        """Ask a person for information, and do not wait: `wait` does. The same question in one Run is one Request, so
        a process that starts again finds it, unless `key` tells them apart."""
        return (yield from self._raise(run, key, "wait_user", {"prompt": prompt, "schema": schema}))

    def ask(self, run: Run, prompt: str, schema: dict, *, key: str | None = None) -> Steps[dict]:
        """As `question`; wait, and go on: the answer's values, which satisfy `schema`. Raises NotGiven, RunEnded."""
        asked = yield from self.question(run, prompt, schema, key=key)
        asked = yield from self.wait(run, asked)
        if asked.outcome != "answered":
            raise NotGiven(asked)
        return (asked.response or {}).get("values") or {}

    def approval(
        self, run: Run, action: str, parameters: dict, *, claim: str = "", key: str | None = None,
        replaces: str | None = None,
    ) -> Steps[Request]:  # fmt: skip
        """Ask whether exactly this may be done, and do not wait. `claim`: your reasons, shown as unchecked. An equal
        action in one Run is the same Request unless `key` tells them apart."""
        asked = {"action": action, "parameters": parameters}
        return (yield from self._raise(run, key, "wait_approval", asked, _given(claim=claim, replaces=replaces)))

    def wait(self, run: Run, request: Request, seconds: float | None = None) -> Steps[Request]:
        """Wait until it is decided, at most `seconds`, and take the Run's next turn if nothing else is waited for. One
        that comes back `pending` was not decided in that time."""
        until = None if seconds is None else time.monotonic() + seconds
        while request.state == "pending":
            left = WAIT if until is None else min(WAIT, int(until - time.monotonic()))
            if left < 1:
                return request
            request = Request.of((yield from self._get(f"/requests/{request.id}", {"wait": f"{left}s"}, held=left)))
        if run.waits:
            try:
                yield from self.turn(run)
            except InvalidResponse as others:  # it stopped at more than this one
                if others.reason != "waiting":
                    raise
        return request

    def request(self, request_id: str) -> Steps[Request]:
        """What is known of it now."""
        return Request.of((yield from self._get(f"/requests/{quote(request_id)}")))

    def secrets(self, request: Request) -> Steps[dict]:
        """The secret fields of an answer, until they are acknowledged or the Run ends."""
        return (yield from self._get(f"/requests/{request.id}/secrets"))

    def acknowledge_secrets(self, request: Request) -> Steps[None]:
        """They are not needed any more: they are destroyed."""
        yield from self._post(f"/requests/{request.id}/secrets/acknowledge", {})

    # ---------------------------------------------------------------- effects

    def effect(
        self, run: Run, action: str, parameters: dict, do: Callable[[str, dict], T], *, claim: str = "",
        key: str | None = None, nothing_sent: tuple[type[BaseException], ...] = (),
    ) -> Steps[T]:  # fmt: skip
        """Ask for approval, wait, take its one use, call `do(key, parameters)`, and say what became of it.

        `do` gets what was approved, and the key by which its provider should know it; it may return a `Report`. If it
        raises, the outcome is unknown and a person will be asked, unless the exception is one of `nothing_sent`; it
        goes on to you. Returns what `do` returned. Raises NotGiven (denied, expired ...), RunEnded, and GrantUnusable:
        `already_consumed` means that another process took the one use, so nothing was called here.
        """
        asked = yield from self.approval(run, action, parameters, claim=claim, key=key)
        asked = yield from self.wait(run, asked)
        return (yield from self.act(run, asked, do, nothing_sent=nothing_sent))

    def act(
        self, run: Run, request: Request, do: Callable[[str, dict], T], *,
        nothing_sent: tuple[type[BaseException], ...] = (),
    ) -> Steps[T]:  # fmt: skip
        """The second half of `effect`, for a Request that is decided."""
        if request.outcome != "approved":
            raise NotGiven(request)
        # a key of this call alone: a process started anew must not take an earlier one's use for its own
        given = yield from self._post(f"/requests/{request.id}/dispatch", {"lease": run.lease})
        effect = given.get("effect") or {}
        if effect.get("state", "in_flight") != "in_flight":  # told so late that people look after it already
            raise GrantUnusable("This was dispatched, and is not in flight any more.", reason="already_consumed")
        key = effect.get("key") or request.id
        try:
            came = yield Do(do, (key, given["parameters"]))
        except GeneratorExit:
            raise
        except BaseException as error:
            status = "failed" if isinstance(error, nothing_sent) else "unknown"
            with contextlib.suppress(SaysoError, Unreachable):  # silence says the same, at the deadline
                yield from self._report(request, Report(status, note=type(error).__name__))
            raise
        yield from self._report(request, came if isinstance(came, Report) else Report())
        return came

    def evidence(self, effect_id: str, finding: str, *, reference: str = "", statement: str = "") -> Steps[dict]:
        """What you know of an Effect of yours: committed, not_committed or unknown. It is kept as your claim."""
        body = {"finding": finding} | _given(reference=reference, statement=statement)
        return (yield from self._post(f"/effects/{quote(effect_id)}/evidence", body))

    def page(self, session: str | None, cursor: str | None, held: int, patience: float | None) -> Steps[dict]:
        """Some Events after a cursor; at most `held` seconds until there are any."""
        query = _given(after=cursor, wait=f"{held}s" if held else None)
        path = f"/sessions/{quote(session)}/events" if session else "/events"
        return (yield from self._get(path, query, held, patience))

    # ---------------------------------------------------------------- what all of it stands on

    def _say(self, run: Run, what: str, **more) -> Steps[dict]:
        return (yield from self._post(f"/runs/{run.id}/{what}", {"lease": run.lease, **more}))

    def _raise(self, run: Run, key: str | None, kind: str, asked: dict, more: dict | None = None) -> Steps[Request]:
        run.check()
        key = key or f"{kind}-{sha256(_dump(asked, sort=kind == 'wait_approval')).hexdigest()[:24]}"
        request = Request.of((yield from self._say(run, "requests", key=key, kind=kind, **asked, **(more or {}))))
        if request.state == "pending":
            run.waits = True
        return request

    def _report(self, request: Request, report: Report) -> Steps[None]:
        body = {"status": report.status} | _given(reference=report.reference, note=report.note)
        yield from self._post(f"/requests/{request.id}/outcome", body)

    def _get(self, path: str, query: dict | None = None, held: float = 0, patience: float | None = None) -> Steps[dict]:
        return (
            yield from self._send("GET", path + (f"?{urlencode(query)}" if query else ""), None, {}, held, patience)
        )

    def _post(self, path: str, body: dict, key: str | None = None) -> Steps[dict]:
        headers = {"Idempotency-Key": key or str(uuid4()), "Content-Type": "application/json"}
        return (yield from self._send("POST", path, _dump(body), headers))

    def _send(self, method, path, content, headers, held=0.0, patience=None) -> Steps[dict]:
        """One request; the same again while that is safe and there is patience."""
        headers = {"Authorization": self._authorization, "Accept": "application/json", **headers}
        call = Call(method, self.base_url + path, content, headers, held + 10)
        until = time.monotonic() + (self.patience if patience is None else patience)
        delay = 0.1
        while True:
            pause = delay * random.uniform(0.5, 1)
            try:
                answer = yield call
                if answer.is_success:
                    return answer.json() if answer.content else {}
                failed = _error(answer)
                if answer.status_code not in AGAIN:
                    raise failed
                pause = max(pause, _retry_after(answer))
            except httpx.TransportError as lost:
                failed = Unreachable(f"{method} {path.partition('?')[0]}: {type(lost).__name__}")
            if time.monotonic() + pause > until:
                raise failed
            yield Pause(pause)
            delay = min(delay * 2, 5)


def _given(**texts: str | None) -> dict:
    return {name: text for name, text in texts.items() if text}


def _legal(text: str) -> str:
    """Whatever an exception says, as text that JSON and a database take."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def _dump(value: Any, sort: bool = False) -> bytes:
    """`sort`: two Actions whose parameters only come in another order are equal; a form's fields are in theirs."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"), sort_keys=sort).encode()


def _error(answer: httpx.Response) -> SaysoError:
    """As it was raised there. What is not Sayso's (a proxy's page) is a SaysoError that says so."""
    try:
        said = dict(answer.json())
        made = CODES[said.pop("code")](said.pop("message"), reason=said.pop("reason", None))
        made.facts = said
    except (ValueError, KeyError, TypeError):
        made = SaysoError(f"The server answered {answer.status_code}.", reason=str(answer.status_code))
    made.status = answer.status_code
    return made


def _retry_after(answer: httpx.Response) -> float:
    """In seconds, 0 without. A date is counted from the answer's own."""
    said = answer.headers.get("retry-after", "")
    if said.isdigit():
        return float(said)
    try:
        left = parsedate_to_datetime(said) - parsedate_to_datetime(answer.headers["date"])
        return max(0.0, left.total_seconds())
    except (TypeError, ValueError, KeyError):
        return 0.0
