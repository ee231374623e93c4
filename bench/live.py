"""Commit → the last of many sockets: `ours` is the console's own server and consumer, `raw` the bare floor."""

import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time

import psycopg

from bench.cycle import spread
from console.processes import Children

PATIENCE = 60  # seconds for a server to listen and for all sockets to connect
LOST = 5  # seconds after which news that is not everywhere counts as lost
PAUSE = 0.03  # seconds between two commits
UNCOUNTED = 3  # the first ones pay for what is made once, or are told as news without a number


def measure(publish, port: int, path: str, headers: dict[str, str], count: int, events: int) -> None:
    """`publish` commits one piece of news and returns its number and the moment its COMMIT was sent."""
    told: queue.Queue[str] = queue.Queue()
    arguments = json.dumps({"port": port, "path": path, "headers": headers, "count": count})
    command = [sys.executable, "-m", "bench.sockets", arguments]
    sockets = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    threading.Thread(target=lambda: [told.put(line) for line in sockets.stdout], daemon=True).start()
    try:
        assert told.get(timeout=PATIENCE) == "ready\n"
        took, lost = [], 0
        for number in range(events + UNCOUNTED):
            sent, began = publish()
            at = arrival(told, sent)
            if number < UNCOUNTED:
                continue
            lost += at is None
            if at:
                took.append(at - began)
            time.sleep(PAUSE)
        print(json.dumps(spread(took) | {"lost": lost}), flush=True)
    finally:
        sockets.kill()


def arrival(told: queue.Queue[str], number: int) -> float | None:
    until = time.monotonic() + LOST
    while (left := until - time.monotonic()) > 0:
        try:
            found, at = told.get(timeout=left).split()
        except queue.Empty:
            break
        if int(found) == number:
            return float(at)
    return None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port: int) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def raw(children: Children, port: int):
    children.start("raw", [sys.executable, "-m", "bench.raw", str(port)])
    connection = psycopg.connect(os.environ["BENCH_URL"])
    connection.execute("INSERT INTO run (id, state) VALUES (gen_random_uuid(), 'waiting')")

    def publish() -> tuple[int, float]:
        insert = "INSERT INTO event (run_id, kind, payload) SELECT id, 'tick', '{}' FROM run LIMIT 1 RETURNING id"
        number = connection.execute(insert).fetchone()[0]
        connection.execute("SELECT pg_notify('event', '')")
        sent = time.monotonic()  # once COMMIT has returned, news may have arrived already
        connection.commit()
        return number, sent

    return publish, "/", {}


def ours(children: Children, port: int):
    os.environ["SAYSO_PORT"] = str(port)
    import django

    django.setup()
    from django.conf import settings
    from django.contrib.auth import get_user_model
    from django.db import connection, transaction
    from django.test import Client

    from runtime_app import events, permissions, transitions
    from runtime_app.models import Session

    children.start("serve", [sys.executable, "-m", "console.cli", "serve", "--port", str(port)])
    user = get_user_model().objects.get(username="ada")
    browser = Client()
    browser.force_login(user, backend=settings.AUTHENTICATION_BACKENDS[0])
    cookie = f"{settings.SESSION_COOKIE_NAME}={browser.cookies[settings.SESSION_COOKIE_NAME].value}"
    _, ada = permissions.member(user, "bench")
    run = transitions.start(ada, agent="plain", environment="staging", message="tick")
    transitions.cancel(ada, run_id=run.pk, response_id=run.pk)

    def publish() -> tuple[int, float]:
        with transaction.atomic():
            log = events.Log(Session.objects.select_for_update(no_key=True).get(pk=run.session_id), ada.actor)
            log.note("bench.tick")
            log.write()
            sent = time.monotonic()
        return log.session.last_seq, sent

    connection.ensure_connection()
    headers = {"Host": f"localhost:{port}", "Origin": f"http://localhost:{port}", "Cookie": cookie}
    return publish, f"/ws/t/bench/s/{run.session_id}/", headers


def main(which: str, count: str, events: str) -> None:
    port = free_port()
    with Children() as children:
        publish, path, headers = {"raw": raw, "ours": ours}[which](children, port)
        wait_for(port)
        headers.setdefault("Host", f"127.0.0.1:{port}")
        measure(publish, port, path, headers, int(count), int(events))


if __name__ == "__main__":
    main(*sys.argv[1:])
