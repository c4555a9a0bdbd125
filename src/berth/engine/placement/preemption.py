"""Which pods must go so that one of higher priority can run, and on which node.

The cluster is not touched: whoever asks has to evict the victims.  On every node that refuses the pod for the
sake of other pods, all pods of lower priority are imagined gone; where the pod then passes every rule, as
many of them as possible are spared again, those that a disruption budget protects first, then by importance.
What is left are the node's victims, and the node that loses least is taken.  All nodes are judged at the same
time, one pod of each in turn; with a `PreemptionMemory`, only those again that changed.

Upstream: pkg/scheduler/framework/preemption and plugins/defaultpreemption.  As there, a pod's
affinity to a victim is not honoured by sparing it first, terminating pods can be victims like any
others, and only a share of the nodes is looked at closely: upstream begins with a random node, this
with the nodes whose victims have the lowest priorities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from berth.engine.placement.evaluation import judge, sentence
from berth.engine.placement.plan import NodeAnswers, Plan, Reader, plan_for
from berth.engine.rules.base import Rule
from berth.engine.rules.verdicts import SKIP, SUCCESS
from berth.engine.state.cluster import Cluster
from berth.engine.state.columns import BoolArray, IndexArray, Int64Array, IntArray
from berth.engine.state.hypothetical_removal import HypotheticalRemoval, RemovablePods, nobody
from berth.engine.state.pod_class import PodClass
from berth.kube.disruption import Budget
from berth.kube.well_known import UNSCHEDULABLE

NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"

# Upstream's defaults for how many of the possible nodes are enough to choose from.
_FEWEST_CANDIDATES, _CANDIDATES_SHARE = 100, 10
# Priorities are usually few; where they are not, nodes are ranked more coarsely.
_MOST_LEVELS = 16
# Of up to so many nodes, the pods are looked up node by node.
_FEW_NODES = 100
# Nodes whose victims are remembered, of one class, and classes with rules about other pods.
_MOST_REMEMBERED = 1000
_MOST_PLANS_REMEMBERED = 128
# What a node is to a pod, if it is not one of the refusals that count on from here.
_NO_CHANCE, _EMPTY, _HELPED = 0, 1, 2
_UNRANKED, _LAST_RANK = np.iinfo(np.int64).min, np.iinfo(np.int64).max
# Added to every priority before summing, so that more victims never weigh less.
_PRIORITY_OFFSET = 1 << 31


@dataclass(frozen=True, slots=True)
class Preemption:
    """What preemption can do for a pod.

    Attributes:
        node: Where the pod can go once the victims are gone, None if preemption does not help.
        victims: ``namespace/name`` of the pods that must go, the least important first.
        violations: How many of them break a disruption budget.
        message: If there is no node: kube-scheduler's words for why not; none in a cluster without nodes.
    """

    node: str | None
    victims: tuple[str, ...] = ()
    violations: int = 0
    message: str = ""

    @property
    def found(self) -> str:
        """kube-scheduler's words for the room there will be."""
        room = f"found a potential placement for pod on node {self.node}"
        return f"preemption: {room}, preempting {len(self.victims)} victims"


def preempt(  # noqa: PLR0913 - all but the first two are facts that the cluster does not know
    cluster: Cluster,
    pod_class: PodClass,
    *,
    budgets: Sequence[Budget],
    started: Callable[[str], float],
    nominated_node: str | None = None,
    most_candidates: int | None = None,
    preempted: Collection[str] | None = None,
    memory: PreemptionMemory | None = None,
) -> Preemption:
    """Decide for a pod of this class that fits no node. The cluster is left as it is.

    Args:
        budgets: All there are.
        started: When the pod ``namespace/name`` started, in seconds; infinity, if it did not yet.
        nominated_node: Where an earlier decision made room for the pod.
        most_candidates: Enough nodes to choose from, if one of them breaks no budget; by default
            a tenth of the possible ones, at least 100.
        preempted: The pods evicted for preemption: while one of them is still terminating on the
            nominated node, nothing more is evicted.  By default every terminating pod counts.
        memory: What earlier calls found out.
    """
    if not cluster.nodes.live:
        return Preemption(None)
    if pod_class.spec.preemption_policy == "Never":
        return Preemption(None, message=f"preemption: {NEVER}")
    plan = plan_for(cluster, pod_class)
    lesser = _LesserPods(cluster, pod_class.priority)
    nominated = cluster.nodes.slot_of.get(nominated_node or "")
    stuck = nominated is not None and lesser.leaving(nominated, preempted)
    if stuck and len(_possible_nodes(plan, np.array([nominated], dtype=np.intp))):
        return Preemption(None, message=f"preemption: {TERMINATING}")
    surroundings = _surroundings(plan) if memory is not None else None
    prospects = memory.of(plan, surroundings) if memory is not None else _Prospects(cluster)
    prospects.refresh(plan, lesser, surroundings or [])
    helped = prospects.helped()
    if not len(helped):
        return Preemption(None, message=f"preemption: {prospects.no_help()}")
    if most_candidates is None:
        most_candidates = max(_FEWEST_CANDIDATES, prospects.possible // _CANDIDATES_SHARE)
    ranked = prospects.cheapest_first(plan, lesser, helped) if len(helped) > most_candidates else helped
    facts = _Facts(budgets, started, max(most_candidates, 1), prospects.candidates)
    best = _best(plan, lesser, ranked, facts)
    victims = tuple(victim.key for victim in reversed(best.victims))
    return Preemption(cluster.nodes.names[best.slot], victims, violations=best.cost[0])


# --- which nodes ------------------------------------------------------------------


class PreemptionMemory:
    """What nodes are to pods, kept for as long as the answers of the rules about single nodes.

    Classes of one priority that ask the same of a node share it, as they share these answers; one that a
    rule about other pods concerns has its own.

    For those who ask again and again, with the same `started` and the same budgets in the same order;
    only what the budgets allow may change.
    """

    def __init__(self) -> None:
        self._shared: WeakKeyDictionary[NodeAnswers, dict[int, _Prospects]] = WeakKeyDictionary()
        self._own: WeakKeyDictionary[Plan, _Prospects] = WeakKeyDictionary()

    def of(self, plan: Plan, surroundings: Sequence[IntArray] | None) -> _Prospects:
        if surroundings is None:
            return _Prospects(plan.cluster)  # what happens on one node concerns others
        if not surroundings:
            by_priority, priority = self._shared.setdefault(plan.answers, {}), plan.pod_class.priority
            if priority not in by_priority:
                by_priority[priority] = _Prospects(plan.cluster)
            return by_priority[priority]
        if plan not in self._own:
            if len(self._own) >= _MOST_PLANS_REMEMBERED:
                self._own.clear()
            self._own[plan] = _Prospects(plan.cluster)
        return self._own[plan]

    def forget(self, slot: int) -> None:
        """The pods of a node did not change, but when they started."""
        shared = (prospects for by_priority in self._shared.values() for prospects in by_priority.values())
        for prospects in (*shared, *self._own.values()):
            prospects.candidates.pop(slot, None)


def _surroundings(plan: Plan) -> list[IntArray] | None:
    """What rules about other pods judge nodes by, empty if there is no such rule; None if one cannot say."""
    told = [rule.surroundings() for rule in plan.topology_rules if rule.filters]
    known = [each for each in told if each is not None]
    if plan.pod_class.claims or plan.pod_class.device_claims or len(known) < len(told):
        return None
    return [vector for each in known for vector in each]


class _LesserPods:
    """The pods that may be victims."""

    def __init__(self, cluster: Cluster, priority: int) -> None:
        self._cluster = cluster
        self._priority = priority

    @cached_property
    def _everywhere(self) -> IndexArray:
        return self._cluster.pods_whose(lambda other: other.priority < self._priority)

    def on(self, slots: IndexArray) -> RemovablePods:
        """Those on some nodes."""
        cluster = self._cluster
        if len(slots) <= _FEW_NODES:
            pods = cluster.pods_at(slots)
            pods = pods[cluster.by_class(pods, lambda other: other.priority) < self._priority]
        else:
            here = np.zeros(cluster.nodes.capacity, dtype=np.bool_)
            here[slots] = True
            pods = self._everywhere[here[cluster.pods.node[self._everywhere]]]
        return RemovablePods(cluster, pods)

    def leaving(self, slot: int, preempted: Collection[str] | None) -> bool:
        """Whether one of them is on its way out of the node."""
        pods = self._cluster.pods
        going = self._everywhere[(pods.node[self._everywhere] == slot) & pods.terminating[self._everywhere]]
        return any(preempted is None or pods.keys[pod] in preempted for pod in going.tolist())

    def levels(self) -> list[int]:
        """Their priorities, lowest first; not all if there are many."""
        classes = self._cluster.classes.by_key.values()
        found = sorted({c.priority for c in classes if c.running and c.priority < self._priority})
        if len(found) > _MOST_LEVELS:
            found = [found[i] for i in np.linspace(0, len(found) - 1, _MOST_LEVELS).astype(np.intp)]
        return found


class _Prospects:
    """Whether pods of a class fit each node without its pods of lower priority, as of the last `refresh`."""

    def __init__(self, cluster: Cluster) -> None:
        self._nodes = cluster.nodes
        self._reader = Reader(cluster, cluster.usage)
        self._surroundings: Sequence[IntArray] = ()
        self._standing = np.zeros(cluster.nodes.capacity, dtype=np.int16)
        self._reasons: list[tuple[str, ...]] = [(NOT_HELPFUL,), (NO_VICTIMS,), ()]
        # The priority up to which pods must go.
        self._rank: Int64Array = np.full(cluster.nodes.capacity, _UNRANKED)
        self._levels: list[int] = []
        # By slot, of the nodes that were looked at closely.
        self.candidates: dict[int, _Candidate] = {}

    @property
    def possible(self) -> int:
        """On how many nodes other pods are in the way."""
        return int(np.count_nonzero(self._standing != _NO_CHANCE))

    def refresh(self, plan: Plan, lesser: _LesserPods, surroundings: Sequence[IntArray]) -> None:
        """Judge the nodes again that changed, or whose surroundings did."""
        asked = self._changed(surroundings)
        if not len(asked):
            return
        self._standing[asked] = _NO_CHANCE
        self._rank[asked] = _UNRANKED
        for slot in self.candidates.keys() & set(asked.tolist()):
            del self.candidates[slot]
        possible = _possible_nodes(plan, asked[self._nodes.alive[asked]])
        self._standing[possible] = _EMPTY
        removable = lesser.on(possible)
        if not len(removable.pods):
            return
        everyone = HypotheticalRemoval(removable, np.ones(len(removable.pods), dtype=np.bool_))
        helped, verdicts = judge(plan.rules, np.unique(removable.node), everyone)
        self._standing[helped] = _HELPED
        for _, verdict in verdicts:
            if verdict.reasons not in self._reasons:
                self._reasons.append(verdict.reasons)
            self._standing[verdict.slots] = self._reasons.index(verdict.reasons)

    def _changed(self, now: Sequence[IntArray]) -> IndexArray:
        slots = self._reader.changed() if self._reader.behind else []
        before, count = self._surroundings, self._nodes.count
        self._surroundings = now
        if slots is None or [len(each) for each in before] != [len(each) for each in now]:
            return np.arange(count)
        changed = np.zeros(count, dtype=np.bool_)
        changed[slots] = True
        for old, new in zip(before, now, strict=True):
            changed |= old != new
        return np.flatnonzero(changed)

    def helped(self) -> IndexArray:
        """The nodes that have room then, in order of arrival."""
        return self._nodes.by_arrival(np.flatnonzero(self._standing == _HELPED))

    def no_help(self) -> str:
        nodes = self._nodes
        counts = np.bincount(self._standing[: nodes.count][nodes.alive[: nodes.count]])
        reasons: Counter[str] = Counter()
        for said, count in zip(self._reasons, counts.tolist(), strict=False):
            reasons.update(dict.fromkeys(said, count))
        return sentence(nodes.live, +reasons)

    def cheapest_first(self, plan: Plan, lesser: _LesserPods, slots: IndexArray) -> IndexArray:
        """Nodes by the priority up to which their pods must go."""
        levels = lesser.levels()
        if levels != self._levels and max(len(levels), len(self._levels)) >= _MOST_LEVELS:
            self._rank[:] = _UNRANKED  # there are more, and others are left out
        self._levels = levels
        unranked = slots[self._rank[slots] == _UNRANKED]
        removable = lesser.on(unranked)
        self._rank[unranked] = _LAST_RANK
        rules = _about_pods(plan) if len(unranked) else []
        for level in levels:
            if not len(unranked):
                break
            helped, _ = judge(rules, unranked, HypotheticalRemoval(removable, removable.priority <= level))
            self._rank[helped] = level
            unranked = _except(unranked, helped)
        return slots[np.argsort(self._rank[slots], kind="stable")]


def _possible_nodes(plan: Plan, slots: IndexArray) -> IndexArray:
    """Those of the nodes on which it is other pods that are in the way.

    What counts is the first rule that refuses a node, as upstream asks no further.
    """
    possible = np.zeros(plan.cluster.nodes.capacity, dtype=np.bool_)
    if any(rule.prefilter and rule.prefilter.code not in (SUCCESS, SKIP) for rule in plan.rules):
        return slots[:0]
    for rule in plan.rules:
        if not rule.filters:
            continue
        if rule.static:
            slots = slots[rule.feasible(slots)]
            continue
        for verdict in rule.verdicts(slots, nobody(plan.cluster)):
            possible[verdict.slots] = verdict.code == UNSCHEDULABLE
            slots = _except(slots, verdict.slots)
    return np.flatnonzero(possible)


def _about_pods(plan: Plan) -> list[Rule]:
    """The rules that may refuse a node for its pods; the others do not change their mind when some go."""
    return [rule for rule in plan.rules if rule.filters and not rule.static]


def _except(slots: IndexArray, others: IndexArray) -> IndexArray:
    return slots[np.isin(slots, others, invert=True)] if len(others) else slots


# --- which pods -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Facts:
    budgets: Sequence[Budget]
    started: Callable[[str], float]
    most_candidates: int
    known: dict[int, _Candidate]


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


@dataclass(slots=True)
class _Candidate:
    """A node, its victims, the most important first, and by place what the budgets of its pods allowed."""

    slot: int
    victims: list[_Victim]
    budgets: dict[int, int]
    cost: tuple[int, int, int, int, float] = field(init=False)

    def __post_init__(self) -> None:
        highest = self.victims[0].priority
        self.cost = (
            sum(victim.violates for victim in self.victims),
            highest,
            sum(victim.priority + _PRIORITY_OFFSET for victim in self.victims),
            len(self.victims),
            -min(victim.start for victim in self.victims if victim.priority == highest),
        )

    def holds(self, budgets: Sequence[Budget]) -> bool:
        """Whether these still allow what they did."""
        return all(budgets[place].allowed == allowed for place, allowed in self.budgets.items())


def _best(plan: Plan, lesser: _LesserPods, slots: IndexArray, facts: _Facts) -> _Candidate:
    found: list[_Candidate] = []
    for begin in range(0, len(slots), facts.most_candidates):
        found += _candidates(plan, lesser, slots[begin : begin + facts.most_candidates].tolist(), facts)
        if not all(candidate.cost[0] for candidate in found):
            break
    arrival = plan.cluster.nodes.arrival
    return min(found, key=lambda candidate: (candidate.cost, arrival.item(candidate.slot)))


def _candidates(plan: Plan, lesser: _LesserPods, slots: list[int], facts: _Facts) -> list[_Candidate]:
    """The victims of each of these nodes, all of which would fit the pod without their lesser pods."""
    found = {s: known for s in slots if (known := facts.known.get(s)) and known.holds(facts.budgets)}
    new = [slot for slot in slots if slot not in found]
    if new:
        removable = lesser.on(np.array(new, dtype=np.intp))
        protection = _Protection(plan.cluster, facts.budgets)
        by_node = _potential_victims(removable, facts.started, protection)
        gone = _spare(plan, removable, by_node)
        lost = set(removable.pods[gone].tolist())
        for slot, victims in by_node.items():
            needed = sorted((v for v in victims if v.pod in lost), key=lambda victim: victim.importance)
            found[slot] = _Candidate(slot, needed, protection.concerned(victims))
        if len(facts.known) > _MOST_REMEMBERED:
            facts.known.clear()
        facts.known.update(found)
    return list(found.values())


def _potential_victims(
    removable: RemovablePods, started: Callable[[str], float], protection: _Protection
) -> dict[int, list[_Victim]]:
    """Slot -> its pods in the order in which they are spared if possible."""
    cluster = removable.cluster
    by_node: dict[int, list[_Victim]] = {}
    columns = removable.pods.tolist(), removable.node.tolist(), removable.priority.tolist()
    for pod, slot, priority in zip(*columns, strict=True):
        key = cluster.pods.keys[pod] or ""
        by_node.setdefault(slot, []).append(_Victim(pod, key, priority, started(key)))
    for victims in by_node.values():
        victims.sort(key=lambda victim: victim.importance)
        protection.mark(victims)
        victims.sort(key=lambda victim: not victim.violates)
    return by_node


def _spare(plan: Plan, removable: RemovablePods, by_node: Mapping[int, Sequence[_Victim]]) -> BoolArray:
    """Which pods must go: on every node in turn, a pod stays if the pod to place then still fits."""
    turn_of = {victim.pod: turn for victims in by_node.values() for turn, victim in enumerate(victims)}
    turns = np.array([turn_of[pod] for pod in removable.pods.tolist()], dtype=np.int64)
    gone = np.ones(len(removable.pods), dtype=np.bool_)
    rules = _about_pods(plan)
    for turn in range(int(turns.max()) + 1):
        asked = np.flatnonzero(turns == turn)
        gone[asked] = False
        fitting, _ = judge(rules, removable.node[asked], HypotheticalRemoval(removable, gone))
        gone[asked[~np.isin(removable.node[asked], fitting)]] = True
    return gone


class _Protection:
    """The budgets that protect each pod."""

    def __init__(self, cluster: Cluster, budgets: Sequence[Budget]) -> None:
        self._cluster = cluster
        self._budgets = budgets
        self._in_namespace: dict[str, list[int]] = {}
        self._known: dict[tuple[str, frozenset[tuple[str, str]]], list[int]] = {}
        for place, budget in enumerate(budgets):
            self._in_namespace.setdefault(budget.namespace, []).append(place)

    def mark(self, victims: Sequence[_Victim]) -> None:
        """Note which of a node's pods would break a budget, were they to go in this order."""
        left: dict[int, int] = {}
        for victim in victims:
            for place in self._protecting(victim):
                left[place] = left.get(place, self._budgets[place].allowed) - 1
                if left[place] < 0:
                    victim.violates = True

    def concerned(self, victims: Sequence[_Victim]) -> dict[int, int]:
        """What the budgets of these pods allow, by place."""
        return {place: self._budgets[place].allowed for v in victims for place in self._protecting(v)}

    def _protecting(self, victim: _Victim) -> Iterator[int]:
        namespace, _, name = victim.key.partition("/")
        places = self._in_namespace.get(namespace)
        if not places:
            return
        labels = self._cluster.labels_of(victim.pod)
        key = namespace, frozenset(labels.items())
        if key not in self._known:
            self._known[key] = [p for p in places if self._budgets[p].protects(namespace, labels)]
        yield from (p for p in self._known[key] if name not in self._budgets[p].disrupted)
