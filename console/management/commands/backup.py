"""`backup FILE`."""

from pathlib import Path

from django.conf import settings
from django.core.management import BaseCommand, CommandError

from console import backup


class Command(BaseCommand):
    help = (
        "Write the whole database and the files beside people's statements to FILE, while everything runs. Keep the "
        "secret key (SAYSO_SECRET_KEY, or secret-key in SAYSO_DATA) elsewhere, and never copy the mark (SAYSO_MARK)."
    )

    def add_arguments(self, parser):
        parser.add_argument("file", type=Path)

    def handle(self, file, **options):
        try:
            size, files = backup.write(settings.DATABASE_OWNER_URL, file)
        except backup.CannotCopy as failed:
            raise CommandError(str(failed)) from None
        self.stdout.write(f"{file}: {size:,} bytes, with {files:,} file{'s' * (files != 1)} beside statements")
