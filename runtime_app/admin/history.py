"""What happened: read and searched, and nothing else. No way leads round `transitions` (B159)."""

import json

from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.core.paginator import Paginator
from django.db import models
from django.db.models import Q
from django.utils.functional import cached_property

from ..ids import parse_id
from ..models import credentials, deliveries, effects, events, requests, work
from ..visible import plain_visible
from .setup import site

WORDS = models.CharField | models.TextField | models.JSONField | models.BinaryField
COUNTED = 1000  # rows of a list that are counted and can be paged through; the rest is found by id
NOT_SHOWN = {"hash", "secret", "sealed"}  # what proves or opens something, however it is kept (R12)


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
        fields = [field.name for field in self.model._meta.concrete_fields if field.name not in NOT_SHOWN]
        return [shown(self.model, name) for name in fields]

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
keep(requests.Secret, "id tenant request_id run_id field made_at opened_at destroyed_at", by="id run_id")
keep(credentials.Call, "id tenant caller verb key subject at", by="id")
keep(deliveries.Receiver, "id tenant instance_id url verified_at removed_at", by="id instance_id")
keep(deliveries.Delivery, "id tenant request_id attempts next_at delivered_at last_status", by="id request_id")
keep(work.Worker, "id name started_at seen_at", joins=())
keep(events.Epoch, "number began_at why released_at released_by", by="", joins=())
keep(LogEntry, "id action_time user content_type object_repr action_flag", by="", joins=("user", "content_type"))
