"""The inbox: what waits, sorted by who may answer and by when."""

from django.views.decorators.http import require_safe

from runtime_app import selectors

from ..pages import in_tenant, page

TABS = {"": "for_you", "yours": "for_you", "others": "for_others", "unknown": "unknown", "decided": "decided"}


@require_safe
@in_tenant
def show(request):
    tab = request.GET.get("tab", "") if request.GET.get("tab") in TABS else ""
    found = selectors.inbox(request.context, request.held)
    rows = selectors.decided(request.context) if tab == "decided" else getattr(found, TABS[tab])
    return page(request, "inbox.html", inbox=found, tab=tab, rows=rows, topic="inbox")
