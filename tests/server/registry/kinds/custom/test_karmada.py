"""Karmada's kinds: served from the start, checked and filled in as Karmada's webhooks do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.api.client import APPLY, Client, Json
from tests.support.api.objects import deployment
from tests.support.api.servers import running_server
from tests.support.builders import REQUIRED

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
POLICIES = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies"
CLUSTER_POLICIES = "/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies"
BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings"
ANNOTATION = "berth.dev/workload-affinity"
WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


def cluster(name: str, status: Json | None = None, **spec: Any) -> Json:
    body: Json = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name}}
    return {**body, "spec": spec, **({"status": status} if status else {})}


def policy(name: str, kind: str = "PropagationPolicy", **spec: Any) -> Json:
    api = "policy.karmada.io/v1alpha1"
    given = {"resourceSelectors": [WEB], **spec}
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": given}


def binding(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": name},
        "spec": {"resource": WEB, **spec},
    }


def columns(client: Client, path: str) -> list[str]:
    found = client.send("GET", path, headers=TABLE).json["columnDefinitions"]
    return [column["name"] for column in found if not column["priority"]]


# --- definitions ------------------------------------------------------------------------------------


def test_the_kinds_are_there(client: Client) -> None:
    """Karmada's kinds are served with its short names, category and columns."""
    served = client.get("/apis/work.karmada.io/v1alpha2").json["resources"]
    short = {entry["name"]: entry.get("shortNames") for entry in served}
    assert short == {
        "resourcebindings": ["rb"],
        "resourcebindings/status": None,
        "clusterresourcebindings": ["crb"],
        "clusterresourcebindings/status": None,
    }
    served = client.get("/apis/policy.karmada.io/v1alpha1").json["resources"]
    found = {entry["name"]: (entry["shortNames"], entry["categories"]) for entry in served}
    assert found == {
        "propagationpolicies": (["pp"], ["karmada-io"]),
        "clusterpropagationpolicies": (["cpp"], ["karmada-io"]),
    }
    assert columns(client, CLUSTERS) == ["Name", "VERSION", "MODE", "READY", "AGE"]
    assert columns(client, BINDINGS) == ["Name", "SCHEDULED", "FULLYAPPLIED", "AGE"]
    assert columns(client, POLICIES) == ["Name", "CONFLICT-RESOLUTION", "PRIORITY", "AGE"]


def test_definitions_are_kept_up_to_date(tmp_path: Path) -> None:
    """An older one of ours becomes the present one at the next start; one that says no is left alone."""
    name, other = "clusters.cluster.karmada.io", "resourcebindings.work.karmada.io"
    with running_server(tmp_path) as client:
        whole = client.get(f"{CRDS}/{name}").json["spec"]
        for crd in (name, other):
            client.patch(f"{CRDS}/{crd}", {"spec": {"names": {"shortNames": ["zz"]}}})
        client.patch(f"{CRDS}/{other}", {"metadata": {"annotations": {"berth.dev/autoupdate": "false"}}})
        client.made(CLUSTERS, cluster("m1"))
    with running_server(tmp_path) as client:
        assert client.get(f"{CRDS}/{name}").json["spec"] == whole
        assert client.get(f"{CRDS}/{other}").json["spec"]["names"]["shortNames"] == ["zz"]
        assert client.get(f"{CLUSTERS}/m1").status == 200


# --- clusters ---------------------------------------------------------------------------------------


def test_a_cluster_is_described_in_one_go(client: Client) -> None:
    """Nobody here finds out about it, so its status is taken with its spec, first and later."""
    status = {"kubernetesVersion": "v1.36.4", "resourceSummary": {"allocatable": {"cpu": "8"}}}
    made = client.made(CLUSTERS, cluster("c1", status, region="eu"))
    assert made["status"] == status
    later = client.patch(f"{CLUSTERS}/c1", {"status": {"kubernetesVersion": "v2"}}).json
    assert later["status"]["kubernetesVersion"] == "v2"
    assert later["metadata"]["generation"] == 1
    body = cluster("c1", {"kubernetesVersion": "v3"})
    applied = client.patch(f"{CLUSTERS}/c1", body, APPLY, fieldManager="me", force="true").json
    assert applied["status"]["kubernetesVersion"] == "v3"


def test_a_cluster_has_a_status_subresource_too(client: Client) -> None:
    """Only the subresource writes a cluster's status, and an update of the cluster keeps it."""
    client.made(CLUSTERS, cluster("c2"))
    answer = client.patch(f"{CLUSTERS}/c2/status", {"status": {"kubernetesVersion": "v1"}})
    assert answer.json["status"] == {"kubernetesVersion": "v1"}
    spec_only = client.get(f"{CLUSTERS}/c2").json
    del spec_only["status"]
    assert client.put(f"{CLUSTERS}/c2", spec_only).json["status"] == {"kubernetesVersion": "v1"}


def test_what_karmada_fills_in_for_clusters(client: Client) -> None:
    """The zone becomes zones, also when it is applied again; taints that expel get a time."""
    made = client.made(CLUSTERS, cluster("c3", zone="a", taints=[{"key": "k", "effect": "NoExecute"}]))
    assert (made["spec"]["zones"], made["spec"]["syncMode"]) == (["a"], "Push")
    assert "zone" not in made["spec"]
    assert made["spec"]["taints"][0]["timeAdded"] == made["metadata"]["creationTimestamp"]
    assert client.patch(f"{CLUSTERS}/c3", {"spec": {"zone": "b"}}).json["spec"]["zones"] == ["b"]


def test_resource_models_are_put_in_order(client: Client) -> None:
    """Sorted by grade, from nothing to no end."""

    def model(grade: int, least: str, most: str) -> Json:
        return {"grade": grade, "ranges": [{"name": "cpu", "min": least, "max": most}]}

    made = client.made(CLUSTERS, cluster("c4", resourceModels=[model(1, "2", "4"), model(0, "1", "2")]))
    ranges = [
        (m["grade"], m["ranges"][0]["min"], m["ranges"][0]["max"]) for m in made["spec"]["resourceModels"]
    ]
    assert ranges == [(0, "0", "2"), (1, "2", str(2**63 - 1))]
    gap = client.post(CLUSTERS, cluster("c5", resourceModels=[model(0, "0", "2"), model(1, "3", "4")]))
    assert "Model intervals for resources must be contiguous and non-overlapping" in gap.message


@pytest.mark.parametrize(
    ("name", "spec", "expected"),
    [
        ("a.b", {}, "metadata.name: Invalid value"),
        ("a" * 49, {}, "must be no more than 48 characters"),
        ("bad", {"zone": "a", "zones": ["b"]}, "spec.zone: Forbidden: Zone and Zones cannot co-exist"),
        ("bad", {"region": "a b"}, "spec.region: Invalid value"),
        ("bad", {"syncMode": "Throw"}, 'spec.syncMode: Unsupported value: "Throw"'),
        ("bad", {"taints": [{"key": "k", "effect": "Never"}]}, "spec.taints[0].effect: Unsupported value"),
        ("bad", {"taints": [{"key": "k", "effect": "NoExecute"}] * 2}, "spec.taints[1]: Duplicate value"),
    ],
)
def test_bad_clusters_are_refused(client: Client, name: str, spec: Json, expected: str) -> None:
    """An invalid Cluster is refused with the field and Karmada's words."""
    answer = client.post(CLUSTERS, cluster(name, **spec))
    assert answer.status == 422
    assert expected in answer.message


# --- policies ---------------------------------------------------------------------------------------


def test_what_karmada_fills_in_for_policies(client: Client) -> None:
    """A policy gets the defaults of the definition and of the webhook, and a permanent id."""
    placement = {"spreadConstraints": [{"maxGroups": 2}], "replicaScheduling": {}}
    made = client.made(POLICIES, policy("p1", placement=placement))
    spec = made["spec"]
    assert spec["resourceSelectors"] == [{**WEB, "namespace": "default"}]
    assert spec["placement"] == {
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2}],
        "replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
        },
    }
    named = ("priority", "preemption", "schedulerName", "conflictResolution")
    assert [spec[name] for name in named] == [0, "Never", "default-scheduler", "Abort"]
    assert made["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"]


def test_the_permanent_id_is_the_systems(client: Client) -> None:
    """It cannot be chosen nor changed; where it is left out it stays."""
    label = "clusterpropagationpolicy.karmada.io/permanent-id"
    body = policy("p2", "ClusterPropagationPolicy")
    body["metadata"]["labels"] = {label: "mine"}
    made = client.made(CLUSTER_POLICIES, body)
    identity = made["metadata"]["labels"][label]
    assert identity != "mine"
    answer = client.patch(f"{CLUSTER_POLICIES}/p2", {"metadata": {"labels": {label: "mine"}}})
    assert f"label {label} is immutable, it can only be set by the system during creation" in answer.message
    answer = client.patch(f"{CLUSTER_POLICIES}/p2", {"metadata": {"labels": None}})
    assert answer.json["metadata"]["labels"] == {label: identity}


def test_the_scheduler_of_a_policy_stays(client: Client) -> None:
    """The scheduler of a policy cannot be changed, which is said in Karmada's words."""
    client.made(POLICIES, policy("p3"))
    answer = client.patch(f"{POLICIES}/p3", {"spec": {"schedulerName": "berth"}})
    assert (answer.status, answer.json["details"]["causes"][0]["field"]) == (422, "spec.schedulerName")
    assert "the schedulerName should not be updated" in answer.message


def test_the_proposals_rules_are_native_fields(client: Client) -> None:
    """In all their forms; fields that nobody knows are dropped."""
    rules = {
        "workloadAffinity": {
            "antiAffinity": {"groupByLabelKey": "group"},
            REQUIRED: [{"labelSelector": {}, "matchLabelKeys": ["a"], "topologyKey": "zone"}],
        },
        "workloadAntiAffinity": {
            REQUIRED: [{"affinityEnabled": True}],
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 3, "workloadAffinityTerm": {"labelSelector": {}, "namespaces": ["shop"]}}
            ],
        },
    }
    made = client.made(POLICIES, policy("p4", placement={**rules, "nonsense": 1}))
    assert made["spec"]["placement"] == rules


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"resourceSelectors": []}, "spec.resourceSelectors: Invalid value"),
        (
            {"resourceSelectors": [{**WEB, "namespace": "shop"}]},
            "namespace of resource selector must be the same as the namespace of the policy",
        ),
        (
            {"placement": {"workloadAffinity": {"affinity": {"groupByLabelKey": "a b"}}}},
            'spec.placement.workloadAffinity.affinity.groupByLabelKey: Invalid value: "a b"',
        ),
        (
            {"placement": {"workloadAntiAffinity": {REQUIRED: [{"matchLabelKeys": ["a b"]}]}}},
            f'spec.placement.workloadAntiAffinity.{REQUIRED}[0].matchLabelKeys[0]: Invalid value: "a b"',
        ),
        (
            {"placement": {"replicaScheduling": {"replicaSchedulingType": "Halved"}}},
            'spec.placement.replicaScheduling.replicaSchedulingType: Unsupported value: "Halved"',
        ),
        (
            {"failover": {"application": {"decisionConditions": {}}}},
            "spec.propagateDeps: Invalid value: false: application failover is set",
        ),
        (
            {"suspension": {"dispatching": True, "dispatchingOnClusters": {"clusterNames": ["m1"]}}},
            "suspension dispatching cannot co-exist with dispatchingOnClusters.clusterNames",
        ),
    ],
)
def test_bad_policies_are_refused(client: Client, spec: Json, expected: str) -> None:
    """Bad policies are refused at the door, with field and reason."""
    answer = client.post(POLICIES, policy("bad", **spec))
    assert answer.status == 422
    assert expected in answer.message


# --- bindings and annotations ---------------------------------------------------------------------------


def test_bindings(client: Client) -> None:
    """A binding has a permanent id, and a status apart with whatever members report."""
    made = client.made(BINDINGS, {**binding("web-deployment"), "status": {"schedulerObservedGeneration": 1}})
    assert made["metadata"]["labels"]["resourcebinding.karmada.io/permanent-id"]
    assert "status" not in made
    report = [{"clusterName": "m1", "health": "Healthy", "status": {"anything": {"at": "all"}}}]
    answer = client.patch(f"{BINDINGS}/web-deployment/status", {"status": {"aggregatedStatus": report}})
    assert answer.json["status"] == {"aggregatedStatus": report}
    answer = client.post(
        BINDINGS, binding("bad", placement={"spreadConstraints": [{"spreadByField": "zone"}]})
    )
    assert "spec.placement.spreadConstraints: Invalid value" in answer.message


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (POLICIES, policy("annotated")),
        (BINDINGS, binding("annotated")),
        ("/apis/apps/v1/namespaces/default/deployments", deployment("annotated")),
    ],
)
def test_the_annotation_is_checked_wherever_it_counts(client: Client, path: str, body: Json) -> None:
    """The annotation is checked on a policy, on a binding, and on the workload itself."""
    rules = f"workloadAntiAffinity: {{{REQUIRED}: [{{labelSelector: {{}}, matchLabelKeys: [%s]}}]}}"
    for bad in ("workloadAntiAffinities: {}", rules % "a b", "]"):
        metadata = {**body["metadata"], "annotations": {ANNOTATION: bad}}
        answer = client.post(path, {**body, "metadata": metadata})
        assert answer.status == 422
        assert f"metadata.annotations[{ANNOTATION}]" in answer.message
    client.made(path, {**body, "metadata": {**body["metadata"], "annotations": {ANNOTATION: rules % "a"}}})
