"""A cluster must serve the kind of resource that is to be placed there."""

from __future__ import annotations

from collections.abc import Iterable

from berth.fleet.rules.base import ClusterRule, ClusterVerdict, PlacementQuery
from berth.kube.karmada import Cluster

REASON = "cluster(s) did not have the API resource"


class ApiEnablementRule(ClusterRule):
    name = "APIEnablement"

    def verdicts(self, query: PlacementQuery) -> Iterable[ClusterVerdict]:
        resource = query.binding.spec.resource
        api, kind = resource.api_version or "", resource.kind or ""
        serving = query.clusters.remembered(
            (self.name, api, kind), lambda: query.each(lambda view: _serves(view, api, kind))
        )
        yield ClusterVerdict(~serving & ~query.targets, lambda _: REASON)

    def violated(self, query: PlacementQuery) -> Iterable[str]:
        resource = query.binding.spec.resource
        for target in query.binding.spec.clusters or ():
            slot = query.clusters.slot_of.get(target.name)
            view = query.clusters.views[slot] if slot is not None else None
            if view is not None and not _serves(view, resource.api_version or "", resource.kind or ""):
                yield f"{target.name} does not serve {resource.kind} of {resource.api_version}"


def _serves(cluster: Cluster, api_version: str, kind: str) -> bool:
    enabled = (cluster.status.api_enablements if cluster.status is not None else None) or ()
    return any(
        (api.group_version or "") == api_version and any((r.kind or "") == kind for r in api.resources or ())
        for api in enabled
    )
