"""Every example lands where its comment says."""

from __future__ import annotations

import re
import shlex

import pytest
import yaml

from berth.engine.offline.audit import audit
from berth.engine.offline.topology import spreads
from berth.engine.state.options import Options
from berth.kube.gates import FeatureGates
from tests.support.command import Outcome, berth
from tests.support.example_placements import EXAMPLES, ExamplePlacements
from tests.support.paths import ROOT

SHOWN: set[str] = set()


def example(file: str, *others: str) -> pytest.MarkDecorator:
    """The test gets the landing of a file, and asserts about it and about the others beside it."""
    SHOWN.update((file, *others))
    return pytest.mark.parametrize("landing", [ExamplePlacements(file)], ids=[file])


# --- node affinity -------------------------------------------------------------------------


@example("node-affinity/intel-or-amd.yaml")
def test_intel_or_amd(landing: ExamplePlacements) -> None:
    """Two values of a requirement and two terms both mean or."""
    assert landing.nodes == {"values": "intel", "terms": "amd"}
    assert landing.choice("values") == landing.choice("terms") == {"intel", "amd"}


@example("node-affinity/zone.yaml")
def test_in_zone_z(landing: ExamplePlacements) -> None:
    """Any node of the zone will do, and none of another."""
    assert landing.nodes == {"app": "node-z1"}
    assert landing.choice("app") == {"node-z1", "node-z2"}
    assert landing.left == {"lost"}


@example("node-affinity/operators.yaml")
def test_operators(landing: ExamplePlacements) -> None:
    """Each operator chooses its nodes."""
    assert {name: landing.choice(name) for name in landing.nodes} == {
        "in": {"old", "new"},
        "notin": {"new", "bare"},
        "exists": {"old", "new"},
        "doesnotexist": {"bare"},
        "gt": {"new"},
        "lt": {"old"},
    }


@example("node-affinity/node-selector-and-affinity.yaml")
def test_node_selector_and_affinity(landing: ExamplePlacements) -> None:
    """The pod needs a node that satisfies both."""
    assert landing.nodes == {"app": "node-a-ssd"}
    assert landing.choice("app") == {"node-a-ssd"}


@example("node-affinity/preferred-zone.yaml")
def test_preferred_zone(landing: ExamplePlacements) -> None:
    """The preferred zone is used while there is room."""
    assert landing.nodes == {"app-0": "node-b", "app-1": "node-b", "app-2": "node-a"}
    assert landing.choice("app-0") == {"node-a", "node-b", "node-c"}
    assert landing.best("app-2") == {"node-a", "node-c"}


@example("node-affinity/preferred-weights.yaml")
def test_preferred_weights(landing: ExamplePlacements) -> None:
    """The greatest sum of weights wins: 70 of node-b, 60 of node-a, 30 of node-c."""
    assert landing.nodes == {"app": "node-b"}
    assert landing.points("app", "NodeAffinity") == {"node-b": 100, "node-a": 85, "node-c": 42}


@example("node-affinity/annotation-adds-rules.yaml")
def test_annotation_adds_rules(landing: ExamplePlacements) -> None:
    """Rules of the annotation and of the spec must both hold."""
    assert landing.nodes == {"app": "node-b-ssd"}
    assert landing.choice("app") == {"node-b-ssd"}


# --- pod affinity ---------------------------------------------------------------------------


@example("pod-affinity/zone-of-service.yaml")
def test_zone_of_a_service(landing: ExamplePlacements) -> None:
    """A requirement leaves only the zone with S, a preference ranks it first."""
    assert landing.nodes == {"must": "node-b2", "rather": "node-b1"}
    assert landing.choice("must") == {"node-b1", "node-b2"}
    assert landing.points("rather", "InterPodAffinity") == {
        "node-b1": 100,
        "node-b2": 100,
        "node-a1": 0,
        "node-c1": 0,
    }


@example("pod-affinity/shared-license.yaml")
def test_shared_license(landing: ExamplePlacements) -> None:
    """Pods with the same license share a node."""
    assert landing.nodes == {"planner": "node-b", "renderer": "node-c"}
    assert (landing.choice("planner"), landing.choice("renderer")) == ({"node-b"}, {"node-c"})


@example("pod-affinity/own-service-one-zone.yaml")
def test_own_service_in_one_zone(landing: ExamplePlacements) -> None:
    """The first pod goes anywhere, the others follow; who does not match itself gets no such start."""
    assert landing.nodes == {"s-0": "node-a1", "s-1": "node-a2", "s-2": "node-a1"}
    assert landing.choice("s-0") == {"node-a1", "node-a2", "node-b1", "node-b2"}
    assert landing.choice("s-1") == landing.choice("s-2") == {"node-a1", "node-a2"}
    assert landing.left == {"outsider"}


@example("pod-affinity/services-together-on-node.yaml")
def test_services_together_on_a_node(landing: ExamplePlacements) -> None:
    """Each S1 pod gets a node with S2 for itself, as long as there is one."""
    assert landing.nodes == {"s1-0": "node-b", "s1-1": "node-d"}
    assert landing.left == {"s1-2"}


@example("pod-affinity/services-together-in-zone.yaml")
def test_services_together_in_a_zone(landing: ExamplePlacements) -> None:
    """The zone is required, the node preferred."""
    assert landing.nodes == {"s1-0": "node-b2"}
    assert landing.choice("s1-0") == {"node-b1", "node-b2"}


@example("pod-affinity/affinity-one-way.yaml")
def test_required_affinity_is_one_way(landing: ExamplePlacements) -> None:
    """S2 goes where it likes, S1 follows, and without its peer a pod waits."""
    assert landing.nodes == {"s2": "node-a", "s1": "node-a"}
    assert landing.choice("s2") == {"node-a", "node-b"}
    assert landing.choice("s1") == {"node-a"}
    assert landing.left == {"alone"}


@example("pod-affinity/affinity-implied-preference.yaml")
def test_required_affinity_implies_a_preference(landing: ExamplePlacements) -> None:
    """S2 is drawn to the S1 pod that requires it, unless such rules are given no weight."""
    assert landing.nodes == {"s2": "node-b"}
    assert landing.choice("s2") == {"node-a", "node-b", "node-c"}
    assert landing.under(Options(hard_pod_affinity_weight=0)).nodes == {"s2": "node-a"}


@example("pod-affinity/preference-both-ways.yaml")
def test_preferences_work_both_ways(landing: ExamplePlacements) -> None:
    """Running pods' preferences attract and repel newcomers."""
    assert landing.nodes == {"friend": "node-b", "nuisance": "node-c"}
    assert landing.choice("friend") == landing.choice("nuisance") == {"node-a", "node-b", "node-c"}
    assert landing.points("friend", "InterPodAffinity") == {"node-a": 0, "node-b": 100, "node-c": 0}
    assert landing.points("nuisance", "InterPodAffinity") == {"node-a": 0, "node-b": 0, "node-c": 100}


@example("pod-affinity/spread-required.yaml")
def test_spread_as_a_requirement(landing: ExamplePlacements) -> None:
    """One pod a zone, and no more pods than zones."""
    assert landing.zones_of("StatefulSet/s") == {"a": 1, "b": 1, "c": 1}
    assert landing.choice("s-1") == {"node-b1", "node-b2", "node-c1", "node-c2"}
    assert landing.left == {"s-3"}


@example("pod-affinity/spread-preferred.yaml")
def test_spread_as_a_preference(landing: ExamplePlacements) -> None:
    """Zones first, then nodes, then sharing."""
    assert landing.nodes_of("StatefulSet/s") == [
        "node-a1",
        "node-b1",
        "node-c1",
        "node-a2",
        "node-b2",
        "node-c1",
    ]
    assert landing.points("s-3", "InterPodAffinity") == {
        "node-a1": 0,
        "node-a2": 100,
        "node-b1": 0,
        "node-b2": 100,
        "node-c1": 0,
    }


@example("pod-affinity/evil-service.yaml")
def test_evil_service(landing: ExamplePlacements) -> None:
    """Must not is strict, try not gives in when there is no other node."""
    assert landing.nodes == {"must-not": "node-c", "try-not": "node-c", "cornered": "node-a"}
    assert landing.choice("must-not") == {"node-c"}
    assert landing.choice("try-not") == {"node-a", "node-b", "node-c"}
    assert landing.choice("cornered") == {"node-a", "node-b"}


@example("pod-affinity/exclusive-node.yaml")
def test_exclusive_node(landing: ExamplePlacements) -> None:
    """An exclusive pod takes an empty node and keeps everybody else off it."""
    assert landing.nodes == {"alone-0": "node-b", "alone-1": "node-c", "late": "node-a"}
    assert landing.choice("alone-0") == {"node-b", "node-c"}
    assert landing.choice("late") == {"node-a"}
    assert landing.left == {"alone-2"}


@example("pod-affinity/exclusive-node-with-daemons.yaml")
def test_exclusive_node_with_daemons(landing: ExamplePlacements) -> None:
    """Daemons neither keep an exclusive pod off nor are kept off by it, unless their namespace counts."""
    assert landing.nodes == {
        "alone": "node-b",
        "log-agent-node-a": "node-a",
        "log-agent-node-b": "node-b",
    }
    assert landing.choice("alone") == {"node-b"}
    assert landing.under(Options(daemon_namespaces=frozenset())).left == {"alone"}


@example("pod-affinity/only-own-service.yaml")
def test_only_the_own_service(landing: ExamplePlacements) -> None:
    """NotIn keeps off labelled and unlabelled strangers, but not peers."""
    assert landing.nodes_of("StatefulSet/s") == ["node-c", "node-d", "node-c", "node-d"]
    assert landing.choice("s-0") == landing.choice("s-3") == {"node-c", "node-d"}
    assert landing.choice("unlabelled") == {"node-a", "node-b"}


@example("pod-affinity/anti-affinity-both-ways.yaml")
def test_anti_affinity_is_symmetric(landing: ExamplePlacements) -> None:
    """S1 is kept off S2 and S2 off S1; empty nodes and nodes with peers are fine."""
    assert landing.nodes == {"s1-new": "empty-1", "s2-new": "empty-2"}
    assert landing.choice("s1-new") == {"node-1", "empty-1", "empty-2"}
    assert landing.choice("s2-new") == {"node-2", "empty-2"}


@example("pod-affinity/four-rules.yaml")
def test_four_rules(landing: ExamplePlacements) -> None:
    """P1 and P3 decide what is feasible, P2 and P4 which of it is best."""
    assert landing.nodes == {"p": "n4"}
    assert landing.choice("p") == {"n3", "n4", "n5"}
    assert landing.points("p", "InterPodAffinity") == {"n3": 0, "n4": 100, "n5": 0}


@example("pod-affinity/required-terms-together.yaml")
def test_required_terms_together(landing: ExamplePlacements) -> None:
    """All terms must hold, by one pod that matches all of them."""
    assert landing.nodes == {"near": "node-a1"}
    assert landing.choice("near") == {"node-a1", "node-a4"}
    assert landing.left == {"split"}


@example("pod-affinity/preferred-terms-add-up.yaml")
def test_preferred_terms_add_up(landing: ExamplePlacements) -> None:
    """The weights of the terms that hold are added up: 80 for node-b, 60 for node-a."""
    assert landing.nodes == {"app": "node-b"}
    assert landing.points("app", "InterPodAffinity") == {"node-b": 100, "node-a": 75, "node-c": 0}


@example("pod-affinity/namespaces.yaml")
def test_namespaces(landing: ExamplePlacements) -> None:
    """A term sees its own namespace, named ones, selected ones, or all."""
    assert {name: landing.choice(name) for name in landing.nodes} == {
        "own": {"node-a"},
        "named": {"node-b"},
        "selected": {"node-c"},
        "any": {"node-a", "node-b", "node-c"},
    }


@example("pod-affinity/crowded-out.yaml")
def test_crowded_out(landing: ExamplePlacements) -> None:
    """Who comes first with anti-affinity keeps others off the nodes they want."""
    assert landing.nodes == {"s1-0": "fast-1", "s1-1": "fast-2", "s2-rather": "slow"}
    assert landing.choice("s2-rather") == {"slow"}
    assert landing.left == {"s2-must"}


# --- topology spread -------------------------------------------------------------------------


@example("topology-spread/max-skew-1.yaml")
def test_max_skew_1(landing: ExamplePlacements) -> None:
    """From 1/1/0 only 1/1/1 is allowed."""
    assert landing.nodes == {"foo-new": "node3"}
    assert landing.choice("foo-new") == {"node3"}


@example("topology-spread/max-skew-2.yaml")
def test_max_skew_2(landing: ExamplePlacements) -> None:
    """From 1/1/0 every zone is allowed."""
    assert landing.nodes == {"foo-new": "node3"}
    assert landing.choice("foo-new") == {"node1", "node2", "node3"}


@example("topology-spread/zones-3-2-1.yaml")
def test_zones_3_2_1(landing: ExamplePlacements) -> None:
    """Over zones only the emptiest one is allowed."""
    assert landing.nodes == {"foo-new": "node3a"}
    assert landing.choice("foo-new") == {"node3a"}


@example("topology-spread/nodes-3-2-1.yaml")
def test_nodes_3_2_1(landing: ExamplePlacements) -> None:
    """Over nodes only those without a pod are allowed."""
    assert landing.nodes == {"foo-new": "node1c"}
    assert landing.choice("foo-new") == landing.best("foo-new") == {"node1c", "node2b", "node2c"}


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
def test_infeasible_zone_hard(landing: ExamplePlacements, cluster: str) -> None:
    """A zone that takes no pods still sets the minimum of a requirement."""
    landing = landing.beside(cluster)
    allowed, _ = CLOSED_ZONE[cluster]
    assert landing.choice("foo-new") == allowed
    assert landing.nodes == ({"foo-new": min(allowed)} if allowed else {})


@pytest.mark.parametrize("cluster", CLOSED_ZONE)
@example("topology-spread/infeasible-zone-soft.yaml", *CLOSED_ZONE)
def test_infeasible_zone_soft(landing: ExamplePlacements, cluster: str) -> None:
    """A preference compares only the zones that take pods."""
    landing = landing.beside(cluster)
    _, preferred = CLOSED_ZONE[cluster]
    points = landing.points("foo-new", "PodTopologySpread")
    assert points.keys() == {"node1", "node2"}
    assert {name for name, given in points.items() if given == max(points.values())} == preferred
    assert landing.best("foo-new") == preferred
    assert landing.nodes == {"foo-new": min(preferred)}


@example("topology-spread/two-of-ten-zones.yaml")
def test_two_of_ten_zones(landing: ExamplePlacements) -> None:
    """Zones that node affinity leaves out do not count."""
    assert landing.zones_of("StatefulSet/foo") == {"zone1": 2, "zone2": 2}
    assert landing.left == set()


@example("topology-spread/even-over-zones.yaml")
def test_even_over_zones(landing: ExamplePlacements) -> None:
    """Two pods a zone, however many nodes a zone has; the first pod is free to start anywhere."""
    assert landing.zones_of("StatefulSet/foo") == {"zone1": 2, "zone2": 2, "zone3": 2}
    assert landing.choice("foo-0") == {"node1a", "node1b", "node1c", "node2a", "node2b", "node3a"}
    assert landing.choice("foo-5") == {"node3a"}


@example("topology-spread/rolling-upgrade-deadlock.yaml")
def test_rolling_upgrade_deadlock(landing: ExamplePlacements) -> None:
    """With anti-affinity the replacement has nowhere to go."""
    assert landing.left == {"web-new"}


@example("topology-spread/rolling-upgrade-two-nodes.yaml")
def test_rolling_upgrade_on_two_nodes(landing: ExamplePlacements) -> None:
    """With a soft constraint the replacement shares a node."""
    assert landing.nodes == {"web-new": "node1"}
    assert landing.choice("web-new") == landing.best("web-new") == {"node1", "node2"}


@example("topology-spread/rolling-upgrade-three-nodes.yaml")
def test_rolling_upgrade_on_three_nodes(landing: ExamplePlacements) -> None:
    """If there is a node without a replica, the replacement goes there and shares none."""
    assert landing.nodes == {"web-new": "node3"}
    assert landing.choice("web-new") == {"node1", "node2", "node3"}


@example("topology-spread/no-rescheduling.yaml")
def test_running_pods_stay(landing: ExamplePlacements) -> None:
    """Newcomers fill the empty zones; the crowded one stays crowded."""
    assert landing.nodes == {"foo-4": "node2", "foo-5": "node3"}
    assert landing.choice("foo-4") == {"node2", "node3"}
    spread = spreads(landing.simulation)[0]
    assert (spread.counts, spread.skew, spread.ok) == ({"zone1": 3, "zone2": 1, "zone3": 1}, 2, False)


@example("topology-spread/across-applications.yaml")
def test_across_applications(landing: ExamplePlacements) -> None:
    """The group is what the selector says, whoever owns the pods."""
    assert landing.nodes_of("StatefulSet/shop") == ["node1", "node2"]
    assert landing.choice("blog-0") == {"node3"}
    assert landing.choice("blog-1") == {"node1", "node2", "node3"}


@example("topology-spread/zones-even-nodes-apart.yaml")
def test_zones_even_and_nodes_apart(landing: ExamplePlacements) -> None:
    """A spread constraint over zones and anti-affinity on nodes work together."""
    assert landing.nodes_of("StatefulSet/foo") == ["node1a", "node2a", "node1b", "node2b"]
    assert landing.choice("foo-3") == {"node2b"}
    assert landing.left == {"foo-4"}


@example("topology-spread/two-constraints.yaml")
def test_two_constraints(landing: ExamplePlacements) -> None:
    """The hard one is kept, the soft one ranks what is left."""
    assert landing.nodes_of("StatefulSet/foo") == ["node1a", "node2a", "node1b", "node2b"]
    assert landing.choice("foo-3") == {"node2a", "node2b"}
    assert landing.best("foo-3") == {"node2b"}


@example("topology-spread/min-domains.yaml", "clusters/third-zone.yaml")
def test_min_domains(landing: ExamplePlacements) -> None:
    """A third pod waits until there is a third zone, and goes there."""
    assert landing.nodes == {"foo-0": "node1", "foo-1": "node2"}
    assert landing.left == {"foo-2"}
    assert landing.beside("clusters/third-zone.yaml").nodes == {
        "foo-0": "node1",
        "foo-1": "node2",
        "foo-2": "node3",
    }


@example("topology-spread/match-label-keys.yaml")
def test_match_label_keys(landing: ExamplePlacements) -> None:
    """Pods of an old revision do not count for the new one."""
    assert landing.zones_of("Deployment/web") == {"zone1": 1, "zone2": 1, "zone3": 1}


@example("topology-spread/default-spreading.yaml")
def test_default_spreading(landing: ExamplePlacements) -> None:
    """A Deployment behind a Service is spread by default, and large nodes attract only without that."""
    assert landing.zones_of("Deployment/web") == {"zone1": 2, "zone2": 2, "zone3": 2}
    assert len(set(landing.nodes_of("Deployment/web"))) == 6
    assert landing.best("unowned") == {"node1a", "node1b"}
    without = landing.under(Options(defaulting_type="List"))
    assert without.zones_of("Deployment/web") == {"zone1": 6}


# --- execution time ----------------------------------------------------------------------------


@example("execution-time/node-affinity.yaml")
def test_node_affinity_at_execution_time(landing: ExamplePlacements) -> None:
    """The rule counts for scheduling, unless its feature is off."""
    assert landing.nodes == {"app": "node-b"}
    assert landing.choice("app") == {"node-b"}
    off = Options(gates=FeatureGates(node_affinity_eviction=False))
    assert landing.under(off).choice("app") == {"node-a", "node-b", "node-c"}


@example("execution-time/node-affinity-annotation.yaml")
def test_node_affinity_in_the_annotation(landing: ExamplePlacements) -> None:
    """The annotation means the same as the field, in YAML and in JSON."""
    assert landing.nodes == {"app": "node-b", "app-json": "node-b"}
    assert landing.choice("app") == landing.choice("app-json") == {"node-b"}


@example("execution-time/both-required-kinds.yaml")
def test_both_required_kinds(landing: ExamplePlacements) -> None:
    """Both kinds of required node affinity must hold."""
    assert landing.nodes == {"app": "node-b-ssd"}
    assert landing.choice("app") == {"node-b-ssd"}


@example("execution-time/label-removed.yaml", "clusters/certified-node.yaml")
def test_label_removed(landing: ExamplePlacements) -> None:
    """The old pod's rule is broken, and the new pod waits for a node with the label."""
    assert landing.broken("app-old") == ["NodeAffinity"]
    assert landing.left == {"app-new"}
    assert landing.beside("clusters/certified-node.yaml").nodes == {"app-new": "node-new"}


@example("execution-time/daemon-set.yaml")
def test_daemon_set(landing: ExamplePlacements) -> None:
    """Pods are made for the nodes with the label only."""
    assert landing.nodes == {"agent-node-a": "node-a", "agent-node-c": "node-c"}
    assert landing.left == set()


@example("execution-time/dedicated-nodes-before.yaml")
def test_dedicated_nodes_before(landing: ExamplePlacements) -> None:
    """Both tenants use the shared nodes."""
    assert landing.nodes_of("StatefulSet/tenant-a") == ["shared-1", "shared-2"]
    assert landing.nodes_of("StatefulSet/tenant-b") == ["shared-1", "shared-2"]


@example("execution-time/dedicated-nodes-after.yaml")
def test_dedicated_nodes_after(landing: ExamplePlacements) -> None:
    """Tenant B moves to its own nodes, tenant A keeps the old ones."""
    assert landing.nodes == {"tenant-a-2": "old-1", "tenant-b-0": "new-1"}
    assert landing.choice("tenant-a-2") == {"old-1", "old-2"}
    assert landing.choice("tenant-b-0") == {"new-1", "new-2"}
    assert landing.broken("tenant-b-1") == ["NodeAffinity"]


@example("execution-time/pod-affinity.yaml")
def test_pod_affinity_at_execution_time(landing: ExamplePlacements) -> None:
    """S1 goes only where S2 still runs, and the S1 pod that lost its S2 is found out."""
    assert landing.nodes == {"s1-new": "node-a"}
    assert landing.choice("s1-new") == {"node-a"}
    assert landing.broken("s1-old") == ["InterPodAffinity"]


@example("execution-time/pod-anti-affinity.yaml")
def test_pod_anti_affinity_at_execution_time(landing: ExamplePlacements) -> None:
    """The rule keeps both sides apart, and the pod whose rule is broken is the one with the rule."""
    assert landing.nodes == {"calm-new": "node-b", "noisy-new": "node-c"}
    assert landing.choice("calm-new") == {"node-b", "node-c"}
    assert landing.choice("noisy-new") == {"node-c"}
    assert landing.broken("calm-old") == ["InterPodAffinity"]


@example("execution-time/audit.yaml")
def test_audit(landing: ExamplePlacements) -> None:
    """What breaks which rule, what is uneven, who would go, and what stops it."""
    found = audit(landing.simulation.snapshot)
    broken = {(v.entry.name, v.finding.rule, v.finding.execution, v.hard) for v in found.violations}
    assert broken == {
        ("web-0", "NodeAffinity", True, True),
        ("web-1", "NodeAffinity", True, True),
        ("quiet", "InterPodAffinity", False, True),
        ("noisy", "InterPodAffinity", False, True),
        ("tool", "NodeUnschedulable", False, False),
    }
    assert [(spread.owner, spread.counts) for spread in found.spreads] == [
        ("StatefulSet/web", {"a": 2, "b": 0})
    ]
    assert {(eviction.entry.owner, eviction.lands_on) for eviction in found.evictions} == {
        ("StatefulSet/web", "n2")
    }
    assert [[budget.name for budget in eviction.stopped_by] for eviction in found.evictions] == [[], ["web"]]


# --- all of them ---------------------------------------------------------------------------------

FILES = sorted(str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*") if path.is_file())
GUIDE = ROOT / "docs" / "examples.md"


def run(command: str) -> Outcome:
    """A command of the documentation, whose paths start at the root of the repository."""
    words = shlex.split(command)
    assert words.pop(0) == "berth"
    return berth(*(ROOT / word if word.startswith("examples/") else word for word in words))


def test_every_example_is_asserted() -> None:
    """An example without a test, or a test without its example, is a mistake."""
    assert {file for file in FILES if not file.startswith("fleet/")} == SHOWN


@pytest.mark.parametrize("file", FILES)
def test_comment_says_what_to_run(file: str) -> None:
    """Two to five lines of comment; the command in them works as it stands."""
    text = (EXAMPLES / file).read_text()
    comment = text[: text.index("\napiVersion")].splitlines()
    assert all(line.startswith("# ") for line in comment)
    assert 2 <= len(comment) <= 5
    (command,) = [line.removeprefix("# Run:") for line in comment if line.startswith("# Run:")]
    assert f"examples/{file}" in command
    assert "# Expect: " in text
    outcome = run(command)
    assert (outcome.code in (0, 1), outcome.err) == (True, "")


@pytest.mark.parametrize("file", FILES)
def test_the_guide_lists_every_example(file: str) -> None:
    """docs/examples.md links to each file once."""
    assert GUIDE.read_text().count(f"](../examples/{file})") == 1


BLOCKS = re.findall(r"```\n\$ (berth .*)\n((?:.*\n)*?)```\n", GUIDE.read_text())


@pytest.mark.parametrize(("command", "shown"), BLOCKS, ids=[command for command, _ in BLOCKS])
def test_the_guide_shows_real_output(command: str, shown: str) -> None:
    """What the guide shows is what the command prints."""
    assert run(command).out == shown


def test_examples_are_plain_manifests() -> None:
    """Any YAML reader understands them, and every object has kind and name."""
    for file in FILES:
        for document in yaml.safe_load_all((EXAMPLES / file).read_text()):
            for item in document.get("items", [document]):
                assert item["kind"]
                assert item["metadata"]["name"]
