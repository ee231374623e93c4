from django.apps import AppConfig, apps
from django.db.models.signals import pre_migrate


class ConsoleConfig(AppConfig):
    name = "console"

    def ready(self):
        from console import checks  # noqa: F401

        # all pre_migrate come before the first migration; an app without models, as this one, gets none
        pre_migrate.connect(share_tables, sender=apps.get_app_config("auth"))


def share_tables(using, **kwargs):
    from django.conf import settings
    from django.db import connections
    from psycopg.conninfo import conninfo_to_dict

    from console import postgres

    connection, app_role = connections[using], conninfo_to_dict(settings.DATABASE_URL).get("user")
    if app_role and app_role != connection.settings_dict["USER"]:
        postgres.share_tables(connection, app_role)
