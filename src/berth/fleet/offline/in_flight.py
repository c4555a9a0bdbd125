"""Bindings as last written beside bindings as last seen: which of two copies to believe.

A copy of what the scheduler wrote itself counts until the watch has caught up.  It stands in for a
binding that was seen, never for one that was not, and in the groups of that binding only: that is
how Karmada's index, which knows what was seen, finds peers.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from berth.fleet.state.freshness import is_newer
from berth.fleet.state.terms import AFFINITY_GROUP, ANTI_AFFINITY_GROUP, groups_of
from berth.kube.karmada import Binding, WorkloadAffinityGroups


def settle(
    seen: Iterable[Binding], written: Iterable[Binding], incoming: Binding
) -> tuple[list[Binding], frozenset[str]]:
    """The bindings to count on, and the groups of `incoming` with members of unknown age."""
    copies = {(b.metadata.namespace, b.metadata.name): b for b in written}
    settled: list[Binding] = []
    unknown: set[str] = set()
    wanted = groups_of(incoming)
    for binding in seen:
        copy = copies.get((binding.metadata.namespace, binding.metadata.name))
        if copy is None:
            settled.append(binding)
            continue
        newer = is_newer(copy, binding)
        if newer is None:
            unknown.update(label for label, group in groups_of(binding).items() if wanted.get(label) == group)
        settled.append(_standing_in(copy, binding) if newer else binding)
    return settled, frozenset(unknown)


def _standing_in(copy: Binding, seen: Binding) -> Binding:
    before, now = groups_of(seen), groups_of(copy)
    kept = {label: group for label, group in now.items() if before.get(label) == group}
    groups = WorkloadAffinityGroups(
        affinity_group=kept.get(AFFINITY_GROUP), anti_affinity_group=kept.get(ANTI_AFFINITY_GROUP)
    )
    return msgspec.structs.replace(
        copy, spec=msgspec.structs.replace(copy.spec, workload_affinity_groups=groups)
    )
