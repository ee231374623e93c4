from django.db import migrations, models

CONDITION = (
    models.Q(("state__in", ["prepared", "withdrawn", "uncertain"]))
    | models.Q(("intent_at__isnull", False))
    | models.Q(("state__in", ["committed", "not_committed"]), ("uncertain_at__isnull", False))
)


class Migration(migrations.Migration):
    """After a restore what was only prepared here may have been sent: evidence settles that too (R27)."""

    dependencies = [("runtime_app", "0003_output")]

    operations = [
        migrations.RemoveConstraint(model_name="effect", name="effect_sent_after_intent"),
        migrations.AddConstraint(
            model_name="effect", constraint=models.CheckConstraint(condition=CONDITION, name="effect_sent_after_intent")
        ),
    ]
