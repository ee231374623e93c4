"""`backup FILE`."""

from pathlib import Path

from django.conf import settings
from django.core.management import BaseCommand, CommandError

from console import backup


class Command(BaseCommand):
    help = (
        "Write the whole database to FILE, while everything runs. SAYSO_DATA holds what is not in it: the secret key "
        "and the evidence files; copy those too, and never the mark (SAYSO_MARK)."
    )

    def add_arguments(self, parser):
        parser.add_argument("file", type=Path)

    def handle(self, file, **options):
        try:
            size = backup.dump(settings.DATABASE_OWNER_URL, file)
        except backup.CannotCopy as failed:
            raise CommandError(str(failed)) from None
        self.stdout.write(f"{file}: {size:,} bytes")
