"""Taints keep newcomers off a cluster; what is there already is left to whoever evicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from berth.engine.rules.taint_toleration.taints import NO_EXECUTE, describe, first_untolerated, untolerated
from berth.fleet.rules.base import Ask, ClusterRule, Objection

if TYPE_CHECKING:
    from collections.abc import Iterable

    from berth.kube.objects import Taint


class TaintToleration(ClusterRule):
    name = "TaintToleration"

    def objections(self, ask: Ask) -> Iterable[Objection]:
        tolerations = tuple(ask.placement.cluster_tolerations or ())
        tainted = ask.clusters.remembered(
            (self.name, tolerations),
            lambda: ask.each(lambda view: first_untolerated(tolerations, view.spec.taints or ()) is not None),
        )
        if tainted.any():
            yield Objection(tainted & ~ask.targets, lambda slot: _reason(ask, slot))

    def violated(self, ask: Ask) -> Iterable[str]:
        for target in ask.binding.spec.clusters or ():
            taints = _taints(ask, ask.clusters.slot_of.get(target.name))
            for taint in untolerated(ask.placement.cluster_tolerations, taints):
                if taint.effect == NO_EXECUTE:
                    yield f"{target.name} has the untolerated taint {describe(taint)}"


def _reason(ask: Ask, slot: int) -> str:
    taint = first_untolerated(ask.placement.cluster_tolerations, _taints(ask, slot))
    return f"cluster(s) had untolerated taint {{{describe(taint) if taint else ''}}}"


def _taints(ask: Ask, slot: int | None) -> Iterable[Taint]:
    view = ask.clusters.views[slot] if slot is not None else None
    return (view.spec.taints or ()) if view is not None else ()
