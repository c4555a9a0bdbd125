"""Where the replacements of evicted pods would go.

A replacement asks for what its pod asked for, so it is placed by the same rules: those that must hold
during execution hold at scheduling time as well, and it does not come back to where they are broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from berth.engine.execution.eviction_set import PodToEvict
from berth.engine.placement.plan import SchedulingError, plan_for
from berth.engine.state.cluster import Cluster
from berth.engine.state.pod_class import PodClass


def replacement_nodes(cluster: Cluster, evicted: Sequence[PodToEvict]) -> dict[str, str | None]:
    """The node that the replacement of each evicted pod would get, None if there is none.

    They go one by one: each finds the replacements of the earlier ones on their new nodes, and
    the later ones where they are.  The cluster is left as it was.  Pods that are not there are left out.
    """
    found: dict[str, str | None] = {}
    with restored(cluster, (each.pod for each in evicted)) as pods:
        for key, pod_class in pods.items():
            cluster.remove_pod(key)
            found[key] = node = _choose(cluster, pod_class)
            if node is not None:
                cluster.assume(key, pod_class, node)
    return found


@contextmanager
def restored(cluster: Cluster, pods: Iterable[str]) -> Iterator[dict[str, PodClass]]:
    """Whatever becomes of these pods, they are back in the end; yields the classes of those there are."""
    counted = {pod: found for pod in pods if (found := cluster.find_pod(pod)) is not None}

    def put(pod: str) -> None:
        pod_class, node, terminating = counted[pod]
        cluster.assume(pod, pod_class, node, terminating=terminating)

    with cluster.without(*counted):
        # Pod slots freed last are given out first, and all of this frees and takes them in that order,
        # so that every pod gets its own back.
        for pod in reversed(counted):
            put(pod)
        try:
            yield {pod: pod_class for pod, (pod_class, _, _) in counted.items()}
        finally:
            for pod in reversed(counted):
                if not cluster.has_pod(pod):
                    put(pod)
            for pod in counted:
                cluster.remove_pod(pod)


def _choose(cluster: Cluster, pod_class: PodClass) -> str | None:
    try:
        slot = plan_for(cluster, pod_class).choose()
    except SchedulingError:
        return None
    return None if slot is None else cluster.nodes.names[slot]
