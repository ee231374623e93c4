"""The ledger of Effects, and one Effect: what is known, what is not, what can be tried."""

from django.views.decorators.http import require_safe

from runtime_app import selectors, states
from runtime_app.ids import uuid7

from ..pages import filters, in_tenant, page


@require_safe
@in_tenant
def index(request):
    asked = filters(request, state=list(states.EFFECT), environment=None)
    debts, rest, after = selectors.effects(request.context, **asked, last=request.GET.get("before"))
    places = selectors.environments(request.context)
    facts = {"debts": debts, "effects": [*debts, *rest], "after": after, "asked": asked, "environments": places}
    return page(request, "effects.html", topic="inbox", **facts)


@require_safe
@in_tenant
def show(request, effect_id):
    found = selectors.effect_page(request.context, effect_id, request.held)
    run = found.effect.run
    facts = {"ledger": found, "effect": found.effect, "run": run, "asked": found.asks, "response_id": uuid7()}
    return page(request, "effect.html", topic=f"s/{run.session_id}", seq=run.session.last_seq, kept={}, **facts)
