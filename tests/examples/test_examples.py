"""Every example goes where its comment says."""

from __future__ import annotations

import re
import shlex
from importlib import import_module

import pytest
import yaml

from berth.engine.offline.audit import audit
from berth.engine.state.options import Options
from berth.kube.gates import FeatureGates
from berth.kube.scheduler_configuration.model import PluginArguments
from tests.examples.shown import SHOWN, example
from tests.support.cli.command import Outcome, berth
from tests.support.cli.example_placements import EXAMPLES, ExamplePlacements
from tests.support.paths import ROOT

# --- node affinity -------------------------------------------------------------------------


@example("node-affinity/intel-or-amd.yaml")
def test_intel_or_amd(example: ExamplePlacements) -> None:
    """Two values of a requirement and two terms both mean or."""
    assert example.nodes == {"values": "intel", "terms": "amd"}
    assert example.choice("values") == example.choice("terms") == {"intel", "amd"}


@example("node-affinity/zone.yaml")
def test_in_zone_z(example: ExamplePlacements) -> None:
    """Any node of the zone will do, and none of another."""
    assert example.nodes == {"app": "node-z1"}
    assert example.choice("app") == {"node-z1", "node-z2"}
    assert example.left == {"lost"}


@example("node-affinity/operators.yaml")
def test_operators(example: ExamplePlacements) -> None:
    """Each operator chooses its nodes."""
    assert {name: example.choice(name) for name in example.nodes} == {
        "in": {"old", "new"},
        "notin": {"new", "bare"},
        "exists": {"old", "new"},
        "doesnotexist": {"bare"},
        "gt": {"new"},
        "lt": {"old"},
    }


@example("node-affinity/node-selector-and-affinity.yaml")
def test_node_selector_and_affinity(example: ExamplePlacements) -> None:
    """The pod needs a node that satisfies both."""
    assert example.nodes == {"app": "node-a-ssd"}
    assert example.choice("app") == {"node-a-ssd"}


@example("node-affinity/preferred-zone.yaml")
def test_preferred_zone(example: ExamplePlacements) -> None:
    """The preferred zone is used while there is room."""
    assert example.nodes == {"app-0": "node-b", "app-1": "node-b", "app-2": "node-a"}
    assert example.choice("app-0") == {"node-a", "node-b", "node-c"}
    assert example.best("app-2") == {"node-a", "node-c"}


@example("node-affinity/preferred-weights.yaml")
def test_preferred_weights(example: ExamplePlacements) -> None:
    """The greatest sum of weights wins: 70 of node-b, 60 of node-a, 30 of node-c."""
    assert example.nodes == {"app": "node-b"}
    assert example.points("app", "NodeAffinity") == {"node-b": 100, "node-a": 85, "node-c": 42}


@example("node-affinity/annotation-adds-rules.yaml")
def test_annotation_adds_rules(example: ExamplePlacements) -> None:
    """Rules of the annotation and of the spec must both hold."""
    assert example.nodes == {"app": "node-b-ssd"}
    assert example.choice("app") == {"node-b-ssd"}


# --- pod affinity ---------------------------------------------------------------------------


@example("pod-affinity/zone-of-service.yaml")
def test_zone_of_a_service(example: ExamplePlacements) -> None:
    """A requirement leaves only the zone with S, a preference ranks it first."""
    assert example.nodes == {"must": "node-b2", "rather": "node-b1"}
    assert example.choice("must") == {"node-b1", "node-b2"}
    assert example.points("rather", "InterPodAffinity") == {
        "node-b1": 100,
        "node-b2": 100,
        "node-a1": 0,
        "node-c1": 0,
    }


@example("pod-affinity/shared-license.yaml")
def test_shared_license(example: ExamplePlacements) -> None:
    """Pods with the same license share a node."""
    assert example.nodes == {"planner": "node-b", "renderer": "node-c"}
    assert (example.choice("planner"), example.choice("renderer")) == ({"node-b"}, {"node-c"})


@example("pod-affinity/own-service-one-zone.yaml")
def test_own_service_in_one_zone(example: ExamplePlacements) -> None:
    """The first pod goes anywhere, the others follow; who does not match itself gets no such start."""
    assert example.nodes == {"s-0": "node-a1", "s-1": "node-a2", "s-2": "node-a1"}
    assert example.choice("s-0") == {"node-a1", "node-a2", "node-b1", "node-b2"}
    assert example.choice("s-1") == example.choice("s-2") == {"node-a1", "node-a2"}
    assert example.left == {"outsider"}


@example("pod-affinity/services-together-on-node.yaml")
def test_services_together_on_a_node(example: ExamplePlacements) -> None:
    """Each S1 pod gets a node with S2 for itself, as long as there is one."""
    assert example.nodes == {"s1-0": "node-b", "s1-1": "node-d"}
    assert example.left == {"s1-2"}


@example("pod-affinity/services-together-in-zone.yaml")
def test_services_together_in_a_zone(example: ExamplePlacements) -> None:
    """The zone is required, the node preferred."""
    assert example.nodes == {"s1-0": "node-b2"}
    assert example.choice("s1-0") == {"node-b1", "node-b2"}


@example("pod-affinity/affinity-one-way.yaml")
def test_required_affinity_is_one_way(example: ExamplePlacements) -> None:
    """S2 goes where it likes, S1 follows, and without its peer a pod waits."""
    assert example.nodes == {"s2": "node-a", "s1": "node-a"}
    assert example.choice("s2") == {"node-a", "node-b"}
    assert example.choice("s1") == {"node-a"}
    assert example.left == {"alone"}


@example("pod-affinity/affinity-implied-preference.yaml")
def test_required_affinity_implies_a_preference(example: ExamplePlacements) -> None:
    """S2 is drawn to the S1 pod that requires it, unless such rules are given no weight."""
    assert example.nodes == {"s2": "node-b"}
    assert example.choice("s2") == {"node-a", "node-b", "node-c"}
    assert example.under(Options(args=PluginArguments(hard_pod_affinity_weight=0))).nodes == {"s2": "node-a"}


@example("pod-affinity/preference-both-ways.yaml")
def test_preferences_work_both_ways(example: ExamplePlacements) -> None:
    """Running pods' preferences attract and repel newcomers."""
    assert example.nodes == {"friend": "node-b", "nuisance": "node-c"}
    assert example.choice("friend") == example.choice("nuisance") == {"node-a", "node-b", "node-c"}
    assert example.points("friend", "InterPodAffinity") == {"node-a": 0, "node-b": 100, "node-c": 0}
    assert example.points("nuisance", "InterPodAffinity") == {"node-a": 0, "node-b": 0, "node-c": 100}


@example("pod-affinity/spread-required.yaml")
def test_spread_as_a_requirement(example: ExamplePlacements) -> None:
    """There is one pod a zone, and no more pods than zones."""
    assert example.zones_of("StatefulSet/s") == {"a": 1, "b": 1, "c": 1}
    assert example.choice("s-1") == {"node-b1", "node-b2", "node-c1", "node-c2"}
    assert example.left == {"s-3"}


@example("pod-affinity/spread-preferred.yaml")
def test_spread_as_a_preference(example: ExamplePlacements) -> None:
    """Replicas go to other zones first, then to other nodes, and share one in the end."""
    assert example.nodes_of("StatefulSet/s") == [
        "node-a1",
        "node-b1",
        "node-c1",
        "node-a2",
        "node-b2",
        "node-c1",
    ]
    assert example.points("s-3", "InterPodAffinity") == {
        "node-a1": 0,
        "node-a2": 100,
        "node-b1": 0,
        "node-b2": 100,
        "node-c1": 0,
    }


@example("pod-affinity/evil-service.yaml")
def test_evil_service(example: ExamplePlacements) -> None:
    """Must not is strict, try not gives in when there is no other node."""
    assert example.nodes == {"must-not": "node-c", "try-not": "node-c", "cornered": "node-a"}
    assert example.choice("must-not") == {"node-c"}
    assert example.choice("try-not") == {"node-a", "node-b", "node-c"}
    assert example.choice("cornered") == {"node-a", "node-b"}


@example("pod-affinity/exclusive-node.yaml")
def test_exclusive_node(example: ExamplePlacements) -> None:
    """An exclusive pod takes an empty node and keeps everybody else off it."""
    assert example.nodes == {"alone-0": "node-b", "alone-1": "node-c", "late": "node-a"}
    assert example.choice("alone-0") == {"node-b", "node-c"}
    assert example.choice("late") == {"node-a"}
    assert example.left == {"alone-2"}


@example("pod-affinity/exclusive-node-with-daemons.yaml")
def test_exclusive_node_with_daemons(example: ExamplePlacements) -> None:
    """Daemons neither keep an exclusive pod off nor are kept off by it, unless their namespace counts."""
    assert example.nodes == {
        "alone": "node-b",
        "log-agent-node-a": "node-a",
        "log-agent-node-b": "node-b",
    }
    assert example.choice("alone") == {"node-b"}
    assert example.under(Options(daemon_namespaces=frozenset())).left == {"alone"}


@example("pod-affinity/only-own-service.yaml")
def test_only_the_own_service(example: ExamplePlacements) -> None:
    """NotIn keeps off labelled and unlabelled strangers, but not peers."""
    assert example.nodes_of("StatefulSet/s") == ["node-c", "node-d", "node-c", "node-d"]
    assert example.choice("s-0") == example.choice("s-3") == {"node-c", "node-d"}
    assert example.choice("unlabelled") == {"node-a", "node-b"}


@example("pod-affinity/anti-affinity-both-ways.yaml")
def test_anti_affinity_is_symmetric(example: ExamplePlacements) -> None:
    """S1 is kept off S2 and S2 off S1; empty nodes and nodes with peers are fine."""
    assert example.nodes == {"s1-new": "empty-1", "s2-new": "empty-2"}
    assert example.choice("s1-new") == {"node-1", "empty-1", "empty-2"}
    assert example.choice("s2-new") == {"node-2", "empty-2"}


@example("pod-affinity/four-rules.yaml")
def test_four_rules(example: ExamplePlacements) -> None:
    """P1 and P3 decide what is feasible, P2 and P4 which of it is best."""
    assert example.nodes == {"p": "n4"}
    assert example.choice("p") == {"n3", "n4", "n5"}
    assert example.points("p", "InterPodAffinity") == {"n3": 0, "n4": 100, "n5": 0}


@example("pod-affinity/required-terms-together.yaml")
def test_required_terms_together(example: ExamplePlacements) -> None:
    """All terms must hold, by one pod that matches all of them."""
    assert example.nodes == {"near": "node-a1"}
    assert example.choice("near") == {"node-a1", "node-a4"}
    assert example.left == {"split"}


@example("pod-affinity/preferred-terms-add-up.yaml")
def test_preferred_terms_add_up(example: ExamplePlacements) -> None:
    """The weights of the terms that hold are added up: 80 for node-b, 60 for node-a."""
    assert example.nodes == {"app": "node-b"}
    assert example.points("app", "InterPodAffinity") == {"node-b": 100, "node-a": 75, "node-c": 0}


@example("pod-affinity/namespaces.yaml")
def test_namespaces(example: ExamplePlacements) -> None:
    """A term sees its own namespace, named ones, selected ones, or all."""
    assert {name: example.choice(name) for name in example.nodes} == {
        "own": {"node-a"},
        "named": {"node-b"},
        "selected": {"node-c"},
        "any": {"node-a", "node-b", "node-c"},
    }


@example("pod-affinity/crowded-out.yaml")
def test_crowded_out(example: ExamplePlacements) -> None:
    """Who comes first with anti-affinity keeps others off the nodes they want."""
    assert example.nodes == {"s1-0": "fast-1", "s1-1": "fast-2", "s2-rather": "slow"}
    assert example.choice("s2-rather") == {"slow"}
    assert example.left == {"s2-must"}


# --- execution time ----------------------------------------------------------------------------


@example("execution-time/node-affinity.yaml")
def test_node_affinity_at_execution_time(example: ExamplePlacements) -> None:
    """The rule counts for scheduling, unless its feature is off."""
    assert example.nodes == {"app": "node-b"}
    assert example.choice("app") == {"node-b"}
    off = Options(gates=FeatureGates(node_affinity_eviction=False))
    assert example.under(off).choice("app") == {"node-a", "node-b", "node-c"}


@example("execution-time/node-affinity-annotation.yaml")
def test_node_affinity_in_the_annotation(example: ExamplePlacements) -> None:
    """The annotation means the same as the field, in YAML and in JSON."""
    assert example.nodes == {"app": "node-b", "app-json": "node-b"}
    assert example.choice("app") == example.choice("app-json") == {"node-b"}


@example("execution-time/both-required-kinds.yaml")
def test_both_required_kinds(example: ExamplePlacements) -> None:
    """Both kinds of required node affinity must hold."""
    assert example.nodes == {"app": "node-b-ssd"}
    assert example.choice("app") == {"node-b-ssd"}


@example("execution-time/label-removed.yaml", "clusters/certified-node.yaml")
def test_label_removed(example: ExamplePlacements) -> None:
    """The old pod's rule is broken, and the new pod waits for a node with the label."""
    assert example.broken("app-old") == ["NodeAffinity"]
    assert example.left == {"app-new"}
    assert example.beside("clusters/certified-node.yaml").nodes == {"app-new": "node-new"}


@example("execution-time/daemon-set.yaml")
def test_daemon_set(example: ExamplePlacements) -> None:
    """Pods are made for the nodes with the label only."""
    assert example.nodes == {"agent-node-a": "node-a", "agent-node-c": "node-c"}
    assert example.left == set()


@example("execution-time/dedicated-nodes-before.yaml")
def test_dedicated_nodes_before(example: ExamplePlacements) -> None:
    """Both tenants use the shared nodes."""
    assert example.nodes_of("StatefulSet/tenant-a") == ["shared-1", "shared-2"]
    assert example.nodes_of("StatefulSet/tenant-b") == ["shared-1", "shared-2"]


@example("execution-time/dedicated-nodes-after.yaml")
def test_dedicated_nodes_after(example: ExamplePlacements) -> None:
    """Tenant B moves to its own nodes, tenant A keeps the old ones."""
    assert example.nodes == {"tenant-a-2": "old-1", "tenant-b-0": "new-1"}
    assert example.choice("tenant-a-2") == {"old-1", "old-2"}
    assert example.choice("tenant-b-0") == {"new-1", "new-2"}
    assert example.broken("tenant-b-1") == ["NodeAffinity"]


@example("execution-time/pod-affinity.yaml")
def test_pod_affinity_at_execution_time(example: ExamplePlacements) -> None:
    """S1 goes only where S2 still runs, and the S1 pod that lost its S2 is found out."""
    assert example.nodes == {"s1-new": "node-a"}
    assert example.choice("s1-new") == {"node-a"}
    assert example.broken("s1-old") == ["InterPodAffinity"]


@example("execution-time/pod-anti-affinity.yaml")
def test_pod_anti_affinity_at_execution_time(example: ExamplePlacements) -> None:
    """The rule keeps both sides apart, and the pod whose rule is broken is the one with the rule."""
    assert example.nodes == {"calm-new": "node-b", "noisy-new": "node-c"}
    assert example.choice("calm-new") == {"node-b", "node-c"}
    assert example.choice("noisy-new") == {"node-c"}
    assert example.broken("calm-old") == ["InterPodAffinity"]


@example("execution-time/audit.yaml")
def test_audit(example: ExamplePlacements) -> None:
    """What breaks which rule, what is uneven, who would go, and what stops it."""
    found = audit(example.simulation.snapshot)
    broken = {(v.pod.partition("/")[2], v.rule, v.execution, v.hard) for v in found.violations}
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
    assert {(eviction.entry.owner, eviction.replacement_node) for eviction in found.evictions} == {
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
    import_module("tests.examples.test_topology_spread")  # whose examples are among them
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
