"""Kinds read from protobuf give what their JSON form would have given."""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth.server.protobuf import decode
from tests.server.protobuf.encoding import Message, envelope, field, message, meta, number, text
from tests.server.protobuf.examples import DEPLOYMENT, DEPLOYMENT_JSON

_REVIEW = "authorization.k8s.io/v1"
_CRD = "apiextensions.k8s.io/v1"


def decoded(api_version: str, kind: str, body: Message | bytes) -> dict[str, Any]:
    """An object without the names of its kind."""
    obj = decode(envelope(api_version, kind, body))
    assert (obj.pop("apiVersion"), obj.pop("kind")) == (api_version, kind)
    return obj


def test_deployment() -> None:
    """Affinity, spreading, tolerations, probes and volumes; zeros as the rules of JSON have them."""
    assert decode(envelope("apps/v1", "Deployment", DEPLOYMENT)) == DEPLOYMENT_JSON


@pytest.mark.parametrize(
    ("api_version", "kind", "body", "expected"),
    [
        (
            "v1",
            "Secret",
            {1: meta("s"), 2: {"key": b"\xff\x00", "none": b""}, 3: "Opaque", 5: False},
            {
                "metadata": {"name": "s"},
                "data": {"key": "/wA=", "none": ""},
                "type": "Opaque",
                "immutable": False,
            },
        ),
        (
            "v1",
            "ConfigMap",
            {2: {"a": "b"}, 3: {"bin": b"\x01"}},
            {"data": {"a": "b"}, "binaryData": {"bin": "AQ=="}},
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            {1: meta("pdb"), 2: {1: number(0), 2: {}, 3: text("50%")}},
            {
                "metadata": {"name": "pdb"},
                "spec": {"minAvailable": 0, "selector": {}, "maxUnavailable": "50%"},
            },
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            {3: {1: 0, 2: {"web-0": {1: 1_700_000_000, 2: 5}, "web-1": {}}, 3: 0, 4: 2, 5: 0, 6: 0}},
            {
                "status": {
                    "disruptedPods": {"web-0": "2023-11-14T22:13:20Z"},
                    "disruptionsAllowed": 0,
                    "currentHealthy": 2,
                    "desiredHealthy": 0,
                    "expectedPods": 0,
                }
            },
        ),
        (
            "policy/v1",
            "Eviction",
            {1: meta("web-0", namespace="default"), 2: {1: 0, 2: {1: "u"}, 5: ["All"]}},
            {
                "metadata": {"name": "web-0", "namespace": "default"},
                "deleteOptions": {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}, "dryRun": ["All"]},
            },
        ),
        (
            _REVIEW,
            "SelfSubjectAccessReview",
            {1: meta(""), 2: {1: {1: "default", 2: "create", 3: "", 5: "pods"}}, 3: {1: 0, 2: "", 3: ""}},
            {
                "spec": {
                    "resourceAttributes": {"namespace": "default", "verb": "create", "resource": "pods"}
                },
                "status": {"allowed": False},
            },
        ),
        (
            _REVIEW,
            "SubjectAccessReview",
            {2: {3: "me", 4: ["a"], 5: {"scopes": {1: ["x", "y"]}, "none": {}}}},
            {"spec": {"user": "me", "groups": ["a"], "extra": {"scopes": ["x", "y"], "none": []}}},
        ),
        (
            "coordination.k8s.io/v1",
            "Lease",
            {2: {1: "", 2: 15, 3: {1: 0, 2: 0}, 4: {1: 1_700_000_000, 2: 123_456_789}, 5: 0}},
            {
                "spec": {
                    "holderIdentity": "",
                    "leaseDurationSeconds": 15,
                    "acquireTime": "1970-01-01T00:00:00.000000Z",
                    "renewTime": "2023-11-14T22:13:20.123456Z",
                    "leaseTransitions": 0,
                }
            },
        ),
        (
            "autoscaling/v1",
            "Scale",
            {1: meta("web"), 2: {1: 3}, 3: {1: 0, 2: ""}},
            {"metadata": {"name": "web"}, "spec": {"replicas": 3}, "status": {"replicas": 0}},
        ),
        (
            "scheduling.k8s.io/v1",
            "PriorityClass",
            {1: meta("low"), 2: 0, 3: 0, 4: "", 5: "Never"},
            {"metadata": {"name": "low"}, "value": 0, "preemptionPolicy": "Never"},
        ),
        (
            "scheduling.k8s.io/v1alpha2",
            "PodGroup",
            {1: meta("g"), 2: {1: {1: {1: "w", 2: "t"}}, 2: {2: {1: 3}}, 5: "Pod"}, 3: {}},
            {
                "metadata": {"name": "g"},
                "spec": {
                    "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
                    "schedulingPolicy": {"gang": {"minCount": 3}},
                    "disruptionMode": "Pod",
                },
            },
        ),
        (
            "v1",
            "Binding",
            {1: meta("p"), 2: {1: "Node", 2: "", 3: "n"}},
            {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}},
        ),
        (
            "v1",
            "Pod",
            {2: {34: [{1: {1: "debug", 16: True}, 2: "c"}]}, 3: {5: "10.0.0.1", 6: "10.1.0.1"}},
            {
                "spec": {
                    "ephemeralContainers": [{"name": "debug", "stdin": True, "targetContainerName": "c"}]
                },
                "status": {"hostIP": "10.0.0.1", "podIP": "10.1.0.1"},
            },
        ),
        (
            "v1",
            "Service",
            {2: {1: [{1: "", 2: "TCP", 3: 80, 4: number(0)}], 3: "None", 20: False}},
            {
                "spec": {
                    "ports": [{"protocol": "TCP", "port": 80}],
                    "clusterIP": "None",
                    "allocateLoadBalancerNodePorts": False,
                }
            },
        ),
        (
            "apps/v1",
            "ControllerRevision",
            {2: {1: b'{"spec":{}}'}, 3: 0},
            {"data": {"spec": {}}, "revision": 0},
        ),
        (
            "networking.k8s.io/v1",
            "NetworkPolicy",
            {2: {1: {}, 2: [{}]}},
            {"spec": {"podSelector": {}, "ingress": [{}]}},
        ),
    ],
)
def test_kinds(api_version: str, kind: str, body: Message, expected: dict[str, Any]) -> None:
    """A protobuf body decodes to what its JSON form would be, zeros and empties included."""
    assert decoded(api_version, kind, body) == expected


def test_json_schema() -> None:
    """The types of a custom resource, with the places that are a schema, a list or a truth value."""
    schema = {
        5: "object",
        3: "",
        8: {1: b'{"a":[]}'},
        9: 1.5,
        11: -2.0,
        20: [{1: b'"x"'}, {1: b"0"}, {}],
        24: {1: {5: "string"}},
        28: {},
        29: {"any": {38: True}, "port": {40: True, 37: True}},
        30: {1: 0},
        32: {"a": {2: ["b"]}, "c": {1: {}}},
        33: {1: 1},
        42: "map",
        44: [{1: "self > 0", 2: ""}],
    }
    body = {2: {1: "example.com", 7: [{1: "v1", 2: True, 3: False, 4: {1: schema}, 5: {1: {}}}]}}
    spec = decoded(_CRD, "CustomResourceDefinition", body)["spec"]
    assert spec["versions"] == [
        {
            "name": "v1",
            "served": True,
            "storage": False,
            "subresources": {"status": {}},
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "$ref": "",
                    "default": {"a": []},
                    "maximum": 1.5,
                    "minimum": -2,
                    "enum": ["x", 0, None],
                    "items": {"type": "string"},
                    "not": {},
                    "properties": {
                        "any": {"x-kubernetes-preserve-unknown-fields": True},
                        "port": {"x-kubernetes-int-or-string": True, "nullable": True},
                    },
                    "additionalProperties": False,
                    "dependencies": {"a": ["b"], "c": {}},
                    "additionalItems": True,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-validations": [{"rule": "self > 0"}],
                }
            },
        }
    ]


@pytest.mark.parametrize("value", [False, 0, "", {}, []])
def test_default_may_be_zero(value: object) -> None:
    """What stands in a schema is a value of its own, however empty."""
    body = {2: {7: [{4: {1: {8: {1: json.dumps(value)}}}}]}}
    version = decoded(_CRD, "CustomResourceDefinition", body)["spec"]["versions"][0]
    found = version["schema"]["openAPIV3Schema"]["default"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("api_version", ["v1", "apps/v1", "meta.k8s.io/v1", "stable.example.com/v1"])
def test_delete_options(api_version: str) -> None:
    """Every group version has them."""
    body: Message = {1: 0, 3: False, 4: "Foreground"}
    assert decoded(api_version, "DeleteOptions", body) == {
        "gracePeriodSeconds": 0,
        "orphanDependents": False,
        "propagationPolicy": "Foreground",
    }


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ({}, None),
        ({1: 0, 2: 0}, "1970-01-01T00:00:00Z"),
        ({1: -1, 2: 0}, "1969-12-31T23:59:59Z"),
        ({1: 1_700_000_000, 2: 999_999_999}, "2023-11-14T22:13:20Z"),
        ({1: -62_000_000_000}, "0005-04-19T09:46:40Z"),
        ({1: 253_402_300_799}, "9999-12-31T23:59:59Z"),
    ],
)
def test_time(stamp: Message, expected: str | None) -> None:
    """Times are written as RFC 3339 in seconds; an empty one is left out."""
    metadata = decoded("v1", "Pod", {1: {1: "p", 8: stamp, 9: stamp}})["metadata"]
    assert metadata.get("creationTimestamp") == metadata.get("deletionTimestamp") == expected
    assert (None in metadata.values()) is False


def test_managed_fields() -> None:
    """managedFields decode with time and field set as JSON."""
    entry = {1: "kubectl", 2: "Update", 3: "v1", 4: {1: 60}, 6: "FieldsV1", 7: {1: b'{"f:data":{}}'}, 8: ""}
    assert decoded("v1", "ConfigMap", {1: {17: [entry]}})["metadata"]["managedFields"] == [
        {
            "manager": "kubectl",
            "operation": "Update",
            "apiVersion": "v1",
            "time": "1970-01-01T00:01:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {}},
        }
    ]


def test_numbers() -> None:
    """Negative ones take ten bytes; more than 32 bits are cut, as Go cuts them."""
    pod = decoded("v1", "Pod", {2: {4: -(2**63), 25: -5}})
    assert pod["spec"] == {"terminationGracePeriodSeconds": -(2**63), "priority": -5}
    assert decoded("v1", "Pod", {2: {25: 2**32 + 7}})["spec"] == {"priority": 7}


def test_packed() -> None:
    """A list of numbers may be one run of bytes."""
    context = field(4, b"\x01\xac\x02") + field(4, 3)
    assert decoded("v1", "Pod", {2: {14: context}})["spec"]["securityContext"] == {
        "supplementalGroups": [1, 300, 3]
    }


def test_unknown_fields_are_skipped() -> None:
    """Unknown fields of every wire type are skipped."""
    group = b"\xf3\x3f" + field(1, 5) + b"\x0b\x0c" + field(2, "x") + b"\xf4\x3f"  # with one inside
    extra = field(999, "x") + field(998, 5) + field(997, 1.5) + b"\xad\x3e1234" + group
    body = extra + field(1, extra + field(1, "p") + extra) + extra
    assert decoded("v1", "Pod", body) == {"metadata": {"name": "p"}}


def test_parts_add_up() -> None:
    """A message in two parts is one; of a value the last counts, and a map may leave out what is empty."""
    parts = [{1: "a", 11: {"x": "1"}}, {1: "b", 11: {"y": "2"}}, message({11: [{1: "k"}, {2: "v"}, {}]})]
    assert decoded("v1", "Pod", {1: parts})["metadata"] == {
        "name": "b",
        "labels": {"x": "1", "y": "2", "k": "", "": ""},
    }
    assert decoded("v1", "Pod", {1: [{1: "a"}, {1: "", 3: "n"}]})["metadata"] == {"namespace": "n"}
