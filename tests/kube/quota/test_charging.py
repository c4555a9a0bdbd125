"""What quotas are charged, one change at a time, is what counting everything comes to."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.kube.objects import RawObject
from berth.kube.quota.charging import QuotaError, change, charged, check_room, check_stated, counted, is_about
from berth.kube.quota.usage import PODS, QuotaEvaluator, evaluator_of

NOW = 1_800_000_000.0
AMOUNTS = st.sampled_from(["1", "250m", "0", "1500m", "3"])
SCOPES = st.sampled_from(
    [
        [],
        ["BestEffort"],
        ["NotBestEffort"],
        ["Terminating"],
        ["NotTerminating", "NotBestEffort"],
        ["CrossNamespacePodAffinity"],
    ]
)


@st.composite
def pods(draw: st.DrawFn) -> RawObject:
    requests = draw(st.dictionaries(st.sampled_from(["cpu", "memory", "example.com/gpu"]), AMOUNTS))
    spec: RawObject = {"containers": [{"name": "c", "resources": {"requests": requests, "limits": requests}}]}
    if draw(st.booleans()):
        spec["activeDeadlineSeconds"] = 10
    if draw(st.booleans()):
        spec["overhead"] = {"cpu": draw(AMOUNTS)}
    phase = draw(st.sampled_from(["Pending", "Running", "Succeeded"]))
    return {"metadata": {"name": "p"}, "spec": spec, "status": {"phase": phase}}


def quota(hard: RawObject, scopes: list[str] | None = None) -> RawObject:
    return {"metadata": {"name": "q"}, "spec": {"hard": hard, "scopes": scopes or []}}


def ready(obj: RawObject, items: list[RawObject] | None = None) -> RawObject:
    contents: dict[QuotaEvaluator, list[Any]] = {PODS: [PODS.look(item) for item in items or ()]}
    return {**obj, "status": counted(obj, contents, NOW) or obj["status"]}


@given(scopes=SCOPES, changes=st.lists(st.tuples(st.integers(0, 3), st.none() | pods()), max_size=12))
def test_charges_add_up(scopes: list[str], changes: list[tuple[int, RawObject | None]]) -> None:
    """Whatever pods come, change and go: what is charged step by step is what is there in the end."""
    hard = {"pods": "9", "count/pods": "9", "cpu": "9", "limits.memory": "9", "requests.example.com/gpu": "9"}
    kept = ready(quota(hard, scopes))
    there: dict[int, RawObject] = {}
    for place, pod in changes:
        before, after = (PODS.look(each) if each else None for each in (there.get(place), pod))
        status = charged(kept, change(kept, PODS, before, after, NOW))
        if status is not None:
            kept = {**kept, "status": status}
        if pod is None:
            there.pop(place, None)
        else:
            there[place] = pod
    contents: dict[QuotaEvaluator, list[Any]] = {PODS: [PODS.look(pod) for pod in there.values()]}
    assert counted(kept, contents, NOW) is None


def test_pods_that_should_be_gone_are_not_charged() -> None:
    """A pod that is held up in its deletion uses nothing after its time, though it is there."""
    metadata = {
        "name": "p",
        "deletionTimestamp": "2027-01-15T07:59:00Z",  # a minute before now
        "deletionGracePeriodSeconds": 30,
    }
    held = {"metadata": metadata, "spec": {"containers": []}}
    assert ready(quota({"pods": "1", "count/pods": "1"}), [held])["status"]["used"] == {
        "count/pods": "1",
        "pods": "0",
    }
    metadata["deletionGracePeriodSeconds"] = 90
    assert ready(quota({"pods": "1"}), [held])["status"]["used"] == {"pods": "1"}


def test_resized_pods_are_charged_for_the_most() -> None:
    """While a pod is resized, what it asks for, was allocated or has counts, whichever is more."""
    status = {
        "containerStatuses": [
            {
                "name": "c",
                "resources": {"requests": {"cpu": "2"}},
                "allocatedResources": {"cpu": "1", "memory": "1Gi"},
            }
        ]
    }
    container = {"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "2Gi"}}}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container]}, "status": status}
    assert ready(quota({"cpu": "9", "memory": "9Gi"}), [pod])["status"]["used"] == {
        "cpu": "2",
        "memory": "2Gi",
    }


def test_nothing_is_let_in_before_it_is_counted() -> None:
    """A quota of which nobody knows what is used refuses, in upstream's words."""
    uncounted = {**quota({"pods": "1"}), "status": {"hard": {"pods": "1"}}}
    with pytest.raises(QuotaError, match="status unknown for quota: q, resources: pods"):
        check_stated(uncounted, PODS, PODS.look({"metadata": {"name": "p"}, "spec": {"containers": []}}))


def test_what_is_over_already_only_refuses_more() -> None:
    """A quota that was lowered below what is used lets in what needs none of it."""
    full = {**quota({"cpu": "1"}), "status": {"hard": {"cpu": "1"}, "used": {"cpu": "2"}}}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    check_room(full, change(full, PODS, None, PODS.look(pod), NOW))


def test_devices_are_charged_for_the_most_a_claim_may_get() -> None:
    """Of alternatives the largest of each class counts, and all devices are 32."""
    claims = evaluator_of("resource.k8s.io", "resourceclaims")
    assert claims is not None
    either = [
        {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
        {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 5},
        {"deviceClassName": "fpga"},
    ]
    requests = [{"firstAvailable": either}, {"exactly": {"deviceClassName": "fpga", "allocationMode": "All"}}]
    usage = claims.usage(claims.look({"spec": {"devices": {"requests": requests}}}), NOW)
    assert {name: str(amount) for name, amount in usage.items()} == {
        "count/resourceclaims.resource.k8s.io": "1",
        "gpu.deviceclass.resource.k8s.io/devices": "5",
        "fpga.deviceclass.resource.k8s.io/devices": "33",
    }


def test_rules_of_the_annotation_are_in_scope() -> None:
    """Affinity to pods of other namespaces counts wherever it is written; what cannot be read does not."""
    term = {"topologyKey": "z", "labelSelector": {}, "namespaces": ["other"]}
    rules = json.dumps({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    quota = {"spec": {"scopes": ["CrossNamespacePodAffinity"]}}
    for text, is_meant in ((rules, True), ("{}", False), ("[", False)):
        metadata = {"name": "p", "annotations": {"berth.dev/affinity": text}}
        seen = PODS.look({"metadata": metadata, "spec": {"containers": []}})
        assert is_about(quota, PODS, seen) is is_meant
