"""What the database refuses, whoever asks: the app role by raw SQL, too (I20, I23, T04, T27, T98)."""

import re
from itertools import product

import pytest
from django.apps import apps
from django.db import DatabaseError, IntegrityError, connection, transaction

from runtime_app import models, states, transitions
from runtime_app.errors import NotAuthorized
from runtime_app.ids import uuid7
from runtime_app.models.base import TenantKey, TenantRow
from tests.cast import Finding, claim, intend

TABLES = {"run": states.RUN, "request": states.REQUEST, "effect": states.EFFECT, "grant": states.GRANT}
HISTORY = [
    models.Session, models.Run, models.Entry, models.Blocker, models.Request, models.Response, models.Grant,
    models.Effect, models.Attempt, models.Evidence, models.Event, models.Refusal,
]  # fmt: skip
APPENDED = [models.Entry, models.Evidence, models.Event]


def run_sql(sql, *parameters):
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall() if cursor.description else cursor.rowcount


def refused(sql, *parameters) -> str:
    """What the database says to this; it has to refuse."""
    with pytest.raises(DatabaseError) as error:
        run_sql(sql, *parameters)
    return str(error.value)


@pytest.fixture
def history(northgate):
    """One row at least in every table."""
    run = northgate.start()
    turn = claim(run)
    transitions.journal(turn, transitions.NewEntry("reply", 0, "{}"))
    transitions.suspend(claim(northgate.start(interactive=False)), waits=[_question()])
    request = northgate.unknown()
    northgate.says("Olga", request, Finding("unknown"))
    with pytest.raises(NotAuthorized):
        northgate.says("Rita", request, Finding("unknown"))
    assert all(model.objects.exists() for model in HISTORY)
    return northgate


def _question():
    return transitions.Question("q", "Which?", {"type": "object", "properties": {"name": {"type": "string"}}})


def test_the_app_role_owns_nothing_and_is_nobody_special(transactional_db):
    """T08."""
    assert run_sql("SELECT rolsuper, rolbypassrls, rolcreaterole FROM pg_roles WHERE rolname = current_user") == [
        (False, False, False)
    ]
    assert run_sql("SELECT count(*) FROM pg_class WHERE relowner = current_user::regrole") == [(0,)]


@pytest.mark.parametrize("table", TABLES)
def test_only_declared_steps_happen(history, table):
    """I23, T98: every pair of states that `states` does not declare is refused, by raw SQL of the app role."""
    declared = set(states.steps(TABLES[table]))
    [(pk, began)] = run_sql(f"SELECT id, state FROM runtime_app_{table} ORDER BY id LIMIT 1")
    for before, after in product(TABLES[table], repeat=2):
        if before == after or (before, after) in declared:
            continue
        if before != began:
            continue
        assert refused(f"UPDATE runtime_app_{table} SET state = %s WHERE id = %s", after, pk), (before, after)
    assert refused(f"UPDATE runtime_app_{table} SET state = 'done' WHERE id = %s", pk)


@pytest.mark.parametrize("table", TABLES)
def test_the_trigger_knows_every_pair_of_states(transactional_db, table):
    """I23: what the trigger allows is what `states` declares, word for word."""
    [(source,)] = run_sql(
        "SELECT p.prosrc FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid "
        "WHERE t.tgrelid = %s::regclass AND t.tgname LIKE 'pgtrigger_steps_%%'",
        f"runtime_app_{table}",
    )
    allowed = {tuple(step.split(":")) for step in re.search(r"'\{(.*?)\}'", source)[1].split(",")}
    assert allowed == set(states.steps(TABLES[table]))


@pytest.mark.parametrize("model", HISTORY, ids=lambda model: model.__name__)
def test_history_is_not_deleted(history, model):
    """T98, B100, B161: not one row, not by TRUNCATE."""
    table = model._meta.db_table
    assert refused(f"DELETE FROM {table}")
    assert refused(f"TRUNCATE {table} CASCADE")


@pytest.mark.parametrize("model", APPENDED, ids=lambda model: model.__name__)
def test_facts_are_appended_and_never_edited(history, model):
    """R25, R36: each column, whatever its value."""
    for field in model._meta.concrete_fields:
        assert refused(f"UPDATE {model._meta.db_table} SET {field.column} = {field.column}")


BOUND = {
    models.Request: [
        "tenant_id", "session_id", "run_id", "environment_id", "kind", "key", "number", "accepts", "prompt",
        "action_name", "action_version", "action_bytes", "action_hash", "digest", "described", "claim", "policy",
        "created_at", "expires_at",
    ],
    models.Response: ["tenant_id", "run_id", "kind", "user_id", "name", "response_id", "content", "message", "at"],
    models.Grant: ["tenant_id", "request_id", "run_id", "digest", "by_policy", "epoch", "expires_at"],
    models.Effect: ["tenant_id", "session_id", "run_id", "environment_id", "request_id", "action_name", "action_hash"],
    models.Attempt: ["tenant_id", "effect_id", "number", "grant_id", "worker", "intent_at", "send_by"],
}  # fmt: skip

OTHER = {
    "UUIDField": "gen_random_uuid()", "TenantKey": "gen_random_uuid()", "ForeignKey": None, "CharField": "{c} || 'x'",
    "TextField": "{c} || 'x'", "IntegerField": "{c} + 1", "JSONField": "'{{}}'::jsonb", "BinaryField": "'x'::bytea",
    "DateTimeField": "coalesce({c}, now()) + interval '1 day'", "BooleanField": "not {c}",
}  # fmt: skip


@pytest.mark.parametrize("model", BOUND, ids=lambda model: model.__name__)
def test_what_was_bound_stays_as_it_was(history, model):
    """R14, T27: no column that a person saw, or that says who and what it is of."""
    columns = {field.column: type(field).__name__ for field in model._meta.concrete_fields}
    [(pk,)] = run_sql(f"SELECT id FROM {model._meta.db_table} ORDER BY id LIMIT 1")
    for column in BOUND[model]:
        other = OTHER[columns[column]] or ("gen_random_uuid()" if column == "tenant_id" else "{c} + 1")
        changed = f"UPDATE {model._meta.db_table} SET {column} = {other.format(c=column)} WHERE id = %s"
        assert refused(changed, pk), column


# ---------------------------------------------------------------- tenants


def test_every_key_between_tenants_tables_carries_the_tenant(transactional_db):
    """I20, T04: from the catalogue, against the models; a table or key added later has to be here too."""
    tables = {
        model._meta.db_table: model
        for model in apps.get_app_config("runtime_app").get_models()
        if issubclass(model, TenantRow) or model is models.Event
    }
    wanted = {
        (table, field.column, field.related_model._meta.db_table)
        for table, model in tables.items()
        for field in model._meta.concrete_fields
        if isinstance(field, TenantKey)
    }
    keys = run_sql("""
        SELECT c.conrelid::regclass::text, c.confrelid::regclass::text, c.condeferrable, c.convalidated,
               (SELECT array_agg(a.attname::text ORDER BY k.place) FROM unnest(c.conkey) WITH ORDINALITY k(n, place)
                JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.n),
               (SELECT array_agg(a.attname::text ORDER BY k.place) FROM unnest(c.confkey) WITH ORDINALITY k(n, place)
                JOIN pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.n)
        FROM pg_constraint c WHERE c.contype = 'f'
    """)
    found = set()
    for table, target, _deferrable, valid, columns, theirs in keys:
        table, target = table.strip('"'), target.strip('"')
        if table not in tables or target not in tables:
            continue
        assert valid and columns[0] == "tenant_id" and theirs == ["tenant_id", "id"], (table, columns, target)
        found.add((table, columns[1], target))
    assert found == wanted
    for table in tables:
        [(nullable,)] = run_sql(
            "SELECT is_nullable FROM information_schema.columns WHERE table_name = %s AND column_name = 'tenant_id'",
            table,
        )
        assert nullable == "NO"


def test_a_row_never_points_into_another_tenant(northgate, harbour):
    """I20, T04: inserts and updates of the app role, with ids that exist."""
    mine, theirs = northgate.question(), harbour.question(by="Mallory")
    membership = models.Membership.objects.filter(tenant=northgate.tenant).first()
    with pytest.raises(IntegrityError):
        models.Role.objects.create(
            tenant=northgate.tenant, membership=membership, name="approver", environment=harbour.staging
        )
    with pytest.raises(IntegrityError):
        models.Policy.objects.create(tenant=northgate.tenant, environment=harbour.staging)
    with pytest.raises(IntegrityError):
        models.Run.objects.create(
            tenant=northgate.tenant, session_id=theirs.session_id, environment=northgate.staging,
            instance=models.Run.objects.get(pk=mine.run_id).instance, agent="deployer", message="go",
        )  # fmt: skip
    with pytest.raises(IntegrityError):
        models.Request.objects.create(
            tenant=northgate.tenant, session_id=mine.session_id, run_id=theirs.run_id,
            environment=northgate.staging, kind="wait_user", key="x", accepts={},
        )  # fmt: skip
    with pytest.raises(IntegrityError):
        models.Event.objects.create(
            tenant=northgate.tenant, session_id=theirs.session_id, seq=99, kind="x", actor_kind="system", actor_name="x"
        )
    refused("UPDATE runtime_app_run SET environment_id = %s WHERE id = %s", harbour.staging.pk, mine.run_id)


# ---------------------------------------------------------------- one of each


def test_what_there_is_once_is_there_once(northgate):
    """R04, R16, R22, R23, R36, I6: constraints, past every transition."""
    request = northgate.unknown()
    effect = models.Effect.objects.get()
    made, attempt = models.Grant.objects.get(), models.Attempt.objects.get()
    event = models.Event.objects.first()

    def copy(row, **changed):
        row.pk = uuid7() if not isinstance(row, models.Event) else None
        for name, value in changed.items():
            setattr(row, name, value)
        with pytest.raises(IntegrityError) as error:
            with transaction.atomic():
                row.save(force_insert=True)
        return error.value.__cause__.diag.constraint_name

    assert copy(models.Grant.objects.get(), state="unused") == "grant_one_a_request"
    assert copy(models.Effect.objects.get()) == "effect_one_a_request"
    assert copy(models.Attempt.objects.get()) == "attempt_number_once"
    assert copy(models.Attempt.objects.get(), number=2) == "attempt_one_a_grant"
    assert copy(models.Event.objects.first()) == "event_seq_once"
    assert copy(models.Request.objects.get(pk=request.pk), number=9, key="other") == "request_effect_asked_once"
    assert (made.request_id, attempt.effect_id, event.seq) == (effect.request_id, effect.pk, 1)


def test_a_waiting_run_has_no_lease_and_an_ended_one_says_when(northgate):
    """R29, R30."""
    request = northgate.question()
    refused("UPDATE runtime_app_run SET lease_until = now() WHERE id = %s", request.run_id)
    refused("UPDATE runtime_app_run SET state = 'cancelled' WHERE id = %s", request.run_id)
    refused("UPDATE runtime_app_request SET state = 'resolved', resolved_at = now() WHERE id = %s", request.pk)
    assert intend() is None


def test_every_constraint_and_trigger_is_valid_and_on(transactional_db):
    """House rule 2: none was left NOT VALID or disabled."""
    assert run_sql("SELECT conname FROM pg_constraint WHERE NOT convalidated") == []
    assert run_sql("SELECT tgname FROM pg_trigger WHERE tgenabled <> 'O' AND NOT tgisinternal") == []
