"""The statements that every Run makes, on one table each, written out.

The ORM composes a statement anew each time, which takes longer than PostgreSQL takes to run it. These are for the ways
a Run always goes; everything else is the ORM's. A `tail` is SQL of ours, no text from outside; values are parameters.
Only `transitions` writes.
"""

from functools import cache

from django.db import DatabaseError, connection
from django.db.models.expressions import DatabaseDefault
from django.db.models.sql import Query


def rows(model, tail: str, *values) -> list:
    """The rows of `model` that are left by `tail`: where, order by, limit, for no key update."""
    select, names, converted = _reading(model)
    with connection.cursor() as cursor:
        cursor.execute(f"{select} {tail}", values)
        found = cursor.fetchall()
    return [model.from_db(connection.alias, names, _converted(row, converted)) for row in found]


def first(model, tail: str, *values):
    """The first of `rows`, or None."""
    return next(iter(rows(model, tail, *values)), None)


def insert(*new) -> None:
    """Rows of one model. What the database fills in is read back."""
    model, places, values = type(new[0]), [], []
    fields = model._meta.concrete_fields
    for row in new:
        each = [_place(model, field.get_db_prep_save(getattr(row, field.attname), connection)) for field in fields]
        places.append(f"({', '.join(place for place, _ in each)})")
        values += [value for _, taken in each for value in taken]
    filled = [field for field in fields if field.has_db_default()]
    returning = f" returning {_columns(filled)}" if filled else ""
    with connection.cursor() as cursor:
        table = model._meta.db_table
        cursor.execute(f"insert into {table} ({_columns(fields)}) values {', '.join(places)}{returning}", values)
        found = cursor.fetchall() if filled else [()] * len(new)
    for row, made in zip(new, found, strict=True):
        for field, value in zip(filled, _converted(made, _converters(filled)), strict=True):
            setattr(row, field.attname, value)
        row._state.adding, row._state.db = False, connection.alias


def update(row, *names: str) -> None:
    """Write these fields of a row that is there."""
    model, places, values = type(row), [], []
    for field in map(model._meta.get_field, names):
        place, taken = _place(model, field.get_db_prep_save(getattr(row, field.attname), connection))
        places.append(f'"{field.column}" = {place}')
        values += taken
    with connection.cursor() as cursor:
        cursor.execute(f"update {model._meta.db_table} set {', '.join(places)} where id = %s", [*values, row.pk])
        if cursor.rowcount != 1:
            raise DatabaseError(f"no row of {model._meta.db_table} was written")


def _place(model, value) -> tuple[str, list]:
    if isinstance(value, DatabaseDefault):
        return "default", []
    if not hasattr(value, "as_sql"):
        return "%s", [value]
    query = Query(model)
    place, taken = query.get_compiler(connection=connection).compile(value.resolve_expression(query))
    return place, list(taken)


@cache
def _reading(model) -> tuple[str, list[str], list]:
    fields = model._meta.concrete_fields
    select = f"select {_columns(fields)} from {model._meta.db_table}"
    return select, [field.attname for field in fields], _converters(fields)


def _columns(fields) -> str:
    return ", ".join(f'"{field.column}"' for field in fields)


def _converters(fields) -> list:
    return [(at, each) for at, field in enumerate(fields) for each in field.get_db_converters(connection)]


def _converted(row, converters: list):
    row = list(row)
    for at, convert in converters:
        row[at] = convert(row[at], None, connection)
    return row
