"""Who has to go, in which order, and where their replacements would go.

A plan is made when what is broken has changed, and now and then while somebody waits, since nodes fill
up and empty.  Those whose replacement finds a node go first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from berth.engine.execution.eviction_ceiling import CLUSTER, Halt
from berth.engine.execution.eviction_set import PodToEvict, eviction_set
from berth.engine.execution.replacements import replacement_nodes
from berth.engine.state.cluster import Cluster
from berth.engine.state.pods import NOWHERE
from berth.eviction.records import PlannedEviction
from berth.eviction.safety import EvictionHalts
from berth.eviction.state import EvictionState
from berth.kube.times import created_at
from berth.kube.well_known import DELETED
from berth.machines.contract import Event

# More than these are not asked where their replacement would go before it is their turn.
MOST_REPLACEMENTS = 500
# A plan is made anew after so long though nothing changed.
MOST_AGE = 30.0
# A long plan is not made more often than this.
LONG, LEAST_AGE = 500, 5.0


class EvictionPlan:
    """The pods that have to go.

    Attributes:
        order: First those who go first.
    """

    def __init__(self, state: EvictionState, domains: DomainCounts, halts: EvictionHalts) -> None:
        self._state = state
        self._domains = domains
        self._halts = halts
        self._made = 0.0
        self._made_for: tuple[int, frozenset[str]] = self._current
        self.order: list[PlannedEviction] = []

    @property
    def _current(self) -> tuple[int, frozenset[str]]:
        return self._state.violations.revision, self._halts.released

    @property
    def stale(self) -> bool:
        """Whether others may have to go by now, or may go where a person has let them."""
        return self._made_for != self._current

    def due(self) -> float | None:
        """When to make the plan anew."""
        if self.stale:
            return self._made + LEAST_AGE if len(self.order) > LONG else 0.0
        return self._made + MOST_AGE if self.order else None

    def make(self, now: float) -> tuple[list[Halt], list[str]]:
        """Make the plan; the domains that are halted now, and those that no longer are."""
        self._made_for, self._made = self._current, now
        targets = [target for target in self._eviction_set() if self._state.pod(target.pod) is not None]
        nodes = {target.pod: self._state.records[target.pod].node for target in targets}
        domains = {pod: self._domains.domain_of(node) for pod, node in nodes.items()}
        running = self._domains.running() if targets else {}
        news = self._halts.update(Counter(domains.values()), running, now)
        free = [target for target in targets if self._halts.of(domains[target.pod]) is None]
        replacements = self.replacement_nodes(free[:MOST_REPLACEMENTS])
        self.order = sorted(
            (
                PlannedEviction(
                    target,
                    node=nodes[target.pod],
                    domain=domains[target.pod],
                    unplaceable=replacements.get(target.pod, "") is None,
                    since=self._state.violations.since(target.violations, now),
                )
                for target in targets
            ),
            key=lambda planned: (planned.unplaceable, planned.since),
        )
        return news

    def _eviction_set(self) -> list[PodToEvict]:
        enforced = self._state.violations.enforced()
        if not enforced:
            return []
        staying = frozenset(self._state.static_pods)
        return eviction_set(self._state.mirror.cluster, enforced, started=self._started, staying=staying)

    def _started(self, name: str) -> float:
        pod = self._state.pod(name)
        return created_at(pod.metadata) if pod is not None else 0.0

    def replacement_nodes(self, targets: Sequence[PodToEvict]) -> dict[str, str | None]:
        """Where the replacements of some pods would go, were all of them evicted; None for nowhere."""
        return replacement_nodes(self._state.mirror.cluster, targets) if targets else {}

    def prune(self) -> list[PlannedEviction]:
        """Leave out those who are no longer there; the rest, in order."""
        self.order = [planned for planned in self.order if self._state.pod(planned.pod) is not None]
        return self.order

    def nodes_in(self, domain: str) -> list[str]:
        """The nodes of a domain from which pods would go."""
        return sorted({planned.node for planned in self.order if domain in (CLUSTER, planned.domain)})


class DomainCounts:
    """The domains of one node label.

    A node that loses the label stays where it was: a mistake with labels may take that one, too.
    """

    def __init__(self, cluster: Cluster, key: str) -> None:
        self._cluster = cluster
        self._key = key
        self._was_in: dict[str, str] = {}  # nodes without the label -> their domain

    def handle(self, event: Event) -> None:
        """A node came, went or changed."""
        name, old = event.key[1], event.old
        if event.change == DELETED or self._key in (event.object.metadata.labels or {}):
            self._was_in.pop(name, None)
        elif domain := ((old.metadata.labels if old else None) or {}).get(self._key):
            self._was_in[name] = domain

    def domain_of(self, node: str) -> str:
        """The domain of a node, empty if it is in none."""
        slot = self._cluster.nodes.slot_of.get(node)
        labels = (self._cluster.nodes.labels[slot] if slot is not None else None) or {}
        return labels.get(self._key) or self._was_in.get(node, "")

    def running(self) -> Counter[str]:
        """How many pods run in each domain; those that terminate count no more."""
        pods, nodes = self._cluster.pods, self._cluster.nodes
        column = nodes.column(self._key)
        is_pod = pods.pod_class[: pods.count] != 0  # an empty slot has no class
        slots = pods.node[: pods.count][is_pod & ~pods.terminating[: pods.count]]
        placed = slots[slots != NOWHERE]
        found: Counter[str] = Counter({"": len(slots) - len(placed)})
        for value, count in enumerate(np.bincount(column.ids[placed]).tolist()):
            found[column.values[value] or ""] += count
        on_node = np.bincount(placed, minlength=nodes.count) if self._was_in else ()
        for name, domain in self._was_in.items():
            if (slot := nodes.slot_of.get(name)) is not None:
                found[""] -= int(on_node[slot])
                found[domain] += int(on_node[slot])
        return found
