"""Two schedulers of different names on one cluster, with pods of the same groups."""

from __future__ import annotations

from pathlib import Path

from tests.support.builders import ZONE, PodBuilder, make_node, make_pod, where
from tests.support.processes.scheduler import scheduler
from tests.support.worlds.cluster import ClusterWorld

GROUPS, ZONES = 15, ("zone-a", "zone-b")


def member(name: str, app: str, zone: str) -> PodBuilder:
    """A pod that wants its like in its zone, and would rather be in this one."""
    pod = make_pod(name).labels(app=app).affinity_to(app=app, topology=ZONE)
    return pod.prefers_nodes(where(ZONE, "In", zone), weight=100)


def test_a_group_with_pods_for_both_is_not_split(world: ClusterWorld, tmp_path: Path) -> None:
    """Each scheduler would start it in another zone, and both get its pods at the same time."""
    names = (f"{world.scheduler_name}-one", f"{world.scheduler_name}-two")
    for number in range(4):
        world.nodes(make_node(f"n{number}").labels({ZONE: ZONES[number % 2]}).capacity(cpu="64"))
    config = world.backend.kubeconfig
    with scheduler(config, tmp_path, name=names[0]), scheduler(config, tmp_path, name=names[1]):
        for ready, name in enumerate(names):  # so that both are at work when the groups come
            world.pod(make_pod(f"ready-{ready}"), schedulerName=name)
        world.placed("ready-0", "ready-1")
        for group in range(GROUPS):
            for number, name in enumerate(names):
                pod = member(f"g{group}-{number}", f"g{group}", ZONES[number])
                world.pod(pod, schedulerName=name)
        for group in range(GROUPS):
            nodes = world.placed(f"g{group}-0", f"g{group}-1").values()
            assert len({int(node[1:]) % 2 for node in nodes}) == 1, f"group {group} is on {sorted(nodes)}"
