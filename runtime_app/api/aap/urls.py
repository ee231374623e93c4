"""The paths below /api/aap/."""

from functools import cache
from pathlib import Path

from django.urls import path, re_path

from ...errors import NotFound
from . import instances, refusals, requests


@cache
def contract() -> bytes:
    return (Path(__file__).parent / "openapi.json").read_bytes()


def described(request):
    return refusals.answered(200, [("Content-Type", "application/json")], contract())


def nowhere(request):
    raise NotFound


METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
urlpatterns = [
    path("openapi.json", refusals.operations(GET=described)),
    path("v1/instances", refusals.operations(POST=instances.create)),
    path(
        "v1/instances/<str:id>",
        refusals.operations(GET=instances.get, PATCH=instances.update, DELETE=instances.delete),
    ),
    path("v1/requests", refusals.operations(POST=requests.create)),
    path("v1/requests/<str:id>", refusals.operations(GET=requests.get, DELETE=requests.cancel)),
    path("v1/requests/<str:id>/consume", refusals.operations(POST=requests.consume)),
    path("v1/requests/<str:id>/outcome", refusals.operations(POST=requests.outcome)),
    re_path("", refusals.operations(**dict.fromkeys(METHODS, nowhere))),
]
