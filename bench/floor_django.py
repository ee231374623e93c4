"""The floor in Django: ORM transactions, a table of jobs claimed with SKIP LOCKED, LISTEN and NOTIFY, four threads."""

import os
import subprocess
import sys
import threading
import uuid

os.environ["DJANGO_SETTINGS_MODULE"] = "bench.floor.settings"
import django

django.setup()

import psycopg  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection, transaction  # noqa: E402
from django.utils import timezone  # noqa: E402

from bench.cycle import Marks, mark, measure  # noqa: E402
from bench.floor.models import Event, Job, Request, Run  # noqa: E402

QUESTION = {"prompt": "What is the API key called?", "fields": ["name"]}


def start() -> uuid.UUID:
    with transaction.atomic():
        run = Run.objects.create()
        _queue(run.pk, "start")
    return run.pk


def answer(run_id) -> None:
    with transaction.atomic():
        request = Request.objects.select_for_update().get(run_id=run_id)
        if request.state != "pending":
            return
        request.state, request.answer, request.answered_at = "answered", {"name": "ci"}, timezone.now()
        request.save(update_fields=["state", "answer", "answered_at"])
        Event.objects.create(run_id=run_id, kind="request.answered", payload={"name": "ci"})
        _queue(run_id, "resume")


def _queue(run_id, kind: str) -> None:
    Job.objects.create(run_id=run_id, kind=kind)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify('job', '')")


def turn() -> bool:
    with transaction.atomic():
        job = Job.objects.select_for_update(skip_locked=True).order_by("id").first()
        if not job:
            return False
        begun = job.kind == "start"
        if begun:
            Request.objects.create(run_id=job.run_id, kind="question", payload=QUESTION)
        state, kind = ("waiting", "request.opened") if begun else ("done", "run.resumed")
        Event.objects.create(run_id=job.run_id, kind=kind, payload={})
        Run.objects.filter(id=job.run_id).update(state=state, updated_at=timezone.now())
        Job.objects.filter(id=job.id).delete()
    mark(job.run_id, "waiting" if begun else "resumed")
    return True


def work() -> None:
    news = threading.Semaphore(0)

    def turns() -> None:
        while True:
            news.acquire(timeout=1)
            while turn():
                pass

    for _ in range(4):
        threading.Thread(target=turns, daemon=True).start()
    with psycopg.connect(os.environ["BENCH_URL"], autocommit=True) as listening:
        listening.execute("LISTEN job")
        for _ in listening.notifies():
            news.release()


def drive() -> None:
    marks = Marks()
    worker = subprocess.Popen([sys.executable, "-m", "bench.floor_django", "work"])
    try:
        measure(marks, worker.pid, start, answer)
    finally:
        worker.kill()


def prepare() -> None:
    call_command("migrate", verbosity=0, run_syncdb=True)


if __name__ == "__main__":
    {"prepare": prepare, "work": work, "drive": drive}[sys.argv[1]]()
