from django.urls import include, path

from console.views import (
    account,
    actions,
    agents,
    blockers,
    effects,
    environments,
    inbox,
    requests,
    runs,
    schedules,
    sessions,
)
from runtime_app import admin
from runtime_app.api import callbacks
from runtime_app.api.aap import urls as aap
from runtime_app.api.v1 import urls as v1

tenant = [
    path("inbox/", inbox.show, name="inbox"),
    path("requests/<str:request_id>/", requests.show, name="request"),
    path("requests/<str:request_id>/answer/", requests.answer, name="answer"),
    path("requests/<str:request_id>/decision/", requests.decide, name="decision"),
    path("requests/<str:request_id>/finding/", requests.find, name="finding"),
    path("requests/<str:request_id>/void/", requests.void, name="void"),
    path("sessions/", sessions.index, name="sessions"),
    path("sessions/new/", sessions.new, name="begin"),
    path("sessions/<str:session_id>/", sessions.show, name="session"),
    path("runs/", runs.index, name="runs"),
    path("runs/<str:run_id>/", runs.show, name="run"),
    path("runs/<str:run_id>/cancel/", runs.cancel, name="cancel"),
    path("runs/<str:run_id>/result.json", runs.result, name="result"),
    path("runs/<str:run_id>/trace.jsonl", runs.trace, name="trace"),
    path("blockers/", blockers.index, name="blockers"),
    path("blockers/<str:blocker_id>/", blockers.show, name="blocker"),
    path("blockers/<str:blocker_id>/supply/", blockers.supply, name="supply"),
    path("schedules/", schedules.index, name="schedules"),
    path("schedules/<str:schedule_id>/pause/", schedules.pause, name="pause"),
    path("schedules/<str:schedule_id>/unpause/", schedules.unpause, name="unpause"),
    path("environments/", environments.index, name="environments"),
    path("environments/<str:environment_id>/hold/", environments.hold, name="hold"),
    path("environments/<str:environment_id>/release/", environments.release, name="release"),
    path("agents/", agents.index, name="agents"),
    path("agents/new/", agents.new, name="credential_new"),
    path("agents/<str:instance_id>/delete/", agents.delete, name="agent_delete"),
    path("credentials/<str:credential_id>/rotate/", agents.rotate, name="rotate"),
    path("credentials/<str:credential_id>/revoke/", agents.revoke, name="revoke"),
    path("actions/", actions.index, name="actions"),
    path("actions/new/", actions.new, name="action_new"),
    path("actions/<str:registration_id>/", actions.edit, name="action"),
    path("actions/<str:registration_id>/remove/", actions.remove, name="action_remove"),
    path("effects/", effects.index, name="effects"),
    path("effects/<str:effect_id>/", effects.show, name="effect"),
    path("effects/<str:effect_id>/evidence/", effects.state, name="evidence"),
    path("effects/<str:effect_id>/compensate/", effects.compensate, name="compensate"),
    path("effects/<str:effect_id>/files/<str:file_id>/", effects.file, name="file"),
]

urlpatterns = [
    path("", account.choose, name="choose"),
    path("sign-in/", account.SignIn.as_view(), name="account_login"),
    path("sign-out/", account.SignOut.as_view(), name="account_logout"),
    path("help/", account.guide, name="help"),
    path("health/", account.health, name="health"),
    path("t/<slug:slug>/", include(tenant)),
    path("callbacks/<slug:slug>/<str:action>/", callbacks.receive, name="callback"),
    path("api/aap/", include(aap)),
    path("api/v1/", include(v1)),
    path("admin/", admin.site.urls),
]

handler400 = "console.views.errors.bad_request"
handler404 = "console.views.errors.not_found"
handler500 = "console.views.errors.failed"
