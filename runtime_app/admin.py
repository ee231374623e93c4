"""Django's admin for the installation's superusers: every tenant.

What an installation is set up with can be edited, and is checked in words. What happened can be read and searched, and
nothing else: no way leads round `transitions` (B159), and what history names is not deleted (B161). No role of a tenant
opens this door, and whoever has it open has no role in any tenant by that.
"""

import json
from datetime import timedelta
from functools import partial

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.paginator import Paginator
from django.db import IntegrityError, models
from django.db.models import ProtectedError, Q
from django.http import Http404
from django.shortcuts import redirect
from django.utils.functional import cached_property

from . import jobs
from .ids import parse_id
from .models import Environment, Instance, Membership, Policy, Role, Schedule, Tenant, effects, events, requests, work
from .visible import plain_visible

WORDS = models.CharField | models.TextField | models.JSONField | models.BinaryField
COUNTED = 1000  # rows of a list that are counted and can be paged through; the rest is found by id
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


# ---------------------------------------------------------------- what happened


class Bounded(Paginator):
    @cached_property
    def count(self):
        return self.object_list[:COUNTED].count()


class Kept(admin.ModelAdmin):
    """Rows that only `transitions` write. Their text is untrusted, and shown with nothing hidden in it (R03)."""

    actions = None
    ordering = ("-pk",)
    sortable_by = ()
    paginator = Bounded
    show_full_result_count = False
    found_by: tuple[str, ...] = ("id",)
    search_help_text = "A whole id"

    def has_add_permission(self, request):
        return False

    def has_change_permission(self, request, obj=None):
        return False

    def has_delete_permission(self, request, obj=None):
        return False

    def get_fields(self, request, obj=None):
        return [shown(self.model, field.name) for field in self.model._meta.concrete_fields]

    get_readonly_fields = get_fields

    def get_search_fields(self, request):
        return self.found_by

    def get_search_results(self, request, queryset, search_term):
        if not search_term:
            return queryset, False
        wanted = parse_id(search_term)
        if wanted is None:
            messages.warning(request, "This is no id. A whole id finds what belongs to it.")
        return queryset.filter(Q.create([(name, wanted) for name in self.found_by], connector=Q.OR)), False


def shown(model, name: str):
    """How a read-only page shows a column: as it is, or by a function if it may hold somebody else's words."""
    field = model._meta.get_field(name)
    return words(name, field.verbose_name) if isinstance(field, WORDS) and not field.choices else name


def words(name: str, description: str):
    @admin.display(description=description)
    def show(row):
        value = getattr(row, name)
        if isinstance(value, bytes | memoryview):
            value = bytes(value).decode(errors="backslashreplace")
        elif isinstance(value, dict | list):
            value = json.dumps(value, ensure_ascii=False, indent=2)
        return "\n".join(plain_visible(line) for line in str(value or "").split("\n"))

    show.__name__ = name
    return show


def keep(model, columns: str, *, by: str = "id", joins=("tenant",)):
    """Let `model` be read. `by`: the indexed columns of which a search may name one, by a whole id."""
    names = ["the row" if name == "id" else name.removesuffix("_id") for name in by.split()]
    wanted = {
        "list_display": [shown(model, name) for name in columns.split()],
        "list_select_related": joins or False,
        "found_by": tuple(by.split()),
        "search_help_text": f"A whole id, of {' or '.join(names)}.",
    }
    site.register(model, type(f"{model.__name__}Admin", (Kept,), wanted))


keep(work.Session, "id tenant title last_seq created_at")
keep(work.Run, "id tenant session_id agent message state created_at", by="id session_id")
keep(requests.Request, "id tenant run_id kind key number state outcome created_at", by="id run_id")
keep(requests.Response, "id tenant request_id run_id kind name at", by="id request_id")
keep(requests.Grant, "id tenant request_id state by_policy expires_at used_at", by="id request_id")
keep(effects.Effect, "id tenant run_id action_name state disputed prepared_at", by="id run_id request_id")
keep(effects.Attempt, "id tenant effect_id number intent_at reply", by="id effect_id")
keep(effects.Evidence, "id tenant effect_id grade finding name late at", by="id effect_id")
keep(work.Blocker, "id tenant run_id kind unblocks count created_at", by="id run_id")
keep(work.Entry, "id tenant run_id position kind call at", by="id run_id")
keep(events.Event, "id tenant session_id seq kind actor_name at", by="session_id")
keep(events.Refusal, "id tenant actor_name verb code reason target count last_at", by="")
keep(work.Worker, "id name started_at seen_at", joins=())
keep(events.Epoch, "number began_at why released_at released_by", by="", joins=())
keep(LogEntry, "id action_time user content_type object_repr action_flag", by="", joins=("user", "content_type"))
