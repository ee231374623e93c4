"""The Runs of one Schedule, newest first."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runtime_app", "0006_given_by_several"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("schedule__isnull", False)),
                fields=["schedule", "-created_at"],
                name="run_of_schedule",
            ),
        ),
    ]
