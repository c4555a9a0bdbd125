"""Which pods to evict so that the execution-time rules hold, and where their replacements would go.

1. A pod whose node rule is broken goes.
2. A pod whose affinity is broken goes, unless it may be the first of its group and all the others of
   the group are going: of a group that was torn apart into single pods, one stays, and the others can
   come to it.  As few go as possible.
3. Of two pods that anti-affinity wants apart, the one with the lower priority goes, and with equal
   priorities the one whose own rule is broken.  If both have such a rule, it is whichever lets fewer
   pods go in total.  More exactly: no pod goes if pods of lower priority can go in its stead, however
   many they are, nor if pods of the same priority can whose own rules are broken, while its own are not;
   among such sets the smallest is taken.  Who goes by the first two points does not need to be parted from.
4. Where all that leaves a choice, the younger pod goes.

Smallest is meant literally where up to `vertex_cover.EXACT_UP_TO` pods hang together by their
conflicts after all that is certain was decided, and for cliques of any size, such as replicas that keep
away from each other; beyond that a greedy choice comes close.

Only the violations given are healed.  A pod whose last peer is evicted is not added: its rule holds as yet,
and then has its own time of grace.  Pods that are terminating count as gone: nobody leaves for their sake.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from berth.engine.execution.vertex_cover import bits, least_cover
from berth.engine.placement.plan import SchedulingError, plan_for
from berth.engine.rules import EVICTING_RULES
from berth.engine.rules.verdicts import FirstOfGroup, PeerConflict, RuleViolation
from berth.engine.state.cluster import Cluster
from berth.engine.state.pod_class import PodClass
from berth.engine.state.tables import NOWHERE

# How many violations of others are listed with a pod whose eviction heals them.
_MOST_OTHERS = 10


@dataclass(frozen=True, slots=True)
class PodToEvict:
    """A pod that is to be evicted, and what that heals: its own violations, then those of pods that stay.

    Of the latter, if they are many, only some.
    """

    pod: str
    violations: tuple[RuleViolation, ...]


def eviction_set(
    cluster: Cluster,
    violations: Sequence[RuleViolation],
    *,
    started: Callable[[str], float] | None = None,
    staying: Collection[str] = frozenset(),
) -> list[PodToEvict]:
    """Who has to go, in the order of going: the lowest priority first, the younger first.

    Args:
        started: When a pod started, in seconds. By default a later name is taken for a younger pod.
        staying: Pods that cannot be evicted, such as mirror pods, whatever they break.
    """
    return _Decision(cluster, violations, started or (lambda _: 0.0), frozenset(staying)).result()


class _Decision:
    """Decides which pods go, by the violations given. Pods are numbers in the pod table here.

    Attributes:
        own: The violations of every pod that has some, those that are there no more left out.
        going: The pods that go, as far as that is decided.
        conflicts: Which anti-affinity terms are broken where.
    """

    def __init__(
        self,
        cluster: Cluster,
        violations: Iterable[RuleViolation],
        started: Callable[[str], float],
        staying: frozenset[str],
    ) -> None:
        self._cluster = cluster
        self._started = started
        index, table = cluster.pods.index, cluster.pods
        self._fixed = {index[key] for key in staying if key in index}
        self.own: dict[int, list[RuleViolation]] = defaultdict(list)
        for violation in violations:
            pod = index.get(violation.pod)
            if pod is not None and table.node[pod] != NOWHERE and not table.terminating[pod]:
                self.own[pod].append(violation)
        self.going: set[int] = set()
        self.conflicts = [each for rule in EVICTING_RULES for each in rule.conflicts(cluster, self.own)]

    def result(self) -> list[PodToEvict]:
        movable = {pod: own for pod, own in self.own.items() if pod not in self._fixed}
        self.going = {pod for pod, own in movable.items() if any(not b.about_peers for b in own)}
        peerless = {pod for pod, own in movable.items() if any(b.lacks_peers for b in own)} - self.going
        self.going |= peerless
        self.going |= self._separating(self._edges(self.conflicts))
        firsts = self._firsts(peerless)
        self.going -= {first.pod for first in firsts}
        others = self._healed(firsts)
        keys = self._cluster.pods.keys
        return [
            PodToEvict(keys[pod] or "", (*self.own.get(pod, ()), *others.get(pod, ())))
            for pod in self._in_eviction_order(self.going)
        ]

    # --- anti-affinity ----------------------------------------------------------------

    def _edges(self, conflicts: Iterable[PeerConflict]) -> Iterator[tuple[set[int], set[int]]]:
        """The two sides of each conflict, without the pods that go anyway."""
        for conflict in conflicts:
            owners = {pod for pod in conflict.owners if self._stays(pod)}
            peers = {pod for pod in conflict.peers if self._stays(pod)}
            if owners and peers:
                yield owners, peers

    def _stays(self, pod: int) -> bool:
        return pod not in self.going and not self._cluster.pods.terminating[pod]

    def _separating(self, edges: Iterable[tuple[set[int], set[int]]]) -> set[int]:
        """The pods to evict so that no two pods joined by an edge both stay."""
        edges = list(edges)
        order = self._in_eviction_order({pod for pair in edges for side in pair for pod in side})
        number = {pod: i for i, pod in enumerate(order)}
        fixed = sum(1 << number[pod] for pod in self._fixed if pod in number)
        adjacency = [0] * len(order)
        for pair in edges:
            for one, other in (pair, pair[::-1]):
                mask = sum(1 << number[pod] for pod in other)
                for pod in one:
                    adjacency[number[pod]] |= mask & ~(1 << number[pod])
        for pod in bits(fixed):
            adjacency[pod] &= ~fixed  # nothing can be done about these
        protections = [self._protection(pod) for pod in order]
        levels = {protection: i for i, protection in enumerate(sorted(set(protections)))}
        going = least_cover(adjacency, [levels[protection] for protection in protections])
        return {order[i] for i in bits(going)}

    def _protection(self, pod: int) -> tuple[bool, int, bool]:
        """The sort key of eviction: a pod goes only if no pod with a lower key can go instead."""
        priority = self._cluster.class_at(pod).priority
        is_owner = any(violation.has_unwanted_peers for violation in self.own.get(pod, ()))
        return pod in self._fixed, priority, not is_owner

    def _in_eviction_order(self, pods: Collection[int]) -> list[int]:
        keys = self._cluster.pods.keys
        by_name = sorted(pods, key=lambda pod: keys[pod] or "", reverse=True)
        return sorted(by_name, key=lambda pod: (self._protection(pod), -self._started(keys[pod] or "")))

    # --- affinity ---------------------------------------------------------------------

    def _firsts(self, peerless: set[int]) -> list[FirstOfGroup]:
        """Of the pods without a peer, those that are right where they are once the others are gone."""
        own = {pod: violations for pod, violations in self.own.items() if pod in peerless}
        possible = {
            first.pod: first for rule in EVICTING_RULES for first in rule.firsts_of_groups(self._cluster, own)
        }
        at_odds: dict[int, set[int]] = {pod: set(first.others) for pod, first in possible.items()}
        for conflict in self.conflicts:
            for pod in possible.keys() & conflict.owners:
                at_odds[pod] |= conflict.peers
            for pod in possible.keys() & conflict.peers:
                at_odds[pod] |= conflict.owners
        candidates = {pod for pod, others in at_odds.items() if not any(map(self._stays, others - {pod}))}
        edges = [({pod}, at_odds[pod] & candidates - {pod}) for pod in candidates]
        return [possible[pod] for pod in candidates - self._separating(edges)]

    # --- why --------------------------------------------------------------------------

    def _healed(self, firsts: Iterable[FirstOfGroup]) -> Mapping[int, list[RuleViolation]]:
        """The violations of pods that stay, by the pods whose eviction heals them."""
        found: dict[int, list[RuleViolation]] = defaultdict(list)
        index = self._cluster.pods.index
        reasons = [(first.violations, first.others) for first in firsts]
        reasons += [(conflict.violations, conflict.peers) for conflict in self.conflicts]
        for violations, culprits in reasons:
            healed = [violation for violation in violations if index[violation.pod] not in self.going]
            for pod in culprits & self.going if healed else ():
                found[pod] += healed[: _MOST_OTHERS - len(found[pod])]
        return found


# --- where the replacements go --------------------------------------------------------------------
# A replacement asks for what its pod asked for, so it is placed by the same rules: those that must hold
# during execution hold at scheduling time as well, and it does not come back to where they are broken.


def replacement_nodes(cluster: Cluster, evicted: Sequence[PodToEvict]) -> dict[str, str | None]:
    """The node that the replacement of each evicted pod would get, None if there is none.

    They go one by one: each finds the replacements of the earlier ones on their new nodes, and
    the later ones where they are.  The cluster is left as it was.  Pods that are not there are left out.
    """
    found: dict[str, str | None] = {}
    with cluster.restored(*(each.pod for each in evicted if cluster.has_pod(each.pod))) as pods:
        for key, pod_class in pods.items():
            cluster.remove_pod(key)
            found[key] = node = _choose(cluster, pod_class)
            if node is not None:
                cluster.assume(key, pod_class, node)
    return found


def _choose(cluster: Cluster, pod_class: PodClass) -> str | None:
    try:
        slot = plan_for(cluster, pod_class).choose()
    except SchedulingError:
        return None
    return None if slot is None else cluster.nodes.names[slot]
