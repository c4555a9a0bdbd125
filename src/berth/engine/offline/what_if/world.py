"""A snapshot in motion: pods leave their nodes and come to others, and it is noted why.

Between two changes the scheduler has its turn, so everything that waits is placed before the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from msgspec import structs

from berth.engine.offline.budgets import DisruptionBudget, budgets_of
from berth.engine.offline.scheduling.placements import GroupFailure, PodPlacement, take_off
from berth.engine.offline.scheduling.preemption import replacement, unbound
from berth.engine.offline.scheduling.setup import SchedulerSetup
from berth.engine.offline.simulation import UnplacedPod, simulate
from berth.engine.offline.snapshot import Entry, Snapshot
from berth.engine.offline.what_if.outcome import EvictionRound, RemainingPod, RolloutProgress
from berth.engine.placement.evaluation import scores_of
from berth.engine.placement.plan import Plan
from berth.engine.state.cluster import Cluster
from berth.kube.manifests.manifest import Progress
from berth.kube.objects import Node
from berth.kube.pods import GroupKey, is_terminating

NOT_MADE_AGAIN = "nobody makes it again: it has no owner"
# Placements that say why: each takes a look at all nodes that fit.
_MOST_REASONS = 1000


@dataclass(slots=True)
class WorldLog:
    """What happened on the way.

    Attributes:
        change: How many changes were made, the current one included.
        placements: By pod, how it came to the node it is on; only those that were placed meanwhile.
        displaced: The pods that had to leave a node, or were made.
        gone: Pods that are no more because that was asked for, and why.
        lost: Pods that are no more though nobody asked for it, and why.
        preempted: By victim: the node it was on, and for whom it had to go.
        local: By pod, the volumes whose data it lost with its node.
    """

    change: int = 0
    placements: dict[str, PodPlacement] = field(default_factory=dict)
    displaced: set[str] = field(default_factory=set)
    gone: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    preempted: dict[str, tuple[str, str]] = field(default_factory=dict)
    stays: list[RemainingPod] = field(default_factory=list)
    rounds: list[EvictionRound] = field(default_factory=list)
    steps: list[RolloutProgress] = field(default_factory=list)
    local: dict[str, tuple[str, ...]] = field(default_factory=dict)


class ChangingWorld:
    """A snapshot to which changes are made.

    Attributes:
        on: The pods on nodes, by key.
        waiting: The pods without one, by key.
        unplaced: Why each of these has none, and `failed_groups`, why groups of them have none.
        entries: Every pod there is or was.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        setup: SchedulerSetup,
        *,
        namespace: str | None = None,
        seed: int | None = None,
        reasons: bool = True,
    ) -> None:
        self.snapshot = snapshot
        self.setup = setup
        self.namespace = namespace
        self.on = {entry.key: entry for entry in snapshot.running}
        self.waiting = {entry.key: entry for entry in snapshot.pending}
        self.entries = self.on | self.waiting
        self.unplaced: dict[str, UnplacedPod] = {}
        self.failed_groups: dict[GroupKey, GroupFailure] = {}
        self.log = WorldLog()
        self._rng = None if seed is None else np.random.default_rng(seed)
        self._reasons = _MOST_REASONS if reasons else 0
        first = budgets_of(snapshot, self.waiting.values())
        self._first_budgets = {(budget.namespace, budget.name): budget for budget in first}

    @property
    def cluster(self) -> Cluster:
        return self.snapshot.cluster

    # --- the scheduler's turn ---------------------------------------------------------------------------

    def schedule(self, progress: Progress | None = None) -> None:
        """Place everything that waits, as the scheduler would."""
        self._write_down()
        simulation = simulate(
            self.snapshot,
            self.setup,
            rng=self._rng,
            progress=progress,
            reason=self._why if self._reasons else None,
        )
        for victim, preemptor in simulation.preemptions():
            key = victim.entry.key
            self.on.pop(key, None)
            self._note_local_storage(victim.entry)
            self.log.preempted[key] = (victim.node, preemptor.key)
            self.log.displaced.add(key)
            if victim.replacement is None and not is_terminating(victim.entry.pod):
                self.log.lost[key] = f"preempted by {preemptor.key}; {NOT_MADE_AGAIN}"
        self.waiting = {unplaced.entry.key: unplaced.entry for unplaced in simulation.unplaced}
        self.unplaced = {unplaced.entry.key: unplaced for unplaced in simulation.unplaced}
        self.failed_groups = dict(simulation.failed_groups)
        for placement in simulation.placements:
            self.log.placements[placement.entry.key] = placement
            self.on[placement.entry.key] = bound(placement.entry, placement.node)
        self._write_down()

    def _write_down(self) -> None:
        self.snapshot.running = list(self.on.values())
        self.snapshot.pending = sorted(self.waiting.values(), key=lambda entry: entry.turn)

    def _why(self, plan: Plan, slot: int) -> str:
        if self._reasons <= 0:
            return ""
        self._reasons -= 1
        return why_there(plan, slot)

    # --- pods come and go -------------------------------------------------------------------------------

    def add(self, entries: Iterable[Entry]) -> None:
        """Pods are made, and wait for a node."""
        for entry in entries:
            self.waiting[entry.key] = self.entries[entry.key] = entry
            self.log.displaced.add(entry.key)
            self.log.gone.pop(entry.key, None)

    def displace(self, entry: Entry, *, keeps_node: bool, why: str) -> None:
        """A pod has to leave its node; it comes again if somebody makes it again.

        `keeps_node` says that the node is still there, so that a DaemonSet makes the pod for it again.
        """
        key, node = entry.key, entry.pod.spec.node_name
        self._leave(entry)
        self._note_local_storage(entry)
        if is_terminating(entry.pod):
            self.log.gone[key] = "was being deleted"
            return
        anew = replacement(entry, node if keeps_node else None)
        if anew is not None:
            self.waiting[key] = anew
            self.log.displaced.add(key)
        elif entry.is_daemon or entry.is_mirror:
            self.log.gone[key] = f"{why}; it belongs to its node"
        else:
            self.log.lost[key] = f"{why}; {NOT_MADE_AGAIN}"
            self.log.displaced.add(key)

    def leave_behind(
        self, entry: Entry, why: str, budgets: Sequence[DisruptionBudget] = (), *, refused: bool = False
    ) -> None:
        """A pod stays where it should leave: `budgets` do not let it go, or drain is `refused` for it."""
        names = [budget.name for budget in budgets]
        node = entry.node
        self.log.stays.append(RemainingPod(**entry.named, node=node, why=why, budgets=names, refused=refused))

    def lift(self, entry: Entry) -> None:
        """A pod is placed anew, in the order in which pods were made."""
        self._leave(entry)
        pod = unbound(entry.pod)
        metadata = structs.replace(pod.metadata, creation_timestamp=entry.created)
        pod = structs.replace(pod, metadata=metadata)
        self.waiting[entry.key] = replace(entry, pod=pod)
        self.log.displaced.add(entry.key)

    def remove(self, entry: Entry, why: str) -> None:
        """A pod is gone for good, and is not placed anew: `why` says what removed it."""
        if entry.key in self.on:
            self._leave(entry)
            self._note_local_storage(entry)
        self.waiting.pop(entry.key, None)
        self.unplaced.pop(entry.key, None)
        self.log.gone[entry.key] = why

    def _leave(self, entry: Entry) -> None:
        take_off(self.cluster, entry)
        del self.on[entry.key]

    def _note_local_storage(self, entry: Entry) -> None:
        volumes = local_volumes(entry)
        if volumes:
            self.log.local[entry.key] = volumes

    def pods_of(self, owner: str, namespace: str) -> list[Entry]:
        """The pods of a workload, those without a node last."""
        everyone = (*self.on.values(), *self.waiting.values())
        return [entry for entry in everyone if entry.owner == owner and entry.namespace == namespace]

    def pods_on(self, names: Iterable[str]) -> list[Entry]:
        wanted = set(names)
        return [entry for entry in self.on.values() if entry.pod.spec.node_name in wanted]

    def budgets(self) -> list[DisruptionBudget]:
        """The budgets as they are now: a status that one came with goes with its pods."""
        self._write_down()
        found = budgets_of(self.snapshot, self.waiting.values())
        return [
            budget.since(self._first_budgets.get((budget.namespace, budget.name), budget)) for budget in found
        ]

    # --- nodes ------------------------------------------------------------------------------------------

    def set_node(self, node: Node) -> None:
        self.snapshot.nodes[node.metadata.name or ""] = node
        self.cluster.add_node(node)

    def remove_nodes(self, names: Sequence[str], why: str) -> None:
        """Nodes are gone, and all that ran there."""
        for entry in self.pods_on(names):
            self.displace(entry, keeps_node=False, why=why)
        for name in names:
            self.cluster.remove_node(name)
            del self.snapshot.nodes[name]
        for entry in list(self.waiting.values()):
            if entry.daemon_of in names:
                self.remove(entry, why)


def why_there(plan: Plan, slot: int) -> str:
    """What puts a node before the next one, just before the pod is counted there."""
    blocked = plan.blocked()
    feasible = np.flatnonzero(blocked == 0)
    if len(feasible) < 2:
        return "the only node that fits"
    names = plan.cluster.nodes.names
    scores, totals = scores_of(plan, feasible), plan.totals(blocked)[feasible]
    own = int(np.flatnonzero(feasible == slot)[0])
    others = np.delete(np.arange(len(feasible)), own)
    second = int(others[totals[others].argmax()])
    if totals[second] >= totals[own]:
        ties = int((totals == totals[own]).sum())
        return f"one of {ties} best of {len(feasible)} nodes that fit"
    ahead = {rule: int(weight * (s[own] - s[second])) for rule, (s, weight) in scores.items()}
    decisive = max(ahead, key=lambda rule: ahead[rule])
    before = f"before {names[feasible[second]]} by {decisive} {ahead[decisive]:+d}"
    return f"best of {len(feasible)} nodes that fit, {before}"


def bound(entry: Entry, node: str | None) -> Entry:
    pod = structs.replace(entry.pod, spec=structs.replace(entry.pod.spec, node_name=node))
    return replace(entry, pod=pod)


def local_volumes(entry: Entry) -> tuple[str, ...]:
    """The emptyDir volumes of a pod: their data is gone when it leaves its node."""
    spec: Any = entry.manifest.to_dict().get("spec") or {}
    if entry.manifest.kind != "Pod":
        spec = (spec.get("jobTemplate") or {}).get("spec") or spec
        spec = (spec.get("template") or {}).get("spec") or {}
    volumes = spec.get("volumes") or ()
    return tuple(str(each.get("name")) for each in volumes if isinstance(each, dict) and "emptyDir" in each)
