"""How many more replicas of a workload would find a node."""

from __future__ import annotations

from dataclasses import dataclass

from berth.engine.offline.scheduling.making_room import is_daemon
from berth.engine.offline.simulation import Simulation, group_failure
from berth.engine.offline.snapshot import Entry
from berth.engine.placement.fit_error import fit_error
from berth.engine.placement.plan import SchedulingError, plan_for
from berth.engine.state.identity import has_own_claims
from berth.kube.ownership import controller_of
from berth.kube.pods import is_terminating

MOST_REPLICAS = 1000


@dataclass(frozen=True, slots=True)
class FurtherReplicas:
    """How many replicas fit beyond those that have a node or found one; `most` says that it may be more.

    Attributes:
        message: kube-scheduler's sentence about the next one; empty if it was not asked.
        pods, waiting: How many pods the workload has, and how many of them find no node.
    """

    count: int
    message: str = ""
    pods: int = 0
    waiting: int = 0

    @property
    def most(self) -> bool:
        return self.count >= MOST_REPLICAS


def _has_own_claims(entry: Entry) -> bool:
    """Whether the next one has other claims than this one."""
    owner = controller_of(entry.pod.metadata)
    stateful = owner is not None and owner.kind == "StatefulSet"
    claims = any(volume.persistent_volume_claim for volume in entry.pod.spec.volumes or ())
    return has_own_claims(entry.pod.spec) or (stateful and claims)


def further_replicas(simulation: Simulation, entry: Entry) -> FurtherReplicas | None:
    """How many pods like this one fit on the cluster as it is; None if it cannot be told from one of them.

    Nor is it told of pods that nobody would place: they are gated, another scheduler's, or of a group that
    has too few or too little room.  The cluster is left as it was.
    """
    snapshot = simulation.snapshot
    if is_daemon(entry) or _has_own_claims(entry) or not snapshot.nodes:
        return None
    if simulation.held_back(entry) is not None or group_failure(simulation, entry) is not None:
        return None
    cluster = snapshot.cluster
    pod_class = cluster.class_of(entry.pod)
    counts = _pods_of_its_workload(simulation, entry)
    made: list[str] = []
    try:
        while len(made) < MOST_REPLICAS:
            plan = plan_for(cluster, pod_class)
            best = plan.best(None)
            if best is None:
                return FurtherReplicas(len(made), fit_error(plan)[0], *counts)
            made.append(f"{entry.key} and {len(made) + 1} more")  # no pod can be called that
            cluster.assume(made[-1], pod_class, cluster.nodes.names[best[0]] or "")
    except SchedulingError:
        return None
    finally:
        for key in made:
            cluster.remove_pod(key)
    return FurtherReplicas(len(made), "", *counts)


def _pods_of_its_workload(simulation: Simulation, entry: Entry) -> tuple[int, int]:
    """How many there are, and how many of them find no node."""
    if entry.owner is None:
        return 0, 0
    whose = (entry.namespace, entry.owner)
    pods = [
        other.key
        for other in simulation.snapshot.pods
        if (other.namespace, other.owner) == whose and not is_terminating(other.pod)
    ]
    waiting = {unplaced.entry.key for unplaced in simulation.unplaced}
    return len(pods), sum(key in waiting for key in pods)
