"""Every example of topology spread goes where its comment says."""

from __future__ import annotations

import pytest

from berth.engine.offline.topology import spreads
from berth.engine.state.options import Options
from berth.kube.scheduler_configuration.model import PluginArguments
from tests.examples.shown import example
from tests.support.cli.example_placements import ExamplePlacements


@example("topology-spread/max-skew-1.yaml")
def test_max_skew_1(example: ExamplePlacements) -> None:
    """From 1/1/0 only 1/1/1 is allowed."""
    assert example.nodes == {"foo-new": "node3"}
    assert example.choice("foo-new") == {"node3"}


@example("topology-spread/max-skew-2.yaml")
def test_max_skew_2(example: ExamplePlacements) -> None:
    """From 1/1/0 every zone is allowed."""
    assert example.nodes == {"foo-new": "node3"}
    assert example.choice("foo-new") == {"node1", "node2", "node3"}


@example("topology-spread/zones-3-2-1.yaml")
def test_zones_3_2_1(example: ExamplePlacements) -> None:
    """Over zones only the emptiest one is allowed."""
    assert example.nodes == {"foo-new": "node3a"}
    assert example.choice("foo-new") == {"node3a"}


@example("topology-spread/nodes-3-2-1.yaml")
def test_nodes_3_2_1(example: ExamplePlacements) -> None:
    """Over nodes only those without a pod are allowed."""
    assert example.nodes == {"foo-new": "node1c"}
    assert example.choice("foo-new") == example.best("foo-new") == {"node1c", "node2b", "node2c"}


# Cluster -> nodes that a hard constraint allows, nodes that a soft one prefers.
CLOSED_ZONE: dict[str, tuple[set[str], set[str]]] = {
    "clusters/zones-3-3-closed-0.yaml": (set(), {"node1", "node2"}),
    "clusters/zones-1-1-closed-0.yaml": (set(), {"node1", "node2"}),
    "clusters/zones-2-1-closed-0.yaml": (set(), {"node2"}),
    "clusters/zones-1-1-closed-1.yaml": ({"node1", "node2"}, {"node1", "node2"}),
    "clusters/zones-2-1-closed-1.yaml": ({"node2"}, {"node2"}),
}


@pytest.mark.parametrize("cluster", CLOSED_ZONE)
@example("topology-spread/infeasible-zone-hard.yaml", *CLOSED_ZONE)
def test_infeasible_zone_hard(example: ExamplePlacements, cluster: str) -> None:
    """A zone that takes no pods still sets the minimum of a requirement."""
    example = example.beside(cluster)
    allowed, _ = CLOSED_ZONE[cluster]
    assert example.choice("foo-new") == allowed
    assert example.nodes == ({"foo-new": min(allowed)} if allowed else {})


@pytest.mark.parametrize("cluster", CLOSED_ZONE)
@example("topology-spread/infeasible-zone-soft.yaml", *CLOSED_ZONE)
def test_infeasible_zone_soft(example: ExamplePlacements, cluster: str) -> None:
    """A preference compares only the zones that take pods."""
    example = example.beside(cluster)
    _, preferred = CLOSED_ZONE[cluster]
    points = example.points("foo-new", "PodTopologySpread")
    assert points.keys() == {"node1", "node2"}
    assert {name for name, given in points.items() if given == max(points.values())} == preferred
    assert example.best("foo-new") == preferred
    assert example.nodes == {"foo-new": min(preferred)}


@example("topology-spread/two-of-ten-zones.yaml")
def test_two_of_ten_zones(example: ExamplePlacements) -> None:
    """Zones that node affinity leaves out do not count."""
    assert example.zones_of("StatefulSet/foo") == {"zone1": 2, "zone2": 2}
    assert example.left == set()


@example("topology-spread/even-over-zones.yaml")
def test_even_over_zones(example: ExamplePlacements) -> None:
    """Two pods a zone, however many nodes a zone has; the first pod is free to start anywhere."""
    assert example.zones_of("StatefulSet/foo") == {"zone1": 2, "zone2": 2, "zone3": 2}
    assert example.choice("foo-0") == {"node1a", "node1b", "node1c", "node2a", "node2b", "node3a"}
    assert example.choice("foo-5") == {"node3a"}


@example("topology-spread/rolling-upgrade-deadlock.yaml")
def test_rolling_upgrade_deadlock(example: ExamplePlacements) -> None:
    """With anti-affinity the replacement has nowhere to go."""
    assert example.left == {"web-new"}


@example("topology-spread/rolling-upgrade-two-nodes.yaml")
def test_rolling_upgrade_on_two_nodes(example: ExamplePlacements) -> None:
    """With a soft constraint the replacement shares a node."""
    assert example.nodes == {"web-new": "node1"}
    assert example.choice("web-new") == example.best("web-new") == {"node1", "node2"}


@example("topology-spread/rolling-upgrade-three-nodes.yaml")
def test_rolling_upgrade_on_three_nodes(example: ExamplePlacements) -> None:
    """If there is a node without a replica, the replacement goes there and shares none."""
    assert example.nodes == {"web-new": "node3"}
    assert example.choice("web-new") == {"node1", "node2", "node3"}


@example("topology-spread/no-rescheduling.yaml")
def test_running_pods_stay(example: ExamplePlacements) -> None:
    """Newcomers fill the empty zones; the crowded one stays crowded."""
    assert example.nodes == {"foo-4": "node2", "foo-5": "node3"}
    assert example.choice("foo-4") == {"node2", "node3"}
    spread = spreads(example.simulation)[0]
    assert (spread.counts, spread.skew, spread.ok) == ({"zone1": 3, "zone2": 1, "zone3": 1}, 2, False)


@example("topology-spread/across-applications.yaml")
def test_across_applications(example: ExamplePlacements) -> None:
    """The group is what the selector says, whoever owns the pods."""
    assert example.nodes_of("StatefulSet/shop") == ["node1", "node2"]
    assert example.choice("blog-0") == {"node3"}
    assert example.choice("blog-1") == {"node1", "node2", "node3"}


@example("topology-spread/zones-even-nodes-apart.yaml")
def test_zones_even_and_nodes_apart(example: ExamplePlacements) -> None:
    """A spread constraint over zones and anti-affinity on nodes work together."""
    assert example.nodes_of("StatefulSet/foo") == ["node1a", "node2a", "node1b", "node2b"]
    assert example.choice("foo-3") == {"node2b"}
    assert example.left == {"foo-4"}


@example("topology-spread/two-constraints.yaml")
def test_two_constraints(example: ExamplePlacements) -> None:
    """The hard one is kept, the soft one ranks what is left."""
    assert example.nodes_of("StatefulSet/foo") == ["node1a", "node2a", "node1b", "node2b"]
    assert example.choice("foo-3") == {"node2a", "node2b"}
    assert example.best("foo-3") == {"node2b"}


@example("topology-spread/min-domains.yaml", "clusters/third-zone.yaml")
def test_min_domains(example: ExamplePlacements) -> None:
    """A third pod waits until there is a third zone, and goes there."""
    assert example.nodes == {"foo-0": "node1", "foo-1": "node2"}
    assert example.left == {"foo-2"}
    assert example.beside("clusters/third-zone.yaml").nodes == {
        "foo-0": "node1",
        "foo-1": "node2",
        "foo-2": "node3",
    }


@example("topology-spread/match-label-keys.yaml")
def test_match_label_keys(example: ExamplePlacements) -> None:
    """Pods of an old revision do not count for the new one."""
    assert example.zones_of("Deployment/web") == {"zone1": 1, "zone2": 1, "zone3": 1}


@example("topology-spread/default-spreading.yaml")
def test_default_spreading(example: ExamplePlacements) -> None:
    """A Deployment behind a Service is spread by default, and large nodes attract only without that."""
    assert example.zones_of("Deployment/web") == {"zone1": 2, "zone2": 2, "zone3": 2}
    assert len(set(example.nodes_of("Deployment/web"))) == 6
    assert example.best("unowned") == {"node1a", "node1b"}
    without = example.under(Options(args=PluginArguments(defaulting_type="List")))
    assert without.zones_of("Deployment/web") == {"zone1": 6}
