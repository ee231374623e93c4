import os

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
pages = get_asgi_application()  # sets Django up; what follows needs it

from django.conf import settings  # noqa: E402
from django.urls import path, re_path  # noqa: E402

from console import live  # noqa: E402
from runtime_app.api import waiting  # noqa: E402
from runtime_app.api.aap import requests  # noqa: E402
from runtime_app.api.v1 import urls as v1  # noqa: E402

sockets = URLRouter(
    [
        path("ws/t/<slug:slug>/inbox/", live.TenantPage.as_asgi()),
        path("ws/t/<slug:slug>/s/<str:session_id>/", live.SessionPage.as_asgi()),
        re_path("", live.Nowhere.as_asgi()),
    ]
)
pages_and_sockets = ProtocolTypeRouter(
    {
        "http": pages,
        # scheme, host and port of the page must be ours: a page of elsewhere may not ride on a cookie
        "websocket": live.OwnOrigin(AuthMiddlewareStack(sockets), settings.ORIGINS),
    }
)
WAITS: list = [requests.WAIT, *v1.WAITS]  # what agents elsewhere wait for, door by door
application = waiting.Waiting(pages_and_sockets, WAITS)
