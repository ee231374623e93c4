from django.apps import AppConfig


class RuntimeApp(AppConfig):
    name = "runtime_app"
    verbose_name = "Sayso runtime"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self):
        """Import the modules that register agents and actions, so that a broken one stops the start, by name."""
        from django.conf import settings
        from django.utils.module_loading import import_module

        from .actions import check_compensations
        from .hosted.registry import check_children

        for module in settings.SAYSO_AGENTS:
            import_module(module)
        check_compensations()
        check_children()
