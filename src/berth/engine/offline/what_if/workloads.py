"""Changes of workloads: more or fewer replicas, and all of them replaced as the strategy says."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from berth.engine.offline.budgets import may_be_ready
from berth.engine.offline.snapshot import Entry
from berth.engine.offline.what_if.changes import WhatIfError, WorkloadRollout, WorkloadScaling
from berth.engine.offline.what_if.lookup import workload_of
from berth.engine.offline.what_if.outcome import RolloutProgress
from berth.engine.offline.what_if.world import ChangingWorld, WorldLog
from berth.engine.offline.workloads import (
    DAEMON_SET,
    ROLLOUT_DEFAULT,
    eligibility_of,
    replicas_of,
    strategy_of,
)
from berth.kube.amounts.integers import integer
from berth.kube.amounts.shares import resolved
from berth.kube.manifests.manifest import Manifest
from berth.kube.objects import ObjectMeta, PodTemplateSpec, ReplicationController, Workload
from berth.kube.pods import deletion_cost_of, is_terminating
from berth.kube.workloads.expansion import Expansion, ExpansionError, expand

SCALABLE = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")
MAKING_PODS = (*SCALABLE, "Job", "CronJob", DAEMON_SET)
ROLLED_OUT = ("Deployment", "StatefulSet", DAEMON_SET)
_RESTARTED = "kubectl.kubernetes.io/restartedAt"


# --- replicas ------------------------------------------------------------------------------------------


def scale(world: ChangingWorld, change: WorkloadScaling) -> None:
    if change.replicas < 0:
        raise WhatIfError(f"{change.workload} cannot be scaled to {change.replicas}; give 0 or more")
    manifest = workload_of(world, change.workload, SCALABLE)
    scaled = with_replicas(manifest, change.replicas)
    swap(world, manifest, scaled)
    fit_replicas(world, scaled)


def with_replicas(manifest: Manifest, replicas: int) -> Manifest:
    view, raw = manifest.object, manifest.to_dict()
    if not isinstance(view, Workload | ReplicationController):
        raise WhatIfError(f"{manifest.title} has no replicas")
    raw = {**raw, "spec": {**(raw.get("spec") or {}), "replicas": replicas}}
    scaled = structs.replace(view, spec=structs.replace(view.spec, replicas=replicas))
    return replace(manifest, raw=raw, object=scaled)


def swap(world: ChangingWorld, old: Manifest, new: Manifest) -> None:
    world.snapshot.manifests = [new if each is old else each for each in world.snapshot.manifests]


def fit_replicas(world: ChangingWorld, manifest: Manifest) -> None:
    """Make the pods that a workload lacks, or take those that are too many."""
    wanted, mine = replicas_of(manifest), living(world, manifest)
    if len(mine) < wanted:
        world.add(missing(world, manifest))
    for entry in least_useful(mine, manifest)[: max(len(mine) - wanted, 0)]:
        world.remove(entry, f"{manifest.kind}/{manifest.name} has fewer replicas")


def living(world: ChangingWorld, manifest: Manifest) -> list[Entry]:
    found = world.pods_of(f"{manifest.kind}/{manifest.name}", manifest.namespace or "default")
    return [entry for entry in found if not is_terminating(entry.pod)]


def least_useful(entries: Sequence[Entry], manifest: Manifest) -> list[Entry]:
    """In the order in which a workload lets them go: a StatefulSet the last, others the least useful."""
    if manifest.kind == "StatefulSet":
        return sorted(entries, key=lambda entry: -_ordinal(entry))
    beside = Counter(entry.pod.spec.node_name for entry in entries)
    ages = sorted({entry.created or "~" for entry in entries}, reverse=True)
    return sorted(
        entries,
        key=lambda entry: (
            bool(entry.pod.spec.node_name),
            may_be_ready(entry.pod),
            deletion_cost_of(entry.pod),
            -beside[entry.pod.spec.node_name],
            ages.index(entry.created or "~"),
            entry.key,
        ),
    )


def _ordinal(entry: Entry) -> int:
    ordinal = integer(entry.name.rpartition("-")[2], 32, least=0)
    return -1 if ordinal is None else ordinal


# --- making pods ---------------------------------------------------------------------------------------


def missing(world: ChangingWorld, manifest: Manifest) -> list[Entry]:
    """The pods that a workload lacks, beside those it has."""
    space = manifest.namespace or "default"
    everyone = (*world.on.values(), *world.waiting.values())
    pods = [entry.as_manifest for entry in everyone if entry.namespace == space]
    beside = [
        each
        for each in world.snapshot.manifests
        if each.kind in ("ReplicaSet", "Job") and each.namespace == space and each is not manifest
    ]
    return made(world, manifest, expanded([manifest, *beside, *pods]))


def expanded(manifests: Sequence[Manifest], nodes: Sequence[str] = ()) -> Expansion:
    try:
        return expand(manifests, nodes)
    except ExpansionError as error:
        raise WhatIfError(str(error)) from None


def made(world: ChangingWorld, manifest: Manifest, expansion: Expansion) -> list[Entry]:
    """The pods that were expanded for a workload, as pods of the snapshot."""
    for replica_set in expansion.replica_sets:
        world.cluster.set_owner(replica_set, "ReplicaSet")
    pods = [each.pod for each in expansion.created if each.origin is manifest]
    snapshot = world.snapshot
    return list(snapshot.reader.made_for(manifest, pods, snapshot.nodes)) if pods else []


# --- daemons -------------------------------------------------------------------------------------------


def follow_nodes(world: ChangingWorld, names: Iterable[str]) -> None:
    """Give these nodes the pods of DaemonSets that they lack, and take those that they should not have."""
    for manifest in [each for each in world.snapshot.manifests if each.kind == DAEMON_SET and each.object]:
        follow(world, manifest, names)


def follow(world: ChangingWorld, manifest: Manifest, names: Iterable[str]) -> None:
    """The same for one DaemonSet."""
    names = list(names)
    expansion = expanded([manifest], names)
    if not expansion.created:
        return
    owner, nodes = f"{DAEMON_SET}/{manifest.name}", world.snapshot.nodes
    eligibility = eligibility_of(manifest, world.cluster.options.gates)
    mine = {_node_of(entry): entry for entry in world.pods_of(owner, manifest.namespace or "default")}
    world.add(entry for entry in made(world, manifest, expansion) if entry.daemon_of not in mine)
    for name in names:
        if name in mine and not eligibility.of(nodes[name]).keeps:
            world.remove(mine[name], f"{owner} wants no pod on this node any more")


def _node_of(entry: Entry) -> str | None:
    return entry.daemon_of or entry.pod.spec.node_name


# --- rollouts ------------------------------------------------------------------------------------------


def rollout(world: ChangingWorld, change: WorkloadRollout) -> None:
    manifest = workload_of(world, change.workload, ROLLED_OUT)
    if is_paused(manifest):
        why = "nothing is rolled out before spec.paused is taken away"
        raise WhatIfError(f"{manifest.title} is paused: {why}")
    anew = restarted(manifest, f"what-if-{world.log.change}")
    swap(world, manifest, anew)
    roll_out(world, anew)


def is_paused(manifest: Manifest) -> bool:
    return bool((manifest.to_dict().get("spec") or {}).get("paused"))


def restarted(manifest: Manifest, when: str) -> Manifest:
    """The workload with a template that is new in name only, as `kubectl rollout restart` makes it."""
    view = manifest.object
    if not isinstance(view, Workload):
        raise WhatIfError(f"{manifest.title} cannot be rolled out")
    template = view.spec.template or PodTemplateSpec()
    given = template.metadata or ObjectMeta()
    annotations = {**(given.annotations or {}), _RESTARTED: when}
    metadata = structs.replace(given, annotations=annotations)
    spec = structs.replace(view.spec, template=structs.replace(template, metadata=metadata))
    raw = copy.deepcopy(manifest.to_dict())  # pods are named by what is written there
    written = raw.setdefault("spec", {}).setdefault("template", {})
    written["metadata"] = {**(written.get("metadata") or {}), "annotations": annotations}
    return replace(manifest, raw=raw, object=structs.replace(view, spec=spec))


def roll_out(world: ChangingWorld, manifest: Manifest) -> None:
    """Replace the pods of a workload by new ones of its template."""
    if manifest.kind == "Deployment":
        _Rollout(world, manifest).run()
    else:
        _in_place(world, manifest)


@dataclass(slots=True)
class _Steps:
    """Notes the steps of one rollout."""

    log: WorldLog
    workload: str
    number: int = 0

    def tell(
        self, created: Sequence[Entry] = (), removed: Sequence[Entry] = (), stuck: str | None = None
    ) -> None:
        self.number += 1
        step = RolloutProgress(
            change=self.log.change,
            workload=self.workload,
            step=self.number,
            created=[entry.key for entry in created],
            removed=[entry.key for entry in removed],
            stuck=stuck,
        )
        self.log.steps.append(step)


class _Rollout:
    """A Deployment from its old pods to new ones."""

    def __init__(self, world: ChangingWorld, manifest: Manifest) -> None:
        self._world = world
        self._title = f"{manifest.kind}/{manifest.name}"
        self._wanted = replicas_of(manifest)
        self._old = least_useful(living(world, manifest), manifest)
        self._to_come = made(world, manifest, expanded([manifest]))
        self._new: list[Entry] = []
        self._steps = _Steps(world.log, self._title)
        how, rolling = strategy_of(manifest)
        self._recreates, share = how == "Recreate", ROLLOUT_DEFAULT
        self._surge = resolved(rolling.max_surge, self._wanted, default=share, up=True)
        self._unavailable = resolved(rolling.max_unavailable, self._wanted, default=share, up=False)
        if not self._surge and not self._unavailable:
            self._unavailable = 1

    def run(self) -> None:
        if self._recreates:
            self._step(remove=len(self._old), create=0)
            self._step(remove=0, create=len(self._to_come))
            return
        while self._old or self._to_come:
            room = self._wanted + self._surge - len(self._old) - len(self._new)
            if not self._step(create=max(min(room, len(self._to_come)), 0), remove=self._spare()):
                waiting = [entry.key for entry in self._new if entry.key not in self._world.on]
                first = waiting[0] if waiting else "a new pod"
                stuck = f"{first} finds no node, and no old pod may go before it runs"
                self._steps.tell(stuck=stuck)
                return

    def _spare(self) -> int:
        """How many old pods may go: those without a node anyway, the others while enough are available."""
        on = self._world.on
        available = sum(entry.key in on for entry in (*self._old, *self._new))
        idle = sum(entry.key not in on for entry in self._old)
        return min(idle + max(available - (self._wanted - self._unavailable), 0), len(self._old))

    def _step(self, *, create: int, remove: int) -> bool:
        if not create and not remove:
            return False
        coming, self._to_come = self._to_come[:create], self._to_come[create:]
        # Those without a node are the first that go.
        self._old.sort(key=lambda entry: entry.key in self._world.on)
        going, self._old = self._old[:remove], self._old[remove:]
        _remove_all(self._world, going, self._title)
        self._world.add(coming)
        self._new += coming
        self._steps.tell(coming, going)
        self._world.schedule()
        return True


def _in_place(world: ChangingWorld, manifest: Manifest) -> None:
    """A StatefulSet from its last pod to the first, or a DaemonSet node by node.

    Old ones go first, unless a DaemonSet surges: then the new one of a node must run before.
    """
    title = f"{manifest.kind}/{manifest.name}"
    (how, rolling), steps = strategy_of(manifest), _Steps(world.log, title)
    if how == "OnDelete":
        steps.tell(stuck="OnDelete: a pod is replaced once it is deleted")
        return
    old = living(world, manifest)
    pods = made(world, manifest, expanded([manifest], list(world.snapshot.nodes)))
    new = {_place_of(entry): entry for entry in pods}  # by the place that each takes
    if manifest.kind == "StatefulSet":
        first = rolling.partition or 0
        old = [entry for entry in least_useful(old, manifest) if _ordinal(entry) >= first]
    surge = resolved(rolling.max_surge, len(old), default=0, up=True) if manifest.kind == DAEMON_SET else 0
    at_once = surge or max(resolved(rolling.max_unavailable, len(old), default=1, up=True), 1)
    for begin in range(0, len(old), at_once):
        going = old[begin : begin + at_once]
        pairs = [(entry, new[place]) for entry in going if (place := _place_of(entry)) in new]
        coming = [_beside(world, entry) if surge else entry for _, entry in pairs]
        if not surge:
            _remove_all(world, going, title)
        world.add(coming)
        world.schedule()
        waiting = [entry.key for entry in coming if entry.key not in world.on]
        stuck = f"{waiting[0]} finds no node, and the others wait for it" if waiting else None
        if surge:
            held = {entry.key for (entry, _), anew in zip(pairs, coming, strict=True) if anew.key in waiting}
            going = [entry for entry in going if entry.key not in held]
            _remove_all(world, going, title)
        steps.tell(coming, going, stuck)
        if stuck:
            return


def _place_of(entry: Entry) -> str | None:
    """The node of a DaemonSet's pod, the name of a StatefulSet's: what the next one has, too."""
    return _node_of(entry) if entry.is_daemon else entry.name


def _beside(world: ChangingWorld, entry: Entry) -> Entry:
    """A new pod that has to have another name than the one that it takes over from."""
    name = entry.name
    while f"{entry.namespace}/{name}" in world.entries:
        name = f"{name}-new"
    metadata = structs.replace(entry.pod.metadata, name=name)
    return replace(entry, pod=structs.replace(entry.pod, metadata=metadata))


def _remove_all(world: ChangingWorld, entries: Sequence[Entry], title: str) -> None:
    for entry in entries:
        world.remove(world.on.get(entry.key, entry), f"replaced by the rollout of {title}")
