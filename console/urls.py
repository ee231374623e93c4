from django.urls import include, path

from console.views import account, effects, inbox, requests, runs, sessions
from runtime_app import admin

tenant = [
    path("inbox/", inbox.show, name="inbox"),
    path("requests/<str:request_id>/", requests.show, name="request"),
    path("requests/<str:request_id>/answer/", requests.answer, name="answer"),
    path("requests/<str:request_id>/decision/", requests.decide, name="decision"),
    path("requests/<str:request_id>/finding/", requests.find, name="finding"),
    path("sessions/", sessions.index, name="sessions"),
    path("sessions/new/", sessions.new, name="begin"),
    path("sessions/<str:session_id>/", sessions.show, name="session"),
    path("runs/", runs.index, name="runs"),
    path("runs/<str:run_id>/", runs.show, name="run"),
    path("runs/<str:run_id>/cancel/", runs.cancel, name="cancel"),
    path("effects/", effects.index, name="effects"),
    path("effects/<str:effect_id>/", effects.show, name="effect"),
]

urlpatterns = [
    path("", account.choose, name="choose"),
    path("sign-in/", account.SignIn.as_view(), name="account_login"),
    path("sign-out/", account.SignOut.as_view(), name="account_logout"),
    path("help/", account.guide, name="help"),
    path("health/", account.health, name="health"),
    path("t/<slug:slug>/", include(tenant)),
    path("admin/", admin.site.urls),
]

handler400 = "console.views.errors.bad_request"
handler404 = "console.views.errors.not_found"
handler500 = "console.views.errors.failed"
