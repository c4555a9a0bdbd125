"""Unknown fields, wrong types and pruning."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from berth.kube.schema import Schema, SchemaRegistry
from tests.support.manifests.api_objects import PROPERTY, configurations, deployment, pod

SCHEMAS = SchemaRegistry()


def schema_of(kind: str, group: str = "") -> Schema:
    found = SCHEMAS.for_kind(group, "v1", kind)
    assert found is not None
    return found


POD = schema_of("Pod")


def into(value: str) -> str:
    """How the decoder's complaint about a value begins."""
    return f"json: cannot unmarshal {value} into Go struct field "


def test_valid_object_has_no_findings() -> None:
    """A manifest with a bit of everything conforms and is not copied when pruned."""
    obj = pod()
    assert POD.conforms(obj)
    assert (POD.unknown_fields(obj), POD.type_error(obj)) == ([], None)
    assert obj is POD.prune(obj)


def test_unknown_fields_are_named_by_path() -> None:
    """Unknown fields are found by path, and pruning removes just them."""
    obj = pod()
    obj["spec"]["containers"][0]["imagee"] = "x"
    obj["spec"]["Affinity"] = {}
    obj["bogus"] = 1
    assert POD.unknown_fields(obj) == ["spec.containers[0].imagee", "spec.Affinity", "bogus"]
    pruned = POD.prune(obj)
    assert pod() == pruned
    assert "imagee" in obj["spec"]["containers"][0], "the object itself is left alone"


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        (
            {"containers": [{"name": "c", "image": 3}]},
            "spec.containers[0].image",
            into("number") + "Container.spec.containers.image of type string",
        ),
        (
            {"priority": 1.5},
            "spec.priority",
            into("number 1.5") + "PodSpec.spec.priority of type int32",
        ),
        (
            {"priority": 2**31},
            "spec.priority",
            into("number 2147483648") + "PodSpec.spec.priority of type int32",
        ),
        (
            {"priority": True},
            "spec.priority",
            into("bool") + "PodSpec.spec.priority of type int32",
        ),
        (
            {"affinity": []},
            "spec.affinity",
            into("array") + "PodSpec.spec.affinity of type v1.Affinity",
        ),
        (
            {"containers": {}},
            "spec.containers",
            into("object") + "PodSpec.spec.containers of type []v1.Container",
        ),
        (
            {"nodeSelector": {"a": 1}},
            "spec.nodeSelector.a",
            into("number") + "PodSpec.spec.nodeSelector of type string",
        ),
        (
            {"hostNetwork": "yes"},
            "spec.hostNetwork",
            into("string") + "PodSpec.spec.hostNetwork of type bool",
        ),
        (
            {"overhead": {"cpu": "much"}},
            "spec.overhead.cpu",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ],
)
def test_wrong_types_are_told_as_by_the_decoder(change: dict[str, Any], path: str, message: str) -> None:
    """A value of the wrong type is reported by path, in the words of Go's decoder."""
    obj = pod()
    obj["spec"] |= change
    assert (path, message) == POD.type_error(obj)


@pytest.mark.parametrize(
    ("value", "fine"),
    [
        ("2026-01-02T03:04:05Z", True),
        ("2026-01-02T03:04:05.678+02:00", True),
        ("2026-13-02T03:04:05Z", False),
        ("yesterday", False),
        (17, False),
        (None, True),
    ],
)
def test_times(value: object, fine: bool) -> None:
    """A time is RFC 3339 or null."""
    assert fine == POD.conforms({"metadata": {"creationTimestamp": value}})


@pytest.mark.parametrize(
    ("value", "fine"), [("YQ==", True), ("YQ", False), ("*", False), (1, False), ("", True)]
)
def test_bytes(value: object, fine: bool) -> None:
    """Bytes are padded base64."""
    assert fine == schema_of("Secret").conforms({"data": {"a": value}})


@pytest.mark.parametrize(("value", "fine"), [(1, True), ("50%", True), (True, False), (1.5, False)])
def test_int_or_string(value: object, fine: bool) -> None:
    """An int-or-string is an integer or a string, and no bool or float."""
    budget = schema_of("PodDisruptionBudget", "policy")
    assert fine == budget.conforms({"spec": {"minAvailable": value}})
    assert fine == (not budget.type_error({"spec": {"minAvailable": value}}))


def test_null_counts_as_absent() -> None:
    """Go's decoder leaves a field alone when it reads null."""
    assert POD.conforms({"spec": {"affinity": None, "containers": [None], "priority": None}})


@PROPERTY
@given(configurations)
def test_generated_configurations_conform(config: dict[str, Any]) -> None:
    """The strategy the patch tests use makes valid objects."""
    schema = schema_of("Deployment", "apps")
    before = copy.deepcopy(config)
    assert schema.conforms(config)
    assert before == schema.prune(config)


def test_deployment_templates_are_checked_too() -> None:
    """Unknown fields inside a pod template are found."""
    obj = deployment()
    obj["spec"]["template"]["spec"]["containers"][0]["resources"] = {"request": {}}
    assert schema_of("Deployment", "apps").unknown_fields(obj) == [
        "spec.template.spec.containers[0].resources.request"
    ]
