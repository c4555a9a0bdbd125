"""Rules about clusters themselves, whatever other workloads are on them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from berth.engine.state.columns import Int64Array
from berth.fleet.rules.base import MAX_SCORE, ClusterRule, ClusterVerdict, PlacementQuery
from berth.fleet.state.cluster_affinity import affinity_tiers, matching
from berth.kube.karmada import MemberCluster
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
        tainted = query.where(
            (self.name, tolerations),
            lambda view: first_untolerated(tolerations, view.spec.taints or ()) is not None,
        )
        if tainted.any():
            yield ClusterVerdict(tainted & ~query.targets, lambda slot: _tainted(query, slot))

    def violated(self, query: PlacementQuery) -> Iterable[str]:
        for name, view in query.placed_on():
            for taint in untolerated(query.placement.cluster_tolerations, view.spec.taints or ()):
                if taint.effect == NO_EXECUTE:
                    yield f"{name} has the untolerated taint {described(taint)}"


def _tainted(query: PlacementQuery, slot: int) -> str:
    view = query.clusters.views[slot]
    taints = (view.spec.taints or ()) if view is not None else ()
    taint = first_untolerated(query.placement.cluster_tolerations, taints)
    return f"cluster(s) had untolerated taint {{{described(taint) if taint else ''}}}"


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
        if fields := _spread_fields(query):
            lacking = query.where((self.name, fields), lambda view: _first_lacking(view, fields) is not None)
            yield ClusterVerdict(lacking, lambda slot: _lacks(query.clusters.views[slot], fields))

    def violated(self, query: PlacementQuery) -> Iterable[str]:
        fields = _spread_fields(query)
        for name, view in query.placed_on():
            if _first_lacking(view, fields) is not None:
                yield f"{name}: {_lacks(view, fields)}"


# The name of each field's property in reasons.
_PROPERTIES = {"provider": "provider", "region": "region", "zone": "zones"}


def _spread_fields(query: PlacementQuery) -> tuple[str, ...]:
    fields = (constraint.spread_by_field or "" for constraint in query.placement.spread_constraints or ())
    return tuple(field for field in fields if field in _PROPERTIES)


def _first_lacking(cluster: MemberCluster, fields: Iterable[str]) -> str | None:
    values = {"provider": cluster.spec.provider, "region": cluster.spec.region, "zone": cluster.spec.zones}
    return next((field for field in fields if not values[field]), None)


def _lacks(cluster: MemberCluster | None, fields: Iterable[str]) -> str:
    lacking = _first_lacking(cluster, fields) if cluster is not None else None
    return f"cluster(s) did not have {_PROPERTIES[lacking or 'region']} property"


class ClusterLocalityRule(ClusterRule):
    """Prefers the clusters that a binding has already."""

    name = "ClusterLocality"

    def score(self, query: PlacementQuery) -> Int64Array | None:
        return query.targets.astype(np.int64) * MAX_SCORE
