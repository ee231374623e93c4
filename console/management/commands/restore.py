"""`restore FILE --replace`."""

from pathlib import Path

from django.conf import settings
from django.core.management import BaseCommand, CommandError
from django.db import ProgrammingError, connection

from console import backup
from runtime_app import selectors
from runtime_app.transitions import epochs


class Command(BaseCommand):
    help = (
        "Put the backup FILE in the place of everything the database holds: all of it or nothing; the files beside "
        "people's statements are put back where they are missing. A new epoch begins: "
        "nothing is sent until a person says so with release_epoch (R27). Stop the workers and the console first."
    )

    def add_arguments(self, parser):
        parser.add_argument("file", type=Path)
        parser.add_argument("--replace", action="store_true", help="yes: what the database holds now is lost")

    def handle(self, file, replace, **options):
        url = settings.DATABASE_OWNER_URL
        try:
            with backup.opened(file) as dumped:
                listed = backup.check(url, dumped)
                self._may(replace)
                put_back = backup.put_back(file)
                settings.SAYSO_MARK.unlink(missing_ok=True)  # before: whatever happens from here on is noticed (R27)
                self._restore(url, dumped, listed)
        except backup.CannotCopy as failed:
            raise CommandError(str(failed)) from None
        connection.close()
        epoch = epochs.watch()
        self.stdout.write(
            f"{file} is restored. Epoch {epoch.number} began: {epoch.why}. Nothing is sent before a person says so: "
            "./run manage release_epoch --by NAME"
        )
        self.stdout.write(f"Files beside statements: {put_back:,} put back, {selectors.files_missing():,} missing.")

    def _restore(self, url: str, dumped: Path, listed: list[str]) -> None:
        try:
            backup.restore(url, dumped, listed)
        except backup.CannotCopy as failed:
            told = "Nothing is sent before a person says so with release_epoch, whatever the database holds now."
            raise CommandError(f"{failed}\nIt was not restored. {told}") from None

    def _may(self, replace: bool) -> None:
        try:
            alive = selectors.workers_alive()
        except ProgrammingError:  # there are no tables: nothing is lost
            connection.close()
            return
        if alive:
            raise CommandError("A worker is running. Stop it first; nothing was changed.")
        if not replace:
            raise CommandError("The database is not empty: --replace says that what it holds may be lost.")
