"""What is imagined to be freed against what is freed when the pods are really taken out."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from berth.engine.state.classes import Counter
from berth.engine.state.hypothetical_removal import HypotheticalRemoval, RemovablePods
from berth.engine.state.pod_class import PodClass
from berth.engine.state.tables import CPU_ROW, MEMORY_ROW, PODS_ROW
from berth.kube.objects import Pod
from tests.support.builders import ZONE, NodeBuilder, PodBuilder, make_node, make_pod
from tests.support.cluster import Cluster
from tests.support.engine import engine_of, plan_of
from tests.support.generated import strategies


def counts_at(counters: list[Counter], slot: int) -> list[int]:
    """The counts of the node's own domains."""
    return [counter.counts.item(counter.column.ids[slot]) for counter in counters if counter.column]


def counters_of(classes: Iterable[PodClass]) -> list[Counter]:
    return [
        counter
        for counter in dict.fromkeys(k for c in classes for k in c.touches)
        if isinstance(counter, Counter)
    ]


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(strategies.clusters(most_nodes=3), strategies.pending_pods())
def test_what_is_freed_is_what_leaving_pods_free(cluster: Cluster, pod: Pod) -> None:
    """In resources, host ports and all counts by domain, whoever is counted there and whoever is not."""
    engine = engine_of(cluster)
    plan_of(engine, pod)
    for name, slot in engine.nodes.slot_of.items():
        pods = list(engine.pods_on(name))
        removable = RemovablePods(
            engine, np.array([engine.pods.index[key] for key, _ in pods], dtype=np.intp)
        )
        gone = HypotheticalRemoval(removable, np.ones(len(pods), dtype=np.bool_))
        counters = [counter for counter in counters_of(c for _, c in pods) if counter.column]
        ports = {port for _, c in pods for port in c.host_ports}
        freed = [gone.counted(counter)[slot] for counter in counters]
        before = counts_at(counters, slot)
        used = engine.nodes.requested[:, slot].copy()
        with engine.without(*(key for key, _ in pods)):
            after = counts_at(counters, slot)
            left = engine.nodes.requested[:, slot].copy()
            held = [engine.nodes.ports[port.protocol, port.port][port.ip][slot] for port in ports]
        assert before == [count + more for count, more in zip(after, freed, strict=True)]
        for row, resource in ((PODS_ROW, "pods"), (CPU_ROW, "cpu"), (MEMORY_ROW, "memory")):
            assert used[row] == left[row] + gone.amounts(resource)[slot]
        assert [0] * len(ports) == held
        for port in ports:
            assert engine.nodes.ports[port.protocol, port.port][port.ip][slot] == gone.ports(port)[slot]


@pytest.mark.parametrize(
    ("node", "probe"),
    [
        (make_node("n"), make_pod("probe").anti_affinity_to(app="web", topology=ZONE)),
        (
            make_node("n").labels({ZONE: "a"}).taint("dedicated"),
            make_pod("probe").spread(ZONE, app="web", node_taints_policy="Honor"),
        ),
    ],
    ids=["no-such-domain", "node-left-out"],
)
def test_pods_that_are_not_counted_free_nothing(node: NodeBuilder, probe: PodBuilder) -> None:
    """They run where the rule does not look."""
    engine = engine_of(
        Cluster(nodes=(node.build(),), pods=(make_pod("p").labels(app="web").on("n").build(),))
    )
    plan_of(engine, probe.build())
    removable = RemovablePods(engine, np.array([0], dtype=np.intp))
    ((_, pod_class),) = engine.pods_on("n")

    assert [removable.weight(counter).tolist() for counter in counters_of([pod_class])] == [[0]]
