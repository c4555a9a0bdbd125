"""Every spread constraint and anti-affinity of the running workloads, domain by domain.

What `berth.engine.offline.topology` counts is shown here with what it means: domains that count although
no pod of the workload could go there, nodes that are left out, and where a rule is broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import nsmallest

import numpy as np

from berth.engine.offline.snapshot import Entry, Snapshot
from berth.engine.offline.topology import Spread, spreads_of
from berth.engine.placement.plan import Plan, plan_for
from berth.engine.rules.verdicts import ANTI_AFFINITY
from berth.engine.state.cluster import Cluster
from berth.engine.state.columns import BoolArray, IndexArray
from berth.engine.state.pod_class import OwnedTerm, PodClass

SPREAD = "spread"
_MOST_DOMAINS = 200  # of one constraint that are told one by one
_MOST_NAMES = 50


@dataclass(frozen=True, slots=True)
class DomainCount:
    """One domain of a constraint.

    Attributes:
        pods: How many pods count there.
        nodes: How many nodes it has.
        usable: Whether a pod of the workload could go to one of its nodes, this rule aside.
        broken: Whether a pod is there that should not be.
    """

    name: str
    pods: int
    nodes: int
    usable: bool
    broken: bool


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Nodes that a constraint does not count, and why."""

    nodes: int
    names: list[str]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintDomains:
    """A constraint of a workload, and its domains.

    Attributes:
        kind: SPREAD or ANTI_AFFINITY.
        limit: The most a domain may be above the emptiest (spread), or hold (anti-affinity).
        skew: What is measured against the limit.
        domains: Those with most pods first; of many, only the first.
        all_domains: How many there are.
    """

    kind: str
    namespace: str
    owner: str
    path: str
    topology_key: str
    selector: str
    hard: bool
    limit: int
    skew: int
    ok: bool
    domains: list[DomainCount]
    all_domains: int
    left_out: list[LeftOut] = field(default_factory=list)


def constraint_domains(snapshot: Snapshot) -> list[ConstraintDomains]:
    """The constraints of running pods, the broken ones first, then the hard ones."""
    cluster = snapshot.cluster
    living = snapshot.living
    workloads: dict[tuple[str, str], list[Entry]] = {}
    for entry in living:
        workloads.setdefault((entry.namespace, entry.workload), []).append(entry)
    judge = _Judge(cluster)
    found = [judge.spread(spread, workloads) for spread in spreads_of(cluster, living)]
    for (namespace, owner), entries in workloads.items():
        found += judge.apart(namespace, owner, entries)
    return sorted(found, key=lambda each: (each.ok, not each.hard, each.limit - each.skew))


class _Judge:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._live: IndexArray = np.flatnonzero([name is not None for name in cluster.nodes.names])
        self._usable: dict[tuple[PodClass, str], BoolArray] = {}

    def spread(self, spread: Spread, workloads: dict[tuple[str, str], list[Entry]]) -> ConstraintDomains:
        entry = workloads[spread.namespace, spread.owner][0]
        usable = self._usable_nodes(self._cluster.class_of(entry.pod), spread.rule)
        least = spread.minimum
        domains = self._domains(spread.topology_key, spread.counts, usable, least + spread.max_skew)
        return ConstraintDomains(
            kind=SPREAD,
            namespace=spread.namespace,
            owner=spread.owner,
            path=spread.path,
            topology_key=spread.topology_key,
            selector=spread.selector,
            hard=spread.hard,
            limit=spread.max_skew,
            skew=spread.skew,
            ok=spread.ok,
            domains=domains,
            all_domains=len(spread.counts),
            left_out=[self._named(slots, why) for why, slots in spread.left_out().items()],
        )

    def apart(self, namespace: str, owner: str, entries: list[Entry]) -> Iterator[ConstraintDomains]:
        """The anti-affinity of a workload, required and preferred, whose pods share their terms."""
        cluster = self._cluster
        pod_class = cluster.class_of(entries[0].pod)
        terms = [
            *pod_class.required_anti_affinity,
            *(owned for owned in pod_class.preferred if owned.weight < 0),
        ]
        if not terms:
            return
        own = np.array([cluster.pods.index[entry.key] for entry in entries], dtype=np.intp)
        for owned in terms:
            counts, broken = self._counted(owned, own)
            usable = self._usable_nodes(pod_class, "")
            domains = self._domains(owned.topology_key, counts, usable, None, broken)
            most = max((counts[name] for name in broken), default=0)
            yield ConstraintDomains(
                kind=ANTI_AFFINITY,
                namespace=namespace,
                owner=owner,
                path=owned.path,
                topology_key=owned.topology_key,
                selector=str(owned.term.selector),
                hard=not owned.weight,
                limit=1,
                skew=most if broken else min(1, max(counts.values(), default=0)),
                ok=not broken,
                domains=domains,
                all_domains=len(counts),
                left_out=self._unlabelled(owned.topology_key),
            )

    def _counted(self, owned: OwnedTerm, own: IndexArray) -> tuple[dict[str, int], set[str]]:
        """Pods that the term selects, by domain, and the domains where one is with a pod of the workload."""
        cluster, column = self._cluster, self._cluster.nodes.column(owned.topology_key)
        classes = [each for label_set in owned.term.selected for each in label_set.classes]
        selected = cluster.pods_of(classes)
        size = len(column.values)
        of_all = np.bincount(column.ids[cluster.pods.node[selected]], minlength=size)
        of_own = np.bincount(column.ids[cluster.pods.node[own]], minlength=size)
        both = np.intersect1d(selected, own)
        of_both = np.bincount(column.ids[cluster.pods.node[both]], minlength=size)
        clash = (of_own > 0) & (of_all - (of_both > 0) > 0)
        named = [(i, column.values[i] or "") for i in np.unique(column.ids[self._live]).tolist() if i]
        return {name: int(of_all[i]) for i, name in named}, {name for i, name in named if clash[i]}

    def _usable_nodes(self, pod_class: PodClass, without: str) -> BoolArray:
        """Which nodes no rule but `without` refuses."""
        key = (pod_class, without)
        if key not in self._usable:
            plan: Plan = plan_for(self._cluster, pod_class)
            fine = np.zeros(len(self._cluster.nodes.names), dtype=np.bool_)
            fine[self._live] = True
            for rule in plan.node_rules:
                if rule.filters and rule.static and rule.name != without:
                    fine[self._live] &= rule.feasible(self._live)
            self._usable[key] = fine
        return self._usable[key]

    def _domains(
        self,
        key: str,
        counts: dict[str, int],
        usable: BoolArray,
        most: int | None,
        broken: Iterable[str] = (),
    ) -> list[DomainCount]:
        column = self._cluster.nodes.column(key)
        size = len(column.values)
        nodes = np.bincount(column.ids[self._live], minlength=size)
        open_to = np.bincount(column.ids[np.flatnonzero(usable)], minlength=size)
        number = {name: i for i, name in enumerate(column.values) if name is not None}
        clashing = set(broken)

        def is_broken(name: str) -> bool:
            return name in clashing if most is None else counts[name] > most

        shown = nsmallest(_MOST_DOMAINS, counts, key=lambda name: (not is_broken(name), -counts[name], name))
        return [
            DomainCount(
                name, counts[name], int(nodes[number[name]]), bool(open_to[number[name]]), is_broken(name)
            )
            for name in shown
        ]

    def _unlabelled(self, key: str) -> list[LeftOut]:
        without = self._live[self._cluster.nodes.column(key).ids[self._live] == 0]
        return [self._named(without, f"no label {key}")] if len(without) else []

    def _named(self, slots: IndexArray, why: str) -> LeftOut:
        names = self._cluster.nodes.names
        return LeftOut(len(slots), [names[slot] or "" for slot in slots[:_MOST_NAMES].tolist()], why)
