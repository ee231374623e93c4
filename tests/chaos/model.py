"""What the rules say, as a plain machine without a database: Runs, Requests, Grants, Effects, what follows from what.
It knows nothing of how it is done; `tests.chaos.stories` compares it with the tables after every step."""

from dataclasses import dataclass, field

ENDED = ("succeeded", "failed", "cancelled", "blocked")
SETTLED = ("committed", "not_committed", "withdrawn")
GRADES = ("claimed", "attested", "observed")
QUESTION_FOR, GRANT_FOR, DEADLINE, SEND_WITHIN = 7 * 86_400, 3_600, 60, 30  # seconds


@dataclass(eq=False, repr=False)
class Run:
    pk: object
    interactive: bool
    state: str = "queued"
    parent: "Run | None" = None
    recovers: "Effect | None" = None
    recovery: str = ""
    given: object = None  # what a successor was given, until it asks for it
    blocked_by: "Run | None" = None  # the child whose Blocker is this one's
    over: bool = False  # what it lacked was given, or denied
    unasked: bool = False  # a child that was given something, until its parent asks for it
    blocked_by: "Run | None" = None  # the child whose Blocker is this one's
    over: bool = False  # what it lacked was given, or denied
    unasked: bool = False  # a child whose parent has not asked for it yet
    marked: bool = False
    held: bool = False
    turns: int = 0
    lapses: int = 0


@dataclass(eq=False, repr=False)
class Request:
    pk: object
    run: Run
    content: str  # "question", or what is deployed
    expires: float
    state: str = "pending"
    outcome: str = ""
    again: "Effect | None" = None  # the Effect it would send once more
    voters: list = field(default_factory=list)


@dataclass(eq=False, repr=False)
class Grant:
    request: Request
    by_policy: bool
    expires: float
    effect: "Effect"
    epoch: int
    state: str = "unused"


@dataclass(eq=False, repr=False)
class Effect:
    request: Request
    run: Run
    content: str
    state: str = "prepared"
    disputed: bool = False
    accepted: bool = False
    recovering: str = ""
    asked: bool = False  # its one open question
    stops: bool = False
    deadline: float = 0
    send_by: float = 0
    attempts: int = 0
    compensates: "Effect | None" = None
    evidence: list = field(default_factory=list)
    attested_by: set = field(default_factory=set)

    @property
    def doubtful(self) -> bool:
        return self.state == "uncertain" and not self.accepted or self.disputed


class Model:
    def __init__(self, approvals: int, verdict: str):
        self.approvals, self.verdict, self.now = approvals, verdict, 0.0
        self.held = False  # the environment
        self.lost: dict = {}  # who cannot act now, and what they lost: "role" or "account"
        self.epoch, self.released = 1, True
        self.gifts: dict = {}  # by Blocker: what its next run would have, while the votes on it collect
        self.closed: set = set()  # Blockers that lack nothing since an equal one was given, or denied
        self.runs: dict = {}
        self.requests: dict = {}
        self.grants: dict = {}
        self.effects: dict = {}

    # -- waiting and going on

    def stopped(self, run: Run) -> bool:
        mine = [each for each in self.effects.values() if each.run is run]
        return (
            any(each.run is run and each.state == "pending" for each in self.requests.values())
            or any(each.asked and each.stops for each in mine)
            or any(
                each.request.run is run and each.state == "unused" and each.request is not run.given
                for each in self.grants.values()
            )
            or any(each.state == "in_flight" or each.state == "uncertain" and not each.accepted for each in mine)
            or run.recovery == "redispatch"
            and run.recovers.state == "in_flight"
            or any(not child.unasked for child in self.children(run))
        )

    def wake(self, run: Run) -> None:
        if run.state == "waiting" and not run.unasked and not self.stopped(run):
            run.state = "queued"

    def children(self, run: Run) -> list[Run]:
        return [each for each in self.runs.values() if each.parent is run and each.state not in ENDED]

    def take_back(self, run: Run) -> None:
        for request in self.requests.values():
            if request.run is run and request.state == "pending":
                request.state = "expired" if request.expires <= self.now else "cancelled"
        for grant in self.grants.values():
            if grant.request.run is run and grant.state == "unused":
                self.void(grant)

    def end(self, run: Run, state: str, *, with_parent: bool = False) -> None:
        for child in self.children(run):
            if child.state == "running":
                child.marked = True
            else:
                self.end(child, "cancelled", with_parent=True)
        self.take_back(run)
        run.state = state
        if run.recovers and run.recovers.recovering == run.recovery:
            run.recovers.recovering = ""
        if run.parent and not with_parent and run.parent.state == "waiting":
            if state == "blocked" and not run.parent.interactive:
                run.parent.blocked_by = run
                self.end(run.parent, "blocked")
            else:
                self.wake(run.parent)

    # -- asking and deciding

    def asks(self, content: str, besides: Effect | None = None) -> str:
        """How this is decided when it is raised: pending, approved or denied."""
        if content == "question" or self.verdict == "ask" or self.verdict == "allow" and self.doubts(content, besides):
            return "pending"
        return {"allow": "approved", "deny": "denied"}[self.verdict]

    def doubts(self, content: str, besides: Effect | None = None) -> bool:
        return any(each.doubtful and each.content == content and each is not besides for each in self.effects.values())

    def raised(self, request: Request, *, by_policy: str = "pending") -> None:
        self.requests[request.pk] = request
        if by_policy != "pending":
            request.state, request.outcome = "resolved", by_policy
        if by_policy == "approved":
            self.grant(request, by_policy=True)

    def grant(self, request: Request, *, by_policy: bool = False) -> None:
        effect = request.again
        if effect is None:
            effect = self.effects[request.pk] = Effect(request, request.run, request.content)
            effect.compensates = request.run.recovers if request.run.recovery == "compensate" else None
        self.grants[request.pk] = Grant(request, by_policy, self.now + GRANT_FOR, effect, self.epoch)

    def vote(self, request: Request, who: str, yes: bool) -> None:
        request.voters = self.counted(request)  # the others are spent, for good
        if not yes:
            request.state, request.outcome = "resolved", "denied"
        else:
            request.voters.append(who)
            if len(request.voters) >= self.approvals:
                request.state, request.outcome = "resolved", "approved"
                self.grant(request)
        self.wake(request.run)

    def counted(self, request: Request) -> list:
        return [who for who in request.voters if who not in self.lost]

    def void(self, grant: Grant) -> None:
        grant.state = "void"
        if not grant.request.again and grant.effect.state == "prepared":
            grant.effect.state = "withdrawn"

    # -- reality

    def dispatchable(self) -> list[Grant]:
        return [
            each for each in self.grants.values() if self.released and not self.held and each.state == "unused"
            and each.request.run.state == "waiting" and not each.request.run.held
            and each.request is not each.request.run.given
        ]  # fmt: skip

    def drifted(self, grant: Grant) -> bool:
        if grant.expires <= self.now or grant.request.again and grant.effect.state != "uncertain":
            return True
        if grant.epoch != self.epoch:
            return True
        if self.verdict == "allow":
            return grant.by_policy and self.doubts(grant.request.content, grant.request.again)
        return len(self.counted(grant.request)) < self.approvals

    def intend(self, grant: Grant) -> None:
        effect = grant.effect
        grant.state, effect.state, effect.attempts = "consumed", "in_flight", effect.attempts + 1
        effect.deadline, effect.send_by = self.now + DEADLINE, self.now + SEND_WITHIN

    def conclude(self, effect: Effect, finding: str, grade: str, *, by: str = "", newest: bool | None = None) -> None:
        """`newest`: whether this is the reply of the last Attempt; None: no reply."""
        settled = effect.state in SETTLED
        if finding == "not_committed" and newest is False:
            pass  # an older Attempt says nothing of the newer
        elif finding in SETTLED:
            if not settled or effect.disputed and by:
                self.settle(effect, finding)
            elif effect.state != finding and not effect.disputed:
                standing = max((GRADES.index(g) for g, f in effect.evidence if f == effect.state), default=-1)
                if GRADES.index(grade) >= standing:
                    effect.disputed = True
                    self.ask(effect)
        elif finding == "working" and newest and effect.state == "in_flight":
            self.ask(effect)
        elif newest and effect.state == "in_flight":
            self.doubt(effect)
        effect.evidence.append((grade, finding))
        if by and finding in SETTLED:
            effect.attested_by.add(by)

    def settle(self, effect: Effect, finding: str) -> None:
        effect.state, effect.disputed, effect.recovering, effect.asked = finding, False, "", False
        for run in self.runs.values():  # what was to be sent again is not asked for any more
            if run.recovers is effect and run.recovery == "redispatch" and run.state == "waiting":
                self.take_back(run)
        self.wake(effect.run)
        self.known(effect)

    def doubt(self, effect: Effect) -> None:
        effect.state = "uncertain"
        self.ask(effect)
        self.alone(effect)
        self.known(effect)

    def alone(self, effect: Effect) -> None:
        """With nobody on the line it is probed until its deadline; then the Run ends on it."""
        run, probed = effect.run, not effect.content.startswith("toss") and effect.deadline > self.now
        if not run.interactive and run.state == "waiting" and not probed:
            self.end(run, "blocked")

    def known(self, effect: Effect) -> None:
        for run in self.runs.values():
            if run.recovers is effect and run.recovery == "redispatch":
                self.wake(run)

    def ask(self, effect: Effect) -> None:
        if not effect.asked:
            effect.asked, effect.stops = True, effect.run.state == "waiting"

    # -- a restore

    def begin_epoch(self) -> None:
        """What could have been sent is uncertain, whatever then becomes of its Run; what was granted is void."""
        self.epoch, self.released = self.epoch + 1, False
        unsure = [each for each in self.effects.values() if each.state in ("prepared", "in_flight")]
        for run in self.runs.values():
            run.held = run.state not in ENDED
        for effect in unsure:
            effect.state = "uncertain"
            self.ask(effect)
        for grant in self.grants.values():
            if grant.state == "unused":
                self.void(grant)
        for effect in unsure:
            self.alone(effect)
        for run in self.runs.values():
            self.wake(run)

    def release_epoch(self) -> None:
        self.released = True
        for run in self.runs.values():
            run.held = False

    # -- time

    def sweep(self) -> None:
        for request in list(self.requests.values()):
            if request.state == "pending" and request.expires <= self.now:
                request.state = "expired"
                self.wake(request.run)
        for run in list(self.runs.values()):
            if run.state == "running":  # whoever had it is gone
                run.lapses += 1
                if run.marked:
                    self.end(run, "cancelled")
                elif run.lapses >= 5:
                    self.end(run, "failed")
                else:
                    run.state = "queued"
        for effect in self.effects.values():
            if effect.state == "in_flight":
                self.doubt(effect)
        for effect in self.effects.values():
            run = effect.run
            stuck = effect.state == "uncertain" and not effect.accepted and effect.deadline and run.state == "waiting"
            if stuck and effect.deadline <= self.now and not run.interactive:
                self.end(run, "blocked")
