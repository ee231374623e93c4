"""`start_run deployer --tenant northgate --environment staging --noninteractive --message "deploy a 1" --wait`."""

import json
import signal
import sys
import time

from django.contrib.auth import get_user_model
from django.core.management import BaseCommand, CommandError
from django.core.serializers.json import DjangoJSONEncoder
from django.db import DatabaseError, InterfaceError, connection

from runtime_app import selectors, states, transitions
from runtime_app.errors import NotFound, SaysoError
from runtime_app.models import Run, Tenant
from runtime_app.permissions import Context, member, system

EXIT = {"succeeded": 0, "failed": 1, "cancelled": 2, "blocked": 3}
UNUSABLE = 64  # the call itself was refused: nothing was started
AWAY = 69  # the database went away: whether it was started is not known
LOOK = 0.2  # seconds


class Command(BaseCommand):
    help = (
        "Start a Run. With --wait, one JSON object on standard output says how it ended; the exit status is 0 if it "
        "succeeded, 1 if it failed, 2 if it was cancelled, 3 if it was blocked; 64 means that nothing was started, 69 "
        "that the database could not be reached, so that this is not known. "
        "Ended by SIGTERM or Ctrl-C, it leaves the Run to go on: the same call with the same --start-id finds it again."
    )

    def add_arguments(self, parser):
        parser.error = _unusable(parser)
        parser.add_argument("agent")
        parser.add_argument("--tenant", required=True, help="its slug")
        parser.add_argument("--environment", required=True)
        parser.add_argument("--message", required=True)
        parser.add_argument("--noninteractive", action="store_true", help="with nobody on the line: it never waits")
        parser.add_argument("--wait", action="store_true", help="until it has ended")
        parser.add_argument("--as", dest="username", help="who starts it; needs the role operator there")
        parser.add_argument("--start-id", help="a UUID: the same again is the same Run")

    def handle(self, agent, tenant, environment, message, **options):
        try:
            context = self._context(tenant, options["username"])
            run = transitions.start(
                context, agent=agent, environment=environment, message=message,
                interactive=not options["noninteractive"], start_id=options["start_id"],
            )  # fmt: skip
        except SaysoError as refused:
            raise CommandError(refused.message, returncode=UNUSABLE) from None
        except (DatabaseError, InterfaceError) as failed:
            told = f"The database could not be reached: {failed}".strip()
            again = "Whether the Run was started is not known; the same call with the same --start-id starts it once."
            raise CommandError(f"{told}\n{again}", returncode=AWAY) from None
        if not options["wait"]:
            return self.stdout.write(_told(run))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, frame: self._left(run, number))
        told = self._ended(run)
        self.stdout.write(told)
        sys.exit(EXIT[json.loads(told)["state"]])

    def _context(self, slug: str, username: str | None) -> Context:
        found = Tenant.objects.filter(slug=slug).first()
        user = get_user_model().objects.filter(username=username).first()
        try:
            if found and not username:
                return system("command", found.pk)
            if found and user:
                return member(user, slug)[1]
        except NotFound:
            pass
        who = f" of which {username} is a member" if username else ""
        raise CommandError(f"There is no tenant {slug}{who}. Nothing was started.", returncode=UNUSABLE)

    def _ended(self, run: Run) -> str:
        asked = False
        while True:
            try:
                if not asked and not selectors.workers_alive():
                    self.stderr.write("No worker is running. The Run starts when one does: ./run worker")
                asked = True
                run = Run.objects.get(pk=run.pk)
                if run.state in states.ENDED:
                    return _told(run)
            except (DatabaseError, InterfaceError):  # away for a moment
                connection.close()
            time.sleep(LOOK)

    def _left(self, run: Run, number: int) -> None:
        self.stderr.write(f"The Run goes on: {run.pk}")
        sys.exit(128 + number)


def _told(run: Run) -> str:
    return json.dumps(selectors.terminal_result(run), cls=DjangoJSONEncoder)


def _unusable(parser):
    """argparse would say 2, which is a cancelled Run."""

    def error(message):
        parser.print_usage(sys.stderr)
        parser.exit(UNUSABLE, f"{message}\n")

    return error
