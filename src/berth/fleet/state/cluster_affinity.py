"""Which clusters a cluster affinity matches: by name, by label, and by provider, region and zone.

An affinity that Karmada cannot parse matches nothing (its webhook lets none pass).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from berth.engine.state.columns import BoolArray, grown
from berth.fleet.state.clusters import Clusters
from berth.fleet.state.terms import ZONE
from berth.kube.karmada import Cluster, ClusterAffinity, FieldSelector
from berth.kube.objects import LabelSelector, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from berth.kube.selectors import IN, LABEL_OPERATORS, NodeTerm, parse_node_selector

_KEPT = 1024

Check = Callable[["Cluster"], bool]


def matching(clusters: Clusters, affinity: ClusterAffinity) -> BoolArray:
    """The clusters that `affinity` matches, by slot; False where there is none. Not to be written to."""
    return clusters.beside(_Masks).of(clusters, affinity)


class _Mask:
    def __init__(self, affinity: ClusterAffinity) -> None:
        self.matches = compile_affinity(affinity)
        self.version = 0
        self.column: BoolArray = np.zeros(0, dtype=np.bool_)
        self.shown: BoolArray = self.column

    def refresh(self, clusters: Clusters) -> BoolArray:
        if self.version != clusters.version or self.column.size != clusters.size:
            if self.column.size != clusters.size:
                self.column = grown(self.column, clusters.size)
            for slot in clusters.changed_since(self.version).tolist():
                view = clusters.views[slot]
                self.column[slot] = view is not None and self.matches(view)
            self.version = clusters.version
            self.shown = self.column.view()
            self.shown.flags.writeable = False
        return self.shown


class _Masks:
    """A mask for each affinity asked for lately; only clusters that changed are matched again."""

    def __init__(self) -> None:
        self._masks: OrderedDict[bytes, _Mask] = OrderedDict()

    def of(self, clusters: Clusters, affinity: ClusterAffinity) -> BoolArray:
        meaning = (affinity.label_selector, affinity.field_selector, affinity.cluster_names, affinity.exclude)
        key = msgspec.json.encode(meaning)
        mask = self._masks.get(key)
        if mask is None:
            mask = self._masks[key] = _Mask(affinity)
            if len(self._masks) > _KEPT:
                self._masks.popitem(last=False)
        else:
            self._masks.move_to_end(key)
        return mask.refresh(clusters)


def compile_affinity(affinity: ClusterAffinity) -> Check:
    """A function that says of one cluster whether `affinity` matches it."""
    checks: list[Check] = []
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


def _label_check(selector: LabelSelector) -> Check:
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


def _field_checks(selector: FieldSelector) -> Iterable[Check]:
    others = []
    for expression in selector.match_expressions or ():
        if expression.key == ZONE:
            yield _zone_check(expression.operator, frozenset(expression.values or ()))
        else:
            others.append(expression)
    if others:
        term = _term(others)
        yield lambda cluster: term.matches(_fields(cluster), "")


def _zone_check(operator: str | None, wanted: frozenset[str]) -> Check:
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


def _fields(cluster: Cluster) -> dict[str, str]:
    fields = {"provider": cluster.spec.provider, "region": cluster.spec.region}
    return {name: value for name, value in fields.items() if value}


def _zones(cluster: Cluster) -> Sequence[str]:
    return cluster.spec.zones or ()


def _never(_cluster: Cluster) -> bool:
    return False
