from django.contrib import admin
from django.http import HttpResponse
from django.urls import path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("health/", lambda request: HttpResponse("ok", content_type="text/plain")),
]
