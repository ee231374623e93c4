"""More one-line faults, in what reality, people who recover, jobs, children and restores stand on."""

from .mutants import Mutant

T = "runtime_app/transitions/"
REMEDIES = "tests/runtime/test_remedies.py::"
RACES = "tests/concurrency/test_reality_races.py::"
FIRST = "tests/runtime/test_reality.py::"

REALITY = [
    Mutant(
        "hold unseen after the lock", "R16", T + "dispatching.py",
        'if grant.state != "unused" or environment.held_at or run.state',
        'if grant.state != "unused" or run.state',
        RACES + "test_a_dispatch_waits_for_whoever_has_the_environments_row",
    ),
    Mutant(
        "void what was sent", "R16", T + "holding.py",
        'if made.state != "unused":', 'if made.state == "void":',
        REMEDIES + "test_what_was_sent_is_no_longer_voided",
    ),
    Mutant(
        "any approver voids", "R16", "runtime_app/permissions.py",
        "return None if voted.exists() and context.user_id in", "return None if context.user_id in",
        FIRST + "test_its_approver_voids_an_unused_grant_and_the_agent_goes_on",
    ),
    Mutant(
        "sent again though known", "R24", T + "granting.py",
        'if request.effect_id and effect.state != "uncertain":', "if False:",
        REMEDIES + "test_the_dispatch_looks_once_more_whether_it_was_established",
    ),
    Mutant(
        "asked for again though known", "R24", T + "evidence.py",
        "        if effect.state in states.SETTLED:\n            take", "        if False:\n            take",
        REMEDIES + "test_what_was_established_is_not_asked_for_again",
    ),
    Mutant(
        "older epoch's Grant", "R16", T + "granting.py",
        "if made.epoch != current_epoch():", "if made.epoch > current_epoch():",
        REMEDIES + "test_what_an_older_epoch_granted_is_not_sent",
    ),
    Mutant(
        "age of the database unread", "R27", T + "epochs.py",
        'told.get("intents", 0) > intents or', "False or",
        FIRST + "test_a_database_behind_its_mark_begins_a_new_epoch_and_sends_nothing",
    ),
    Mutant(
        "timeline unread", "R27", T + "epochs.py",
        "timeline != epoch.timeline", "timeline < 0",
        REMEDIES + "test_each_difference_alone_is_a_new_epoch[timeline-7]",
    ),
    Mutant(
        "system unread", "R27", T + "epochs.py",
        "identifier != epoch.system_identifier", "not identifier",
        REMEDIES + "test_each_difference_alone_is_a_new_epoch[system_identifier-1]",
    ),
    Mutant(
        "oid unread", "R27", T + "epochs.py",
        "oid != epoch.database_oid", "not oid",
        REMEDIES + "test_each_difference_alone_is_a_new_epoch[database_oid-7]",
    ),
    Mutant(
        "inode unread", "R27", T + "epochs.py",
        'not told.get("inode") == inode == epoch.mark', "not inode",
        REMEDIES + "test_each_difference_alone_is_a_new_epoch[mark-7]",
    ),
    Mutant(
        "missing mark unread", "R27", T + "epochs.py",
        '"the mark outside the database is missing": not told,', '"the mark outside the database is missing": False,',
        REMEDIES + "test_an_installation_without_its_mark_sends_nothing",
    ),
    Mutant(
        "mark told too early", "R27", T + "epochs.py",
        "        epoch.mark = os.fstat(file.fileno()).st_ino\n    epoch.save()\n",
        "        epoch.mark = os.fstat(file.fileno()).st_ino\n    epoch.save()\n    _tell_mark(epoch)\n",
        REMEDIES + "test_a_process_killed_while_an_epoch_begins_hides_no_restore",
    ),
    Mutant(
        "intent not marked", "R27", T + "dispatching.py",
        "        epochs.mark(dispatch.intent, dispatch.attempt_id)\n", "        pass\n",
        REMEDIES + "test_an_intent_is_marked_outside_the_database_before_it_is_sent",
    ),
    Mutant(
        "sent without its mark", "R27", T + "dispatching.py",
        "elif dispatch and _marked(dispatch):", "elif dispatch and (_marked(dispatch) or True):",
        REMEDIES + "test_what_cannot_be_marked_is_not_sent",
    ),
    Mutant(
        "epoch wakes nobody", "R27", T + "epochs.py",
        "        wake(change, run)  # a Run whose Grant", "        # a Run whose Grant",
        REMEDIES + "test_a_run_whose_second_grant_an_epoch_took_goes_on",
    ),
    Mutant(
        "two recoveries at a time", "R24", T + "remedies.py",
        "    if effect.recovering:\n", '    if effect.recovering == "probe":\n',
        RACES + "test_of_twenty_recoveries_one_is_started",
    ),
    Mutant(
        "compensated twice", "R24", T + "remedies.py",
        'if name != "compensate":', "if name:",
        REMEDIES + "test_what_happened_is_compensated_once_whichever_way_it_is_asked",
    ),
    Mutant(
        "what is in flight sent again", "R24", T + "remedies.py",
        'if recover.action == "redispatch" and effect.state != "uncertain":', "if False:",
        REMEDIES + "test_only_what_is_uncertain_is_sent_again",
    ),
    Mutant(
        "who sent it again is not told", "R24", T + "evidence.py",
        "    wake_recoverers(change, effect)\n    return kept", "    return kept",
        REMEDIES + "test_whoever_establishes_it_the_run_that_sent_it_again_goes_on",
    ),
    Mutant(
        "only prepared Effects are looked for", "R24", "runtime_app/selectors/claimable.py",
        "runtime_app_grant g join runtime_app_run r on r.id = g.run_id\n             where g.state = 'unused'",
        "runtime_app_effect e join runtime_app_run r on r.id = e.run_id\n             where e.state = 'prepared'",
        REMEDIES + "test_a_worker_that_was_told_nothing_finds_what_is_to_be_sent_again",
    ),
    Mutant(
        "a claim disputes an observation", "R25", T + "evidence.py",
        "if effect.disputed or GRADES.index(grade) <", "if effect.disputed or -1 - GRADES.index(grade) >",
        REMEDIES + "test_a_person_does_not_dispute_what_the_provider_said",
    ),
    Mutant(
        "a party settles the dispute", "R25", T + "evidence.py",
        "if effect.disputed and sides", "if not effect.disputed and sides",
        FIRST + "test_a_dispute_is_settled_by_an_operator_who_attested_neither_side",
    ),
    Mutant(
        "callback kept twice", "R25", T + "evidence.py",
        "if again := Evidence.objects.filter(effect_id=effect.pk, message_id=message_id).first():",
        'if again := Evidence.objects.filter(effect_id=effect.pk, message_id="").first():',
        REMEDIES + "test_a_callback_that_comes_twice_is_one_piece_of_evidence",
    ),
    Mutant(
        "callback across tenants", "R07", T + "evidence.py",
        "tenant_id=change.context.tenant_id, request_id=parse_id(key)", "request_id=parse_id(key)",
        REMEDIES + "test_a_callback_for_another_tenants_key_is_not_found",
    ),
    Mutant(
        "a look-up too early says no", "R23", T + "remedies.py",
        'if read["finding"] == "not_committed" and until:', 'if read["finding"] == "committed" and until:',
        "tests/runtime/test_effects.py::test_a_look_up_that_may_lag_proves_nothing",
    ),
    Mutant(
        "a person too early says no", "R23", T + "evidence.py",
        "if open_still and (until :=", "if not open_still and (until :=",
        "tests/runtime/test_effects.py::test_not_yet_sent_is_no_not_sent",
    ),
    Mutant(
        "a dispute settled too early", "R23", T + "evidence.py",
        "(effect.disputed or effect.state not in states.SETTLED)", "effect.state not in states.SETTLED",
        "tests/runtime/test_effects.py::test_a_dispute_is_not_settled_as_not_happened_while_it_may_still_be_sent",
    ),
    Mutant(
        "supplied twice", "R34", T + "supplying.py",
        "if blocker.over or blocker.kind ==", "if blocker.kind ==",
        FIRST + "test_a_blocked_job_is_granted_its_exact_action_and_the_successor_uses_it",
    ),
    Mutant(
        "each vote for the next run is alone", "R34", T + "supplying.py",
        "votes = Response.objects.filter(blocker_id=blocker.pk)", "votes = Response.objects.none()",
        "tests/runtime/test_supplying.py::test_one_of_two_starts_nothing_and_leaves_nobody_waiting",
    ),
    Mutant(
        "the parent stays blocked", "R28", T + "supplying.py",
        '_parent_of(change, blocked), "waiting")', 'None, "waiting")',
        "tests/hosted/test_children.py::test_a_job_goes_on_when_what_its_child_lacked_is_given",
    ),
    Mutant(
        "a given child starts unasked", "R34", T + "continuing.py",
        'run.state != "waiting" or run.key == GIVEN or', 'run.state != "waiting" or',
        "tests/hosted/test_children.py::test_a_parent_does_not_wait_for_what_it_has_not_asked_for",
    ),
    Mutant(
        "anybody supplies", "R34", T + "supplying.py",
        "if refused := permissions.why_not(context, request):", "if refused := None:",
        REMEDIES + "test_whoever_may_not_approve_it_grants_no_job_anything",
    ),
    Mutant(
        "given for something else", "R34", T + "raising.py",
        "if supplied is None or not _same(supplied, request):", "if supplied is None:",
        FIRST + "test_what_was_given_and_does_not_fit_is_said_and_the_job_blocks_anew",
    ),
    Mutant(
        "given is sent unasked", "R34", T + "dispatching.py",
        ").exclude(request__key=GIVEN).order_by", ").order_by",
        REMEDIES + "test_what_was_given_is_not_sent_while_the_successor_waits_for_something_else",
    ),
    Mutant(
        "children outlive their parent", "R28", T + "continuing.py",
        "    for child in Run.objects.filter(parent_id=run.pk).exclude", "    for child in Run.objects.none().exclude",
        FIRST + "test_cancelling_a_parent_names_and_cancels_its_children",
    ),
    Mutant(
        "parent not woken", "R28", T + "continuing.py",
        "if run.parent_id and not _ends_with_parent:", "if run.parent_id and _ends_with_parent:",
        FIRST + "test_a_parent_waits_for_its_child_and_cancels_it",
    ),
    Mutant(
        "a child's Blocker stays below", "R28", T + "continuing.py",
        "if found and not parent.interactive:", "if found and parent.interactive:",
        REMEDIES + "test_a_childs_blocker_is_its_parents",
    ),
    Mutant(
        "a restore ends a job before all is asked", "R27", T + "epochs.py",
        "            unsure.append(effect)\n", "            probe_or_block(change, run, effect)\n",
        REMEDIES + "test_after_a_restore_everything_a_job_was_granted_is_asked_about",
    ),
    Mutant(
        "compensated in an older epoch", "R27", T + "remedies.py",
        "epoch=current_epoch(), state=", "epoch=run.epoch, state=",
        REMEDIES + "test_what_happened_before_a_restore_is_compensated_after_it",
    ),
    Mutant(
        "who lost the right still counts", "R18", T + "responding.py",
        "if vote.user_id not in able:", "if vote.user_id is None:",
        "tests/runtime/test_votes.py::test_a_vote_of_somebody_deactivated_is_spent",
    ),
    Mutant(
        "a full disk is our fault", "R05", T + "change.py",
        "if state == _NO_ROOM:", "if not state:",
        "tests/runtime/test_no_room.py::test_without_room_nothing_happens_and_the_same_may_be_said_again",
    ),
]  # fmt: skip
