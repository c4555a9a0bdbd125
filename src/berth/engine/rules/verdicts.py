"""What a rule says: of a node or of many, of running pods, or of a pod as a whole."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

from berth.engine.rules.reasons import Cause
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
        because: What exactly stands in the way: the label, the taint, the peer pods.
    """

    rule: str
    code: str
    reasons: tuple[str, ...]
    because: tuple[Cause, ...] = ()

    @classmethod
    def of(cls, rule: str, code: str, because: Iterable[Cause]) -> RuleVerdict:
        """The verdict for some causes, each of which has a sentence of kube-scheduler's."""
        because = tuple(because)
        return cls(rule, code, tuple(dict.fromkeys(cause.sentence for cause in because)), because)

    @property
    def causes(self) -> tuple[str, ...]:
        """What stands in the way in our words, where they say more than kube-scheduler's."""
        return tuple(str(cause) for cause in self.because if cause.form)


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """One thing that is wrong with a pod on a node: what a `RuleVerdict` sums up, in full.

    Attributes:
        because: What broke it.
        hard: False for a cordon or a NoSchedule taint, which running pods need not mind.
        pod: The running pod, ``namespace/name``, and `node`, its node; empty for a pod that is to be placed.
        kind: What an execution-time rule is about: NODE, AFFINITY or ANTI_AFFINITY.
    """

    rule: str
    because: Cause
    hard: bool = True
    pod: str = ""
    node: str = ""
    kind: str = ""

    @property
    def reason(self) -> str:
        """kube-scheduler's sentence."""
        return self.because.sentence

    @property
    def cause(self) -> str:
        """What broke it, in one clause: the label and its value, the taint, the peers."""
        return str(self.because)

    @property
    def path(self) -> str | None:
        return self.because.path

    @property
    def execution(self) -> bool:
        return self.because.execution

    @property
    def of_peer(self) -> bool:
        return self.because.of_peer

    @property
    def topology(self) -> tuple[str, str] | None:
        return self.because.topology

    @property
    def peers(self) -> tuple[str, ...]:
        return self.because.peers


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
        counts_own: Whether the pods that have the constraint are among those it counts.
        left_out: Asked, it says which nodes are not counted: why -> their slots.
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
    counts_own: bool = True
    left_out: Callable[[], dict[str, IndexArray]] = field(default=dict, compare=False)

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
