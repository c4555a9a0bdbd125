"""A world at one moment: where everybody is, what is broken, how even and how full it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from berth.engine.execution.violations import placement_violations
from berth.engine.offline.budgets import DisruptionBudget
from berth.engine.offline.topology import Spread, spreads_of
from berth.engine.offline.what_if.outcome import LargestPod, Utilisation
from berth.engine.offline.what_if.world import ChangingWorld
from berth.engine.rules.verdicts import RuleViolation
from berth.engine.state.tables import CPU_ROW, MEMORY_ROW, PODS_ROW
from berth.kube.pods import is_terminating

_ROWS = (CPU_ROW, MEMORY_ROW, PODS_ROW)
BrokenKey = tuple[str, str, str | None, bool]
SpreadKey = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Observation:
    """What a world looked like.

    Attributes:
        nodes: Pod -> node.
        waiting: The pods without one.
        zones: Node -> zone.
    """

    nodes: dict[str, str]
    waiting: frozenset[str]
    broken: dict[BrokenKey, RuleViolation]
    spreads: dict[SpreadKey, Spread]
    budgets: dict[tuple[str, str], DisruptionBudget]
    used: dict[str, Utilisation]
    zones: dict[str, str | None]
    largest: LargestPod | None
    fragmentation: float


def observe(world: ChangingWorld) -> Observation:
    snapshot, cluster = world.snapshot, world.cluster
    living = [entry for entry in world.on.values() if not is_terminating(entry.pod)]
    found = placement_violations(cluster, [entry.key for entry in living])
    largest, fragmentation = _room(world)
    return Observation(
        nodes={key: entry.node for key, entry in world.on.items()},
        waiting=frozenset(world.waiting),
        broken={
            (violation.pod, violation.rule, violation.path, violation.of_peer): violation
            for violations in found.values()
            for violation in violations
        },
        spreads={
            (each.namespace, each.owner, each.topology_key, each.path): each
            for each in spreads_of(cluster, living)
        },
        budgets={(budget.namespace, budget.name): budget for budget in world.budgets()},
        used=dict(zip(snapshot.nodes, _used(world), strict=True)),
        zones={name: snapshot.zone_of(name) for name in snapshot.nodes},
        largest=largest,
        fragmentation=fragmentation,
    )


def _used(world: ChangingWorld) -> Iterable[Utilisation]:
    table = world.cluster.nodes
    slots = np.array([table.slot_of[name] for name in world.snapshot.nodes], dtype=np.intp)
    columns = [
        column[row][slots].tolist() for row in _ROWS for column in (table.requested, table.allocatable)
    ]
    names = list(Utilisation.__struct_fields__)
    return [Utilisation(**dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]


def total(parts: Iterable[Utilisation]) -> Utilisation | None:
    """The sum over nodes, None if there are none."""
    parts = list(parts)
    if not parts:
        return None
    names = Utilisation.__struct_fields__
    return Utilisation(**{name: sum(getattr(part, name) for part in parts) for name in names})


def _room(world: ChangingWorld) -> tuple[LargestPod | None, float]:
    """The largest pod that still fits somewhere, and the share of free CPU that it could not use."""
    table = world.cluster.nodes
    open_ = np.flatnonzero(table.alive[: table.count] & ~table.unschedulable[: table.count])
    free = np.maximum(table.allocatable[:, open_] - table.requested[:, open_], 0)
    takes = free[PODS_ROW] > 0
    if not takes.any():
        return None, 0.0
    cpu, memory = free[CPU_ROW] * takes, free[MEMORY_ROW] * takes
    # The one that is largest in its scarcer resource, measured by the largest node.
    share = np.minimum(cpu / max(int(cpu.max()), 1), memory / max(int(memory.max()), 1))
    best = int(share.argmax()) if share.any() else int(cpu.argmax())
    name = table.names[int(open_[best])] or ""
    unused = 1.0 - float(cpu[best]) / max(float(cpu.sum()), 1.0) if len(open_) else 0.0
    return LargestPod(node=name, cpu=int(cpu[best]), memory=int(memory[best])), round(unused, 4)
