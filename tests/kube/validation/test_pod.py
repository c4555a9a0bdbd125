"""Pods the API server would refuse, and where it says so: what the recorded cases do not cover."""

from __future__ import annotations

import json
import time

import pytest

from berth.kube.affinity.annotations import AFFINITY_ANNOTATION
from berth.kube.defaults import created
from berth.kube.gates import FeatureGates
from berth.kube.validation.errors import FieldError
from berth.kube.validation.objects import validate_pod
from tests.kube import written
from tests.support.builders import EXECUTION, REQUIRED


def errors(spec: str = "", metadata: str = "") -> list[str]:
    return [str(error) for error in validate_pod(created(written.pod(spec, metadata)))]


def containers(*listed: str) -> str:
    named = (f"{{name: c{i}, image: x, {text}}}" for i, text in enumerate(listed))
    return f"containers: [{', '.join(named)}]"


def test_a_plain_pod_is_valid() -> None:
    """Name, namespace, a container with an image: nothing else is needed."""
    assert errors() == []


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ("name: null", ["metadata.name: Required value: name or generateName is required"]),
        ("namespace: null", ["metadata.namespace: Required value"]),
        ("generateName: web-", []),
        ("annotations: {Example.COM/Key: x}", []),
        (
            "annotations: {kubernetes.io/config.mirror: x}",
            ["metadata.annotations[kubernetes.io/config.mirror]"],
        ),
        ("annotations: {controller.kubernetes.io/pod-deletion-cost: '-07'}", []),
        ("annotations: {controller.kubernetes.io/pod-deletion-cost: '+7'}", ["pod-deletion-cost]: Invalid"]),
        (
            "annotations: {controller.kubernetes.io/pod-deletion-cost: '99999999999'}",
            ["must be a 32bit integer"],
        ),
        ("ownerReferences: [{kind: A, name: b, uid: u}]", ['ownerReferences.apiVersion: Invalid value: ""']),
        ("ownerReferences: [{apiVersion: a/b/c, kind: A, name: b, uid: u}]", ["version must not be empty"]),
        (
            "ownerReferences: [{apiVersion: v1, kind: Event, name: b, uid: u}]",
            ["disallowed from being an owner"],
        ),
        (
            (
                "ownerReferences: [{apiVersion: v1, kind: A, name: a, uid: u, controller: true},"
                " {apiVersion: v1, kind: B, name: b, uid: v, controller: true}]"
            ),
            ['Found "true" in references for A/a and B/b'],
        ),
    ],
)
def test_metadata(metadata: str, expected: list[str]) -> None:
    """Names, owners and the annotations that Kubernetes reads are checked."""
    given = written.value(metadata)
    found = errors("", json.dumps(given))
    assert len(found) == len(expected)
    for error, part in zip(found, expected, strict=True):
        assert part in error


def test_annotations_have_a_size_limit() -> None:
    """Keys and values may have 256 KiB together, counted in bytes."""
    fits = {"annotations": {"a": "é" * (128 * 1024 - 1)}}
    assert errors("", json.dumps(fits)) == []
    too_much = {"annotations": {"a": "é" * (128 * 1024)}}
    assert errors("", json.dumps(too_much)) == [
        "metadata.annotations: Too long: may not be more than 262144 bytes"
    ]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ("{requests: {cpu: 1x}}", 'requests[cpu]: Invalid value: "1x": "1x" is not a quantity: '),
        ("{limits: {cpu: -1}}", 'limits[cpu]: Invalid value: "-1": must be greater than or equal to 0'),
        ("{requests: {cpu: 2}, limits: {cpu: 1500m}}", "must be less than or equal to cpu limit of 1500m"),
        ("{requests: {a.com/x: 1}, limits: {a.com/x: 2}}", "must be equal to a.com/x limit of 2"),
        ("{requests: {a.com/x: 1}}", "limits: Required value: Limit must be set for non overcommitable"),
        ("{limits: {a.com/x: 500m}}", "must be an integer"),
        ("{limits: {requests.a.com/x: 1}}", "doesn't follow extended resource name standard"),
        (
            "{limits: {pods: 1}}",
            'limits[pods]: Invalid value: "pods": must be a standard resource for containers',
        ),
        ("{limits: {hugepages-2Mi: 3Mi, cpu: 1}}", "3Mi is not positive integer multiple of hugepages-2Mi"),
        ("{limits: {hugepages-x: 4Mi, cpu: 1}}", "4Mi is not positive integer multiple of hugepages-x"),
        ("{limits: {hugepages-100E: 4Mi, cpu: 1}}", "4Mi is not positive integer multiple of hugepages-100E"),
        ("{limits: {hugepages-2Mi: 4Mi}}", "resources: Forbidden: HugePages require cpu or memory"),
    ],
)
def test_resources_of_a_container(resources: str, expected: str) -> None:
    """Names, amounts and requests against limits are checked."""
    assert any(expected in error for error in errors(containers(f"resources: {resources}")))


@pytest.mark.parametrize(
    ("resources", "inner", "expected"),
    [
        ("{limits: {cpu: 2}}", ["{}"], []),
        ("{limits: {storage: 2}}", ["{}"], ['spec.resources.limits[storage]: Unsupported value: "storage"']),
        (
            "{requests: {cpu: 1}}",
            ["{requests: {cpu: 600m}}", "{requests: {cpu: 0.6}}"],
            ['Invalid value: "1": must be greater than or equal to aggregate container requests of 1200m'],
        ),
        (
            "{limits: {cpu: 1}}",
            ["{limits: {cpu: 2}, requests: {cpu: 1}}"],
            ['spec.resources.containers[0][cpu].limits: Invalid value: "2": must be less than'],
        ),
        (
            "{limits: {hugepages-2Mi: 2Mi, cpu: 4}}",
            ["{limits: {hugepages-2Mi: 2Mi, cpu: 1}}", "{limits: {hugepages-2Mi: 2Mi, cpu: 1}}"],
            [
                'requests[hugepages-2Mi]: Invalid value: "2Mi": must be greater than or equal to aggregate',
                "must be greater than or equal to aggregate container limits of 4Mi",
            ],
        ),
    ],
)
def test_resources_of_the_pod(resources: str, inner: list[str], expected: list[str]) -> None:
    """Alone, and against what its containers ask for."""
    listed = containers(*(f"resources: {text}" for text in inner))
    found = errors(f"{{resources: {resources}, {listed}}}")
    assert len(found) == len(expected)
    for error, part in zip(found, expected, strict=True):
        assert part in error


def test_overhead_is_checked_like_limits() -> None:
    """Overhead is checked like limits and reported under its own path."""
    assert errors("overhead: {cpu: -1}") == [
        'spec.overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0'
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            containers("ports: [{containerPort: 80, name: a--b}]"),
            'ports[0].name: Invalid value: "a--b": must not contain',
        ),
        (
            containers("ports: [{containerPort: 80, protocol: ICMP}]"),
            'supported values: "SCTP", "TCP", "UDP"',
        ),
        (containers("ports: [{}]"), "spec.containers[0].ports[0].containerPort: Required value"),
        (
            containers("ports: [{containerPort: 80, name: a}, {containerPort: 81, name: a}]"),
            'spec.containers[0].ports[1].name: Duplicate value: "a"',
        ),
        (
            containers(
                "ports: [{containerPort: 80, hostPort: 80}]", "ports: [{containerPort: 8, hostPort: 80}]"
            ),
            'spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//80"',
        ),
        (
            "containers: [{name: c, image: ' x'}]",
            'image: Invalid value: " x": must not have leading or trailing whitespace',
        ),
        (
            "initContainers: [{name: c, image: 'x '}]",
            'spec.initContainers[0].image: Invalid value: "x ": must not have leading or trailing whitespace',
        ),
        ("initContainers: [{name: main, image: x}]", 'spec.initContainers[0].name: Duplicate value: "main"'),
        (
            "initContainers: [{name: a, image: x, restartPolicy: Sometimes}]",
            'restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "Never", "OnFailure"',
        ),
        (
            (
                "initContainers: [{name: a, image: x}, {name: b, image: x, ports: "
                "[{containerPort: 1, hostPort: 1}, {containerPort: 2, hostPort: 1}]}]"
            ),
            'spec.initContainers[0].ports[1].hostPort: Duplicate value: "TCP//1"',
        ),
        ("restartPolicy: Maybe", 'supported values: "Always", "OnFailure", "Never"'),
        ("preemptionPolicy: Maybe", 'supported values: "PreemptLowerPriority", "Never"'),
        ("preemptionPolicy: ''", "spec.preemptionPolicy: Required value"),
        ("nodeName: N1", "spec.nodeName: Invalid value"),
        ("priorityClassName: A", "spec.priorityClassName: Invalid value"),
        ("schedulingGates: [{name: a}, {name: a}]", 'spec.schedulingGates[1]: Duplicate value: "a"'),
        ("schedulingGates: [{}]", 'spec.schedulingGates[0]: Invalid value: "": name part must be non-empty'),
        ("{nodeName: n1, schedulingGates: [{name: a}]}", "spec.nodeName: Forbidden: cannot be set until"),
        ("volumes: [{name: a}, {name: a}]", 'spec.volumes[1].name: Duplicate value: "a"'),
        (
            "volumes: [{name: a, persistentVolumeClaim: {}}]",
            "persistentVolumeClaim.claimName: Required value",
        ),
        ("volumes: [{name: a, image: {}}]", "spec.volumes[0].image.reference: Required value"),
        ("volumes: [{}]", "spec.volumes[0].name: Required value"),
    ],
)
def test_the_rest_of_the_spec(spec: str, expected: str) -> None:
    """Containers, ports, policies, gates and volumes are checked."""
    assert any(expected in error for error in errors(spec))


@pytest.mark.parametrize("variant", [REQUIRED, EXECUTION])
def test_an_unknown_operator_is_reported_where_it_stands(variant: str) -> None:
    """Execution-time rules are held to the same conditions under their own path."""
    term = "{matchExpressions: [{key: a, operator: Near}]}"
    found = errors(f"affinity: {{nodeAffinity: {{{variant}: {{nodeSelectorTerms: [{term}]}}}}}}")
    path = f"spec.affinity.nodeAffinity.{variant}.nodeSelectorTerms[0].matchExpressions[0].operator"
    assert found == [f'{path}: Invalid value: "Near": not a valid selector operator']


@pytest.mark.parametrize("side", ["podAffinity", "podAntiAffinity"])
def test_execution_time_pod_rules_are_checked(side: str) -> None:
    """Execution-time pod rules are checked under their own path, label keys included."""
    term = "{labelSelector: {matchLabels: {a: x}}, matchLabelKeys: [a], topologyKey: -}"
    found = errors(f"affinity: {{{side}: {{{EXECUTION}: [{term}]}}}}", "labels: {a: x}")
    path = f"spec.affinity.{side}.{EXECUTION}[0]"
    assert found[0] == f'{path}[0]: Invalid value: "a": exists in both matchLabelKeys and labelSelector'
    assert found[1].startswith(f'{path}.topologyKey: Invalid value: "-": name part must consist of')


def annotated(value: object) -> str:
    return json.dumps({"annotations": {AFFINITY_ANNOTATION: json.dumps(value)}})


def test_rules_in_the_annotation_are_checked_too() -> None:
    """Errors in the annotation have its path in front."""
    found = errors("", annotated({"podAffinity": {EXECUTION: [{}]}}))
    path = f"metadata.annotations[berth.dev/affinity].podAffinity.{EXECUTION}[0].topologyKey"
    assert found[0] == f"{path}: Required value: can not be empty"
    (unreadable,) = errors("", annotated({"podAffinity": 3}))
    assert unreadable == (
        "metadata.annotations[berth.dev/affinity].podAffinity: Invalid value: 3: expected a mapping, got 3"
    )


def test_rules_of_a_disabled_gate_are_not_looked_at() -> None:
    """They have no effect, so they cannot be wrong."""
    pod = created(written.pod("", annotated({"podAffinity": {EXECUTION: [{}]}})))
    assert validate_pod(pod)
    assert validate_pod(pod, FeatureGates(pod_affinity_eviction=False)) == []


def test_an_error_is_a_value() -> None:
    """Errors are immutable and compare by content."""
    (error,) = validate_pod(created(written.pod("containers: []")))
    assert error == FieldError("spec.containers", "FieldValueRequired")


def test_validation_is_fast() -> None:
    """A small pod takes microseconds: a million of them are checked on import."""
    pod = created(
        written.pod(containers("resources: {requests: {cpu: 100m, memory: 1Gi}}"), "labels: {app: web}")
    )
    validate_pod(pod)
    start = time.perf_counter()
    for _ in range(1000):
        validate_pod(pod)
    # Ten times what it takes on a laptop: only a change of kind should fail this.
    assert (time.perf_counter() - start) / 1000 < 200e-6
