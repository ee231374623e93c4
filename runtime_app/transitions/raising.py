"""Raising Requests: what a Run stops at, durable before anybody hears of it (R01-R04, R15, R17)."""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from .. import actions, canonical, policies, questions, registrations, statements, states
from ..errors import IdempotencyConflict, InvalidInput
from ..ids import parse_id, uuid7
from ..models import Effect, Environment, Instance, Request, Run
from .blocking import GIVEN, QUESTION_WAITS, block
from .change import Change
from .continuing import close, wake
from .deliveries import tell
from .granting import grant, unaccepted

PROMPT_BYTES = 20_000
DEPTH = 5  # of children below one another


@dataclass(frozen=True)
class Question:
    """A wait for information. `key`: the agent's own name of this wait in its Run."""

    key: str
    prompt: str
    schema: dict


@dataclass(frozen=True)
class Ask:
    """A wait for authority over one exact action. `arguments`: the raw text, never parsed by a library first (R15)."""

    key: str
    action: str
    arguments: str
    claim: str = ""
    replaces: UUID | None = None
    within: timedelta | None = None  # a shorter wait than the policy's
    sent: str = ""  # what else a remote agent sent with it, as it came


@dataclass(frozen=True)
class Child:
    """A Run of another agent, in the same Session and environment; its parent waits for its end (R28)."""

    key: str
    agent: str
    message: str


Wait = Question | Ask | Child


def check(wait: Wait) -> InvalidInput | None:
    """Why this wait cannot be raised, or None. A refused call goes back to the model as that call's result."""
    try:
        _content(wait, actions.registered)
    except InvalidInput as refused:
        return refused
    return None


def _content(wait: Wait, known):
    """What is bound of this wait. `known` finds an action by its name."""
    for name, text in vars(wait).items():
        if isinstance(text, str) and name not in ("arguments", "sent"):  # those two came through the strict parser
            _legal(text)
    if wait.key == GIVEN or wait.key.startswith("effect:"):
        raise InvalidInput(f"A wait of an agent cannot be called {wait.key[:60]}: Sayso's own are.")
    if isinstance(wait, Child):
        if not wait.message.strip():
            raise InvalidInput("A child needs a message: it is what it works from.")
        return None
    if isinstance(wait, Question):
        if not wait.prompt.strip():
            raise InvalidInput("A question needs a prompt.")
        return questions.check(wait.schema)
    action = known(wait.action)
    if action is None:
        raise InvalidInput(f"There is no action {wait.action}. Registered: {', '.join(actions.names()) or 'none'}.")
    return action.bind(wait.arguments)


def _legal(text: str) -> None:
    if len(text.encode("utf-8", "surrogatepass")) > PROMPT_BYTES:
        raise InvalidInput(f"The text is longer than {PROMPT_BYTES:,} bytes.", reason="too_large")
    if wrong := canonical.fault(text):
        raise InvalidInput(f"The text {wrong}.")


def raise_waits(change: Change, run: Run, waits: list[Wait]) -> list[Request] | None:
    """Raise every wait of one step, under the Session's and the Run's locks. None: the Run is noninteractive, needed a
    person, and has ended `blocked` (R33)."""
    asks = any(isinstance(wait, Ask) for wait in waits)
    environment = run.environment if asks else None
    own, keys = "where run_id = %s and key = any(%s) order by number", [wait.key for wait in waits]
    before = {request.key: request for request in statements.rows(Request, own, run.pk, keys)}
    raised, new = [], []
    for wait in waits:
        if isinstance(wait, Child):
            _raise_child(change, run, wait)
            continue
        request = _bound(change, run, environment, wait)
        last = before.get(wait.key) or _take_given(change, run, request)
        replaces = None
        if isinstance(wait, Ask) and wait.replaces:
            replaces = parse_id(wait.replaces)
            if replaces is None:
                raise InvalidInput("What is replaced is named by its id.", fields={"replaces": "not a UUID"})
        if last and _same(last, request) and replaces in (None, last.replaces_id):
            raised.append(last)
            continue
        if replaces != (last and last.pk):
            raise IdempotencyConflict(f"The wait {wait.key[:60]} was raised before with other content.")
        if last:
            _follow(change, run, request, last)
        before[wait.key] = request
        raised.append(request)
        new.append(request)
    if not run.interactive:
        for request in new:
            if request.state == "pending":
                block(change, run, request)
                return None
    if new:
        statements.insert(*new)
    for request in new:
        announce(change, run, request)
    return raised


def _raise_child(change: Change, parent: Run, wait: Child) -> None:
    earlier = Run.objects.filter(parent_id=parent.pk, key=wait.key).first()
    if earlier is None and _take_given_child(change, parent, wait):
        return
    if earlier:
        if (earlier.agent, earlier.message) != (wait.agent, wait.message):
            raise IdempotencyConflict(f"The wait {wait.key[:60]} was raised before with other content.")
        return
    if refused := check_child(parent, wait):
        raise refused
    instance = _instance(parent, wait)
    child = Run(
        tenant_id=parent.tenant_id, session_id=parent.session_id, environment_id=parent.environment_id,
        instance_id=instance.pk, agent=wait.agent, parent_id=parent.pk, key=wait.key, interactive=parent.interactive,
        message=wait.message, initiator_id=parent.initiator_id, initiator_name=parent.initiator_name,
        schedule_id=parent.schedule_id, epoch=parent.epoch,
    )  # fmt: skip
    child.save(force_insert=True)
    change.note("run.started", run=child, agent=child.agent, parent=str(parent.pk))
    change.log.work("run")


def _take_given_child(change: Change, parent: Run, wait: Child) -> bool:
    """What the child of the run before lacked was given to this child, which starts now that it is asked for (R34)."""
    same = Run.objects.filter(parent_id=parent.pk, key=GIVEN, agent=wait.agent, message=wait.message)
    if not parent.follows_id or not (found := same.exclude(state__in=states.ENDED).first()):
        return False
    child = change.lock(Run, found.pk)
    child.key = wait.key
    child.save(update_fields=["key"])
    wake(change, child)
    return True


def check_child(parent: Run, wait: Child) -> InvalidInput | None:
    """Why this Run cannot have that child, or None."""
    if _instance(parent, wait) is None:
        return InvalidInput(f"The child cannot be started: no agent {wait.agent[:60]} is set up there.")
    depth, above = 1, parent
    while above.parent_id:
        depth, above = depth + 1, Run.objects.get(pk=above.parent_id)
    return InvalidInput(f"The child cannot be started: children may go {DEPTH} deep.") if depth >= DEPTH else None


def _instance(parent: Run, wait: Child) -> Instance | None:
    return Instance.objects.filter(
        tenant_id=parent.tenant_id, agent=wait.agent, environment_id=parent.environment_id, hosted=True
    ).first()


def raise_anew(change: Change, run: Run, request: Request, because: str) -> Request | None:
    """Ask again after a drift, under the same key and the next number, linked (R16). None: the Run ended instead, or
    what was bound can no longer be asked for and the agent is told `void`."""
    action = registrations.action_of(run, request.action_name)
    try:
        parameters = action.bind(request.parameters)
    except InvalidInput:
        return None
    environment = Environment.objects.get(pk=run.environment_id)
    fresh = _approval(
        change, run, environment, key=request.key, action=action, parameters=parameters, claim=request.claim,
        effect=Effect.objects.get(pk=request.effect_id) if request.effect_id else None,
    )  # fmt: skip
    fresh.described = fresh.described | {"because": because}
    _follow(change, run, fresh, request)
    if not run.interactive and fresh.state == "pending":
        block(change, run, fresh)
        return None
    fresh.save(force_insert=True)
    announce(change, run, fresh)
    return fresh


def raise_recovery(change: Change, run: Run, *, name: str, parameters: bytes, effect: Effect | None) -> Request:
    """The ask of a Run that recovers an Effect. With `effect`: to send that one again, under its key (R24)."""
    environment = Environment.objects.get(pk=run.environment_id)
    request = _approval(
        change, run, environment, key=run.recovery, action=actions.registered(name), parameters=parameters, claim="",
        effect=effect,
    )  # fmt: skip
    request.save(force_insert=True)
    announce(change, run, request)
    return request


def _bound(change: Change, run: Run, environment: Environment | None, wait: Wait) -> Request:
    action = registrations.action_of(run, wait.action) if isinstance(wait, Ask) else None
    content = _content(wait, lambda name: action)
    if isinstance(wait, Ask):
        return _approval(
            change, run, environment, key=wait.key, action=action, parameters=content, claim=wait.claim,
            within=wait.within, sent=wait.sent,
        )  # fmt: skip
    return Request(
        tenant_id=run.tenant_id, session_id=run.session_id, run_id=run.pk, environment_id=run.environment_id,
        kind="wait_user", key=wait.key, prompt=wait.prompt, schema=content, epoch=run.epoch,
        accepts={"answer": {"schema": content}}, expires_at=change.now() + QUESTION_WAITS,
    )  # fmt: skip


def _approval(
    change, run, environment, *, key, action, parameters, claim, effect=None, within=None, sent=""
) -> Request:  # fmt: skip
    """The bound Action: its bytes are made here, once, and digested with the ids (R14-R16)."""
    name, version = action.name, effect.action_version if effect else action.version  # what is sent again stays itself
    actor = Instance.objects.only("agent").get(pk=run.instance_id)
    bound = actions.action_bytes(
        name=name, version=version, environment=environment, actor=str(actor.pk), parameters=parameters
    )
    pk = uuid7()
    digest = canonical.digest(tenant=run.tenant_id, session=run.session_id, run=run.pk, request=pk, action_bytes=bound)
    same = actions.action_hash(name=name, environment=str(environment.pk), parameters=parameters)
    policy = policies.applying(environment, name)
    if policy["verdict"] == "allow" and (doubt := unaccepted(run.tenant_id, same, effect and effect.pk)):
        # an equal Action may have happened already: nobody sends it again unasked (R24)
        policy = policy | {"verdict": "ask", "because_of": str(doubt)}
    now = change.now()
    request = Request(
        id=pk, tenant_id=run.tenant_id, session_id=run.session_id, run_id=run.pk, environment_id=run.environment_id,
        kind="wait_approval", key=key, action_name=name, action_version=version, action_bytes=bound, action_hash=same,
        digest=digest, described=registrations.described(action), claim=claim, policy=policy, sent=sent,
        epoch=run.epoch, effect_id=effect and effect.pk, created_at=now,
        accepts={"approve": {"digest": digest}, "deny": {"digest": digest}},
        expires_at=now + min(timedelta(seconds=policy["request_for"]), within or timedelta.max),
    )  # fmt: skip
    if policy["verdict"] != "ask":
        request.state, request.resolved_at, request.resolved_by = "resolved", now, policies.name(policy)
        request.outcome = "approved" if policy["verdict"] == "allow" else "denied"
    return request


def _same(last: Request, request: Request) -> bool:
    if last.kind != request.kind:
        return False
    if request.kind == "wait_user":
        return (last.prompt, last.schema) == (request.prompt, request.schema)
    return last.action_hash == request.action_hash


def _follow(change: Change, run: Run, request: Request, last: Request) -> None:
    request.number, request.replaces_id = last.number + 1, last.pk
    if last.state == "pending":
        last = change.lock(Request, last.pk)
        close(change, run, last, "superseded", by=str(request.pk))


def announce(change: Change, run: Run, request: Request) -> None:
    """The Request's Event and, where a policy decided, its Grant: one path for digest, Grant and ledger (R17)."""
    told = {"request_kind": request.kind, "key": request.key, "number": request.number}
    if request.kind == "wait_approval":
        told |= {"action": request.action_name, "digest": request.digest}
    change.note("request.raised", run=run, subject=request.pk, **told)
    if request.state == "resolved":
        change.note("request.resolved", run=run, subject=request.pk, outcome=request.outcome, by=request.resolved_by)
        tell(change, run, request)
        if request.outcome == "approved":
            grant(change, run, request, by_policy=True)


def _take_given(change: Change, run: Run, request: Request) -> Request | None:
    """What was given to this successor, if it now asks for that: same prompt and schema, or an equal Action."""
    if not run.follows_id:
        return None
    supplied = Request.objects.filter(run_id=run.pk, key=GIVEN).first()
    if supplied is None or not _same(supplied, request):
        return None
    supplied.key = request.key
    supplied.save(update_fields=["key"])
    change.log.work("effect")  # what was granted then may be sent from now on
    return supplied


def raise_unknown(change: Change, run: Run, effect: Effect) -> None:
    """The one pending question about an Effect whose outcome nobody knows (R23). It never expires."""
    if Request.objects.filter(effect_id=effect.pk, state="pending").exists():
        return
    key = f"effect:{effect.pk}"
    number = Request.objects.filter(run_id=run.pk, key=key).count() + 1
    # of a Run that is one Request the provider never got our key: a look-up by it would prove nothing
    action = None if run.single else actions.registered(effect.action_name)
    asked = Request.objects.values_list("described", flat=True).get(pk=effect.request_id)
    request = Request(
        tenant_id=run.tenant_id, session_id=run.session_id, run_id=run.pk, environment_id=effect.environment_id,
        kind="wait_effect", key=key, number=number, effect_id=effect.pk, epoch=run.epoch,
        action_name=effect.action_name, action_version=effect.action_version,
        described=actions.described(action) or asked,
        stops=run.state == "waiting",
        accepts={
            "finding": ["committed", "not_committed", "unknown"],
            "recover": [each["name"] for each in actions.recoveries(action, compensates=bool(effect.compensates_id))],
        },
    )  # fmt: skip
    request.save(force_insert=True)
    announce(change, run, request)
