"""Who has to go, in which order, and where their replacements would go.

A plan is made when what is broken has changed, and now and then while somebody waits, since nodes fill
up and empty.  Those whose replacement finds a node go first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from berth.engine.execution.eviction_ceiling import Halt, HaltPolicy, is_in, is_replaced
from berth.engine.execution.eviction_set import PodToEvict, eviction_set, replacement_nodes
from berth.engine.state.cluster import Cluster
from berth.engine.state.tables import NOWHERE
from berth.eviction.safety import EvictionHalts
from berth.eviction.state import NODE_KIND, POD_KIND, EvictionState, PlannedEviction
from berth.kube.objects import Node
from berth.kube.times import created_at
from berth.kube.well_known import DELETED
from berth.machines.contract import Event

# For how many pods at most it is asked beforehand where the replacement would go.
MOST_REPLACEMENTS = 500
# The same for pods of halted domains; if none of them has a place, the next plan asks about others.
MOST_HALTED = 200
# Seconds after which a plan is made anew though nothing changed.
MOST_AGE = 30.0
# The shortest time in seconds between two long plans.
LONG, LEAST_AGE = 500, 5.0
# Seconds until nodes that changed are looked at while pods wait for a place.
NEW_PLACES = 1.0


class EvictionPlan:
    """The pods that have to go."""

    def __init__(self, state: EvictionState, domains: DomainCounts, halts: EvictionHalts) -> None:
        self._state = state
        self._domains = domains
        self._halts = halts
        self._made = 0.0
        self._made_for: tuple[int, int, frozenset[str]] = self._current
        self._first_asked = 0  # of the pods of halted domains
        self._has_new_places = False
        self.order: list[PlannedEviction] = []  # in the order in which they go

    @property
    def _current(self) -> tuple[int, int, frozenset[str]]:
        return self._state.violations.revision, self._state.moves.revision, self._halts.released

    @property
    def stale(self) -> bool:
        """Whether the violations, the wanted moves or a person's release of halts have changed since."""
        return self._made_for != self._current

    def due(self) -> float | None:
        """When to make the plan anew."""
        is_long = len(self.order) > LONG
        if self.stale:
            return self._made + LEAST_AGE if is_long else 0.0
        if self._has_new_places and self._halts.halts:
            return self._made + (LEAST_AGE if is_long else NEW_PLACES)
        return self._made + MOST_AGE if self.order else None

    def node_changed(self, old: Node | None, new: Node) -> None:
        """A node came or changed: it may have a place for a replacement."""
        is_same = old is not None and (old.metadata.labels, old.spec) == (new.metadata.labels, new.spec)
        self._has_new_places |= not is_same

    def make(self, now: float) -> tuple[list[Halt], list[str]]:
        """Make the plan; the halts that are new or other than before, and the domains that have none now."""
        self._made_for, self._made, self._has_new_places = self._current, now, False
        before = self._halts.halts
        targets = [target for target in self._eviction_set() if self._state.pod(target.pod) is not None]
        demanded = {target.pod for target in targets}
        moves = {
            move.pod: move
            for move in self._state.moves.wanted()
            if move.pod not in demanded and self._state.pod(move.pod) is not None
        }
        targets += [PodToEvict(pod, ()) for pod in moves]
        nodes = {target.pod: self._state.records[target.pod].node for target in targets}
        domains = {pod: self._domains.domain_of(node) for pod, node in nodes.items()}
        running = self._domains.running() if targets else {}
        since = {target.pod: self._state.violations.since(target.violations, now) for target in targets}
        since |= {move.pod: move.since for move in moves.values()}
        self._halts.update(Counter(domains.values()), running, now)
        halted = {target.pod for target in targets if self._halts.of(domains[target.pod]) is not None}
        free = [target for target in targets if target.pod not in halted]
        asked, unasked = self._asked([target for target in targets if target.pod in halted])
        replacements = self.replacement_nodes([*free[:MOST_REPLACEMENTS], *asked])
        self.order = sorted(
            (
                PlannedEviction(
                    target,
                    node=nodes[target.pod],
                    domain=domains[target.pod],
                    unplaceable=replacements.get(target.pod, "") is None,
                    since=since[target.pod],
                    one_by_one=target.pod in halted and self._allowed(target, replacements.get(target.pod)),
                    move=moves.get(target.pod),
                )
                for target in targets
            ),
            key=lambda planned: (planned.unplaceable, planned.since),
        )
        return self._count(before, halted, unasked)

    def _asked(self, halted: list[PodToEvict]) -> tuple[list[PodToEvict], set[str]]:
        """The pods of halted domains whose place is looked for this time, and those of a later time."""
        if self._halts.ceiling.policy is HaltPolicy.STOP:
            return [], set()
        pods = ((target, self._state.pod(target.pod)) for target in halted)
        found = [target for target, pod in pods if pod is not None and is_replaced(pod.metadata)]
        start = self._first_asked = self._first_asked if self._first_asked < len(found) else 0
        asked = found[start : start + MOST_HALTED]
        return asked, {target.pod for target in found} - {target.pod for target in asked}

    def _allowed(self, target: PodToEvict, replacement: str | None) -> bool:
        pod = self._state.pod(target.pod)
        return pod is not None and self._halts.ceiling.allows(pod.metadata, replacement)

    def _count(
        self, before: Mapping[str, Halt], halted: set[str], unasked: set[str]
    ) -> tuple[list[Halt], list[str]]:
        """Count for every halt how many pods go one by one, and how many are known to stay."""
        found = [planned for planned in self.order if planned.pod in halted]
        one_by_one = Counter(planned.domain for planned in found if planned.one_by_one)
        staying = Counter(p.domain for p in found if not p.one_by_one and p.pod not in unasked)
        self._first_asked = 0 if one_by_one else self._first_asked + MOST_HALTED
        self._halts.count(one_by_one, staying)
        after = self._halts.halts
        news = [
            halt
            for domain, halt in after.items()
            if domain not in before or bool(halt.one_by_one) != bool(before[domain].one_by_one)
        ]
        return news, [domain for domain in before if domain not in after]

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
        return replacement_nodes(self._state.mirror.cluster, targets)

    def prune(self) -> list[PlannedEviction]:
        """Leave out those who are no longer there; the rest, in order."""
        self.order = [planned for planned in self.order if self._state.pod(planned.pod) is not None]
        return self.order

    def kind_in(self, domain: str) -> str:
        """The kind of rule for which pods of a domain would go; node rules come first."""
        kinds = {planned.kind for planned in self.order if is_in(planned.domain, domain)}
        return POD_KIND if kinds == {POD_KIND} else NODE_KIND

    def nodes_in(self, domain: str) -> list[str]:
        """The nodes of a domain from which pods would go."""
        return sorted({planned.node for planned in self.order if is_in(planned.domain, domain)})


class DomainCounts:
    """The domain of every node by one node label, and how many pods run in each domain.

    A node that loses the label still counts in the domain that it was in: the label may be lost by mistake.
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
