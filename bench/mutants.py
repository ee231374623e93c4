"""One-line faults, each with the one test that has to notice it: a defence whose loss nothing notices is none."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    name: str
    rule: str
    file: str
    old: str  # stands exactly once in the file
    new: str
    test: str


MUTANTS = [
    Mutant(
        "unscoped lookup",
        "R07",
        "runtime_app/permissions.py",
        'else seen(model, context, "id = %s", pk)',
        'else statements.first(model, "where id = %s", pk)',
        "tests/runtime/test_permissions.py::test_every_mix_of_ids_that_do_not_belong_together_is_not_found",
    ),
    Mutant(
        "authority before the lock",
        "R06",
        "runtime_app/transitions/runs.py",
        "    session = _session(change, session_id, title or message)\n"
        '    held = permissions.roles(context) if context.actor.kind == "person" else None  # after the lock (R06)\n',
        '    held = permissions.roles(context) if context.actor.kind == "person" else None  # after the lock (R06)\n'
        "    session = _session(change, session_id, title or message)\n",
        "tests/concurrency/test_after_the_lock.py"
        "::test_who_lost_the_right_while_waiting_neither_starts_nor_cancels[start-loses_every_role]",
    ),
    Mutant(
        "expiry by now()",
        "R05",
        "runtime_app/clock.py",
        'cursor.execute("select sayso_now()")',
        'cursor.execute("select now()")',
        "tests/concurrency/test_after_the_lock.py::test_a_real_clock_passes_a_real_deadline_while_a_response_waits",
    ),
    Mutant(
        "digest of the form unchecked",
        "R14",
        "runtime_app/transitions/responding.py",
        "if vote.digest != request.digest:",
        "if not vote.digest:",
        "tests/runtime/test_dispatch.py::test_a_digest_that_is_not_the_requests_own_is_refused",
    ),
    Mutant(
        "digest of the bytes unchecked",
        "R16",
        "runtime_app/transitions/granting.py",
        "if not digest == request.digest == made.digest:",
        "if not request.digest == made.digest:",
        "tests/runtime/test_dispatch.py::test_no_changed_byte_is_ever_sent",
    ),
    Mutant(
        "Grant used twice",
        "R16",
        "runtime_app/transitions/dispatching.py",
        'if grant.state != "unused" or environment.held_at',
        "if environment.held_at",
        "tests/concurrency/test_races.py::test_eight_workers_write_one_intent",
    ),
    Mutant(
        "a Grant's second Attempt",
        "R16",
        "runtime_app/migrations/0001_initial.py",
        'constraint=models.UniqueConstraint(fields=("grant",), name="attempt_one_a_grant"),',
        'constraint=models.UniqueConstraint(fields=("grant", "number"), name="attempt_one_a_grant"),',
        "tests/runtime/test_database.py::test_what_there_is_once_is_there_once",
    ),
    Mutant(
        "intent after the send",
        "R22",
        "runtime_app/transitions/dispatching.py",
        '    failpoint("dispatch.claim")\n    action = actions.registered(effect.action_name)\n',
        "    action = actions.registered(effect.action_name)\n"
        '    action.dispatch(effect.key, action.parsed(request.parameters), request.bound["environment"]["name"])\n'
        '    failpoint("dispatch.claim")\n',
        "tests/hosted/test_worker.py"
        "::test_a_worker_killed_at_any_point_of_a_dispatch_never_sends_twice[dispatch.claim]",
    ),
    Mutant(
        "reply not journaled",
        "R22",
        "runtime_app/hosted/loop.py",
        "            await self.steps.journal(entry)\n",
        "            self.steps.held.append(entry)\n",
        "tests/hosted/test_worker.py"
        "::test_a_worker_killed_at_any_point_of_a_turn_repeats_no_finished_tool[turn.reply_journaled]",
    ),
    Mutant(
        "cancel without the Run's lock",
        "R32",
        "runtime_app/transitions/cancellation.py",
        "run = change.lock(Run, found.pk)",
        "run = Run.objects.get(pk=found.pk)",
        "tests/concurrency/test_after_the_lock.py::test_a_cancel_waits_for_whoever_has_the_runs_row",
    ),
    Mutant(
        "repeat counted twice",
        "R09",
        "runtime_app/transitions/resolving.py",
        "earlier = permissions.seen(Response, context, mine, context.user_id, said.response_id)",
        "earlier = None",
        "tests/runtime/test_repeats_and_refusals.py::test_the_same_again_returns_what_was_recorded",
    ),
    Mutant(
        "cursor by id",
        "R37",
        "runtime_app/events.py",
        'seq__gt=seen or 0).order_by("seq")',
        'id__gt=seen or 0).order_by("id")',
        "tests/runtime/test_events.py::test_a_cursor_goes_on_where_it_was",
    ),
]
