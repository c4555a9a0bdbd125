"""The cluster as the mirror has it, a record of every pod on a node, and what those break, since when.

A rule that holds again is dropped at once.  Pod affinity may be broken for a while before anyone goes
for it: a peer that is being replaced must not take its followers down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import count, takewhile

from berth.engine.execution.eviction_set import PodToEvict
from berth.engine.rules.verdicts import RuleViolation
from berth.engine.state.cluster import pod_name
from berth.eviction.settings import EvictionSettings
from berth.kube.objects import Key, LivePod
from berth.kube.pods import is_terminating
from berth.kube.well_known import MIRROR_POD
from berth.machines.cache import take
from berth.machines.contract import Action, MoveSource, Purpose, WantedMove, expect
from berth.machines.mirror import Mirror

# --- one pod: only data; `lifecycle` has the transitions from phase to phase -----------------------

RuleKey = tuple[str, str]  # kind and path
# Why a pod goes: a rule about its node, a rule about other pods, or a better place.
NODE_KIND, POD_KIND, SPREAD_KIND = "node", "pod", "rebalancing"


class EvictionPhase(Enum):
    """How far the eviction of a pod is; `lifecycle` says what may follow what."""

    STAYING = "staying"
    WAITING = "waiting"
    MARKING = "marking"
    MARKED = "marked"
    CHECKING = "checking"
    CHECKED = "checked"
    EVICTING = "evicting"
    ASKED = "asked"
    EVICTED = "evicted"


# Phases in which a request is under way, and its answer decides what comes next.
REQUESTED = frozenset({EvictionPhase.MARKING, EvictionPhase.CHECKING, EvictionPhase.EVICTING})
# Phases in which one step was answered and the next is not begun.
ANSWERED = frozenset({EvictionPhase.MARKED, EvictionPhase.CHECKED})
# Phases in which a pod holds its place in the rates and in the pace of its owner.
BEGUN = REQUESTED | ANSWERED | {EvictionPhase.ASKED}


class EvictionPurpose(Purpose):
    """What a request about a pod is for."""

    STEP = "step"  # takes its eviction further
    CLEAR = "clear"  # takes its condition back
    EXPLAIN = "explain"  # writes the cause on a pod that was evicted; its outcome does not matter


@dataclass(slots=True)
class OpenViolation:
    """A rule that a pod breaks, and since when it has been seen broken."""

    violation: RuleViolation
    since: float


@dataclass(frozen=True, slots=True)
class PlannedEviction:
    """A pod that has to go, as the plan has it."""

    target: PodToEvict  # the pod, and the violations that its eviction heals
    node: str
    domain: str  # the topology domain it runs in, empty if its node is in none
    unplaceable: bool  # it was asked where the replacement would go, and there is no such node
    since: float  # when the first of the violations was seen
    # It may go from a halted domain: an owner makes a replacement, and a node would take that.
    one_by_one: bool = False
    # The wanted move, for a pod that breaks no rule but would land better elsewhere.
    move: WantedMove | None = None

    @property
    def pod(self) -> str:
        return self.target.pod

    @property
    def violations(self) -> tuple[RuleViolation, ...]:
        return self.target.violations

    @property
    def kind(self) -> str:
        """Which of the kinds of rules it goes for: those about nodes come first."""
        if self.move is not None:
            return SPREAD_KIND
        own = any(not violation.about_peers and violation.pod == self.pod for violation in self.violations)
        return NODE_KIND if own else POD_KIND

    @property
    def reasons(self) -> str:
        """Every broken rule in words, from the point of view of the pod that goes for it."""
        if self.move is not None:
            return self.move.reason
        return "; ".join(
            f"{violation.path}{'' if violation.pod == self.pod else f' of pod {violation.pod}'}"
            f" does not hold on node {violation.node}: {violation.cause}"
            for violation in self.violations
        )


@dataclass(slots=True)
class EvictionAttempt:
    """The eviction of a pod that has to go."""

    planned: PlannedEviction
    pod: LivePod  # as it was in the last round
    seen_version: str = ""  # of the pod when it was to be marked
    marked_version: str = ""  # of the pod with the mark
    replacement: str | None = None  # the node that would take its replacement
    failures: int = 0  # how often it was refused
    conflicts: int = 0  # how often something had changed meanwhile
    not_before: float = 0.0  # when it may be tried again
    refused: bool = False  # whether the last answer was a refusal
    obstacle: str = ""  # what it waits for


@dataclass(slots=True, eq=False)
class PodRecord:
    """One pod on a node."""

    name: str  # ``namespace/name``
    uid: str | None  # which pod of that name it is
    node: str  # where it runs
    number: int  # a number that no other pod of this name had; actions carry it as their attempt
    # When it was first judged; None if it was there at the start, or is yet to be judged.
    arrived: float | None = None
    invalid: str = ""  # why the rules of its annotation are not enforced; empty if they are
    told_invalid: str = ""  # what people were last told about that
    violations: dict[RuleKey, OpenViolation] = field(default_factory=dict)  # the rules it breaks
    phase: EvictionPhase = EvictionPhase.STAYING
    attempt: EvictionAttempt | None = None  # its eviction; None while it is staying
    recheck_at: float | None = None  # when to look again whether its condition has to be taken back


# --- what is broken -------------------------------------------------------------------------------


def rule_of(violation: RuleViolation) -> RuleKey:
    return (violation.kind, violation.path or "")


class OpenViolations:
    """Indexes over the violations in the records; nothing else changes those."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._open: dict[str, PodRecord] = {}
        self._on: dict[str, dict[str, PodRecord]] = {}
        # In the order in which their grace ends, since it is the same for all.
        self._in_grace: dict[tuple[str, RuleKey], float] = {}
        self.counts: Counter[str] = Counter()  # open violations by kind of rule
        # Grows when other pods than before may have to go; plans of an older revision are stale.
        self.revision = 0

    def on(self, node: str) -> Iterable[str]:
        """The pods of a node that break rules."""
        return self._on.get(node, ())

    def update(
        self, record: PodRecord, violations: Sequence[RuleViolation], now: float
    ) -> tuple[list[RuleViolation], list[RuleViolation]]:
        """Enter what a pod breaks now; what is new of it, and what it broke before and does not now."""
        before = record.violations
        broken = {rule_of(violation): violation for violation in violations}
        opened = {rule: violation for rule, violation in broken.items() if rule not in before}
        healed = {rule: known.violation for rule, known in before.items() if rule not in broken}
        if broken == {rule: known.violation for rule, known in before.items()}:
            return [], []
        self.revision += 1
        self._unindex(record)
        for rule in healed:
            self._in_grace.pop((record.name, rule), None)
        for rule, violation in opened.items():
            if violation.lacks_peers and self._grace > 0:
                self._in_grace[record.name, rule] = now + self._grace
        record.violations = {
            rule: OpenViolation(violation, before[rule].since if rule in before else now)
            for rule, violation in broken.items()
        }
        self._index(record)
        return list(opened.values()), list(healed.values())

    def outdated(self) -> None:
        """Make plans stale: something else has changed on which it depends which pods have to go."""
        self.revision += 1

    def _index(self, record: PodRecord) -> None:
        if record.violations:
            self._open[record.name] = record
            self._on.setdefault(record.node, {})[record.name] = record
            self.counts.update(kind for kind, _ in record.violations)

    def _unindex(self, record: PodRecord) -> None:
        if record.violations:
            del self._open[record.name]
            self.counts.subtract(kind for kind, _ in record.violations)
            take(self._on, record.node, record.name)

    # --- time ---------------------------------------------------------------------------------------

    def end_grace(self, now: float) -> None:
        """Enforce the rules that have been broken for longer than the grace period."""
        over = list(takewhile(lambda entry: self._in_grace[entry] <= now, self._in_grace))
        for entry in over:
            del self._in_grace[entry]
        self.revision += bool(over)

    def due(self) -> float | None:
        """When the next rule will have been broken for long enough."""
        return next(iter(self._in_grace.values()), None)

    def enforced(self) -> list[RuleViolation]:
        """The violations for which pods have to go."""
        return [
            known.violation
            for pod, record in self._open.items()
            for rule, known in record.violations.items()
            if (pod, rule) not in self._in_grace
        ]

    def is_enforced(self, violation: RuleViolation) -> bool:
        """Whether a rule is broken, and has been for long enough."""
        rule, record = rule_of(violation), self._open.get(violation.pod)
        return (
            record is not None and rule in record.violations and (violation.pod, rule) not in self._in_grace
        )

    def since(self, violations: Iterable[RuleViolation], otherwise: float) -> float:
        """Since when the first of some rules has been broken."""
        known = (
            self._open[violation.pod].violations.get(rule_of(violation))
            for violation in violations
            if violation.pod in self._open
        )
        return min((entry.since for entry in known if entry is not None), default=otherwise)

    def validate(self, records: Mapping[str, PodRecord]) -> None:
        """Check that the indexes say what the records say; for tests."""
        broken = {name: record for name, record in records.items() if record.violations}
        counts = Counter(kind for record in broken.values() for kind, _ in record.violations)
        on_nodes = {pod for pods in self._on.values() for pod in pods}
        expect(self._open == broken, "every pod that breaks a rule is listed, and no other")
        expect(on_nodes == broken.keys(), "every pod that breaks a rule is listed with its node")
        expect(+self.counts == counts, "the violations of each kind are counted")
        expect({pod for pod, _ in self._in_grace} <= broken.keys(), "only violations have a time of grace")


# --- everything -----------------------------------------------------------------------------------


class EvictionState:
    """What the parts of the controller know together."""

    def __init__(self, settings: EvictionSettings) -> None:
        self.mirror = Mirror(settings.options, {})  # the engine's cluster
        self.records: dict[str, PodRecord] = {}  # by the pods' names
        # Those of them that are to be evicted, or whose condition is to be looked at again.
        self.active: dict[str, PodRecord] = {}
        # By number, records of pods that are gone while what was begun for them is still to be settled.
        self.ended: dict[int, PodRecord] = {}
        self.violations = OpenViolations(settings.grace)  # what is broken
        self.moves = MoveSource()  # names pods that should move though they break no rule
        self.static_pods: set[str] = set()  # mirror pods of static pods, which cannot be evicted
        self.ready: list[Action] = []  # actions that were decided and not handed out yet
        self._numbers = count(1)

    def take(self) -> list[Action]:
        ready, self.ready = self.ready, []
        return ready

    # --- pods ---------------------------------------------------------------------------------------

    def put(self, key: Key, pod: LivePod) -> tuple[PodRecord, bool]:
        """A pod was seen on a node; its record, and whether that is new."""
        name = pod_name(pod)
        record, is_new = self.records.get(name), False
        if record is None or record.uid != pod.metadata.uid:
            self._drop(name)
            is_new = True
            record = PodRecord(name, pod.metadata.uid, pod.spec.node_name or "", next(self._numbers))
            self.records[name] = record
        if MIRROR_POD in (pod.metadata.annotations or {}):
            self.static_pods.add(name)
        self.mirror.put(key, pod)
        return record, is_new

    def forget(self, key: Key) -> bool:
        """A pod is gone; whether it was known."""
        pod = self.mirror.bound.get(key)
        if pod is None:
            return False
        self.mirror.forget(key, pod)
        self._drop(pod_name(pod))
        return True

    def _drop(self, name: str) -> None:
        record = self.records.pop(name, None)
        if record is None:
            return
        self.violations.update(record, (), 0.0)
        self.active.pop(name, None)
        self.static_pods.discard(name)
        if record.phase in BEGUN:
            self.ended[record.number] = record

    # --- asking -------------------------------------------------------------------------------------

    def pod(self, name: str) -> LivePod | None:
        """A pod that runs and could be evicted."""
        pod = self.mirror.pod(name)
        if not isinstance(pod, LivePod) or is_terminating(pod) or name in self.static_pods:
            return None
        return pod

    def find(self, action: Action) -> PodRecord | None:
        """The record of the pod that an action is about, even if the pod is gone."""
        record = self.records.get("/".join(action.key))
        if record is not None and record.number == action.attempt:
            return record
        return self.ended.get(action.attempt)

    def is_current(self, record: PodRecord) -> bool:
        """Whether the pod is still there."""
        return self.records.get(record.name) is record

    def recheck(self, record: PodRecord, when: float | None) -> None:
        """Look at its condition again at a time, or no more."""
        record.recheck_at = when
        self.index(record)

    def index(self, record: PodRecord) -> None:
        """Keep `active` and `ended` in step with a record that changed."""
        if not self.is_current(record):
            if record.phase not in BEGUN:
                self.ended.pop(record.number, None)
        elif record.phase is EvictionPhase.STAYING and record.recheck_at is None:
            self.active.pop(record.name, None)
        else:
            self.active[record.name] = record

    # --- invariants ---------------------------------------------------------------------------------

    def validate(self) -> None:
        """Check what holds between any two calls of the machine; for tests."""
        bound = {pod_name(pod): pod.metadata.uid for pod in self.mirror.bound.values()}
        known = {name: record.uid for name, record in self.records.items()}
        expect(known == bound, "there is a record of every pod on a node, and of no other")
        for record in (*self.records.values(), *self.ended.values()):
            is_going = record.phase is not EvictionPhase.STAYING
            expect(is_going == (record.attempt is not None), f"{record.name} has an attempt if it is to go")
            if self.is_current(record):
                is_active = is_going or record.recheck_at is not None
                expect(is_active == (record.name in self.active), f"{record.name} is active if so indexed")
            else:
                expect(
                    record.phase in BEGUN, f"{record.name} is gone: something is to be settled, or nothing"
                )
        expect(self.active.keys() <= self.records.keys(), "only pods that are there are active")
        expect(self.static_pods <= self.records.keys(), "only pods that are there are static")
        self.violations.validate(self.records)
