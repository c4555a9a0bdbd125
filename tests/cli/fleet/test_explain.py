"""`berth fleet explain`: every cluster with its reasons, what is broken, and what would help."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli.command import Outcome, berth
from tests.support.cli.fleet_manifests import CLUSTERS, apart, binding, cluster, deployment, policy

GROUP = [policy(placement=apart()), *(deployment(name, ha="x") for name in "abc")]


@pytest.fixture
def explain(tmp_path: Path) -> Any:
    file = tmp_path / "all.yaml"

    def run(name: str, *objects: object, flags: str = "") -> Outcome:
        file.write_text(yaml.safe_dump_all(objects))
        return berth("fleet", "explain", name, "-f", file, *flags.split())

    return run


def test_what_fits_nowhere(explain: Any) -> None:
    """Each cluster with the peer that has it, and the rule without which it would fit."""
    assert explain("deployment/c", *CLUSTERS, *GROUP) == Outcome(
        1,
        """\
Binding shop/c-deployment (Deployment/c, by PropagationPolicy shop/p)
0/2 clusters are available: 2 cluster already has workload with the same anti-affinity group \
(shop/a-deployment, shop/b-deployment).

CLUSTER   REGION   RULE                   WHY
m1        eu       WorkloadAntiAffinity   cluster already has workload with the same anti-affinity group \
(shop/a-deployment)
m2        eu       WorkloadAntiAffinity   cluster already has workload with the same anti-affinity group \
(shop/b-deployment)

What would help:
  - without the anti-affinity group ha=x it would fit on 2 clusters and go to m1
""",
        "",
    )


def test_what_fits(explain: Any) -> None:
    """Score, room and replicas of the clusters that do, reasons of the others; those before it are placed."""
    assert explain("b-deployment", *CLUSTERS, *GROUP) == Outcome(
        0,
        """\
Binding shop/b-deployment (Deployment/b, by PropagationPolicy shop/p)
It goes to m2:1.

CLUSTER   REGION   SCORE   ROOM   SELECTED   REPLICAS
m2        eu       0       10     yes        1

CLUSTER   REGION   RULE                   WHY
m1        eu       WorkloadAntiAffinity   cluster already has workload with the same anti-affinity group \
(shop/a-deployment)
""",
        "",
    )


def test_what_is_broken_now(explain: Any) -> None:
    """A binding that is where it may not be: exit code 1."""
    groups = {"workloadAffinityGroups": {"antiAffinityGroup": "ha=x"}}
    both = [binding(name, {"m1": 1}, **groups) for name in "ab"]
    outcome = explain("a-deployment", *CLUSTERS, *both)
    assert outcome.code == 1
    assert (
        "Broken now:\n  - m1: cluster already has workload with the same anti-affinity group (shop/b"
        in outcome.out
    )


def test_for_programs(explain: Any) -> None:
    """JSON and YAML say the state, the rejections and the relaxations."""
    outcome = explain("c-deployment", *CLUSTERS, *GROUP, flags="-o json")
    document = json.loads(outcome.out)
    assert (document["kind"], document["binding"], document["state"], document["reason"]) == (
        "FleetExplanation",
        "c-deployment",
        "DoesNotFit",
        "NoClusterFit",
    )
    assert [entry["rejections"][0]["rule"] for entry in document["clusters"]] == ["WorkloadAntiAffinity"] * 2
    assert document["relaxations"] == [
        {
            "sentence": "without the anti-affinity group ha=x it would fit on 2 clusters and go to m1",
            "change": "without the anti-affinity group ha=x",
            "clusters": ["m1"],
            "feasible": 2,
        }
    ]
    assert yaml.safe_load(explain("c-deployment", *CLUSTERS, *GROUP, flags="-o yaml").out) == document


def test_terms_that_were_tried(explain: Any) -> None:
    """Of several cluster affinities each says why it failed."""
    terms = [
        {"affinityName": "own", "clusterNames": ["m9"]},
        {"affinityName": "cloud", "clusterNames": ["m1"]},
    ]
    outcome = explain(
        "a-deployment", *CLUSTERS, policy(placement={"clusterAffinities": terms}), deployment("a")
    )
    assert outcome.code == 0
    assert "  affinity own: 0/2 clusters are available" in outcome.out
    assert "  affinity cloud: this one was taken" in outcome.out


def test_when_nothing_helps(explain: Any) -> None:
    """Explain says so when no single change would help."""
    outcome = explain("a-deployment", cluster("m1", status=None), policy(), deployment("a"))
    assert outcome.code == 1
    assert outcome.out.endswith("No single change that Berth knows to try would help.\n")


def test_many_clusters_share_lines(explain: Any) -> None:
    """Those that are refused for the same reasons, unless -o wide asks for every one."""
    many = [cluster(f"m{i:02}") for i in range(60)]
    only = policy(placement={"clusterAffinity": {"clusterNames": ["m00"]}})
    short = explain("deploy/a", *many, only, deployment("a")).out
    assert "m01, m02, m03 and 56 more" in short
    assert "(59 clusters; -o wide lists every one)" in short
    assert "\nm42 " in explain("deploy/a", *many, only, deployment("a"), flags="-o wide").out


@pytest.mark.parametrize(
    ("name", "flags", "told"),
    [
        ("d-deployment", "", "there is no binding d-deployment (there is: shop/"),
        ("deployment/aa", "", "there is no binding deployment/aa (there is: deployment/"),
        ("a-deployment", "-n other", "there is no binding a-deployment in namespace other"),
    ],
)
def test_a_binding_that_is_not_there(explain: Any, name: str, flags: str, told: str) -> None:
    """The nearest names are shown."""
    outcome = explain(name, *CLUSTERS, *GROUP, flags=flags)
    assert outcome.code == 2
    assert outcome.err.startswith(f"error: {told}")


def test_one_name_in_two_namespaces(explain: Any) -> None:
    """A name that is in several namespaces needs -n."""
    other = deployment("a")
    other["metadata"]["namespace"] = "zoo"
    elsewhere = policy()
    elsewhere["metadata"]["namespace"] = "zoo"
    objects = (*CLUSTERS, policy(), elsewhere, deployment("a"), other)
    assert explain("a-deployment", *objects).err == (
        "error: a-deployment is in several namespaces (shop, zoo); say which with -n\n"
    )
    assert explain("a-deployment", *objects, flags="-n zoo").out.startswith("Binding zoo/a-deployment")
