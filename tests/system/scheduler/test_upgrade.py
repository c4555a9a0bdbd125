"""A server that is upgraded while the scheduler runs: it follows, without being started anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.kube.versions import NEWEST, OLDEST, KubernetesVersion
from tests.support.api.servers import Embedded, started
from tests.support.builders import make_node, make_pod
from tests.support.processes.scheduler import scheduler
from tests.support.worlds.cluster import ClusterWorld
from tests.system.scheduler.pod_groups import Native, members


@pytest.mark.parametrize(
    ("before", "after"), [(OLDEST, NEWEST), (NEWEST, OLDEST)], ids=["upgraded", "downgraded"]
)
def test_a_server_of_another_version(
    tmp_path: Path, before: KubernetesVersion, after: KubernetesVersion
) -> None:
    """Groups from before and from after are placed, in the same process, and say so as their version does."""
    kind = Native()
    with started(Embedded) as backend:
        backend.upgrade(before)
        world = ClusterWorld(backend, "upgrade")
        world.nodes(make_node("n1").capacity(cpu="3"))
        with scheduler(backend.kubeconfig, tmp_path) as process:
            kind.group(world, "early", 2)
            kind.group(world, "torn", 2)
            world.placed(*members(world, kind, "early", 2))
            torn = members(world, kind, "torn", 1)
            world.passed_over(*torn)
            backend.upgrade(after)
            world.client.close()

            world.pod(make_pod("single").requests(cpu="1"))
            assert world.bound("single") == "n1"
            world.nodes(make_node("n2").capacity(cpu="9"))
            kind.group(world, "late", 3)
            late = members(world, kind, "late", 3)
            torn += members(world, kind, "torn", 1, first=1)
            assert set(world.placed(*late, *torn).values()) == {"n2"}
            world.until(lambda: kind.condition(world, "late"), "the new group says so")
            world.until(lambda: f'followed="{after.name}"' in process.log, "the new version is followed")
            assert process.alive
        world.client.close()
