"""Which pods must go so that one of higher priority can run, and on which node.

A pure decision: the cluster is not touched, whoever asks has to evict the victims.  On every node
that refuses the pod for the sake of other pods, all pods of lower priority are imagined gone; where
the pod then passes every rule, as many of them as possible are spared again, those that a
disruption budget protects first, then by importance.  What is left are the node's victims, and the
node that loses least is taken.  All nodes are judged at the same time, one pod of each in turn.

Upstream: pkg/scheduler/framework/preemption and plugins/defaultpreemption.  As there, a pod's
affinity to a victim is not honoured by sparing it first, terminating pods can be victims like any
others, and only a share of the nodes is looked at closely: upstream begins with a random node, this
with the nodes whose victims have the lowest priorities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from berth.engine.placement.fit_error import sentence
from berth.engine.placement.plan import Plan, plan_for
from berth.engine.rules.base import NodeRule
from berth.engine.rules.verdicts import SKIP, SUCCESS, SharedVerdict
from berth.engine.state.arrays import BoolArray, IndexArray, Int64Array
from berth.engine.state.cluster import Cluster
from berth.engine.state.hypothetical_removal import HypotheticalRemoval, RemovablePods, nobody
from berth.engine.state.pod_class import PodClass
from berth.kube.selectors import Selector
from berth.kube.well_known import UNSCHEDULABLE

NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"

# Upstream's defaults for how many of the possible nodes are enough to choose from.
_FEWEST_CANDIDATES, _CANDIDATES_SHARE = 100, 10
# Priorities are usually few; where they are not, nodes are ranked more coarsely.
_MOST_LEVELS = 16
# Added to every priority before summing, so that more victims never weigh less.
_PRIORITY_OFFSET = 1 << 31


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget as preemption sees it.

    Attributes:
        allowed: How many more of its pods may go (`status.disruptionsAllowed`).
        disrupted: The names in `status.disruptedPods`: these count as gone already.
    """

    namespace: str
    selector: Selector
    allowed: int
    disrupted: frozenset[str] = frozenset()

    def protects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        # Unlike elsewhere, an empty selector selects nothing here, as upstream has it.
        if namespace != self.namespace or not labels or self.selector.everything:
            return False
        return self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class Preemption:
    """What preemption can do for a pod.

    Attributes:
        node: Where the pod can go once the victims are gone, None if preemption does not help.
        victims: ``namespace/name`` of the pods that must go, the least important first.
        violations: How many of them break a disruption budget.
        message: If there is no node: kube-scheduler's words for why not.
    """

    node: str | None
    victims: tuple[str, ...] = ()
    violations: int = 0
    message: str = ""

    @property
    def found(self) -> str:
        """kube-scheduler's words for the room there will be."""
        count = len(self.victims)
        return (
            f"preemption: found a potential placement for pod on node {self.node}, preempting {count} victims"
        )


def preempt(  # noqa: PLR0913 - all but the first two are facts that the cluster does not know
    cluster: Cluster,
    pod_class: PodClass,
    *,
    budgets: Sequence[Budget],
    started: Callable[[str], float],
    nominated_node: str | None = None,
    most_candidates: int | None = None,
    exclude: Collection[str] = frozenset(),
    preempted: Collection[str] | None = None,
) -> Preemption:
    """Decide for a pod of this class that fits no node.

    Args:
        cluster: Is left as it is.
        pod_class: The class of the pod that wants to run.
        budgets: All there are.
        started: When the pod ``namespace/name`` started, in seconds; now, if it did not yet.
        nominated_node: Where an earlier decision made room for the pod.
        most_candidates: Enough nodes to choose from, if one of them breaks no budget; by default
            a tenth of the possible ones, at least 100.
        exclude: Pods that must not be victims.
        preempted: The pods evicted for preemption: while one of them is still terminating on the
            nominated node, nothing more is evicted.  By default every terminating pod counts.
    """
    if pod_class.spec.preemption_policy == "Never":
        return Preemption(None, message=f"preemption: {NEVER}")
    plan = plan_for(cluster, pod_class)
    possible = _possible_nodes(plan)
    lesser = cluster.pods_whose(lambda other: other.priority < pod_class.priority)
    nominated = cluster.nodes.slot_of.get(nominated_node or "")
    if nominated is not None and nominated in possible and _leaving(cluster, lesser, nominated, preempted):
        return Preemption(None, message=f"preemption: {TERMINATING}")

    excluded = [cluster.pods.index[key] for key in exclude if cluster.has_pod(key)]
    leavers = RemovablePods(cluster, lesser[~np.isin(lesser, excluded)] if excluded else lesser)
    inhabited = np.zeros(cluster.nodes.capacity, dtype=np.bool_)
    inhabited[leavers.node] = True
    slots = possible[inhabited[possible]]
    everyone = HypotheticalRemoval(leavers, np.ones(len(leavers.pods), dtype=np.bool_))
    helped, verdicts = _judge(plan, slots, everyone)
    if not len(helped):
        return _no_help(cluster, len(possible) - len(slots), verdicts, len(possible))
    if most_candidates is None:
        most_candidates = max(_FEWEST_CANDIDATES, len(possible) // _CANDIDATES_SHARE)
    ranked = _cheapest_first(plan, leavers, helped) if len(helped) > most_candidates else helped
    best = _best(plan, leavers, ranked, _Facts(budgets, started, max(most_candidates, 1)))
    return Preemption(
        cluster.nodes.names[best.slot],
        tuple(victim.key for victim in reversed(best.victims)),
        sum(victim.violates for victim in best.victims),
    )


def _no_help(
    cluster: Cluster, without_victims: int, verdicts: list[SharedVerdict], possible: int
) -> Preemption:
    count = cluster.nodes.live
    reasons: Counter[str] = Counter({NO_VICTIMS: without_victims, NOT_HELPFUL: count - possible})
    for verdict in verdicts:
        reasons.update(dict.fromkeys(verdict.reasons, len(verdict.slots)))
    return Preemption(None, message=f"preemption: {sentence(count, +reasons)}")


# --- which nodes ------------------------------------------------------------------


def _possible_nodes(plan: Plan) -> IndexArray:
    """The nodes on which it is other pods that are in the way, in order of arrival.

    What counts is the first rule that refuses a node, as upstream asks no further.
    """
    nodes = plan.cluster.nodes
    slots = np.flatnonzero(nodes.alive[: nodes.count])
    possible = np.zeros(nodes.capacity, dtype=np.bool_)
    if any(rule.prefilter and rule.prefilter.code not in (SUCCESS, SKIP) for rule in plan.rules):
        return slots[:0]
    for rule in plan.rules:
        if not rule.filters:
            continue
        if isinstance(rule, NodeRule) and rule.static:
            slots = slots[rule.feasible(slots)]
            continue
        for verdict in rule.verdicts(slots, nobody(plan.cluster)):
            possible[verdict.slots] = verdict.code == UNSCHEDULABLE
            slots = _except(slots, verdict.slots)
    found = np.flatnonzero(possible)
    return found[np.argsort(nodes.arrival[found], kind="stable")]


def _judge(
    plan: Plan, slots: IndexArray, gone: HypotheticalRemoval
) -> tuple[IndexArray, list[SharedVerdict]]:
    """The nodes that pass every rule, each without its pods in `gone`; the others by their first refusal."""
    found: list[SharedVerdict] = []
    for rule in plan.rules:
        if not rule.filters or not len(slots):
            continue
        for verdict in rule.verdicts(slots, gone):
            if len(verdict.slots):
                found.append(verdict)
                slots = _except(slots, verdict.slots)
    return slots, found


def _except(slots: IndexArray, others: IndexArray) -> IndexArray:
    return slots[np.isin(slots, others, invert=True)] if len(others) else slots


def _leaving(cluster: Cluster, pods: IndexArray, slot: int, preempted: Collection[str] | None) -> bool:
    """Whether one of these pods is on its way out of the node."""
    going = pods[(cluster.pods.node[pods] == slot) & cluster.pods.terminating[pods]]
    return any(preempted is None or cluster.pods.keys[pod] in preempted for pod in going.tolist())


def _cheapest_first(plan: Plan, leavers: RemovablePods, slots: IndexArray) -> IndexArray:
    """Nodes by the priority up to which their pods must go."""
    levels = np.unique(leavers.priority)
    if len(levels) > _MOST_LEVELS:
        levels = levels[np.linspace(0, len(levels) - 1, _MOST_LEVELS).astype(np.intp)]
    ranked: list[IndexArray] = []
    for level in levels.tolist():
        helped, _ = _judge(plan, slots, HypotheticalRemoval(leavers, leavers.priority <= level))
        ranked.append(helped)
        slots = _except(slots, helped)
    return np.concatenate((*ranked, slots))


# --- which pods -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Facts:
    budgets: Sequence[Budget]
    started: Callable[[str], float]
    most_candidates: int


@dataclass(slots=True)
class _Victim:
    pod: int
    key: str
    priority: int
    start: float
    violates: bool = False

    @property
    def importance(self) -> tuple[int, float, str]:
        """Sorts the most important first; upstream leaves the order of equals open."""
        return -self.priority, self.start, self.key


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A node and its victims, the most important first."""

    slot: int
    victims: list[_Victim]

    @property
    def cost(self) -> tuple[int, int, int, int, float]:
        highest = self.victims[0].priority
        return (
            sum(victim.violates for victim in self.victims),
            highest,
            sum(victim.priority + _PRIORITY_OFFSET for victim in self.victims),
            len(self.victims),
            -min(victim.start for victim in self.victims if victim.priority == highest),
        )


def _best(plan: Plan, leavers: RemovablePods, slots: IndexArray, facts: _Facts) -> _Candidate:
    found: list[_Candidate] = []
    for begin in range(0, len(slots), facts.most_candidates):
        found += _candidates(plan, leavers, slots[begin : begin + facts.most_candidates], facts)
        if not all(candidate.cost[0] for candidate in found):
            break
    arrival = plan.cluster.nodes.arrival
    return min(found, key=lambda candidate: (candidate.cost, arrival.item(candidate.slot)))


def _candidates(plan: Plan, leavers: RemovablePods, slots: IndexArray, facts: _Facts) -> list[_Candidate]:
    """The victims of each of these nodes, all of which would fit the pod without their lesser pods."""
    here = np.zeros(plan.cluster.nodes.capacity, dtype=np.bool_)
    here[slots] = True
    leavers = RemovablePods(plan.cluster, leavers.pods[here[leavers.node]])
    by_node = _potential_victims(leavers, facts)
    gone = _spare(plan, leavers, _turns(leavers, by_node))
    lost = set(leavers.pods[gone].tolist())
    return [
        _Candidate(slot, sorted((v for v in victims if v.pod in lost), key=lambda victim: victim.importance))
        for slot, victims in by_node.items()
    ]


def _potential_victims(leavers: RemovablePods, facts: _Facts) -> dict[int, list[_Victim]]:
    """Slot -> its pods in the order in which they are spared if possible."""
    cluster = leavers.cluster
    by_node: dict[int, list[_Victim]] = {}
    columns = leavers.pods.tolist(), leavers.node.tolist(), leavers.priority.tolist()
    for pod, slot, priority in zip(*columns, strict=True):
        key = cluster.pods.keys[pod] or ""
        by_node.setdefault(slot, []).append(_Victim(pod, key, priority, facts.started(key)))
    protection = _Protection(cluster, facts.budgets)
    for victims in by_node.values():
        victims.sort(key=lambda victim: victim.importance)
        protection.mark(victims)
        victims.sort(key=lambda victim: not victim.violates)
    return by_node


def _turns(leavers: RemovablePods, by_node: Mapping[int, Sequence[_Victim]]) -> Int64Array:
    """For each pod, how many of its node are asked about before it."""
    turn_of = {victim.pod: turn for victims in by_node.values() for turn, victim in enumerate(victims)}
    return np.array([turn_of[pod] for pod in leavers.pods.tolist()], dtype=np.int64)


def _spare(plan: Plan, leavers: RemovablePods, turns: Int64Array) -> BoolArray:
    """Which pods must go: on every node in turn, a pod stays if the pod to place then still fits."""
    gone = np.ones(len(leavers.pods), dtype=np.bool_)
    for turn in range(int(turns.max()) + 1):
        asked = np.flatnonzero(turns == turn)
        gone[asked] = False
        fitting, _ = _judge(plan, leavers.node[asked], HypotheticalRemoval(leavers, gone))
        gone[asked[~np.isin(leavers.node[asked], fitting)]] = True
    return gone


class _Protection:
    """The budgets that protect each pod."""

    def __init__(self, cluster: Cluster, budgets: Sequence[Budget]) -> None:
        self._cluster = cluster
        self._in_namespace: dict[str, list[Budget]] = {}
        self._known: dict[tuple[str, frozenset[tuple[str, str]]], list[Budget]] = {}
        for budget in budgets:
            self._in_namespace.setdefault(budget.namespace, []).append(budget)

    def mark(self, victims: Sequence[_Victim]) -> None:
        """Note which of a node's pods would break a budget, were they to go in this order."""
        left: dict[int, int] = {}
        for victim in victims:
            for budget in self._protecting(victim):
                left[id(budget)] = left.get(id(budget), budget.allowed) - 1
                if left[id(budget)] < 0:
                    victim.violates = True

    def _protecting(self, victim: _Victim) -> Iterator[Budget]:
        namespace, _, name = victim.key.partition("/")
        budgets = self._in_namespace.get(namespace)
        if not budgets:
            return
        labels = self._cluster.labels_of(victim.pod)
        key = namespace, frozenset(labels.items())
        if key not in self._known:
            self._known[key] = [budget for budget in budgets if budget.protects(namespace, labels)]
        yield from (budget for budget in self._known[key] if name not in budget.disrupted)
