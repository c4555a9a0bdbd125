"""Resource requests: what must fit, how load is weighed between nodes that fit, and what would make room."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from berth.engine.rules.base import MAX_SCORE, NodeRule
from berth.engine.rules.changes import Change, Question, Variant, on_nodes, on_pod
from berth.engine.rules.node_resources_fit.score import FitScore, is_ignored
from berth.engine.rules.verdicts import PROCEED, UNRESOLVABLE, Cause, Reason, SharedVerdict
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import ClusterEvent, NodeAdded, NodeUpdated, PodDeleted
from berth.engine.state.columns import BoolArray, IndexArray, Int64Array, IntArray, Slots
from berth.engine.state.hypothetical_removal import HypotheticalRemoval
from berth.engine.state.options import DEFAULT_ARGUMENTS
from berth.engine.state.pod_class import PodClass
from berth.engine.state.requests import in_bytes, pod_requests, spelled, units_of
from berth.engine.state.tables import CPU_ROW, MEMORY_ROW, PODS_ROW
from berth.kube.amounts.resource_names import PODS, is_extended
from berth.kube.objects import Container, Node, NodeStatus, Pod, PodSpec, RawQuantity, ResourceRequirements
from berth.kube.text.near import nearest
from berth.kube.well_known import UNSCHEDULABLE

_TOTAL = "berth.dev/total"  # no name a container of a valid pod can have
_MEBI = 1 << 20
_REQUESTS = "spec.containers[*].resources.requests"
TOO_MANY_PODS = "Too many pods"

INSUFFICIENT = Reason(
    "InsufficientResource",
    "",
    "{resource}: {wanted} wanted, {free} of {size} free",
    varies=("free", "size"),
    waits_for="{wanted} {resource} to be free on a node: pods to leave it",
    events=(PodDeleted, NodeAdded, NodeUpdated),
    resolvable=True,
)
TOO_SMALL = dataclasses.replace(
    INSUFFICIENT,
    code="NodeTooSmall",
    waits_for="a node with at least {wanted} {resource}",
    events=(NodeAdded, NodeUpdated),
    resolvable=False,
)
NODE_FULL = dataclasses.replace(
    INSUFFICIENT,
    code="TooManyPods",
    sentence=TOO_MANY_PODS,
    waits_for="a pod to leave a node that has as many as it takes",
)


def insufficient(resource: str) -> str:
    return f"Insufficient {resource}"


class NodeResourcesFit(NodeRule):
    """The pod's requests must fit beside those already on the node; emptier nodes score higher."""

    name = "NodeResourcesFit"
    reasons = (INSUFFICIENT, TOO_SMALL, NODE_FULL)
    relax_rank = 2
    static = False
    scores = True
    prefilter = PROCEED
    prescore = PROCEED

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        options = pod_class.options
        wanted = {
            name: amount
            for name, amount in pod_class.requests.plain.items()
            if amount > 0 and not is_ignored(name, options)
        }
        self._names = {PODS_ROW: "pods"} | {self.nodes.row(name): name for name in wanted}
        # What must be free in each row; rows the pod does not ask for may be overdrawn.
        self._least: Int64Array = np.full((len(self.nodes.resource_rows), 1), np.iinfo(np.int64).min)
        self._least[PODS_ROW] = 1
        for name, amount in wanted.items():
            self._least[self.nodes.row(name)] = amount
        self._wanted = [(row, int(self._least[row, 0])) for row in self._names]
        self._loads = pod_class.requests.scored
        self._load = np.array(self._loads, dtype=np.int64)[:, None]
        # The default has a way of its own below, which is several times faster.
        strategy, resources = options.args.scoring_strategy, options.args.scoring_resources
        default = strategy == DEFAULT_ARGUMENTS.scoring_strategy
        default &= set(resources) == set(DEFAULT_ARGUMENTS.scoring_resources)
        self._score = None if default else FitScore(self.nodes, pod_class)

    def feasible(self, slots: Slots) -> BoolArray:
        enough: BoolArray = np.logical_and.reduce(self._enough(slots))
        return enough

    def _enough(self, slots: Slots) -> BoolArray:
        """Resource x node: is there enough left?"""
        rows = len(self._least)
        free = self.nodes.allocatable[:rows, slots] - self.nodes.requested[:rows, slots]
        return free >= self._least

    def raw(self, slots: Slots) -> IntArray:
        """The mean of the free shares of cpu and memory after the pod has come, in percent."""
        if self._score is not None:
            return self._score.of(slots)
        capacity = self.nodes.allocatable[CPU_ROW : MEMORY_ROW + 1, slots]
        free = capacity - self.nodes.nonzero[:, slots]
        free -= self._load
        np.maximum(free, 0, out=free)
        free *= MAX_SCORE
        offered: Int64Array | int = 2
        if not capacity.all():
            offered = np.maximum((capacity > 0).sum(axis=0), 1)
            capacity = np.maximum(capacity, 1)
        free //= capacity
        mean: Int64Array = (free[0] + free[1]) // offered
        return mean

    def feasible_at(self, slot: int) -> bool:
        allocatable, requested = self.nodes.allocatable.item, self.nodes.requested.item
        for row, least in self._wanted:  # noqa: SIM110 - half the time of a generator, and this is asked often
            if allocatable(row, slot) - requested(row, slot) < least:
                return False
        return True

    def admits(self, slot: int) -> bool:
        allocatable = self.nodes.allocatable.item
        return all(allocatable(row, slot) >= least for row, least in self._wanted)

    def helped_by(self, change: ClusterEvent) -> bool:
        if isinstance(change, PodDeleted):
            return self.feasible_at(change.slot)
        if not (isinstance(change, NodeUpdated) and change.allocatable):
            return False
        status = change.old.status
        before = units_of(status.allocatable if status else None)
        allocatable = self.nodes.allocatable.item
        return any(allocatable(row, change.slot) > before.get(name, 0) for row, name in self._names.items())

    def raw_at(self, slot: int) -> int:
        if self._score is not None:
            return self._score.at(slot)
        allocatable, used = self.nodes.allocatable.item, self.nodes.nonzero.item
        cpus, memory = allocatable(CPU_ROW, slot), allocatable(MEMORY_ROW, slot)
        cpu_load, memory_load = self._loads
        cpu_free, memory_free = cpus - used(0, slot) - cpu_load, memory - used(1, slot) - memory_load
        total = cpu_free * MAX_SCORE // cpus if cpus and cpu_free > 0 else 0
        if memory and memory_free > 0:
            total += memory_free * MAX_SCORE // memory
        return total // 2 if cpus and memory else total

    def causes(self, slot: int) -> Iterator[Cause]:
        for row in np.flatnonzero(~self._enough(np.array([slot], dtype=np.intp))[:, 0]).tolist():
            name, amount = self._names[row], int(self._least[row, 0])
            allocatable = int(self.nodes.allocatable[row, slot])
            used = int(self.nodes.requested[row, slot])
            values = {
                "resource": name,
                "wanted": spelled(name, amount),
                "free": spelled(name, allocatable - used),
                "size": spelled(name, allocatable),
            }
            if row == PODS_ROW:
                yield Cause(NODE_FULL, values)
                continue
            reason = TOO_SMALL if amount > allocatable else INSUFFICIENT
            yield Cause(reason, values, f"{_REQUESTS}[{name}]", said=insufficient(name))

    def verdicts(self, slots: IndexArray, gone: HypotheticalRemoval) -> Iterable[SharedVerdict]:
        # One bit for each resource that is short, and one for a pod larger than the node.
        short = np.zeros(len(slots), dtype=np.int64)
        for bit, (row, least) in enumerate(self._wanted, start=1):
            allocatable = self.nodes.allocatable[row, slots]
            used = self.nodes.requested[row, slots] - gone.amounts(self._names[row])[slots]
            short |= (allocatable - used < least).astype(np.int64) << bit
            if row != PODS_ROW:
                short |= allocatable < least
        for bits in np.unique(short[short > 0]).tolist():
            rows = [row for bit, (row, _) in enumerate(self._wanted, start=1) if bits >> bit & 1]
            reasons = [TOO_MANY_PODS if row == PODS_ROW else insufficient(self._names[row]) for row in rows]
            code = UNRESOLVABLE if bits & 1 else UNSCHEDULABLE
            yield SharedVerdict(slots[short == bits], code, tuple(reasons))

    # --- what would make room -------------------------------------------------------

    def clues(self, question: Question) -> Iterator[str]:
        """Resources that no node has, by names that are nearly those of others."""
        known = {
            name
            for node in question.nodes.values()
            if node.status is not None
            for name in {**(node.status.capacity or {}), **(node.status.allocatable or {})}
        }
        for name in sorted(question.pod_class.requests.plain):
            if meant := nearest(name, known):
                yield f"no node has the resource {name}; {meant} is there"

    @classmethod
    def relaxations(cls, question: Question) -> Iterator[Change]:
        for name in sorted(question.pod_class.requests.plain):
            if question.refused_by(cls.name, insufficient(name)):
                yield _at_most(question, name, 0)
        if full := question.refused_by(cls.name, TOO_MANY_PODS):
            yield _roomier(question, full)


def _at_most(question: Question, name: str, amount: int) -> Change:
    pod_class = question.pod_class
    wanted = pod_class.requests.plain[name]

    def refine(others: Variant) -> Change:
        table = question.cluster.nodes
        slots = question.fitting(_at_most(question, name, 0).apply(others))
        row = table.row(name)
        free = int((table.allocatable[row, slots] - table.requested[row, slots]).max())
        if in_bytes(name) and free > _MEBI:
            free = free // _MEBI * _MEBI  # as a person would write it
        return _at_most(question, name, max(free, 0))

    if amount:
        phrase = f"with {spelled(name, wanted - amount)} less {name} (at most {spelled(name, amount)})"
    else:
        phrase = f"without its request of {spelled(name, wanted)} {name}"
    containers = pod_class.spec.containers or []
    place = "spec.containers[0]" if len(containers) == 1 else "spec.containers[*]"
    return Change(
        "resource-request",
        f"{place}.resources.requests[{name}]",
        phrase,
        on_pod(_requesting(pod_class, name, amount)),
        value=spelled(name, amount),
        refine=refine,
    )


def _requesting(pod_class: PodClass, name: str, amount: int) -> Callable[[PodSpec], PodSpec]:
    """All requests moved to one container, where a total can be set whatever it is made of."""

    def apply(spec: PodSpec) -> PodSpec:
        containers = list(spec.containers or ())
        if containers and containers[-1].name == _TOTAL:
            total = containers.pop()
            requests = dict((total.resources and total.resources.requests) or {})
        else:
            requests = {n: _raw(n, units) for n, units in pod_class.requests.plain.items()}
        requests[name] = _raw(name, amount)
        bare = [replace(container, resources=None) for container in containers]
        started = [replace(container, resources=None) for container in spec.init_containers or ()]
        total = Container(name=_TOTAL, resources=ResourceRequirements(requests=requests))
        return replace(
            spec, containers=[*bare, total], init_containers=started or None, overhead=None, resources=None
        )

    return apply


def _raw(name: str, amount: int) -> RawQuantity:
    return f"{amount}m" if name == "cpu" else amount


def _roomier(question: Question, names: list[str]) -> Change:
    table = question.cluster.nodes

    def apply(node: Node) -> Node:
        status = node.status or NodeStatus()
        pods = int(table.requested[PODS_ROW, table.slot_of[node.metadata.name or ""]]) + 1
        return replace(node, status=replace(status, allocatable={**(status.allocatable or {}), "pods": pods}))

    phrase = ("with room for one more pod on ", "")
    return on_nodes(question, names, apply, "pod-limit", "status.allocatable.pods", phrase)


# --- how a kubelet adds up the pods of its node ---------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Shortage:
    """A resource of which a node has not enough left."""

    resource: str
    requested: int
    used: int
    capacity: int


def shortages(pod: Pod, node: Node, others: Sequence[Pod]) -> Iterator[Shortage]:
    """What keeps the node from taking the pod; extended resources that it does not know do not count."""
    capacity = units_of(node.status.allocatable if node.status else None)
    wanted = {PODS: 1, **pod_requests(pod.spec).plain}
    used = {PODS: len(others)}
    for other in others:
        for name, amount in pod_requests(other.spec).plain.items():
            used[name] = used.get(name, 0) + amount
    for name, amount in wanted.items():
        if not amount or (is_extended(name) and name not in capacity):
            continue
        taken, most = used.get(name, 0), capacity.get(name, 0)
        if amount > most - taken:
            yield Shortage(name, amount, taken, most)
