"""Where the replacements of evicted pods would go.

A replacement asks for what its pod asked for, so it is placed by the same rules: those that must hold
during execution hold at scheduling time as well, and it does not come back to where they are broken.
"""

from __future__ import annotations

from collections.abc import Sequence

from berth.engine.execution.eviction_set import PodToEvict
from berth.engine.placement.plan import SchedulingError, plan_for
from berth.engine.state.cluster import Cluster
from berth.engine.state.pod_class import PodClass


def replacement_nodes(cluster: Cluster, evicted: Sequence[PodToEvict]) -> dict[str, str | None]:
    """The node that the replacement of each evicted pod would get, None if there is none.

    They go one by one: each finds the replacements of the earlier ones on their new nodes, and
    the later ones where they are.  The cluster is left as it was.  Pods that are not there are left out.
    """
    pods = {each.pod: counted for each in evicted if (counted := cluster.find_pod(each.pod)) is not None}
    found: dict[str, str | None] = {}
    with cluster.without(*pods):
        # Pod slots freed last are given out first, and all of this frees and takes them in that order,
        # so that every pod gets its own back.
        for key in reversed(pods):
            _return(cluster, key, pods[key])
        try:
            for key, (pod_class, _, _) in pods.items():
                cluster.remove_pod(key)
                found[key] = node = _choose(cluster, pod_class)
                if node is not None:
                    cluster.assume(key, pod_class, node)
        finally:
            for key in reversed(pods):
                if not cluster.has_pod(key):
                    _return(cluster, key, pods[key])
            for key in pods:
                cluster.remove_pod(key)
    return found


def _return(cluster: Cluster, key: str, counted: tuple[PodClass, str, bool]) -> None:
    pod_class, node, terminating = counted
    cluster.assume(key, pod_class, node, terminating=terminating)


def _choose(cluster: Cluster, pod_class: PodClass) -> str | None:
    try:
        slot = plan_for(cluster, pod_class).choose()
    except SchedulingError:
        return None
    return None if slot is None else cluster.nodes.names[slot]
