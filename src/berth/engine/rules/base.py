"""What every rule answers.

A rule compiled for a pod class says which nodes are feasible and how good each is (vectors), why a node is
refused, which cluster event can turn a no into a yes, and what a running pod breaks on its own node, with
the pod itself taken out of the counts.  Nothing outside a rule's folder knows it by its name.

A `NodeRule` looks at one node at a time: its answers are cached, and asked again for nodes that changed.
A `TopologyRule` keeps counts over domains, which any placement may change, and turns them into vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, get_args

import numpy as np

from berth.engine.rules.changes import Change, Question
from berth.engine.rules.verdicts import (
    Cause,
    ConstraintCounts,
    FirstOfGroup,
    OwnViolations,
    PeerConflict,
    PeersKeptAway,
    Reason,
    RuleVerdict,
    RuleViolation,
    SharedVerdict,
    StepStatus,
)
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import ClusterEvent
from berth.engine.state.columns import BoolArray, IndexArray, Int32Array, Int64Array, IntArray, Slots
from berth.engine.state.hypothetical_removal import HypotheticalRemoval
from berth.engine.state.pod_class import PodClass
from berth.kube.versions import KubernetesVersion

MAX_SCORE = 100


class Rule:
    """A rule compiled for one pod class on one cluster.

    Attributes:
        name: The name of upstream's plugin.
        path: Where what the rule judges by stands in a pod.
        reasons: What it may refuse a node for.
        log_keyword: What logs call it when it refused a pod, if that is not its name.
        audited: Whether a running pod can break it.
        for_newcomers: Whether running pods need not mind it, but for violations that say so.
        evicts: Whether running pods that break it are evicted, if it is required during execution.
        names_nodes: Whether it looks only at the nodes that a pod names.
        recorded: Whether it takes part in all cases that `berth evaluate` reads; the others are named there.
        skips: Whether its PreFilter step tells of the pods that it does not concern: it skips them.
        static: Whether its answers depend on the node object only, not on the pods that run there.
        relax_rank: Its relaxations are tried after those of rules with a lower rank: small changes first.
        prefilter: Whether the rule filters this pod at all; None if it has no such step.
        prescore: Whether it scores this pod; None if it has no such step.
    """

    name: ClassVar[str]
    path: ClassVar[str | None] = None
    reasons: ClassVar[tuple[Reason, ...]] = ()
    log_keyword: ClassVar[str | None] = None
    audited: ClassVar[bool] = True
    for_newcomers: ClassVar[bool] = False
    evicts: ClassVar[bool] = False
    names_nodes: ClassVar[bool] = False
    recorded: ClassVar[bool] = True
    skips: ClassVar[bool] = False
    static: ClassVar[bool] = False
    relax_rank: ClassVar[int] = 0
    filters: bool = True
    scores: bool = False
    prefilter: StepStatus | None = None
    prescore: StepStatus | None = None

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        self.cluster = cluster
        self.nodes = cluster.nodes
        self.pod_class = pod_class

    @classmethod
    def concerns(cls, cluster: Cluster, pod_class: PodClass) -> bool:
        """Whether the rule has anything to say about such pods; if not, they are placed without it."""
        return True

    @classmethod
    def may_refuse(cls, cluster: Cluster, pod_class: PodClass) -> bool:
        """False if it can be told without compiling the rule that it refuses such pods no node."""
        return cls.filters is not False

    @classmethod
    def places_back(cls, version: KubernetesVersion) -> int:
        """How many places after the one it has in the list of rules a version asks it."""
        return 0

    @classmethod
    def relaxations(cls, question: Question) -> Iterable[Change]:
        """Changes that may make the rule refuse fewer nodes; small ones first."""
        return ()

    def clues(self, question: Question) -> Iterable[str]:
        """What to look at first: slips and shortages that are behind several verdicts, in a sentence each."""
        return ()

    @classmethod
    def wanted_labels(cls, question: Question) -> Iterable[tuple[str, str]]:
        """Labels that might make the rule accept a node that has none with their key."""
        return ()

    def stop_filtering(self) -> None:
        """Only score from now on."""
        self.filters, self.prefilter = False, None

    def causes(self, slot: int) -> Iterable[Cause]:
        """Everything that is wrong with the node at `slot`; nothing if it is not refused."""
        return ()

    def first_causes(self, slot: int) -> Iterable[Cause]:
        """Those of them that kube-scheduler comes to before it stops asking."""
        return self.causes(slot)

    def verdict(self, slot: int) -> RuleVerdict | None:
        """Why the node at `slot` is refused, None if it is not."""
        return RuleVerdict.of(self.name, self.first_causes(slot))

    def feasible(self, slots: Slots) -> BoolArray:
        """Which of these nodes are not refused."""
        raise NotImplementedError

    def scored(self, slots: IndexArray) -> tuple[Int64Array, Int64Array]:
        """Raw and normalized scores of these nodes, which are all that are feasible."""
        raise NotImplementedError

    def violations(self, slot: int) -> Iterable[RuleViolation]:
        """What a running pod breaks on the node at `slot`."""
        for cause in self.causes(slot):
            yield RuleViolation(self.name, cause, hard=cause.execution or not self.for_newcomers)

    @classmethod
    def execution_violations(
        cls, cluster: Cluster, pod_class: PodClass, pods: IndexArray
    ) -> Iterable[RuleViolation]:
        """What these running pods, all of one class, break of what must hold while they run; see `evicts`."""
        return ()

    @classmethod
    def affected_pods(cls, cluster: Cluster, event: ClusterEvent) -> set[str]:
        """The running pods whose rules about other pods an event may have broken or healed; see `evicts`."""
        return set()

    @classmethod
    def conflicts(cls, cluster: Cluster, own: OwnViolations) -> Iterable[PeerConflict]:
        """The pods that must not be together, by the violations of each pod."""
        return ()

    @classmethod
    def firsts_of_groups(cls, cluster: Cluster, own: OwnViolations) -> Iterable[FirstOfGroup]:
        """Those of the pods that need no peer once the others of their group are gone."""
        return ()

    @classmethod
    def is_in_the_way(cls, cluster: Cluster, violation: RuleViolation, pod: str) -> bool:
        """Whether a pod is one of those, named or not, that a violation says must not be there."""
        return False

    def helped_by(self, change: ClusterEvent) -> bool:
        """Whether a node that was refused may be feasible after a change; see `placement.queueing_hints`.

        The cluster may have seen later changes, too. Not to know is to say yes.
        """
        return True

    def verdicts(self, slots: IndexArray, gone: HypotheticalRemoval) -> Iterable[SharedVerdict]:
        """Which of these nodes are refused, each judged as if its own pods in `gone` had left it.

        This is right for rules that do not look at other pods; the others answer for themselves.
        """
        return shared((slot, self.verdict(slot)) for slot in slots.tolist())


class NodeRule(Rule):
    """A rule that looks at a node by itself.

    Attributes:
        scaling: Scores are relative to the feasible nodes and need `normalized`.
        less_is_better: The node with the lowest score is the best.
    """

    static = True
    scaling: ClassVar[bool] = False
    less_is_better: ClassVar[bool] = False

    def verdicts(self, slots: IndexArray, gone: HypotheticalRemoval) -> Iterable[SharedVerdict]:
        return super().verdicts(slots[~self.feasible(slots)], gone)

    def raw(self, slots: Slots) -> IntArray:
        raise NotImplementedError

    def normalized(self, raw: IntArray) -> IntArray:
        """Raw scores of the feasible nodes on the common scale 0 to 100."""
        if not self.scaling:
            return raw
        top = int(raw.max(initial=0))
        return scale_table(top, reverse=self.less_is_better)[np.clip(raw, 0, top)]

    def scored(self, slots: IndexArray) -> tuple[Int64Array, Int64Array]:
        raw = self.raw(slots).astype(np.int64)
        return raw, self.normalized(raw).astype(np.int64)

    def admits(self, slot: int) -> bool:
        """False if the node is refused whatever pods come and go, until the node itself changes."""
        return True

    # Between two placements usually one node has changed, and on one node plain integers are
    # many times faster than arrays of length one. Rules asked that often answer for themselves.

    def feasible_at(self, slot: int) -> bool:
        return bool(self.feasible(np.array([slot], dtype=np.intp))[0])

    def raw_at(self, slot: int) -> int:
        return int(self.raw(np.array([slot], dtype=np.intp))[0])


class TopologyRule(Rule):
    """A rule about where other pods run; `helpers` are the kinds of change that may help a pod it refused."""

    helpers: ClassVar[tuple[type[ClusterEvent], ...]] = get_args(ClusterEvent)

    def blocked(self) -> Sequence[Int32Array]:
        """Over all nodes, BLOCKED where one of these vectors has it for a node that is refused.

        Nobody writes into them, and one that is the same as before is the same object.
        """
        raise NotImplementedError

    def feasible(self, slots: Slots) -> BoolArray:
        passes = np.ones_like(self.nodes.alive[slots])
        for blocked in self.blocked():
            passes &= blocked[slots] == 0
        return passes

    def surroundings(self) -> Sequence[IntArray] | None:
        """Over all nodes, what `verdicts` judge each by, beside the node itself and the pods on it.

        While a node and its pods do not change, and the number of these vectors and the node's values in
        them do not either, neither do its verdicts.  None if that cannot be said.
        """

    def bars(self, slot: int) -> bool:
        """True only if the node at `slot` is refused now; a quick look for `placement.queueing_hints`."""
        return False

    @property
    def founds(self) -> bool:
        """Whether it accepts nodes only because the pod starts a group that is nowhere yet."""
        return False

    @classmethod
    def relies_on_peers(cls, pod_class: PodClass) -> bool:
        """Whether it may accept a node only because of some other pod."""
        return False

    @classmethod
    def seeks(cls, pod_class: PodClass, other: PodClass) -> bool:
        """Whether a pod of the other class may be the one it accepts a node for."""
        return False

    def constraint_counts(self) -> Iterable[ConstraintCounts]:
        """How even pods are, constraint by constraint, for a rule that spreads them."""
        return ()

    @classmethod
    def peers_kept_away(cls, cluster: Cluster, pods: IndexArray) -> Iterable[PeersKeptAway]:
        """How these running pods stand with every term of theirs that others are to keep away by."""
        return ()

    def raw_scores(self, blocked: Int32Array) -> IntArray:
        """Scores before normalization; only feasible nodes' (`blocked` 0) are meaningful."""
        raise NotImplementedError

    def normalized_at(self, raw: Int64Array, slots: IndexArray) -> Int64Array:
        """Raw scores of the feasible nodes, which are at `slots`, on the common scale 0 to 100."""
        raise NotImplementedError

    def scored(self, slots: IndexArray) -> tuple[Int64Array, Int64Array]:
        blocked = np.ones(self.nodes.count, dtype=np.int32)
        blocked[slots] = 0
        raw = self.raw_scores(blocked)[slots].astype(np.int64)
        return raw, self.normalized_at(raw, slots).astype(np.int64)

    def weighted(self, blocked: Int32Array, weight: int) -> Int32Array | None:
        """Normalized scores times `weight`, right for feasible nodes; None if all are 0."""

    def node_leaves(self, slot: int) -> None:
        """The node at `slot` is about to change or go; its pods are not counted at the moment."""

    def node_joins(self, slot: int) -> None:
        """The node at `slot` is new or has changed; its pods are not counted yet."""

    def release(self) -> None:
        """Let go of everything registered with the cluster."""


def shared(verdicts: Iterable[tuple[int, RuleVerdict | None]]) -> list[SharedVerdict]:
    """The verdicts on single nodes, by slot, with those that are refused for the same reasons together."""
    found: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for slot, verdict in verdicts:
        if verdict is not None:
            found.setdefault((verdict.code, verdict.reasons), []).append(slot)
    return [SharedVerdict(np.array(those, dtype=np.intp), *why) for why, those in found.items()]


def scale_table(top: int, *, reverse: bool) -> Int64Array:
    """Raw score (0 to `top`) -> normalized score, proportional to the highest as by default upstream."""
    raw = np.arange(top + 1, dtype=np.int64)
    if top == 0:
        return np.full(1, MAX_SCORE if reverse else 0, dtype=np.int64)
    scaled = MAX_SCORE * raw // top
    return MAX_SCORE - scaled if reverse else scaled
