"""Taints keep newcomers off a cluster; what is there already is left to whoever evicts."""

from __future__ import annotations

from collections.abc import Iterable

from berth.engine.rules.taint_toleration.taints import describe, first_untolerated
from berth.fleet.rules.base import ClusterRule, ClusterVerdict, PlacementQuery
from berth.kube.objects import Taint
from berth.kube.taints import NO_EXECUTE, untolerated


class TaintTolerationRule(ClusterRule):
    name = "TaintToleration"

    def verdicts(self, query: PlacementQuery) -> Iterable[ClusterVerdict]:
        tolerations = tuple(query.placement.cluster_tolerations or ())
        tainted = query.clusters.remembered(
            (self.name, tolerations),
            lambda: query.each(
                lambda view: first_untolerated(tolerations, view.spec.taints or ()) is not None
            ),
        )
        if tainted.any():
            yield ClusterVerdict(tainted & ~query.targets, lambda slot: _reason(query, slot))

    def violated(self, query: PlacementQuery) -> Iterable[str]:
        for target in query.binding.spec.clusters or ():
            taints = _taints(query, query.clusters.slot_of.get(target.name))
            for taint in untolerated(query.placement.cluster_tolerations, taints):
                if taint.effect == NO_EXECUTE:
                    yield f"{target.name} has the untolerated taint {describe(taint)}"


def _reason(query: PlacementQuery, slot: int) -> str:
    taint = first_untolerated(query.placement.cluster_tolerations, _taints(query, slot))
    return f"cluster(s) had untolerated taint {{{describe(taint) if taint else ''}}}"


def _taints(query: PlacementQuery, slot: int | None) -> Iterable[Taint]:
    view = query.clusters.views[slot] if slot is not None else None
    return (view.spec.taints or ()) if view is not None else ()
