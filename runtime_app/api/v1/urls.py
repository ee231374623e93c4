"""The paths below /api/v1/, and what of them waits."""

from django.urls import path, re_path

from . import events, people, requests, runs, sessions
from .contract import api, nowhere, openapi

for each in (sessions, runs, requests, events, people):
    api.add_router("", each.router)

urlpatterns = [
    path("openapi.json", openapi),
    path("", nowhere),  # else ninja's own word for it
    path("", api.urls),
    re_path("", nowhere),
]
WAITS = [requests.WAIT, *events.FEEDS, *events.WAITS]
