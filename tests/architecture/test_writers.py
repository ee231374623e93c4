"""Who may read rows and who may write states: R05 is kept in one place, R06 and R07 in another."""

import ast
import re

from django.apps import apps

from tests.architecture.source import at, calls, names, python, tree

MODELS = {model.__name__ for model in apps.get_app_config("runtime_app").get_models()}
# Set up by administrators; everything else happened, and only transitions write it.
SETUP = {"Tenant", "Environment", "Membership", "Role", "Instance", "Policy", "Schedule", "CallbackSecret"}
HISTORY = MODELS - SETUP
WRITES = {"create", "bulk_create", "update", "bulk_update", "delete", "get_or_create", "update_or_create", "save"}
WRITES |= {f"a{name}" for name in WRITES}
STATES = {"state", "outcome", "lease_number", "lease_until", "cancel_requested_at", "spent_at", "accepted_at"}

# Modules that may go from a model to its rows: each is a door, a read, or stands behind one.
READERS = (
    "runtime_app/admin/",
    "runtime_app/credentials.py",  # a credential by its token
    "runtime_app/events.py",
    "runtime_app/hosted/outcomes.py",  # Requests of the turn it was given
    "runtime_app/management/",
    "runtime_app/permissions.py",
    "runtime_app/policies.py",
    "runtime_app/registrations.py",
    "runtime_app/selectors/",
    "runtime_app/transitions/",
    "console/live.py",  # the newest number of a Session it found through the door
    "console/demo.py",
    "examples/harbor/seed.py",
)
PRODUCT = ("runtime_app", "console", "examples")


def outside(*places: str):
    return [path for path in python(*PRODUCT) if not str(path).startswith(places)]


def test_a_row_is_reached_only_through_the_doors():
    """R06, R07: whoever has an id asks `permissions.find`."""
    found = [
        at(path, node)
        for path in outside(*READERS)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute)
        and node.attr in ("objects", "_base_manager", "_default_manager")
        and names(node.value)[-1:] != []
        and names(node.value)[-1] in MODELS
    ]
    assert not found


def test_statements_written_out_stand_behind_the_same_doors():
    """R06, R07."""
    for path in outside(*READERS):
        for node in calls(path):
            assert names(node)[:1] != ["statements"], at(path, node)


def test_no_view_gets_rows_by_shortcut():
    """R07: these answer 404 in their own words, from their own queries."""
    for path in python("console"):
        for node in calls(path):
            assert names(node)[-1:] not in (["get_object_or_404"], ["get_list_or_404"]), at(path, node)


def test_history_is_written_in_transitions_alone():
    """R05: not a view, not the admin, not a signal, not a command. When a credential was last used, its door notes."""
    found = [
        at(path, node)
        for path in outside("runtime_app/transitions/", "runtime_app/events.py", "runtime_app/credentials.py")
        for node in calls(path)
        if (names(node)[:1] and names(node)[0] in HISTORY and names(node)[-1] in WRITES)
        or names(node) in (["statements", "insert"], ["statements", "update"])
    ]
    assert not found


def test_events_are_written_by_the_log_alone():
    """R36: numbered under the Session's lock."""
    for path in outside("runtime_app/events.py"):
        for node in calls(path):
            assert names(node)[:1] != ["Event"] or names(node)[-1] not in WRITES, at(path, node)


ELSEWHERE = {"calling.py", "client.py"}  # they run beside agents, and have no database


def test_a_state_changes_in_transitions_alone():
    """House rule 1."""
    found = []
    for path in outside("runtime_app/transitions/"):
        if path.name in ELSEWHERE:
            continue
        for node in ast.walk(tree(path)):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            found += [at(path, node) for each in targets if isinstance(each, ast.Attribute) and each.attr in STATES]
            if isinstance(node, ast.Call) and names(node)[-1:] == ["update"]:
                found += [at(path, node) for keyword in node.keywords if keyword.arg in STATES]
    assert not found


def test_no_model_has_a_will_of_its_own():
    """House rule 1: no custom save or delete; a manager hides no rows."""
    for path in python("runtime_app/models"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef):
                assert node.name not in ("save", "delete", "asave", "adelete", "clean"), at(path, node)


def test_no_lock_blocks_children_or_joins():
    """R05: FOR NO KEY UPDATE, one table a statement: a locking join answers from before it waited."""
    for path in python("runtime_app"):
        for node in calls(path):
            if names(node)[-1:] == ["select_for_update"]:
                assert "no_key" in {keyword.arg for keyword in node.keywords}, at(path, node)
            if "select_for_update" in names(node):
                assert not {"select_related", "distinct", "values", "annotate"} & set(names(node)), at(path, node)
        for node, sql in queries(path):
            assert "for update" not in sql, at(path, node)


def test_only_the_database_tells_the_time():
    """R05: no process compares its own clock with a deadline; a monotonic one may measure how long it has waited."""
    asked = {("timezone", "now"), ("datetime", "now"), ("datetime", "utcnow"), ("time", "time"), ("date", "today")}
    for path in python("runtime_app"):
        for node in calls(path) if path.name not in ELSEWHERE else ():
            assert tuple(names(node)[-2:]) not in asked, at(path, node)
        for node, sql in queries(path):
            assert not re.search(r"\bnow\(\)|clock_timestamp|current_timestamp", sql), at(path, node)


def queries(path):
    """Texts that are SQL, small, each with its place."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.match(r"\s*(select|insert|update|delete|with|where)\s", sql := node.value.lower()):
                yield node, sql
