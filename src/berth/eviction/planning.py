"""Who has to go, in which order, and where their replacements would go.

A plan is made when what is broken has changed, and now and then while somebody waits, since nodes fill
up and empty.  Those whose replacement finds a node go first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from berth.engine.execution.eviction_ceiling import CLUSTER, Halt
from berth.engine.execution.eviction_set import PodToEvict, eviction_set
from berth.engine.execution.replacements import replacement_nodes
from berth.eviction.domain_counts import DomainCounts
from berth.eviction.records import PlannedEviction
from berth.eviction.safety import EvictionHalts
from berth.eviction.state import EvictionState
from berth.kube.times import created_at

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
        self._made_for = self._current
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
