"""The floor by hand: the same durable cycle in psycopg, one statement a commit, LISTEN and NOTIFY, four threads."""

import os
import subprocess
import sys
import threading
import uuid

import psycopg
from psycopg_pool import ConnectionPool

from bench.cycle import Marks, mark, measure

SCHEMA = """
CREATE TABLE run (id uuid PRIMARY KEY, state text NOT NULL, seq int NOT NULL DEFAULT 0,
    updated_at timestamptz DEFAULT now());
CREATE TABLE request (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), run_id uuid NOT NULL REFERENCES run(id), kind text,
    payload jsonb, state text NOT NULL DEFAULT 'pending', answer jsonb, answered_by int,
    created_at timestamptz DEFAULT now(), answered_at timestamptz);
CREATE INDEX ON request (run_id);
CREATE INDEX ON request (created_at DESC, id) WHERE state = 'pending';
CREATE TABLE event (id bigserial PRIMARY KEY, run_id uuid NOT NULL REFERENCES run(id), kind text, payload jsonb,
    at timestamptz DEFAULT now());
CREATE INDEX ON event (run_id, id);
CREATE TABLE job (id bigserial PRIMARY KEY, run_id uuid NOT NULL, kind text, payload jsonb,
    at timestamptz DEFAULT now());
"""
START = """
WITH r AS (INSERT INTO run (id, state) VALUES (%s, 'queued') RETURNING id),
     j AS (INSERT INTO job (run_id, kind, payload) SELECT id, 'start', '{}' FROM r)
SELECT pg_notify('job', '')
"""
TURN = """
WITH d AS (DELETE FROM job WHERE id = (SELECT id FROM job ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1)
           RETURNING run_id, kind),
     s AS (SELECT run_id FROM d WHERE kind = 'start'),
     r AS (INSERT INTO request (run_id, kind, payload)
           SELECT run_id, 'question', '{"prompt": "What is the API key called?", "fields": ["name"]}' FROM s),
     u AS (UPDATE run SET state = CASE d.kind WHEN 'start' THEN 'waiting' ELSE 'done' END, seq = seq + 1,
           updated_at = now() FROM d WHERE run.id = d.run_id),
     e AS (INSERT INTO event (run_id, kind, payload)
           SELECT run_id, CASE kind WHEN 'start' THEN 'request.opened' ELSE 'run.resumed' END, '{}' FROM d)
SELECT run_id, kind FROM d
"""
ANSWER = """
WITH q AS (UPDATE request SET state = 'answered', answer = '{"name": "ci"}', answered_by = 1, answered_at = now()
           WHERE run_id = %s AND state = 'pending' RETURNING run_id),
     e AS (INSERT INTO event (run_id, kind, payload) SELECT run_id, 'request.answered', '{"name": "ci"}' FROM q),
     j AS (INSERT INTO job (run_id, kind, payload) SELECT run_id, 'resume', '{}' FROM q RETURNING id)
SELECT pg_notify('job', '') FROM j
"""
URL = os.environ["BENCH_URL"]


def work() -> None:
    news = threading.Semaphore(0)

    def turns() -> None:
        with psycopg.connect(URL, autocommit=True, prepare_threshold=1) as connection:
            while True:
                news.acquire(timeout=1)
                while row := connection.execute(TURN).fetchone():
                    mark(row[0], "waiting" if row[1] == "start" else "resumed")

    for _ in range(4):
        threading.Thread(target=turns, daemon=True).start()
    with psycopg.connect(URL, autocommit=True) as connection:
        connection.execute("LISTEN job")
        for _ in connection.notifies():
            news.release()


def drive() -> None:
    marks = Marks()
    worker = subprocess.Popen([sys.executable, "-m", "bench.floor_psycopg", "work"])
    pool = ConnectionPool(URL, min_size=16, max_size=16, kwargs={"autocommit": True, "prepare_threshold": 1})
    pool.wait()

    def start() -> uuid.UUID:
        run_id = uuid.uuid4()
        with pool.connection() as connection:
            connection.execute(START, [run_id])
        return run_id

    def answer(run_id) -> None:
        with pool.connection() as connection:
            connection.execute(ANSWER, [run_id])

    try:
        measure(marks, worker.pid, start, answer)
    finally:
        worker.kill()
        pool.close()


def prepare() -> None:
    with psycopg.connect(URL) as connection:
        connection.execute(SCHEMA)


if __name__ == "__main__":
    {"prepare": prepare, "work": work, "drive": drive}[sys.argv[1]]()
