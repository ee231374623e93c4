"""What a person does to one row of a list, with a reason: the list again, or the list with what was wrong."""

from collections.abc import Callable

from django.shortcuts import redirect

from runtime_app import permissions
from runtime_app.errors import NotFound, SaysoError

from .. import forms
from ..pages import SeeOther, in_tenant
from .requests import refusals


def reasoned(model, index: str, verb: str, say: Callable, listed: Callable) -> Callable:
    """A view of `<id>/<verb>/`: `say(context, row, **said)` does it, `listed(request, status, error, pk)` shows it
    refused, and the page `index` shows it done."""

    @in_tenant
    def view(request, **ids):
        (pk,) = ids.values()
        with refusals(request, verb, pk):
            row = permissions.find(model, request.context, pk)
        if request.method != "POST":
            return redirect(index, request.tenant.slug)
        try:
            with refusals(request, verb, pk):
                said = forms.reason(forms.fields(request))
            say(request.context, row, **said)
        except NotFound:
            raise
        except SaysoError as error:
            return listed(request, error.status, error, row.pk)
        return SeeOther(index, request.tenant.slug)

    return view
