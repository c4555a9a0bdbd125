"""What is known of every pod on a node: one record each, and how far its eviction is.

Only data.  `state` makes and forgets records and changes what a pod breaks; `lifecycle` has the transitions
from phase to phase.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from berth.engine.execution.eviction_set import PodToEvict
from berth.engine.rules.verdicts import NODE, RuleViolation
from berth.kube.objects import LivePod
from berth.machines.contract import Purpose, WantedMove

Rule = tuple[str, str]  # kind and path
# What a pod goes for: a rule about its node, one about other pods, or a better place.
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


# A request is under way, and its answer decides.
REQUESTED = frozenset({EvictionPhase.MARKING, EvictionPhase.CHECKING, EvictionPhase.EVICTING})
# One step was answered, and the next is yet to be asked for.
ANSWERED = frozenset({EvictionPhase.MARKED, EvictionPhase.CHECKED})
# What was taken from the rates and the pace of the owner is given back if the pod does not go.
BEGUN = REQUESTED | ANSWERED | {EvictionPhase.ASKED}


class EvictionPurpose(Purpose):
    """What a request about a pod is for."""

    STEP = "step"  # takes its eviction further
    CLEAR = "clear"  # takes its condition back
    WITHDRAW = "withdraw"  # takes the request for its eviction back; seen to be done, or asked again
    EXPLAIN = "explain"  # writes the cause on a pod that was evicted; what becomes of it does not matter


@dataclass(slots=True)
class OpenViolation:
    """A rule that a pod breaks, and since when it has been seen broken."""

    violation: RuleViolation
    since: float


@dataclass(frozen=True, slots=True)
class PlannedEviction:
    """A pod that has to go, as the plan has it.

    Attributes:
        target: The pod, and the violations that its going heals.
        domain: The topology domain it runs in, empty if its node is in none.
        unplaceable: It was asked where the replacement would go, and there is no such node.
        movable: It may go from a halted domain: there is such a node, and somebody to make the replacement.
        since: When the first of the violations was seen.
        move: Nothing is broken that it would have to go for, but it would be better off elsewhere.
    """

    target: PodToEvict
    node: str
    domain: str
    unplaceable: bool
    since: float
    movable: bool = False
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
        own = any(violation.kind == NODE and violation.pod == self.pod for violation in self.violations)
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
    """The eviction of a pod that has to go.

    Attributes:
        pod: As it was in the last round.
        seen_version, marked_version: Of the pod, as it was when it was marked, and as it was marked.
        replacement: The node that would take its replacement.
        failures, conflicts: How often it was refused, and how often something had changed meanwhile.
        not_before: When it may be tried again.
        refused: Whether the last answer was a refusal.
        obstacle: What it waits for.
    """

    planned: PlannedEviction
    pod: LivePod
    seen_version: str = ""
    marked_version: str = ""
    replacement: str | None = None
    failures: int = 0
    conflicts: int = 0
    not_before: float = 0.0
    refused: bool = False
    obstacle: str = ""


@dataclass(slots=True, eq=False)
class PodRecord:
    """One pod on a node.

    Attributes:
        name: ``namespace/name``.
        uid, node: Which pod of that name it is, and where it runs.
        number: Tells it from other pods that had its name; actions carry it as their attempt.
        arrived: When it was first judged; None if it was there at the start, or is yet to be judged.
        invalid: Why the rules of its annotation are not enforced; empty if they are.
        told_invalid: What people were last told about that.
        violations: The rules it breaks.
        attempt: Its eviction; None while it is staying.
        recheck_at: When to look again whether its condition has to be taken back.
    """

    name: str
    uid: str | None
    node: str
    number: int
    arrived: float | None = None
    invalid: str = ""
    told_invalid: str = ""
    violations: dict[Rule, OpenViolation] = field(default_factory=dict)
    phase: EvictionPhase = EvictionPhase.STAYING
    attempt: EvictionAttempt | None = None
    recheck_at: float | None = None


def expect(holds: object, what: str) -> None:
    """Raise unless an invariant holds."""
    if not holds:
        raise AssertionError(what)
