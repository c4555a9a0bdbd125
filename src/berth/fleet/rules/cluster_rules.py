"""Rules about clusters themselves, whatever other workloads are on them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from berth.engine.state.columns import Int64Array
from berth.fleet.rules.base import MAX_SCORE, ClusterRule, ClusterVerdict, PlacementQuery
from berth.fleet.state.cluster_affinity import affinity_tiers, matching
from berth.kube.karmada import MemberCluster
from berth.kube.objects import Toleration
from berth.kube.taints import NO_EXECUTE, described, first_untolerated, untolerated


class ClusterAffinityRule(ClusterRule):
    """Which clusters a placement asks for: one affinity, or the term of several that is tried."""

    name = "ClusterAffinity"

    def verdicts(self, query: PlacementQuery) -> Iterable[ClusterVerdict]:
        if affinities := affinity_tiers(query.binding.spec, query.affinity_name):
            wanted = np.logical_or.reduce([matching(query.clusters, affinity) for affinity in affinities])
            reason = "cluster(s) did not match the placement cluster affinity constraint"
            yield ClusterVerdict(~wanted, lambda _: reason)

    def violated(self, query: PlacementQuery) -> Iterable[str]:
        for verdict in self.verdicts(query):
            for slot in np.flatnonzero(verdict.refused & query.targets & query.clusters.exists):
                yield f"{query.clusters.names[slot]} does not match the placement's cluster affinity"


class TaintTolerationRule(ClusterRule):
    """Taints refuse new bindings; those on the cluster already are left to the controller that evicts."""

    name = "TaintToleration"

    def verdicts(self, query: PlacementQuery) -> Iterable[ClusterVerdict]:
        tolerations = tuple(query.placement.cluster_tolerations or ())
        verdict = query.against((self.name, tolerations), lambda view: _tainted(view, tolerations))
        if verdict.refused.any():
            yield verdict._replace(refused=verdict.refused & ~query.targets)

    def violated(self, query: PlacementQuery) -> Iterable[str]:
        for name, view in query.placed_on():
            for taint in untolerated(query.placement.cluster_tolerations, view.spec.taints or ()):
                if taint.effect == NO_EXECUTE:
                    yield f"{name} has the untolerated taint {described(taint)}"


def _tainted(cluster: MemberCluster, tolerations: Iterable[Toleration]) -> str | None:
    taint = first_untolerated(tolerations, cluster.spec.taints or ())
    return None if taint is None else f"cluster(s) had untolerated taint {{{described(taint)}}}"


class ApiEnablementRule(ClusterRule):
    """A cluster must serve the kind of resource that is to be placed there."""

    name = "APIEnablement"

    def verdicts(self, query: PlacementQuery) -> Iterable[ClusterVerdict]:
        resource = query.binding.spec.resource
        api, kind = resource.api_version or "", resource.kind or ""
        serving = query.where((self.name, api, kind), lambda view: _serves(view, api, kind))
        yield ClusterVerdict(~serving & ~query.targets, lambda _: "cluster(s) did not have the API resource")

    def violated(self, query: PlacementQuery) -> Iterable[str]:
        resource = query.binding.spec.resource
        for name, view in query.placed_on():
            if not _serves(view, resource.api_version or "", resource.kind or ""):
                yield f"{name} does not serve {resource.kind} of {resource.api_version}"


def _serves(cluster: MemberCluster, api_version: str, kind: str) -> bool:
    enabled = (cluster.status.api_enablements if cluster.status is not None else None) or ()
    return any(
        (api.group_version or "") == api_version and any((r.kind or "") == kind for r in api.resources or ())
        for api in enabled
    )


class ClusterEvictionRule(ClusterRule):
    """A binding does not return to a cluster while it is being evicted from it."""

    name = "ClusterEviction"

    def verdicts(self, query: PlacementQuery) -> Iterable[ClusterVerdict]:
        if query.entry.leaving:
            refused = query.clusters.mask(query.entry.leaving)
            yield ClusterVerdict(refused, lambda _: "cluster(s) is in the process of eviction")

    def violated(self, query: PlacementQuery) -> Iterable[str]:
        for slot in query.entry.leaving:
            if query.targets[slot]:
                yield f"{query.clusters.names[slot]} is a target while the binding is being evicted from it"


class SpreadConstraintRule(ClusterRule):
    """A cluster that lacks the property of a spread constraint is refused."""

    name = "SpreadConstraint"

    def verdicts(self, query: PlacementQuery) -> Iterable[ClusterVerdict]:
        if properties := _spread_by(query):
            yield query.against((self.name, properties), lambda view: _lacks(view, properties))

    def violated(self, query: PlacementQuery) -> Iterable[str]:
        properties = _spread_by(query)
        for name, view in query.placed_on():
            if lacks := _lacks(view, properties):
                yield f"{name}: {lacks}"


# The property of a cluster that each field of a spread constraint asks for.
_PROPERTIES = {"provider": "provider", "region": "region", "zone": "zones"}


def _spread_by(query: PlacementQuery) -> tuple[str, ...]:
    fields = (constraint.spread_by_field or "" for constraint in query.placement.spread_constraints or ())
    return tuple(_PROPERTIES[field] for field in fields if field in _PROPERTIES)


def _lacks(cluster: MemberCluster, properties: Iterable[str]) -> str | None:
    lacking = next((name for name in properties if not getattr(cluster.spec, name)), None)
    return None if lacking is None else f"cluster(s) did not have {lacking} property"


class ClusterLocalityRule(ClusterRule):
    """Prefers the clusters that a binding has already."""

    name = "ClusterLocality"

    def score(self, query: PlacementQuery) -> Int64Array | None:
        return query.targets.astype(np.int64) * MAX_SCORE
