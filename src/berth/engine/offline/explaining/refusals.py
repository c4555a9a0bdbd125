"""Why pods were not placed, as data: every reason with the nodes that it keeps from them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from berth.engine.offline.daemons import unpinned
from berth.engine.offline.groups import GroupFailure, group_key
from berth.engine.offline.placements import refused_on
from berth.engine.offline.scheduling.simulated import Simulation, UnplacedPod
from berth.engine.offline.snapshot import Entry
from berth.engine.placement.evaluation import evaluate
from berth.engine.placement.plan import plan_for
from berth.engine.rules.verdicts import Cause, Reason, RuleVerdict
from berth.engine.state.cluster_events import NodeAdded, NodeUpdated, PodDeleted
from berth.engine.state.pod_class import PodClass

# More reasons than this are taken together where they differ in a name only.
_MOST = 20

GROUP_INCOMPLETE = Reason("PodGroupIncomplete", "")
GROUP_WITHOUT_ROOM = Reason("PodGroupWithoutRoom", "")
# What is no rule's: a pod waits for the others of its group.
GROUP_REASONS = (GROUP_INCOMPLETE, GROUP_WITHOUT_ROOM)
# What may make room for a group.
ROOM_EVENTS = (PodDeleted.__name__, NodeAdded.__name__, NodeUpdated.__name__)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason that nodes are refused for.

    Attributes:
        rule: None if it is the pod's group that waits.
        causes: What it is on each of the nodes.
        nodes: How many these are.
    """

    rule: str | None
    causes: tuple[Cause, ...]
    nodes: int


class Refusals:
    """The reasons of pods that a simulation left without a node; they are asked once a class."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._cluster = simulation.snapshot.cluster
        self._known: dict[PodClass, list[Refusal]] = {}

    def of(self, unplaced: UnplacedPod) -> list[Refusal]:
        """Nothing for a pod that is not tried: its `reason` says it all."""
        entry = unplaced.entry
        if self._simulation.held_back(entry) is not None:
            return []
        key = group_key(entry)
        if key is not None and (failure := self._simulation.failed_groups.get(key)):
            return [Refusal(None, (_of_group(failure),), self._cluster.nodes.live)]
        if entry.daemon_of is not None:
            return self._of_daemon(entry, entry.daemon_of)
        pod_class = self._cluster.class_of(entry.pod)
        if pod_class not in self._known:
            verdicts = evaluate(plan_for(self._cluster, pod_class)).verdicts
            self._known[pod_class] = _summed(verdicts.values())
        return self._known[pod_class]

    def _of_daemon(self, entry: Entry, node: str) -> list[Refusal]:
        """What its own node says; the others are none of its business."""
        plan = plan_for(self._cluster, self._cluster.class_of(unpinned(entry.pod, entry.manifest)))
        return _summed([refused_on(plan, self._cluster.nodes.slot_of[node])])


def group_code(failure: GroupFailure) -> str:
    return _reason_of(failure).code


def _reason_of(failure: GroupFailure) -> Reason:
    return GROUP_INCOMPLETE if failure.most is None else GROUP_WITHOUT_ROOM


def _of_group(failure: GroupFailure) -> Cause:
    return Cause(_reason_of(failure), {"podGroup": failure.state.name}, said=failure.message)


def _summed(verdicts: Iterable[Iterable[RuleVerdict]]) -> list[Refusal]:
    found: dict[tuple[str, Hashable], list[Cause]] = {}
    for said in verdicts:
        for verdict in said:
            for cause in verdict.because:
                found.setdefault((verdict.rule, cause.likeness), []).append(cause)
    if len(found) > _MOST:
        coarse: dict[tuple[str, Hashable], list[Cause]] = {}
        for (rule, _), causes in found.items():
            coarse.setdefault((rule, causes[0].code), []).extend(causes)
        found = coarse
    return [Refusal(rule, tuple(causes), len(causes)) for (rule, _), causes in found.items()]
