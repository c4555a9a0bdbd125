"""The settings of placing workloads on clusters."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """How bindings are placed; the defaults are Berth's, `COMPATIBLE` are Karmada's.

    Attributes:
        compat: Decide as Karmada does where it falls short (spread by zone or provider, unset maxGroups).
        empty_workload_propagation: Selected clusters without replicas are targets, too.
        count_evicting: A workload that is still being evicted from a cluster counts as there.
        group_failover: When the clusters of an affinity group fail, its members may move on together.
        keep_when_unfit: A binding that other workloads keep off everywhere keeps the clusters it has.
        name_peers: Reasons name the workload that stands in the way.
        affinity_label_keys: The labels to index for affinity, and what `affinityEnabled` compares.
        anti_affinity_label_keys: The same for anti-affinity.
    """

    compat: bool = False
    empty_workload_propagation: bool = False
    count_evicting: bool = True
    group_failover: bool = True
    keep_when_unfit: bool = True
    name_peers: bool = True
    affinity_label_keys: tuple[str, ...] = ()
    anti_affinity_label_keys: tuple[str, ...] = ()

    @property
    def indexed_keys(self) -> frozenset[str] | None:
        """The labels that are indexed from the start, beside those that terms name; None for all."""
        return frozenset(self.affinity_label_keys + self.anti_affinity_label_keys) or None


COMPATIBLE = FleetOptions(
    compat=True, count_evicting=False, group_failover=False, keep_when_unfit=False, name_peers=False
)
