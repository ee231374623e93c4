"""`release_epoch --by "Ann Devlin"`: after a restore or on a copy, a person says that this installation may send."""

from django.core.management import BaseCommand, CommandError

from runtime_app.transitions import epochs


class Command(BaseCommand):
    help = (
        "Let an installation whose data began a new epoch send again: held Runs go on where they were (R27). Before, "
        "make sure that no other copy of it sends, and establish what became of the effects that it lists as uncertain."
    )

    def add_arguments(self, parser):
        parser.add_argument("--by", required=True, help="the name of the person who says so; it is kept")

    def handle(self, by, **options):
        if not by.strip():
            raise CommandError("Say who releases it: --by NAME.")
        known = epochs.current().number
        epoch = epochs.watch()
        if epoch.number != known:  # nobody has seen yet what it made uncertain
            raise CommandError(
                f"Epoch {epoch.number} began just now: {epoch.why}. Nothing is released yet. Look at what it lists as "
                "uncertain, then say it again."
            )
        if epochs.released(epoch):
            return self.stdout.write(f"Epoch {epoch.number} needs no release. Nothing was changed.")
        epochs.release_epoch(by.strip())
        self.stdout.write(f"Epoch {epoch.number} ({epoch.why}) is released by {by.strip()}. It sends again.")
