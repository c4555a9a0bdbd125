"""Which clusters share a domain, and which a cluster affinity matches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from berth.engine.state.columns import BoolArray, grown
from berth.fleet.state.clusters import ClusterColumns, Clusters
from berth.fleet.state.strategy import is_workload
from berth.fleet.state.terms import CLUSTER, ZONE
from berth.kube.karmada import (
    BindingSpec,
    ClusterAffinity,
    ClusterAffinityTerm,
    FieldSelector,
    MemberCluster,
    Placement,
)
from berth.kube.objects import LabelSelector, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from berth.kube.selectors import IN, LABEL_OPERATORS, NodeTerm, parse_node_selector

# --- domains --------------------------------------------------------------------------------------
# A domain is a zone, a region, a provider, or the value of a cluster label.


def domains_of(cluster: MemberCluster, topology: str) -> Sequence[str]:
    """The domains of a cluster: there may be several zones, and there may be none."""
    spec = cluster.spec
    match topology:
        case "cluster":
            return (cluster.metadata.name or "",)
        case "zone":
            return [z for z in spec.zones or () if z] or ([spec.zone] if spec.zone else [])
        case "region":
            return (spec.region,) if spec.region else ()
        case "provider":
            return (spec.provider,) if spec.provider else ()
    return _labelled(cluster, topology)


def _labelled(cluster: MemberCluster, label: str) -> Sequence[str]:
    value = (cluster.metadata.labels or {}).get(label)
    return (value,) if value is not None else ()


class Domains(ClusterColumns):
    """Which clusters are in which domains of a topology; with `label` that is a label, whatever its name.

    Attributes:
        names: The domains.
        inside: Slot x domain, wider than `names`: who is where. Clusters that do not exist are nowhere.
    """

    def __init__(self, topology: str, label: bool) -> None:
        super().__init__()
        self._topology, self._domains_of = topology, _labelled if label else domains_of
        self._column_of: dict[str, int] = {}
        self.names: list[str] = []
        self.inside: BoolArray = np.zeros((0, 4), dtype=np.bool_)

    def _grow(self, size: int) -> None:
        self.inside = np.ascontiguousarray(grown(self.inside.T, size).T)

    def _read(self, slot: int, view: MemberCluster | None) -> None:
        self.inside[slot] = False
        for domain in self._domains_of(view, self._topology) if view is not None else ():
            column = self._column(domain)
            self.inside[slot, column] = True

    def _column(self, domain: str) -> int:
        column = self._column_of.get(domain)
        if column is None:
            column = self._column_of[domain] = len(self.names)
            self.names.append(domain)
            if column >= self.inside.shape[1]:
                self.inside = grown(self.inside, 2 * self.inside.shape[1])
        return column


def domains(clusters: Clusters, topology: str, *, label: bool = False) -> Domains:
    """The domains of a topology, up to date."""
    found = clusters.beside(Domains, topology, label)
    found.refresh(clusters)
    return found


def reach(clusters: Clusters, topology: str, inside: BoolArray) -> BoolArray:
    """The clusters that share a domain with one of those `inside`."""
    if topology == CLUSTER:
        return inside
    members = domains(clusters, topology).inside
    touched: BoolArray = np.logical_or.reduce(members[inside], axis=0)
    shared: BoolArray = np.logical_or.reduce(members[:, touched], axis=1)
    return shared


# --- affinities -----------------------------------------------------------------------------------
# By name, by label, and by provider, region and zone.  An affinity that Karmada cannot parse matches nothing
# (its webhook lets none pass).

_KEPT = 1024

AffinityTest = Callable[[MemberCluster], bool]


class _Mask(ClusterColumns):
    def __init__(self, affinity: ClusterAffinity) -> None:
        super().__init__()
        self._matches = compile_affinity(affinity)
        self._column: BoolArray = np.zeros(0, dtype=np.bool_)
        self.shown = self._column

    def _grow(self, size: int) -> None:
        self._column = grown(self._column, size)
        self.shown = self._column.view()
        self.shown.flags.writeable = False

    def _read(self, slot: int, view: MemberCluster | None) -> None:
        self._column[slot] = view is not None and self._matches(view)


class _Masks(dict[bytes, _Mask]):
    """One for each affinity asked for lately, the last one at the end."""


def matching(clusters: Clusters, affinity: ClusterAffinity) -> BoolArray:
    """The clusters that `affinity` matches, by slot; False where there is none. Not to be written to."""
    meaning = (affinity.label_selector, affinity.field_selector, affinity.cluster_names, affinity.exclude)
    key, masks = msgspec.json.encode(meaning), clusters.beside(_Masks)
    mask = masks[key] = masks.pop(key) if key in masks else _Mask(affinity)
    if len(masks) > _KEPT:
        del masks[next(iter(masks))]
    mask.refresh(clusters)
    return mask.shown


def term_named(placement: Placement, name: str) -> ClusterAffinityTerm | None:
    """The term of clusterAffinities with this name; None if there is none."""
    return next((t for t in placement.cluster_affinities or () if (t.affinity_name or "") == name), None)


def affinity_tiers(spec: BindingSpec, name: str) -> Sequence[ClusterAffinity]:
    """The affinities of which a cluster must match one, the preferred first; none if every cluster will do.

    `name` is the term of clusterAffinities that is tried. What has no replicas takes no room, so it never
    overflows.
    """
    placement = spec.placement or Placement()
    if placement.cluster_affinity is not None:
        return [placement.cluster_affinity]
    term = term_named(placement, name)
    if term is None:
        return []
    return [term, *(term.overflow_affinities or ())] if is_workload(spec) else [term]


def compile_affinity(affinity: ClusterAffinity) -> AffinityTest:
    """A function that tells whether `affinity` matches a cluster."""
    checks: list[AffinityTest] = []
    if affinity.exclude:
        excluded = frozenset(affinity.exclude)
        checks.append(lambda cluster: cluster.metadata.name not in excluded)
    if affinity.cluster_names:
        named = frozenset(affinity.cluster_names)
        checks.append(lambda cluster: cluster.metadata.name in named)
    if affinity.label_selector is not None:
        checks.append(_label_check(affinity.label_selector))
    if affinity.field_selector is not None:
        checks.extend(_field_checks(affinity.field_selector))
    return lambda cluster: all(check(cluster) for check in checks)


def _label_check(selector: LabelSelector) -> AffinityTest:
    expressions = [
        NodeSelectorRequirement(key=key, operator=IN, values=[value])
        for key, value in (selector.match_labels or {}).items()
    ]
    expressions += [
        NodeSelectorRequirement(key=e.key, operator=e.operator, values=e.values)
        for e in selector.match_expressions or ()
    ]
    if any(e.operator not in LABEL_OPERATORS for e in expressions):
        return _never
    term = _term(expressions)
    return lambda cluster: term.matches(cluster.metadata.labels or {}, "")


def _field_checks(selector: FieldSelector) -> Iterable[AffinityTest]:
    others = []
    for expression in selector.match_expressions or ():
        if expression.key == ZONE:
            yield _zone_check(expression.operator, frozenset(expression.values or ()))
        else:
            others.append(expression)
    if others:
        term = _term(others)
        yield lambda cluster: term.matches(_fields(cluster), "")


def _zone_check(operator: str | None, wanted: frozenset[str]) -> AffinityTest:
    match operator:
        case "In":
            return lambda cluster: not wanted.isdisjoint(_zones(cluster))
        case "NotIn":
            return lambda cluster: wanted.isdisjoint(_zones(cluster))
        case "Exists":
            return lambda cluster: bool(_zones(cluster))
        case "DoesNotExist":
            return lambda cluster: not _zones(cluster)
    return _never


def _term(expressions: list[NodeSelectorRequirement]) -> NodeTerm:
    """Requirements on labels are read, and refused, as those of a node selector are."""
    wanted = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=expressions)])
    parsed = parse_node_selector(wanted)
    return parsed.terms[0] if parsed is not None and parsed.terms else NodeTerm()


def _fields(cluster: MemberCluster) -> dict[str, str]:
    fields = {"provider": cluster.spec.provider, "region": cluster.spec.region}
    return {name: value for name, value in fields.items() if value}


def _zones(cluster: MemberCluster) -> Sequence[str]:
    return cluster.spec.zones or ()


def _never(_cluster: MemberCluster) -> bool:
    return False
