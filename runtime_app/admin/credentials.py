"""Credentials of agents elsewhere, for superusers: made and revoked by the verbs that the tenant's own page uses."""

from django import forms
from django.contrib import admin, messages
from django.http import Http404
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.views.decorators.debug import sensitive_variables

from .. import permissions, transitions
from ..errors import SaysoError
from ..models import Credential
from ..models.credentials import SCOPES
from .history import NOT_SHOWN, shown
from .setup import Setup, TenantForm, of_tenant, site


class CredentialForm(TenantForm):
    agent = forms.CharField(max_length=80, required=False, help_text="Of an instance credential: what cards call it.")
    scopes = forms.MultipleChoiceField(
        choices=[(each, each) for each in SCOPES], initial=SCOPES, widget=forms.CheckboxSelectMultiple
    )

    class Meta:
        model = Credential
        fields = ("tenant", "environment", "kind", "name", "agent", "scopes", "expires_at")
        widgets = {"expires_at": forms.DateTimeInput(attrs={"placeholder": "2026-12-31 12:00"})}

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        of_tenant(self.fields["environment"])

    def _post_clean(self):
        """The transition checks the rest, and makes the row."""


@admin.register(Credential, site=site)
class CredentialAdmin(Setup):
    list_display = ("name", "tenant", "kind", "prefix", "made_by", "expires_at", "revoked_at", "last_used_at")
    list_filter = ("kind",)
    list_select_related = ("tenant", "made_by")
    search_fields = ("prefix", "name", "tenant__slug")
    change_form_template = "admin/credential.html"
    instead = "A credential is kept, since history names it. Revoke it instead."

    def has_change_permission(self, request, obj=None):
        return False

    def get_fields(self, request, obj=None):
        fields = self.model._meta.concrete_fields
        return [shown(self.model, field.name) for field in fields if field.name not in NOT_SHOWN]

    def get_deleted_objects(self, objs, request):
        return [str(obj) for obj in objs], {}, set(), ["the history of its tenant"]

    def add_view(self, request, form_url="", extra_context=None):
        form = CredentialForm(request.POST if request.method == "POST" else None)
        if form.is_valid():
            said = form.cleaned_data
            try:
                return self._made(request, transitions.make_credential(
                    self._context(request, said["tenant"].pk), environment=said["environment"].pk,
                    **{name: said[name] for name in ("kind", "name", "agent", "scopes", "expires_at")},
                ))  # fmt: skip
            except SaysoError as refused:
                fields = refused.facts.get("fields") or {None: refused.message}
                for name, why in fields.items():
                    form.add_error(name if name in form.fields else None, why)
        return self._page(request, "admin/credential_add.html", "Add credential", form=form)

    def change_view(self, request, object_id, form_url="", extra_context=None):
        if request.method != "POST" or "_revoke" not in request.POST:
            return super().change_view(request, object_id, form_url, extra_context)
        if (found := self.get_object(request, object_id)) is None:
            raise Http404
        transitions.revoke_credential(self._context(request, found.tenant_id), credential_id=found.pk)
        messages.success(request, f"{found} is revoked.")
        return redirect(request.get_full_path())

    @sensitive_variables("made")
    def _made(self, request, made):
        """The one page that ever has the token."""
        return self._page(request, "admin/token.html", "Copy this token now", token=made.token, made=made.credential)

    def _page(self, request, template: str, title: str, **facts):
        context = {**self.admin_site.each_context(request), "opts": self.opts, "title": title, **facts}
        return TemplateResponse(request, template, context)

    def _context(self, request, tenant_id):
        return permissions.Context(tenant_id, permissions.person(request.user))
