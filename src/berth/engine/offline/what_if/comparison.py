"""A world at one moment, before and after; and what is to be said about the difference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import convert, structs

from berth.engine.execution.violations import placement_violations
from berth.engine.offline.budgets import DisruptionBudget
from berth.engine.offline.explaining.reasons import UnplacedReasons, Workloads, violation_document
from berth.engine.offline.explanation import explain
from berth.engine.offline.simulation import Simulation
from berth.engine.offline.topology import Spread, spreads_of
from berth.engine.offline.what_if import outcome as data
from berth.engine.offline.what_if.changes import ClusterChange
from berth.engine.offline.what_if.world import ChangingWorld
from berth.engine.rules.verdicts import RuleViolation
from berth.engine.state.tables import CPU_ROW, MEMORY_ROW, PODS_ROW
from berth.kube.pods import is_terminating
from berth.kube.well_known import UNSCHEDULABLE

# For so many different pods it is searched what would help; each search tries many changes.
_MOST_HELPED = 5
_ROWS = (CPU_ROW, MEMORY_ROW, PODS_ROW)
BrokenKey = tuple[str, str, str | None, bool]
SpreadKey = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Observation:
    """What a world looked like: the `nodes` of pods, the pods `waiting` for one, and the `zones` of nodes."""

    nodes: dict[str, str]
    waiting: frozenset[str]
    broken: dict[BrokenKey, RuleViolation]
    spreads: dict[SpreadKey, Spread]
    budgets: dict[tuple[str, str], DisruptionBudget]
    used: dict[str, data.Utilisation]
    zones: dict[str, str | None]
    largest: data.LargestPod | None
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


def _used(world: ChangingWorld) -> Iterable[data.Utilisation]:
    table = world.cluster.nodes
    slots = np.array([table.slot_of[name] for name in world.snapshot.nodes], dtype=np.intp)
    columns = [
        column[row][slots].tolist() for row in _ROWS for column in (table.requested, table.allocatable)
    ]
    names = list(data.Utilisation.__struct_fields__)
    return [
        data.Utilisation(**dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)
    ]


def _room(world: ChangingWorld) -> tuple[data.LargestPod | None, float]:
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
    unused = 1.0 - float(cpu[best]) / max(float(cpu.sum()), 1.0)
    return data.LargestPod(node=name, cpu=int(cpu[best]), memory=int(memory[best])), round(unused, 4)


# --- comparing -----------------------------------------------------------------------------------------


def compare(
    world: ChangingWorld, before: Observation, after: Observation, changes: Sequence[ClusterChange]
) -> data.WhatIfOutcome:
    """What became of a world by the changes that were made to it."""
    log = world.log
    replaced = _replaced(log.steps, before, after)
    moves = _moves(world, before, after, replaced)
    unplaced = _unplaced(world, before)
    gone = _gone(world, before, replaced)
    broken = _rules(world, after, before)
    spread = _spread(before, after)
    stays = [stay for stay in log.stays if after.nodes.get(f"{stay.namespace}/{stay.pod}") == stay.node]
    still = {key for key in before.waiting if key in world.waiting}
    concerned = {*log.displaced, *before.waiting} - log.gone.keys() - still
    ok = not (
        unplaced
        or any(pod.lost for pod in gone)
        or any(stay.budgets or stay.refused for stay in stays)
        or any(rule.hard for rule in broken)
        or any(each.worse for each in spread)
    )
    made = data.WhatIfOutcome(
        sentence="",
        ok=ok,
        changes=[change.words for change in changes],
        concerned=len(concerned),
        moves=moves,
        unplaced=unplaced,
        gone=gone,
        preempted=_preempted(world, after),
        broken=broken,
        healed=_rules(world, before, after, still=after.nodes),
        spread=spread,
        budgets=_budgets(before, after, stays),
        rounds=log.rounds,
        rollouts=log.steps,
        stays=stays,
        local_storage=_local_storage(world, before, after),
        nodes=_by_node(before, after),
        zones=_by_zone(before, after),
        measures_before=measures(before, moved=0, preempted=0),
        measures=measures(after, moved=len(moves), preempted=len(log.preempted)),
        notes=list(world.snapshot.notes),
    )
    return structs.replace(made, sentence=data.sentence_of(made, changes))


# --- pods ----------------------------------------------------------------------------------------------


def _replaced(
    steps: Iterable[data.RolloutProgress], before: Observation, after: Observation
) -> dict[str, str]:
    """By pod that a rollout made, the one of before whose place it takes.

    No controller says which one that is: it is one on the same node if there is one, else the next that goes.
    A pod that keeps its name, as those of a StatefulSet do, replaces nobody.
    """
    rollouts: dict[tuple[int, str, str], tuple[list[str], list[str]]] = {}
    for step in steps:
        for index, keys in enumerate((step.created, step.removed)):
            for key in keys:
                rollout = (step.change, step.workload, key.partition("/")[0])
                rollouts.setdefault(rollout, ([], []))[index].append(key)
    found: dict[str, str] = {}
    for created, removed in rollouts.values():
        old = [found.get(key, key) for key in removed]  # a pod of an earlier rollout stands for another
        known, same = before.nodes.keys() | before.waiting, {*created} & {*removed}
        left = {key: None for key in old if key in known and key not in same}
        on: dict[str | None, list[str]] = {}
        for key in left:
            on.setdefault(before.nodes.get(key), []).append(key)
        others = []
        for key in (key for key in created if key not in same):
            if here := on.get(after.nodes.get(key)) if key in after.nodes else None:
                found[key] = here.pop(0)
                del left[found[key]]
            else:
                others.append(key)
        found.update(zip(others, left, strict=False))
    return found


def _moves(
    world: ChangingWorld, before: Observation, after: Observation, replaced: dict[str, str]
) -> list[data.PodMove]:
    rounds = {key: drained for drained in world.log.rounds for key in drained.pods}
    found = []
    for key, node in after.nodes.items():
        replaces = replaced.get(key)
        source = before.nodes.get(replaces or key)
        placement = world.log.placements.get(key)
        if placement is None or (source == node and replaces is None):
            continue
        found.append(
            data.PodMove(
                **world.entries[key].named,
                source=source,
                source_zone=before.zones.get(source or ""),
                target=node,
                target_zone=after.zones.get(node),
                why=placement.why or None,
                change=rounds[key].change if key in rounds else None,
                round=rounds[key].round if key in rounds else None,
                replaces=None if replaces is None else world.entries[replaces].name,
            )
        )
    found.sort(
        key=lambda move: (move.change or 0, move.round or 0, move.source or "~", move.namespace, move.pod)
    )
    return found


def _unplaced(world: ChangingWorld, before: Observation) -> list[data.StrandedPod]:
    # The scheduler's turn as it ended, to be asked about those without a node.
    simulation = Simulation(
        world.snapshot,
        unplaced=list(world.unplaced.values()),
        setup=world.setup,
        failed_groups=world.failed_groups,
    )
    helps = _helps(world, simulation)
    reasons = UnplacedReasons(simulation, Workloads(world.entries.values()))
    return [
        data.StrandedPod(
            **unplaced.entry.named,
            source=before.nodes.get(key),
            reason=unplaced.reason,
            message=unplaced.message,
            waited=key in before.waiting,
            help=helps.get(key),
            details=reasons.documents(unplaced.entry),
        )
        for key, unplaced in world.unplaced.items()
    ]


def _helps(world: ChangingWorld, simulation: Simulation) -> dict[str, str]:
    """By pod, the smallest change that would give it a node; asked once for pods that are alike."""
    groups: dict[tuple[str, str | None, str], list[str]] = {}
    for key, unplaced in world.unplaced.items():
        if unplaced.reason == UNSCHEDULABLE:
            entry = unplaced.entry
            groups.setdefault((entry.namespace, entry.owner or key, unplaced.message), []).append(key)
    found: dict[str, str] = {}
    for keys in list(groups.values())[:_MOST_HELPED] if world.snapshot.nodes else ():
        relaxations = explain(simulation, world.waiting[keys[0]]).relaxations
        if relaxations:
            found.update(dict.fromkeys(keys, relaxations[0].sentence))
    return found


def _gone(world: ChangingWorld, before: Observation, replaced: dict[str, str]) -> list[data.GonePod]:
    there = world.on.keys() | world.waiting.keys()
    heirs = {old: world.entries[new].name for new, old in replaced.items() if new in there}
    return [
        data.GonePod(
            **world.entries[key].named,
            node=before.nodes.get(key),
            why=why,
            lost=lost,
            replaced_by=heirs.get(key),
        )
        for reasons, lost in ((world.log.gone, False), (world.log.lost, True))
        for key, why in reasons.items()
        if key not in there and (lost or key in before.nodes or key in before.waiting)
    ]


def _preempted(world: ChangingWorld, after: Observation) -> list[data.PreemptedPod]:
    return [
        data.PreemptedPod(**world.entries[key].named, node=node, by=by, lands_on=after.nodes.get(key))
        for key, (node, by) in world.log.preempted.items()
    ]


def _local_storage(world: ChangingWorld, before: Observation, after: Observation) -> list[data.LocalLoss]:
    return [
        data.LocalLoss(**world.entries[key].named, volumes=list(volumes))
        for key, volumes in world.log.local.items()
        if after.nodes.get(key) != before.nodes.get(key) or key in world.log.placements
    ]


# --- rules ---------------------------------------------------------------------------------------------


def _rules(
    world: ChangingWorld, there: Observation, elsewhere: Observation, still: dict[str, str] | None = None
) -> list[data.ViolationDocument]:
    """What is broken in one observation and not in the other; `still`: only of pods that are in it."""
    workloads = Workloads(world.entries.values())
    return [
        convert(violation_document(world.entries[found.pod], found, workloads), data.ViolationDocument)
        for key, found in there.broken.items()
        if key not in elsewhere.broken and (still is None or found.pod in still)
    ]


def _spread(before: Observation, after: Observation) -> list[data.SpreadChange]:
    return [
        data.SpreadChange(
            namespace=stated.namespace,
            owner=stated.owner,
            rule=stated.rule,
            topology_key=stated.topology_key,
            hard=stated.hard,
            max_skew=stated.max_skew,
            before=_skew(before.spreads.get(key)),
            after=_skew(after.spreads.get(key)),
        )
        for key, stated in (before.spreads | after.spreads).items()
    ]


def _skew(spread: Spread | None) -> data.SkewState | None:
    return None if spread is None else data.SkewState(skew=spread.skew, ok=spread.ok, counts=spread.counts)


def _budgets(
    before: Observation, after: Observation, stays: Iterable[data.RemainingPod]
) -> list[data.BudgetChange]:
    return [
        data.BudgetChange(
            namespace=namespace,
            name=name,
            allowed_before=old.allowed if (old := before.budgets.get((namespace, name))) else None,
            allowed_after=new.allowed if (new := after.budgets.get((namespace, name))) else None,
            healthy_after=new.healthy if new else None,
            desired=stated.desired,
            blocks=[
                f"{s.namespace}/{s.pod}" for s in stays if s.namespace == namespace and name in s.budgets
            ],
        )
        for (namespace, name), stated in (before.budgets | after.budgets).items()
    ]


# --- nodes ---------------------------------------------------------------------------------------------


def _by_node(before: Observation, after: Observation) -> list[data.UtilisationChange]:
    zones = before.zones | after.zones
    return [
        data.UtilisationChange(
            name=name, zone=zones.get(name), before=before.used.get(name), after=after.used.get(name)
        )
        for name in before.used | after.used
    ]


def _by_zone(before: Observation, after: Observation) -> list[data.UtilisationChange]:
    names = {*before.zones.values(), *after.zones.values()}
    return [
        data.UtilisationChange(
            name=zone, zone=zone, before=_of_zone(before, zone), after=_of_zone(after, zone)
        )
        for zone in sorted(names, key=lambda zone: (zone is None, zone or ""))
    ]


def _of_zone(seen: Observation, zone: str | None) -> data.Utilisation | None:
    """The sum over the nodes of a zone, None if there are none."""
    parts = [structs.asdict(used) for node, used in seen.used.items() if seen.zones[node] == zone]
    if not parts:
        return None
    return data.Utilisation(**{name: sum(part[name] for part in parts) for name in parts[0]})


def measures(seen: Observation, *, moved: int, preempted: int) -> data.Measures:
    skews = [spread.skew for spread in seen.spreads.values()]
    return data.Measures(
        placed=len(seen.nodes),
        unplaced=len(seen.waiting),
        moved=moved,
        preempted=preempted,
        mean_skew=round(sum(skews) / len(skews), 4) if skews else 0.0,
        worst_skew=max(skews, default=0),
        nodes_used=sum(used.pods > 0 for used in seen.used.values()),
        largest_pod=seen.largest,
        fragmentation=seen.fragmentation,
    )
