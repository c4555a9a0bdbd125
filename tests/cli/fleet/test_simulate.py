"""`berth fleet simulate`: clusters, policies and workloads in, clusters and replicas out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.builders import REQUIRED
from tests.support.cli.command import Outcome, berth
from tests.support.cli.fleet_manifests import CLUSTERS, apart, binding, cluster, deployment, policy


@pytest.fixture
def simulate(tmp_path: Path) -> Any:
    file = tmp_path / "all.yaml"

    def run(*objects: object, flags: str = "") -> Outcome:
        file.write_text(yaml.safe_dump_all(objects))
        outcome = berth("fleet", "simulate", "-f", file, *flags.split())
        return Outcome(outcome.code, outcome.out, outcome.err.replace(f"{file}: ", "FILE: "))

    return run


def placed(outcome: Outcome) -> dict[str, dict[str, int]]:
    """Workload -> cluster -> replicas, of -o json."""
    return {
        entry["resource"]["name"]: {target["name"]: target["replicas"] for target in entry["clusters"]}
        for entry in json.loads(outcome.out)["workloads"]
    }


NO_SUMMARY = "status.resourceSummary is missing, so that it has no room for divided replicas"
NO_CLUSTER = "spec.clusters names gone, but there is no such cluster"


def test_policies_place_workloads(simulate: Any) -> None:
    """Two of a group are kept apart, the third finds no cluster left."""
    three = [deployment(name, ha="x") for name in "abc"]
    outcome = simulate(*CLUSTERS, policy(placement=apart()), *three)
    assert outcome == Outcome(
        1,
        """\
NAMESPACE   WORKLOAD       REPLICAS   CLUSTERS
shop        Deployment/a   1          m1:1
shop        Deployment/b   1          m2:1
shop        Deployment/c   1          <none>

CLUSTER   REGION   WORKLOADS
m1        eu       +Deployment/a
m2        eu       +Deployment/b
(+ placed now)

2 of 3 workloads placed. Not placed:
  shop/c-deployment: 0/2 clusters are available: 2 cluster already has workload with the same anti-affinity \
group (shop/a-deployment, shop/b-deployment).
""",
        "",
    )


def test_all_placed_is_exit_code_0(simulate: Any) -> None:
    """-o wide has the binding, the policy and the priority as well."""
    outcome = simulate(*CLUSTERS, policy(), deployment("a", 3), flags="-o wide")
    assert outcome.code == 0
    assert "a-deployment   PropagationPolicy shop/p   0" in outcome.out
    assert outcome.out.endswith("All of 1 workload placed.\n")


def test_replicas_are_divided(simulate: Any) -> None:
    """Divided workloads share the room, and what one takes the next does not get."""
    scheduling = {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    }
    divided = policy(placement={"replicaScheduling": scheduling})
    outcome = simulate(*CLUSTERS, divided, deployment("a", 10), deployment("b", 6), flags="-o json")
    assert placed(outcome) == {"a": {"m1": 5, "m2": 5}, "b": {"m1": 3, "m2": 3}}
    full = simulate(*CLUSTERS, divided, deployment("a", 16), deployment("b", 6), flags="-o json")
    assert placed(full) == {"a": {"m1": 8, "m2": 8}, "b": {}}, "a has taken the room"


def test_any_kind_can_be_placed(simulate: Any) -> None:
    """A kind that Berth knows nothing of, and a cluster's own policy."""
    thing = {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "shop"}}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "shop"}}
    clusters = [
        cluster("m1"),
        cluster(
            "m2", status={"apiEnablements": [{"groupVersion": "x.io/v1", "resources": [{"kind": "Thing"}]}]}
        ),
    ]
    for_all = {
        **policy(),
        "kind": "ClusterPropagationPolicy",
        "metadata": {"name": "all"},
        "spec": {
            "resourceSelectors": [
                {"apiVersion": "x.io/v1", "kind": "Thing"},
                {"apiVersion": "v1", "kind": "ConfigMap"},
            ],
            "placement": {},
        },
    }
    outcome = simulate(*clusters, for_all, thing, config, flags="-o json")
    assert placed(outcome) == {"t": {"m2": 0}, "c": {"m1": 0}}
    assert {entry["policy"] for entry in json.loads(outcome.out)["workloads"]} == {
        "ClusterPropagationPolicy all"
    }


def test_bindings_are_taken_as_they_are(simulate: Any) -> None:
    """One with clusters stays there and counts; its workload, if it is there, gives it labels."""
    there = binding("a", {"m1": 1})
    outcome = simulate(
        *CLUSTERS, there, policy(placement=apart()), deployment("a", ha="x"), deployment("b", ha="x")
    )
    assert "Deployment/a   1          m1:1 (as before)" in outcome.out
    assert "Deployment/b   1          m" in outcome.out
    rules = {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {"matchLabels": {"app": "a"}}}]
    }
    keep_off = policy(placement={"workloadAntiAffinity": rules})
    outcome = simulate(*CLUSTERS, there, keep_off, deployment("a", app="a"), deployment("b"), flags="-o json")
    assert placed(outcome) == {"a": {"m1": 1}, "b": {"m2": 1}}


def test_priority_goes_first(simulate: Any) -> None:
    """A workload with a higher priority is placed first; a missing class is bad input."""
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "u"},
        "value": 9,
    }
    first = policy(
        "first",
        resourceSelectors=[{"apiVersion": "apps/v1", "kind": "Deployment", "name": "late"}],
        placement=apart(),
        schedulePriority={"priorityClassSource": "KubePriorityClass", "priorityClassName": "u"},
    )
    objects = [
        cluster("m1"),
        policy(placement=apart()),
        first,
        deployment("early", ha="x"),
        deployment("late", ha="x"),
    ]
    assert placed(simulate(*objects, urgent, flags="-o json")) == {"early": {}, "late": {"m1": 1}}
    outcome = simulate(*objects)
    told = "FILE: PropagationPolicy shop/first: spec.schedulePriority.priorityClassName: "
    assert (outcome.code, outcome.err) == (2, f"error: {told}there is no PriorityClass u\n")


def test_namespaces_can_be_chosen(simulate: Any) -> None:
    """What is elsewhere is placed nevertheless."""
    outcome = simulate(*CLUSTERS, policy(), deployment("a"), flags="-n other")
    assert (outcome.code, "Deployment/a" in outcome.out) == (0, False)


def test_rules_by_the_labels_of_the_flags(simulate: Any) -> None:
    """affinityEnabled has no meaning without the flag that says what to compare."""
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [{"affinityEnabled": True}]}
    by_flag = policy(placement={**apart(), "workloadAffinity": {}, "workloadAntiAffinity": rules})
    objects = (*CLUSTERS, by_flag, deployment("a", ha="x"), deployment("b", ha="x"))
    assert placed(simulate(*objects, flags="-o json --anti-affinity-label-keys ha")) == {
        "a": {"m1": 1},
        "b": {"m2": 1},
    }
    without = simulate(*objects)
    assert without.code == 1
    assert "affinityEnabled is set, but the scheduler has no --anti-affinity-label-keys" in without.out


# --- what is odd, and what is wrong --------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        (
            {"workloadAntiAffinity": {REQUIRED: [{"affinityEnabled": True}]}},
            "the workload has no label other.example.com/set or x",
        ),
        (
            {"workloadAntiAffinity": {REQUIRED: [{"labelSelector": {}, "matchLabelKeys": ["team"]}]}},
            "the workload has no label team",
        ),
        ({"workloadAntiAffinity": {REQUIRED: [{"matchLabelKeys": ["app"]}]}}, "it has no labelSelector"),
        (
            {"workloadAffinity": {"antiAffinity": {"groupByLabelKey": "team"}}},
            "the workload has no label team",
        ),
    ],
)
def test_a_rule_that_selects_nobody_is_noted(simulate: Any, rules: Any, why: str) -> None:
    """Labels that a flag or a rule names and a workload has not are ignored, but not in silence."""
    objects = [*CLUSTERS, policy(placement=rules), deployment("a")]
    outcome = simulate(*objects, flags="--anti-affinity-label-keys other.example.com/set,x")
    ignored = f"its required anti-affinity keeps it from nobody: {why}"
    assert outcome.err.splitlines() == [f"note: Deployment shop/a: {ignored}"]
    assert outcome.code == 0


@pytest.mark.parametrize(
    ("objects", "notes"),
    [
        (
            [*CLUSTERS, policy(kind="ConfigMap")],
            ["FILE: PropagationPolicy shop/p: spec.resourceSelectors select nothing that is here"],
        ),
        (
            [*CLUSTERS, deployment("a")],
            ["FILE: Deployment shop/a: no policy selects it, so that it is placed nowhere"],
        ),
        (
            [*CLUSTERS, binding("a", {"gone": 1})],
            [f"FILE: ResourceBinding shop/a-deployment: {NO_CLUSTER}"],
        ),
        ([binding("a", {})], ["there is no Cluster (cluster.karmada.io/v1alpha1) in the input"]),
        (
            [
                cluster("m1", spec={}),
                policy(
                    placement={
                        "spreadConstraints": [
                            {"spreadByField": "region", "minGroups": 1},
                            {"spreadByField": "cluster", "minGroups": 1},
                        ]
                    }
                ),
                deployment("a"),
            ],
            ["FILE: Cluster m1: spec.region is missing, but workloads are spread by it"],
        ),
        (
            [
                cluster("m1", status={"apiEnablements": cluster("m1")["status"]["apiEnablements"]}),
                policy(
                    placement={
                        "replicaScheduling": {
                            "replicaSchedulingType": "Divided",
                            "replicaDivisionPreference": "Aggregated",
                        }
                    }
                ),
                deployment("a"),
            ],
            [f"FILE: Cluster m1: {NO_SUMMARY}"],
        ),
        (
            [cluster("m1", status=None), policy(), deployment("a")],
            ["FILE: Cluster m1: status.apiEnablements is empty, so that nothing can be placed there"],
        ),
    ],
)
def test_what_will_not_work_is_noted(simulate: Any, objects: list[object], notes: list[str]) -> None:
    """On stderr and in the document; the rest goes on."""
    outcome = simulate(*objects, flags="-o json")
    assert outcome.code in (0, 1)
    assert outcome.err.splitlines() == [f"note: {note}" for note in notes]
    assert len(json.loads(outcome.out)["notes"]) == len(notes)


@pytest.mark.parametrize(
    ("objects", "told"),
    [
        (
            [
                policy(
                    placement={
                        "workloadAffinity": {
                            "affinity": {"groupByLabelKey": "a"},
                            "antiAffinity": {"groupByLabelKey": "a"},
                        }
                    }
                )
            ],
            "FILE: PropagationPolicy shop/p: spec.placement.workloadAffinity: Invalid value: ",
        ),
        (
            [policy(placement=apart("a b"))],
            "FILE: PropagationPolicy shop/p: spec.placement.workloadAffinity.antiAffinity.groupByLabelKey: ",
        ),
        (
            [policy(placement={"spreadConstraints": 5})],
            "FILE: PropagationPolicy shop/p: spec.placement.spreadConstraints: expected a list, got 5",
        ),
        ([cluster("m1"), cluster("m1")], "Cluster m1 is there twice: in FILE"),
        (
            [cluster("m1", status={"resourceSummary": {"allocatable": {"cpu": "1x"}}})],
            'FILE: Cluster m1: status.resourceSummary.allocatable[cpu]: "1x" is not a quantity',
        ),
        ([cluster("m1", spec={"zone": "a", "zones": ["b"]})], "FILE: Cluster m1: spec.zone: Forbidden"),
        (
            [{**binding("a", {}), "spec": {}}],
            "FILE: ResourceBinding shop/a-deployment: spec.resource.apiVersion is missing",
        ),
        (
            [{"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {}}],
            "Thing: metadata.name is missing",
        ),
        (
            [{**deployment("a"), "spec": 5}],
            "FILE: Deployment shop/a: spec: expected a mapping, got 5",
        ),
    ],
)
def test_bad_input_is_refused_in_a_sentence(simulate: Any, objects: list[object], told: str) -> None:
    """Bad input is refused in a sentence with file, object and field, and with exit code 2."""
    outcome = simulate(*objects)
    assert (outcome.code, outcome.out) == (2, "")
    assert told.replace("FILE", "") in outcome.err.replace("FILE", "")
    assert "unexpected" not in outcome.err


def test_files_or_a_server() -> None:
    """Files and a kubeconfig together are refused."""
    outcome = berth("fleet", "simulate", "-f", "x", "--kubeconfig", "y")
    assert outcome.code == 2
    assert "give one of them" in outcome.err


EXAMPLES = Path(__file__).parents[3] / "examples" / "fleet"


def test_a_misspelt_annotation_is_told(tmp_path: Path) -> None:
    """A policy's rules under a name that nothing reads are warned about, refused, and found by lint."""
    flink, misspelt = EXAMPLES / "ha-flink-deployment-annotation.yaml", tmp_path / "flink.yaml"
    misspelt.write_text(flink.read_text().replace("workload-affinity", "workload-afinity"))
    place = "PropagationPolicy user-namespace/ha-flink-deployment: metadata.annotations"
    told = (
        f"{place}[berth.dev/workload-afinity]: unknown annotation; did you mean berth.dev/workload-affinity?"
    )
    command = ("fleet", "simulate", "-f", str(EXAMPLES / "clusters.yaml"), "-f", str(misspelt))
    assert f"warning: {misspelt}: {told}\n" in berth(*command).err
    assert berth(*command, "--validate=strict") == Outcome(2, "", f"error: {misspelt}: {told}\n")
    assert told not in berth(*command, "--validate=ignore").err
    linted = berth("lint", "-f", str(misspelt))
    assert linted.code == 1
    assert "BERTH005" in linted.out
    assert "BERTH005" not in berth("lint", "-f", str(flink)).out
