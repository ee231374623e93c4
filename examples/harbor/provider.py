"""Harbor, a pretend deployment provider: a real HTTP server with its own log, and a switch for each way to go wrong.

    POST /deployments        {"service", "version", "environment"} with an Idempotency-Key: 201, and once for each key
    GET  /deployments/<key>  200 with the deployment, or 404
    GET  /log                every delivery received, oldest first
    PUT  /mode               {"mode": …} and, as wanted, "service", "seconds", "times", "lag", "once", "seed"
    GET  /mode               the modes in force

Modes: `commit` replies; `drop` commits and cuts the line; `error` commits and says 500; `late` commits and replies
after `seconds`; `twice` commits and sends its reply twice; `refuse` is a clear no (422, with a reason); `broken` says
500 and does nothing; `down` cuts the line and does nothing; `silent` does nothing and cuts the line after `seconds`;
`any` is one of these, drawn from `seed`. A mode holds for one `service` or for all, for so many deliveries (`times`)
or until the next. With a `lag`, look-ups find a deployment only that many seconds later. With `"once": false` a key
that comes again is deployed again.

The log is the judge of what happened: one JSON object a line, on disk before the reply leaves. Its `what` is
`committed`, `repeat` (the key's first result was given again), `conflict` (the key came with another body), `refused`,
`broken`, `down`, `silent` or `invalid`. A restart reads it back; modes start anew.
"""

import json
import os
import random
import sys
import threading
import time
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

DRAWN = ("commit", "drop", "error", "late", "twice", "refuse", "broken", "down", "silent")
MODES = (*DRAWN, "any")
NOTHING_DONE = ("broken", "down", "silent")
ORDER = {"service", "version", "environment"}
FIRST = ("committed", "refused")  # what a key's first result can be
LARGEST = 65_536  # bytes of a body


@dataclass
class Mode:
    mode: str = "commit"
    seconds: float = 0
    times: int | None = None
    lag: float = 0
    once: bool = True
    seed: int = 0


@dataclass
class Result:
    """What one key came to: an HTTP status and body, the order it was for, and from when on look-ups find it."""

    order: dict
    status: int
    body: dict
    found_from: float = field(default=0, compare=False)
    replies: int = field(default=1, compare=False)


class Log:
    """Append-only, one line a delivery. Every line is on disk before `write` returns."""

    def __init__(self, path: Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "a+b", buffering=0)
        self._file.seek(0)
        whole, newline, torn = self._file.read().rpartition(b"\n")
        if torn:  # killed in the middle of a line: nobody was told of it
            self._file.truncate(len(whole + newline))
        self.lines = [json.loads(line) for line in whole.splitlines()]

    def write(self, **facts) -> None:
        line = {"n": len(self.lines) + 1, "at": datetime.now(UTC).isoformat()} | facts
        self._file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        os.fsync(self._file.fileno())
        self.lines.append(line)

    def close(self) -> None:
        self._file.close()


class Harbor(ThreadingHTTPServer):
    """Harbor on 127.0.0.1:`port` (0 picks a free one), its log at `log`. `serve_forever` and `stop` in two threads."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, log: Path):
        self.log = Log(log)
        self.modes = {None: Mode()}
        self.results = {line["key"]: _result(line) for line in self.log.lines if line["what"] in FIRST}
        self.stopping = threading.Event()
        self._drawn = random.Random(0)
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", port), Delivery)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def stop(self) -> None:
        self.stopping.set()
        self.shutdown()
        self.server_close()
        with self._lock:
            self.log.close()

    def deliver(self, key: str, order: dict) -> Result | None:
        """Decide, write it down, and give the reply, or None where the line is cut."""
        with self._lock:
            mode = self._spend(order["service"])
            if mode.mode == "any":
                mode = replace(mode, mode=self._drawn.choice(DRAWN))
            what, result = self._decide(mode, key, order)
            self.log.write(what=what, key=key, order=order, mode=mode.mode, status=result.status, body=result.body)
            if what in FIRST:
                self.results[key] = result
        if mode.mode in ("late", "silent"):
            self.stopping.wait(mode.seconds)
        if mode.mode in ("drop", "down", "silent") or self.stopping.is_set():
            return None
        if mode.mode == "error":
            return Result(order, 500, {"reason": "Harbor broke after it was done."})
        return replace(result, replies=2) if mode.mode == "twice" else result

    def invalid(self, key: str | None, sent: bytes, status: int, reason: str) -> Result:
        with self._lock:
            order = sent[:1000].decode(errors="replace")
            self.log.write(what="invalid", key=key, order=order, mode="", status=status, body={"reason": reason})
        return Result({}, status, {"reason": reason})

    def look_up(self, key: str) -> Result | None:
        """200 or 404; None where the line is cut."""
        with self._lock:
            result = self.results.get(key)
            if "down" in (self.modes[None].mode, result and self.modes.get(result.order["service"], Mode()).mode):
                return None
            if result and result.status == 201 and result.found_from <= time.monotonic():
                return Result(result.order, 200, result.body)
        return Result({}, 404, {"reason": "There is no deployment with this key."})

    def set_mode(self, asked: dict) -> Result:
        service = asked.pop("service", None)
        try:
            mode = Mode(**asked)
            sane = mode.mode in MODES and isinstance(mode.once, bool) and isinstance(mode.seed, int)
            sane = sane and mode.seconds >= 0 and mode.lag >= 0 and (mode.times is None or mode.times > 0)
        except TypeError:
            sane = False
        if not sane or not isinstance(service, str | None):
            return Result({}, 422, {"reason": f"A mode is one of {', '.join(MODES)}."})
        with self._lock:
            self.modes[service] = mode
            if mode.mode == "any":
                self._drawn = random.Random(mode.seed)
        return self.get_mode()

    def get_mode(self) -> Result:
        with self._lock:
            services = {service: asdict(mode) for service, mode in self.modes.items() if service is not None}
            return Result({}, 200, asdict(self.modes[None]) | {"services": services})

    def handle_error(self, request, client_address):
        if not isinstance(sys.exception(), ConnectionError):  # a caller may hang up
            super().handle_error(request, client_address)

    def _spend(self, service: str) -> Mode:
        named = service if service in self.modes else None
        mode = self.modes[named]
        if mode.times is not None:
            mode.times -= 1
            if not mode.times:
                del self.modes[named]
                self.modes.setdefault(None, Mode())
        return mode

    def _decide(self, mode: Mode, key: str, order: dict) -> tuple[str, Result]:
        first = self.results.get(key)
        if mode.mode in NOTHING_DONE:
            return mode.mode, Result(order, 500 if mode.mode == "broken" else 0, {"reason": "Harbor is broken."})
        if first and first.order != order:
            return "conflict", Result(order, 409, {"reason": "This key was used for another deployment."})
        if first and mode.once:
            return "repeat", first
        if mode.mode == "refuse":
            return "refused", Result(order, 422, {"reason": f"Harbor does not deploy {order['service']} now."})
        number = 1 + sum(result.status == 201 for result in self.results.values())
        deployment = {"id": f"harbor-{number}", "key": key, "status": "deployed"} | order
        return "committed", Result(order, 201, deployment, found_from=time.monotonic() + mode.lag)


class Delivery(BaseHTTPRequestHandler):
    """One connection. Lines are cut by closing it without a word."""

    protocol_version = "HTTP/1.1"
    server_version = "Harbor"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: Harbor

    def do_POST(self):
        sent, key = self._body(), self.headers.get("Idempotency-Key")
        if sent is None:
            self._reply(self.server.invalid(key, b"", 413, f"A body has a length, of at most {LARGEST} bytes."))
        elif self.path != "/deployments":
            self._reply(self._no_such_page())
        elif not key:
            self._reply(self.server.invalid(key, sent, 400, "An Idempotency-Key is needed."))
        elif (order := _order(sent)) is None:
            self._reply(self.server.invalid(key, sent, 422, "A deployment names its service, version and environment."))
        else:
            self._reply(self.server.deliver(key, order))

    def do_GET(self):
        if self.path == "/log":
            self._reply(Result({}, 200, list(self.server.log.lines)))
        elif self.path == "/mode":
            self._reply(self.server.get_mode())
        elif self.path.startswith("/deployments/"):
            self._reply(self.server.look_up(unquote(self.path.removeprefix("/deployments/"))))
        else:
            self._reply(self._no_such_page())

    def do_PUT(self):
        asked = _object(self._body() or b"")
        self._reply(self.server.set_mode(asked or {"mode": None}) if self.path == "/mode" else self._no_such_page())

    def log_message(self, *args):
        pass

    def _body(self) -> bytes | None:
        length = self.headers.get("Content-Length", "")
        # A little more than is accepted is read too: closing on unread bytes would cut off the reply.
        sent = self.rfile.read(min(int(length), 10 * LARGEST)) if length.isdecimal() else None
        if sent is None or int(length) > LARGEST:
            self.close_connection = True
            return None
        return sent

    def _no_such_page(self) -> Result:
        return Result({}, 404, {"reason": "Harbor has /deployments, /log and /mode."})

    def _reply(self, result: Result | None) -> None:
        if result is None:
            self.close_connection = True
            return
        body = json.dumps(result.body, ensure_ascii=False).encode()
        for _ in range(result.replies):
            self.send_response(result.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)


def _result(line: dict) -> Result:
    return Result(line["order"], line["status"], line["body"])


def _order(sent: bytes) -> dict | None:
    order = _object(sent)
    if order is None or order.keys() != ORDER or not all(isinstance(each, str) and each for each in order.values()):
        return None
    return order


def _object(sent: bytes) -> dict | None:
    try:
        found = json.loads(sent)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
