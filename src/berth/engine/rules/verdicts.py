"""What a rule says: of a node or of many, of running pods, or of a pod as a whole."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from berth.engine.state.arrays import IndexArray

UNRESOLVABLE = "UnschedulableAndUnresolvable"
SUCCESS, SKIP, ERROR = "Success", "Skip", "Error"
NODE, AFFINITY, ANTI_AFFINITY = "node", "affinity", "anti-affinity"


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """Why a rule refuses a node.

    Attributes:
        code: UNRESOLVABLE if evicting other pods could not help.
        reasons: kube-scheduler's sentences.
        causes: What exactly stands in the way, in our words: the label, the taint, the peer pod.
    """

    rule: str
    code: str
    reasons: tuple[str, ...]
    causes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """One thing that is wrong with a pod on a node: what a `RuleVerdict` sums up, in full.

    Attributes:
        reason: kube-scheduler's sentence.
        cause: What broke it, in one clause: the label and its value, the taint, the peers.
        path: Where the rule stands in the pod, None if it does not.
        execution: The rule must hold while the pod runs, not only when it is placed.
        of_peer: It is the rule of another pod, which does not want this one near; `path` is there.
        hard: False for a cordon or a NoSchedule taint, which running pods need not mind.
        pod: The running pod, ``namespace/name``, and `node`, its node; empty for a pod that is to be placed.
        kind: What an execution-time rule is about: NODE, AFFINITY or ANTI_AFFINITY.
        topology: Key and value of the domain, for execution-time rules about pods; no value if the node
            has no such label.
        peers: The pods it must not be with, sorted; only the first, if they are many.
    """

    rule: str
    reason: str
    cause: str
    path: str | None = None
    execution: bool = False
    of_peer: bool = False
    hard: bool = True
    pod: str = ""
    node: str = ""
    kind: str = ""
    topology: tuple[str, str] | None = None
    peers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class SharedVerdict:
    """The nodes, possibly none, that a rule refuses for the same reasons: a `RuleVerdict` for all."""

    slots: IndexArray
    code: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintCounts:
    """How even the pods are that one constraint is about.

    Attributes:
        rule: The rule that has the constraint.
        constraint: Equal for equal constraints.
        hard: Whether nodes are refused where it does not hold.
        counts: Domain -> matching pods, over the domains the constraint counts.
        minimum: What the skew is measured from; 0 while there are fewer domains than `minDomains`.
    """

    rule: str
    constraint: Hashable
    path: str
    topology_key: str
    selector: str
    when_unsatisfiable: str
    hard: bool
    max_skew: int
    counts: dict[str, int]
    minimum: int

    @property
    def skew(self) -> int:
        return max(self.counts.values(), default=0) - self.minimum

    @property
    def ok(self) -> bool:
        return self.skew <= self.max_skew


@dataclass(frozen=True, slots=True)
class StepStatus:
    """The outcome of a step that concerns the pod as a whole."""

    code: str = SUCCESS
    reasons: tuple[str, ...] = ()
    node_names: tuple[str, ...] | None = None


PROCEED = StepStatus()
SKIPPED = StepStatus(SKIP)
