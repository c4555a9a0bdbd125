"""Tables: headings, rows, and what is beside them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.server.registry.kinds import STRATEGIES
from berth.server.tables import Column, table_head
from tests.server.registry.kinds.rendering import render_table
from tests.support.manifests.api_objects import PROPERTY

NOW = 600.0
CREATED = "1970-01-01T00:00:00Z"


def columns(kind: str) -> tuple[Column, ...]:
    return next(each.columns for each in STRATEGIES if each.resource.kind == kind)


def shown(kind: str, *, wide: bool = False, **fields: Any) -> dict[str, Any]:
    """The cells of one object by heading."""
    obj = {"metadata": {"name": "x", "creationTimestamp": CREATED, **fields.pop("metadata", {})}, **fields}
    table = render_table(columns(kind), [obj], NOW)
    return {
        heading["name"]: cell
        for heading, cell in zip(table["columnDefinitions"], table["rows"][0]["cells"], strict=True)
        if wide or not heading["priority"]
    }


TEMPLATE = {"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "j"}]}}
SELECTOR = {
    "matchLabels": {"b": "1"},
    "matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}],
}


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        (
            "Deployment",
            {"spec": {"replicas": 3}, "status": {"readyReplicas": 2, "updatedReplicas": 1}},
            {"Name": "x", "Ready": "2/3", "Up-to-date": 1, "Available": 0, "Age": "10m"},
        ),
        (
            "ReplicaSet",
            {"spec": {"replicas": 3}, "status": {"replicas": 2}},
            {"Name": "x", "Desired": 3, "Current": 2, "Ready": 0, "Age": "10m"},
        ),
        ("StatefulSet", {"spec": {"replicas": 1}}, {"Name": "x", "Ready": "0/1", "Age": "10m"}),
        (
            "DaemonSet",
            {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}, "status": {"numberReady": 4}},
            {
                "Name": "x",
                "Desired": 0,
                "Current": 0,
                "Ready": 4,
                "Up-to-date": 0,
                "Available": 0,
                "Node Selector": "a=b",
                "Age": "10m",
            },
        ),
        (
            "Job",
            {
                "spec": {"completions": 2},
                "status": {
                    "succeeded": 2,
                    "startTime": CREATED,
                    "completionTime": "1970-01-01T00:00:30Z",
                    "conditions": [{"type": "Complete", "status": "True"}],
                },
            },
            {"Name": "x", "Status": "Complete", "Completions": "2/2", "Duration": "30s", "Age": "10m"},
        ),
        (
            "CronJob",
            {"spec": {"schedule": "@daily"}},
            {
                "Name": "x",
                "Schedule": "@daily",
                "Timezone": "<none>",
                "Suspend": "False",
                "Active": 0,
                "Last Schedule": "<none>",
                "Age": "10m",
            },
        ),
        (
            "PodDisruptionBudget",
            {"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}},
            {
                "Name": "x",
                "Min Available": "50%",
                "Max Unavailable": "N/A",
                "Allowed Disruptions": 1,
                "Age": "10m",
            },
        ),
        (
            "Node",
            {
                "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "db"}},
                "spec": {"unschedulable": True},
                "status": {
                    "conditions": [{"type": "Ready", "status": "False"}],
                    "nodeInfo": {"kubeletVersion": "v1"},
                },
            },
            {
                "Name": "x",
                "Status": "NotReady,SchedulingDisabled",
                "Roles": "db,worker",
                "Age": "10m",
                "Version": "v1",
            },
        ),
        ("Namespace", {"status": {"phase": "Active"}}, {"Name": "x", "Status": "Active", "Age": "10m"}),
        (
            "Service",
            {
                "spec": {
                    "type": "LoadBalancer",
                    "clusterIPs": ["10.0.0.1"],
                    "ports": [{"port": 80, "nodePort": 30000}],
                }
            },
            {
                "Name": "x",
                "Type": "LoadBalancer",
                "Cluster-IP": "10.0.0.1",
                "External-IP": "<pending>",
                "Port(s)": "80:30000/TCP",
                "Age": "10m",
            },
        ),
        (
            "Event",
            {
                "type": "Normal",
                "reason": "Scheduled",
                "message": " done\n",
                "involvedObject": {"kind": "Pod", "name": "p"},
                "lastTimestamp": "1970-01-01T00:09:00Z",
            },
            {
                "Last Seen": "60s",
                "Type": "Normal",
                "Reason": "Scheduled",
                "Object": "pod/p",
                "Message": "done",
            },
        ),
        (
            "PriorityClass",
            {"value": 5},
            {"Name": "x", "Value": 5, "Global-Default": False, "Age": "10m", "PreemptionPolicy": ""},
        ),
        ("Lease", {"spec": {"holderIdentity": "me"}}, {"Name": "x", "Holder": "me", "Age": "10m"}),
        ("ConfigMap", {"data": {"a": ""}, "binaryData": {"b": ""}}, {"Name": "x", "Data": 2, "Age": "10m"}),
        (
            "Secret",
            {"type": "Opaque", "data": {"a": ""}},
            {"Name": "x", "Type": "Opaque", "Data": 1, "Age": "10m"},
        ),
        ("ServiceAccount", {}, {"Name": "x", "Age": "10m"}),
        ("CustomResourceDefinition", {}, {"Name": "x", "Created At": CREATED}),
        (
            "Endpoints",
            {"subsets": [{"addresses": [{"ip": f"10.0.0.{n}"} for n in range(5)], "ports": [{"port": 1}]}]},
            {"Name": "x", "Endpoints": "10.0.0.0:1,10.0.0.1:1,10.0.0.2:1 + 2 more...", "Age": "10m"},
        ),
    ],
)
def test_columns_are_those_of_kubernetes(kind: str, fields: dict[str, Any], expected: dict[str, Any]) -> None:
    """Each kind's table has the columns and cells of Kubernetes."""
    assert expected == shown(kind, **fields)


def test_wide_columns_of_workloads() -> None:
    """Wide output of workloads shows containers, images and selector."""
    held = shown("Deployment", wide=True, spec={"template": TEMPLATE, "selector": SELECTOR})
    assert tuple(held[name] for name in ("Containers", "Images", "Selector")) == (
        "a,b",
        "i,j",
        "a in (x,y),b=1",
    )
    assert shown("ReplicationController", wide=True, spec={"selector": {"a": "b"}})["Selector"] == "a=b"


def test_what_comes_with_a_row() -> None:
    """kubectl needs the metadata to know what it shows; others want the object or nothing."""
    obj = {"metadata": {"name": "x"}, "spec": {}}
    pods = columns("Pod")
    (row,) = render_table(pods, [obj], NOW)["rows"]
    assert (row["object"]["kind"], row["object"]["metadata"]) == ("PartialObjectMetadata", {"name": "x"})
    assert render_table(pods, [obj], NOW, "Object")["rows"][0]["object"] is obj
    assert "object" not in render_table(pods, [obj], NOW, "None")["rows"][0]
    listed = table_head(pods, {"resourceVersion": "5"}, headers=False)
    assert (listed["metadata"], listed["columnDefinitions"]) == ({"resourceVersion": "5"}, None)


_NAMES = [
    *("accessModes", "addresses", "annotations", "claimRef", "conditions", "containerStatuses", "containers"),
    *("creationTimestamp", "hard", "ingress", "initContainerStatuses", "initContainers", "labels"),
    *("loadBalancer", "matchExpressions", "metadata", "name", "operator", "ownerReferences", "parameters"),
    *("podIPs", "ports", "readinessGates", "restartCount", "selector", "spec", "state", "status", "subjects"),
    *("subsets", "template", "terminated", "type", "values", "waiting"),
]
_anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(["Ready", "True", "1970-01-01T00:00:00Z"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=5),
    max_leaves=30,
)


@PROPERTY
@given(
    st.sampled_from([each.columns for each in STRATEGIES]),
    st.dictionaries(st.sampled_from(_NAMES), _anything),
)
def test_no_object_breaks_a_table(shown: tuple[Column, ...], obj: dict[str, Any]) -> None:
    """Cells are made from whatever is there; nonsense makes odd cells, never an error."""
    assert len(render_table(shown, [obj, {}], NOW)["rows"]) == 2
