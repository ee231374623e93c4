"""Receivers on loopback: one that answers as it is told, and the package's own."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from agentapprovalprotocol.receiver import verify

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


class Hook:
    """A receiver in this process. `answers`: what it says, one after another, then the last one again: a status, or a
    status with headers, or a function of the message. `heard`: each attempt as it came."""

    def __init__(self, *answers, tls=None):
        self.tls = tls
        self.answers, self.heard, self.open, self.most = list(answers or [204]), [], 0, 0
        self.lock = threading.Lock()

    def __enter__(self):
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with hook.lock:
                    hook.open += 1
                    hook.most = max(hook.most, hook.open)
                    hook.heard.append((dict(self.headers), body))
                    said = hook.answers.pop(0) if len(hook.answers) > 1 else hook.answers[0]
                hook.answer(self, said, json.loads(body))
                with hook.lock:
                    hook.open -= 1

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # who goes away goes away
        if self.tls:
            self.server.socket = self.tls.wrap_socket(self.server.socket, server_side=True)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def answer(self, handler, said, message) -> None:
        if message.get("type") == "webhook.verification" and not callable(said):
            said = lambda message: (200, {}, json.dumps({"challenge": message["challenge"]}))  # noqa: E731
        if callable(said):
            said = said(message)
        status, headers, body = (said, {}, "") if isinstance(said, int) else said
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body.encode())

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def messages(self, **more) -> list[dict]:
        """What was heard, each verified by the package's receiver."""
        return [verify(SECRET, headers, body, **more) for headers, body in self.heard]


async def served(application):
    """An ASGI application on a free port of the loopback, in this loop: the server's task, and its address."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(application, port=0, log_level="error", lifespan="off"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    return server, task, f"http://127.0.0.1:{port}/"
