"""What an installation is set up with: edited by its superusers, and checked in words."""

from datetime import timedelta
from functools import partial

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.db import IntegrityError
from django.db.models import ProtectedError
from django.http import Http404
from django.shortcuts import redirect

from .. import jobs
from ..models import Environment, Instance, Membership, Policy, Registration, Role, Schedule, Tenant
from ..visible import plain_visible

LONGEST = timedelta(days=3650)  # a Request or a Grant: past year 9999 no database can write it


class Installation(admin.AdminSite):
    site_header = site_title = "Sayso"
    index_title = "This installation"

    def has_permission(self, request):
        return request.user.is_active and request.user.is_superuser

    def login(self, request, extra_context=None):
        """Through the console's own sign-in. For somebody signed in without the right there is nothing here (R07)."""
        if request.user.is_authenticated and not self.has_permission(request):
            raise Http404
        back = request.GET.get("next", request.path)
        return redirect("admin:index") if request.user.is_authenticated else redirect_to_login(back)


site = Installation(name="admin")
site.disable_action("delete_selected")


# ---------------------------------------------------------------- what an installation is set up with


class Setup(admin.ModelAdmin):
    """Rows that superusers edit. `settled` names the fields that history stands on: given once, never changed."""

    actions = None
    settled: tuple[str, ...] = ()
    goes_with: tuple[str, ...] = ()  # models whose rows are deleted along
    instead = ""
    delete_confirmation_template = "admin/refused_delete.html"

    def get_readonly_fields(self, request, obj=None):
        return (*super().get_readonly_fields(request, obj), *(self.settled if obj else ()))

    def formfield_for_foreignkey(self, db_field, request, **options):
        return of_tenant(super().formfield_for_foreignkey(db_field, request, **options))

    def changeform_view(self, request, object_id=None, form_url="", extra_context=None):
        return refused_in_words(request, partial(super().changeform_view, request, object_id, form_url, extra_context))

    def delete_view(self, request, object_id, extra_context=None):
        context = {"instead": self.instead, **(extra_context or {})}
        return refused_in_words(request, partial(super().delete_view, request, object_id, context))

    def get_deleted_objects(self, objs, request):
        """Django would list every row that stands in the way, and lists have no end here: their kinds are enough."""
        held = sorted({kind for obj in objs for kind in referring(obj, self.goes_with)})
        return [plain_visible(str(obj)) for obj in objs], {}, set(), held

    def delete_model(self, request, obj):
        for relation in references(type(obj)):
            if relation.related_model._meta.model_name in self.goes_with:
                relation.related_model._base_manager.filter(**{relation.field.name: obj}).delete()
        obj.delete()


def refused_in_words(request, view):
    """What no check could foresee, the database refuses."""
    try:
        return view()
    except (IntegrityError, ProtectedError):
        messages.error(request, "Nothing was changed: somebody else was quicker. Look again.")
        return redirect(request.get_full_path())


def references(model) -> list:
    """Every key of any table that points at this model, hidden ones too."""
    every = model._meta.get_fields(include_hidden=True)
    return [each for each in every if (each.one_to_many or each.one_to_one) and each.auto_created and not each.concrete]


def referring(obj, except_for) -> list[str]:
    return [
        str(each.related_model._meta.verbose_name_plural)
        for each in references(type(obj))
        if each.related_model._meta.model_name not in except_for
        and not each.related_model._meta.auto_created
        and each.related_model._base_manager.filter(**{each.field.name: obj}).exists()
    ]


def of_tenant(field):
    """Environments of several tenants have the same names: each is listed with its tenant's."""
    if field and field.queryset.model is Environment:
        field.queryset = field.queryset.select_related("tenant").order_by("tenant__name", "name")
        field.label_from_instance = lambda environment: f"{environment.tenant} / {environment.name}"
    return field


class TenantForm(forms.ModelForm):
    """Refuses in words what the database would refuse by a constraint."""

    def _get_validation_exclusions(self):
        # not always a field of the form, yet part of every key
        found = super()._get_validation_exclusions()
        return found - {"tenant"} if self.instance.tenant_id else found

    def clean(self):
        found = super().clean()
        tenant, environment = found.get("tenant") or self.tenant, found.get("environment")
        if tenant and environment and environment.tenant_id != tenant.pk:
            self.add_error("environment", f"This environment belongs to another tenant, {environment.tenant}.")
        return found

    @property
    def tenant(self) -> Tenant | None:
        return self.instance.tenant if self.instance.tenant_id else None


@admin.register(Tenant, site=site)
class TenantAdmin(Setup):
    list_display = ("name", "slug", "created_at")
    search_fields = ("name", "slug")
    instead = "A tenant is kept as long as anything belongs to it."


class MembershipForm(TenantForm):
    def clean(self):
        found = super().clean()
        tenant, user = found.get("tenant"), found.get("user")
        if tenant and user and Membership.objects.filter(tenant=tenant, user=user).exists():
            self.add_error("tenant", f"{user} is already a member of {tenant}.")
        return found


class MembershipInline(admin.TabularInline):
    model = Membership
    form = MembershipForm
    fields = ("tenant",)
    extra = 0
    show_change_link = True

    def has_change_permission(self, request, obj=None):
        return False

    def has_delete_permission(self, request, obj=None):
        return False  # its roles go with it: on the membership's own page


@admin.register(User, site=site)
class PersonAdmin(Setup, UserAdmin):
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        (
            "Access",
            {
                "fields": ("is_active", "is_superuser"),
                "description": "Roles are given in memberships. A superuser enters this administration, and no tenant.",
            },
        ),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    readonly_fields = ("last_login", "date_joined")
    list_display = ("username", "first_name", "last_name", "is_active", "is_superuser")
    list_filter = ("is_active", "is_superuser")
    filter_horizontal = ()
    goes_with = ("emailaddress",)
    instead = "Take away the tick at Active instead: nobody can sign in as this person then, and the history stays."

    def get_inlines(self, request, obj):
        return [MembershipInline] if obj else []


@admin.register(Environment, site=site)
class EnvironmentAdmin(Setup):
    form = TenantForm
    list_display = ("name", "tenant", "klass", "protected")
    list_filter = ("klass", "protected")
    list_select_related = ("tenant",)
    search_fields = ("name", "tenant__name")
    settled = ("tenant", "name")  # what was approved is bound to the name
    instead = "An environment is kept as long as anything happened in it."


class RoleForm(TenantForm):
    def clean(self):
        found = super().clean()
        if found.get("environment") and found.get("name") not in ("approver", "operator"):
            self.add_error("environment", "Only approver and operator can be limited to an environment.")
        return found


class RolesOfMember(forms.BaseInlineFormSet):
    def add_fields(self, form, index):
        super().add_fields(form, index)
        form.instance.tenant_id = self.instance.tenant_id
        if self.instance.tenant_id and "environment" in form.fields:
            places = form.fields["environment"]
            places.queryset = places.queryset.filter(tenant_id=self.instance.tenant_id)
            places.error_messages["invalid_choice"] = "Choose an environment of this tenant."

    def clean(self):
        super().clean()
        seen = set()
        for form in self.forms:
            found = getattr(form, "cleaned_data", {})
            if not found.get("name") or found.get("DELETE"):
                continue
            role = (found["name"], found.get("environment"))
            if role in seen:
                raise forms.ValidationError("The same role is given twice.")
            seen.add(role)


class RoleInline(admin.TabularInline):
    model = Role
    form, formset = RoleForm, RolesOfMember
    fields = ("name", "environment")
    extra = 1

    def formfield_for_foreignkey(self, db_field, request, **options):
        return of_tenant(super().formfield_for_foreignkey(db_field, request, **options))


@admin.register(Membership, site=site)
class MembershipAdmin(Setup):
    form = MembershipForm
    inlines = [RoleInline]
    list_display = ("user", "tenant", "roles_held")
    list_select_related = ("user", "tenant")
    search_fields = ("user__username", "user__last_name", "tenant__name", "tenant__slug")
    autocomplete_fields = ("user",)
    settled = ("tenant", "user")
    goes_with = ("role",)

    def get_queryset(self, request):
        return super().get_queryset(request).prefetch_related("roles__environment")

    @admin.display(description="roles")
    def roles_held(self, membership):
        return ", ".join(sorted(map(str, membership.roles.all())))


class PolicyForm(TenantForm):
    def clean(self):
        found = super().clean()
        environment = found.get("environment")
        if environment and found.get("klass"):
            self.add_error("klass", "The environment already says its class: name one of the two.")
        if environment and environment.protected and found.get("allow_stake"):
            self.add_error("allow_stake", f"{environment} is protected: nobody with a stake approves there (R18).")
        for name in ("approvals", "denials"):
            if found.get(name) == 0:
                self.add_error(name, "Must be 1 or more.")
        for name in ("request_for", "grant_for"):
            if found.get(name) is not None and not timedelta(0) < found[name] <= LONGEST:
                self.add_error(name, "Must be longer than nothing, and ten years or less.")
        return found


@admin.register(Policy, site=site)
class PolicyAdmin(Setup):
    form = PolicyForm
    list_display = ("action", "environment", "klass", "verdict", "approvals", "role", "tenant")
    list_filter = ("verdict",)
    list_select_related = ("tenant", "environment")
    search_fields = ("action", "tenant__name", "tenant__slug")
    settled = ("tenant",)


class InstanceForm(TenantForm):
    def clean(self):
        found = super().clean()
        tenant, owner = found.get("tenant") or self.tenant, found.get("owner")
        if tenant and owner and not Membership.objects.filter(tenant=tenant, user=owner).exists():
            self.add_error("owner", f"{owner} is not a member of {tenant}.")
        if found.get("hosted") and Instance.objects.filter(
            tenant=tenant, agent=found.get("agent"), environment=found.get("environment"), hosted=True
        ):
            self.add_error("agent", "This agent already has its hosted instance there.")
        return found


@admin.register(Instance, site=site)
class InstanceAdmin(Setup):
    form = InstanceForm
    list_display = ("agent", "environment", "tenant", "owner", "hosted")
    list_select_related = ("tenant", "environment", "owner")
    search_fields = ("agent", "tenant__name", "tenant__slug")
    autocomplete_fields = ("owner",)
    settled = ("tenant", "agent", "environment", "hosted")
    instead = "An instance is kept as long as a Run was its."


class ScheduleForm(TenantForm):
    def clean(self):
        found = super().clean()
        tenant, person = found.get("tenant") or self.tenant, found.get("set_by")
        if tenant and person and not Membership.objects.filter(tenant=tenant, user=person).exists():
            self.add_error("set_by", f"{person} is not a member of {tenant}.")
        if found.get("cron") and not jobs.legal(found["cron"]):
            self.add_error("cron", "Five fields, in UTC: minute hour day month weekday.")
        return found


@admin.register(Schedule, site=site)
class ScheduleAdmin(Setup):
    """A job starts as the person who set it, and only while that person may operate there."""

    form = ScheduleForm
    list_display = ("agent", "environment", "cron", "active", "set_by", "refused", "tenant")
    list_filter = ("active",)
    list_select_related = ("tenant", "environment", "set_by")
    search_fields = ("agent", "tenant__name", "tenant__slug")
    autocomplete_fields = ("set_by",)
    readonly_fields = ("refused", "refused_at")
    settled = ("tenant", "set_by")
    instead = "A schedule is kept as long as a Run was its. Switch it off instead."


class RegistrationForm(TenantForm):
    def clean(self):
        found = super().clean()
        if found.get("deadline") is not None and not timedelta(0) < found["deadline"] <= timedelta(days=30):
            self.add_error("deadline", "Must be longer than nothing, and 30 days or less.")
        risky = found.get("risky") or []
        if not isinstance(risky, list) or not all(isinstance(each, str) and each for each in risky):
            self.add_error("risky", 'A list of names: ["to", "amount.value"].')
        found["risky"] = risky
        return found


@admin.register(Registration, site=site)
class RegistrationAdmin(Setup):
    form = RegistrationForm
    list_display = ("pattern", "title", "changes", "failure_conclusive", "tenant")
    list_select_related = ("tenant",)
    search_fields = ("pattern", "tenant__name", "tenant__slug")
    settled = ("tenant",)
