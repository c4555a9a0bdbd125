"""Clusters that changed, and the bindings this may matter to: looked for once for many changes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from berth.engine.state.columns import BoolArray
from berth.fleet.scheduler.reasons import is_always_scheduled, is_ours
from berth.fleet.scheduler.settings import FleetSettings
from berth.fleet.scheduler.state import UnschedulableBindings
from berth.fleet.state.cluster_affinity import matching
from berth.fleet.state.clusters import Clusters
from berth.kube.karmada import Binding, Placement
from berth.kube.objects import Key

# Going through so many bindings takes long enough to wait for further changes first.
_MANY, _PAUSE = 2_000, 1.0


class ChangedClusters:
    """The changes of clusters since the bindings they may matter to were looked for."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self._changed: set[str] = set()
        self._room = False
        self._not_before = 0.0

    def changed(self, name: str) -> None:
        """A cluster came, went, or is another than before to some rule."""
        self._changed.add(name)

    def reported(self) -> None:
        """A cluster told what it has left: room may have come free."""
        self._room = True

    def due(self) -> float | None:
        return self._not_before if self._changed or self._room else None

    def take(
        self,
        now: float,
        bindings: Mapping[Key, Binding],
        unschedulable: UnschedulableBindings,
        settings: FleetSettings,
    ) -> list[Key]:
        """The bindings to look at again."""
        if not (self._changed or self._room) or now < self._not_before:
            return []
        changed, self._changed, self._room = self._changed, set(), False
        concerned = dict.fromkeys(unschedulable)
        if changed:
            self._not_before = now + _PAUSE if len(bindings) > _MANY else 0.0
            slots = [self._clusters.slot(name) for name in changed]
            mask = self._clusters.mask(slots)
            wants: dict[bytes, bool] = {}
            for key, binding in bindings.items():
                if is_ours(binding, settings) and (
                    any(target.name in changed for target in binding.spec.clusters or ())
                    or (is_always_scheduled(binding) and self._wants(binding, mask, wants))
                ):
                    concerned[key] = None
        elif len(unschedulable) > _MANY:
            self._not_before = now + _PAUSE
        return list(concerned)

    def _wants(self, binding: Binding, changed: BoolArray, known: dict[bytes, bool]) -> bool:
        """Whether the placement asks for one of the clusters; many bindings have the same."""
        placement = binding.spec.placement or Placement()
        one = placement.cluster_affinity
        asked = placement.cluster_affinities if one is None else [one]
        if not asked:
            return True
        key = msgspec.json.encode(asked)
        found = known.get(key)
        if found is None:
            found = any(bool((matching(self._clusters, affinity) & changed).any()) for affinity in asked)
            known[key] = found
        return found
