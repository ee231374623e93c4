"""`openapi`: the OpenAPI document of the native API, as it is committed beside its code."""

import json

from django.core.management.base import BaseCommand

from runtime_app.api.v1 import contract, urls


class Command(BaseCommand):
    help = "Print the OpenAPI document of /api/v1: ./run manage openapi > runtime_app/api/v1/openapi.json"
    requires_system_checks = ()

    def handle(self, *args, **options):
        assert urls.urlpatterns  # the operations are in the document once they are routed
        self.stdout.write(json.dumps(contract.document(), indent=1, ensure_ascii=False))
