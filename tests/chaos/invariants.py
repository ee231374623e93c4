"""What must be true whatever broke, in SQL over the ledger, and against what the provider's own log says. Each has the
number it has in the threat model (I...) or in the rules (R...). A violation is a sentence with ids."""

from collections import Counter

from django.db import connection

from runtime_app import canonical, states
from runtime_app.models import Attempt, Effect, Event, Grant, Request, Run

# every query gives the ids of what breaks it
CHEAP = {
    "I1 resolved twice": """
        select subject from runtime_app_event where kind = 'request.resolved' group by subject having count(*) > 1""",
    "I5 a Grant without the approvals it needed": """
        select g.id from runtime_app_grant g join runtime_app_request r on r.id = g.request_id where not g.by_policy
           and (select count(distinct user_id) from runtime_app_response v where v.request_id = r.id
                   and v.kind = 'approve' and v.spent_at is null) < (r.policy->>'approvals')::int""",
    "I4 a Grant by somebody with a stake": """
        select g.id from runtime_app_grant g join runtime_app_request r on r.id = g.request_id
          join runtime_app_response v on v.request_id = r.id and v.kind = 'approve' and v.spent_at is null
          join runtime_app_run u on u.id = g.run_id join runtime_app_instance i on i.id = u.instance_id
         where not g.by_policy and not (r.policy->>'allow_stake')::bool
           and v.user_id in (u.initiator_id, i.owner_id)""",
    "I6 a Grant consumed by two Attempts, or by none": """
        select g.id from runtime_app_grant g where (g.state = 'consumed')::int <>
               (select count(*) from runtime_app_attempt a where a.grant_id = g.id)""",
    "I10 settled without evidence": """
        select id from runtime_app_effect e where state in ('committed', 'not_committed') and not exists (
               select 1 from runtime_app_evidence v where v.effect_id = e.id and v.finding = e.state)""",
    "I11 an intent after the cancel": """
        select i.subject from runtime_app_event i join runtime_app_event c on c.run_id = i.run_id
         where i.kind = 'effect.in_flight' and c.kind in ('run.cancelled', 'run.cancelling') and i.seq > c.seq""",
    "I16 Events with a gap": """
        select s.id from runtime_app_session s left join runtime_app_event e on e.session_id = s.id
         group by s.id having count(e.id) <> s.last_seq or coalesce(max(e.seq), 0) <> s.last_seq""",
    "I25 a Response after the deadline": """
        select id from runtime_app_request where state = 'resolved' and resolved_at >= expires_at""",
    "I26 dispatched under an older epoch": """
        select a.id from runtime_app_attempt a join runtime_app_grant g on g.id = a.grant_id
          join runtime_app_epoch p on p.number > g.epoch and p.began_at <= a.intent_at""",
    "R27 what an epoch took is still to be sent": """
        select g.id from runtime_app_grant g where g.state = 'unused'
           and g.epoch < (select max(number) from runtime_app_epoch)""",
    "I29 a noninteractive Run waits for a person": """
        select q.id from runtime_app_request q join runtime_app_run r on r.id = q.run_id
         where not r.interactive and q.state = 'pending' and q.kind <> 'wait_effect'""",
    "R23 in doubt without exactly one open question": """
        select e.id from runtime_app_effect e where 
               (e.disputed or e.state = 'uncertain' and accepted_at is null)::int <>
               (select count(*) from runtime_app_request q where q.effect_id = e.id and q.kind = 'wait_effect'
                   and q.state = 'pending') and e.state <> 'in_flight'""",
    "R30 an ended Run left something to send or to answer": """
        select r.id from runtime_app_run r where r.state = any(%(ended)s) and (
               exists (select 1 from runtime_app_request q where q.run_id = r.id and q.state = 'pending'
                          and q.kind <> 'wait_effect')
            or exists (select 1 from runtime_app_effect e where e.run_id = r.id and e.state = 'prepared')
            or exists (select 1 from runtime_app_grant g where g.run_id = r.id and g.state = 'unused'))""",
    "R28 a child outlives its parent": """
        select c.id from runtime_app_run c join runtime_app_run p on p.id = c.parent_id
         where p.state = any(%(ended)s) and not c.state = any(%(ended)s) and c.cancel_requested_at is null""",
    "R24 a recovery nobody makes": """
        select e.id from runtime_app_effect e where e.recovering in ('redispatch', 'compensate') and not exists (
               select 1 from runtime_app_run r where r.recovers_id = e.id and not r.state = any(%(ended)s))""",
    "I13 nothing stops it and it waits": """
        select r.id from runtime_app_run r where r.state = 'waiting'
           and not (r.key = 'given' and r.parent_id is not null)
           and not exists (select 1 from runtime_app_request q where q.run_id = r.id and q.state = 'pending')
           and not exists (select 1 from runtime_app_grant g where g.run_id = r.id and g.state = 'unused')
           and not exists (select 1 from runtime_app_effect e where e.id in (r.recovers_id) and e.state = 'in_flight'
                              or e.run_id = r.id and e.state in ('in_flight', 'uncertain'))
           and not exists (
               select 1 from runtime_app_run c where c.parent_id = r.id and not c.state = any(%(ended)s)
                  and c.key <> 'given')""",  # a child that was given something waits until its parent asks for it
}  # fmt: skip
ENDED = {"ended": list(states.ENDED)}
# at rest every Run has ended, or waits on a Request that a person can answer, or a person holds it (I34)
RESTLESS = """
with recursive stuck as (
    select r.id, r.parent_id from runtime_app_run r join runtime_app_environment e on e.id = r.environment_id
     where not r.state = any(%(ended)s) and r.held_at is null and e.held_at is null
       and not (r.key = 'given' and r.parent_id is not null)),
asks as (
    select r.id from stuck r where exists (
        select 1 from runtime_app_request q where q.run_id = r.id and q.state = 'pending' and q.stops)
    union select r.id from stuck r join runtime_app_run c on c.parent_id = r.id join asks a on a.id = c.id)
select id from stuck where id not in (select id from asks)
"""


def cheap() -> list[str]:
    """Those that hold after every transition."""
    names = list(CHEAP)
    every = " union all ".join(f"select {number}, id from ({CHEAP[name]}) f(id)" for number, name in enumerate(names))
    with connection.cursor() as cursor:
        cursor.execute(every, ENDED)
        return [f"{names[number]}: {pk}" for number, pk in cursor.fetchall()]


def whole(world: list[dict], *, truth: bool = True) -> list[str]:
    """All of them, at rest. `world`: the provider's log, a delivery a line. `truth`: people said what it says."""
    with connection.cursor() as cursor:
        cursor.execute(RESTLESS, ENDED)
        stuck = [f"I34 neither ends nor asks: {pk}" for (pk,) in cursor.fetchall()]
    return cheap() + stuck + digests() + folded() + sends(world) + (outcomes(world) if truth else [])


def digests() -> list[str]:
    """I3: the stored bytes, the Request's digest and its Grant's are one."""
    grants = dict(Grant.objects.values_list("request_id", "digest"))
    wrong = []
    for asked in Request.objects.filter(kind="wait_approval"):
        made = canonical.digest(
            tenant=asked.tenant_id, session=asked.session_id, run=asked.run_id, request=asked.pk,
            action_bytes=asked.action_bytes,
        )  # fmt: skip
        if not made == asked.digest == grants.get(asked.pk, made):
            wrong.append(f"I3 digests differ: {asked.pk}")
    return wrong


def folded() -> list[str]:
    """I18, I23: the Events, folded, give the rows, by declared steps only."""
    now, disputed, wrong = {}, set(), []
    tables = {"run": states.RUN, "request": states.REQUEST, "effect": states.EFFECT}
    for event in Event.objects.order_by("session_id", "seq").values("kind", "subject", "run_id"):
        what, _, state = event["kind"].partition(".")
        if event["kind"] == "effect.disputed":
            disputed.add(("effect", event["subject"]))
        if what not in tables or state not in tables[what]:
            continue
        which = (what, event["run_id"] if what == "run" else event["subject"])
        before = now.get(which)
        confirmed = state == before and which in disputed  # whoever settles a dispute may confirm it
        if before and state not in tables[what][before][1] and not confirmed:
            wrong.append(f"I23 {which} went from {before} to {state}")
        now[which] = state
    for what, model in (("run", Run), ("request", Request), ("effect", Effect)):
        for pk, state in model.objects.values_list("pk", "state"):
            folded = now.get((what, pk))
            if folded != state and (folded or state not in ("pending", "queued", "waiting")):
                wrong.append(f"I18 {what} {pk} is {state}, its Events say {folded}")
    return wrong


def sends(world: list[dict]) -> list[str]:
    """I7, I8, I9: no more deliveries than Attempts, none without an intent, each of the bytes that were granted."""
    effects = {effect.key: effect for effect in Effect.objects.select_related("request")}
    attempts = Counter(str(pk) for pk in Attempt.objects.values_list("effect__request_id", flat=True))
    wrong = []
    for key, count in Counter(line["key"] for line in world).items():
        if key not in effects:
            wrong.append(f"I8 sent without an intent: {key}")
        elif count > attempts[key]:
            wrong.append(f"I7 sent {count} times with {attempts[key]} intents: {key}")
    for line in world:
        if effect := effects.get(line["key"]):
            granted = canonical.parse(effect.request.parameters) | {"environment": effect.environment.name}
            if line["order"] != granted:
                wrong.append(f"I9 sent {line['order']}, granted {granted}: {line['key']}")
    return wrong


def outcomes(world: list[dict]) -> list[str]:
    """R23, R31: what the ledger says is what happened."""
    done = {line["key"] for line in world if line["what"] == "committed"}
    met = {line["key"] for line in world}
    wrong = []
    for effect in Effect.objects.all():
        if effect.state == "committed" and effect.key not in done:
            wrong.append(f"R23 committed, and it did not happen: {effect.pk}")
        if effect.state == "not_committed" and effect.key in done:
            wrong.append(f"R23 not committed, and it happened: {effect.pk}")
        if effect.state in ("withdrawn", "prepared") and effect.key in met:
            wrong.append(f"R30 {effect.state}, and it was sent: {effect.pk}")
    return wrong
