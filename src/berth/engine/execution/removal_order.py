"""In which order the pods of a group are best removed: however many go, the rest is as even as it can be.

At every step that pod goes whose going leaves the least of the hard constraints broken, then of the soft
ones, then takes from the fullest domains, then from the busiest node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from berth.engine.placement.plan import plan_for
from berth.engine.rules.verdicts import ConstraintCounts
from berth.engine.state.cluster import Cluster
from berth.engine.state.columns import FloatArray, Int64Array
from berth.engine.state.pod_class import OwnedTerm, PodClass
from berth.kube.amounts.resource_names import CPU, MEMORY
from berth.kube.selectors import Selector, parse_label_selector

_NONE = -1  # a pod that a constraint does not count


def has_order(pod_class: PodClass) -> bool:
    """Whether it matters which pod of such a class goes: it is spread, or would rather be apart."""
    apart = (owned for owned in pod_class.preferred if is_apart(pod_class, owned))
    return bool(pod_class.spread_constraints) or any(apart)


def counted_selectors(pod_class: PodClass) -> tuple[Selector, ...]:
    """Which pods of their own namespace the constraints of such a class count."""
    spread = [parse_label_selector(each.label_selector) for each in pod_class.spread_constraints]
    return (*spread, *(owned.term.selector for owned in pod_class.preferred if owned.weight < 0))


def removal_order(cluster: Cluster, pods: Sequence[str]) -> list[str]:
    """The pods, those that should go first in front; they are of one group, and all of them are placed.

    The constraints are those of the newest class among them: the last pod's.
    """
    if not pods:
        return []
    numbers = [cluster.pods.index[pod] for pod in pods]
    slots = cluster.pods.node[numbers]
    constraints = _constraints(cluster, cluster.class_at(numbers[-1]), slots)
    busy = busyness(cluster, slots)
    left = np.ones(len(pods), dtype=np.bool_)
    order: list[str] = []
    for _ in pods:
        rows = np.flatnonzero(left)
        keys = [-busy[rows]]
        for hard in (False, True):
            own = [each for each in constraints if each.hard is hard]
            keys.append(-sum((each.fullness()[rows] for each in own), np.zeros(len(rows))))
            keys.append(sum((each.broken_after()[rows] for each in own), np.zeros(len(rows))))
        # The last key is the first to count; among equals the youngest goes, as it is listed last.
        best = int(rows[np.lexsort((-rows, *keys))[0]])
        order.append(pods[best])
        left[best] = False
        for each in constraints:
            each.remove(best)
    return order


@dataclass(slots=True)
class _Constraint:
    """One constraint, and the domain of each pod in it.

    Attributes:
        counts: By domain.
        domain: By pod; _NONE if it does not count there.
        limit: How much more than the emptiest the fullest may have.
        floor: Whether the emptiest is taken to have none.
        weight: Among constraints that are not hard.
    """

    hard: bool
    counts: Int64Array
    domain: Int64Array
    limit: int
    floor: bool = False
    weight: float = 1.0

    def broken_after(self) -> FloatArray:
        """By pod: by how much the limit is exceeded once it has gone."""
        most, least = int(self.counts.max()), 0 if self.floor else int(self.counts.min())
        alone = int((self.counts == most).sum()) == 1
        second = int(np.sort(self.counts)[-2]) if alone and len(self.counts) > 1 else most
        after = self.counts - 1
        top = np.where(self.counts == most, np.maximum(second if alone else most, after), most)
        low = after * 0 if self.floor else np.minimum(after, least)
        by_domain = np.maximum(top - low - self.limit, 0)
        unchanged = max(most - least - self.limit, 0)
        return np.where(self.domain == _NONE, unchanged, by_domain[self.domain]) * self.weight

    def fullness(self) -> FloatArray:
        return np.where(self.domain == _NONE, 0, self.counts[self.domain]) * self.weight

    def remove(self, pod: int) -> None:
        if self.domain[pod] != _NONE:
            self.counts[self.domain[pod]] -= 1


def _constraints(cluster: Cluster, pod_class: PodClass, slots: np.ndarray) -> list[_Constraint]:
    counted = (each for each in counted_by(cluster, pod_class) if each.counts_own and each.counts)
    return [
        *(_spread(cluster, each, slots) for each in counted),
        *(_apart(cluster, term, slots) for term in pod_class.preferred if is_apart(pod_class, term)),
    ]


def counted_by(cluster: Cluster, pod_class: PodClass) -> list[ConstraintCounts]:
    """The spread constraints that pods of a class state, with what they count now."""
    rules = plan_for(cluster, pod_class).topology_rules
    return [counted for rule in rules for counted in rule.constraint_counts()]


def _spread(cluster: Cluster, counted: ConstraintCounts, slots: np.ndarray) -> _Constraint:
    number = {name: i for i, name in enumerate(counted.counts)}
    column = cluster.nodes.column(counted.topology_key)
    domain = [number.get(column.values[i] or "", _NONE) for i in column.ids[slots].tolist()]
    counts = np.array(list(counted.counts.values()), dtype=np.int64)
    floor = counted.minimum < int(counts.min())
    return _Constraint(counted.hard, counts, np.array(domain, dtype=np.int64), counted.max_skew, floor)


def is_apart(pod_class: PodClass, owned: OwnedTerm) -> bool:
    """Whether pods of a class would rather not be with each other."""
    return owned.weight < 0 and owned.term.selector.matches(pod_class.labels)


def counts_apart(cluster: Cluster, owned: OwnedTerm, *, terminating: bool) -> Int64Array:
    """The pods that a preference for being apart is about, by the number of their domain: 0 is none."""
    column = cluster.nodes.column(owned.topology_key)
    pods = cluster.pods_selected(owned.term)
    if not terminating:
        pods = pods[~cluster.pods.terminating[pods]]
    counts = np.bincount(column.ids[cluster.pods.node[pods]], minlength=len(column.values)).astype(np.int64)
    counts[0] = 0
    return counts


def _apart(cluster: Cluster, owned: OwnedTerm, slots: np.ndarray) -> _Constraint:
    counts = counts_apart(cluster, owned, terminating=True)
    ids = cluster.nodes.column(owned.topology_key).ids[slots].astype(np.int64)
    # Pods that would rather be apart have no limit to keep to: only the fullest domains matter.
    return _Constraint(
        False, counts, np.where(ids > 0, ids, _NONE), int(counts.sum()), weight=-owned.weight / 100
    )


def busyness(cluster: Cluster, slots: np.ndarray) -> np.ndarray:
    """How much of each of these nodes is asked for, of cpu or memory, whichever is more."""
    nodes = cluster.nodes
    rows = (nodes.row(CPU), nodes.row(MEMORY))
    shares = [nodes.requested[row, slots] / np.maximum(nodes.allocatable[row, slots], 1) for row in rows]
    result: np.ndarray = np.maximum(*shares)
    return result
