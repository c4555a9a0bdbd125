"""Strategic merge patch: merging by key, the directives, and what kubectl really sends."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from berth.kube.schema import Schema, SchemaRegistry
from berth.server.errors import StatusError
from berth.server.patch import strategic_merge_patch
from tests.support.manifests.api_objects import PROPERTY, configurations, deployment

_SCHEMAS = SchemaRegistry()


def schema_of(group: str, kind: str) -> Schema:
    found = _SCHEMAS.for_kind(group, "v1", kind)
    assert found is not None
    return found


DEPLOYMENT = schema_of("apps", "Deployment")
POD = schema_of("", "Pod")


def patched_pod(before: dict[str, Any], patch: dict[str, Any]) -> Any:
    kept = copy.deepcopy(before)
    after = strategic_merge_patch({"spec": before}, {"spec": patch}, POD)["spec"]
    assert kept == before, "the object itself is left alone"
    return after


def names(items: list[dict[str, Any]]) -> list[str]:
    return [item["name"] for item in items]


A, B, C = ({"name": name, "image": name} for name in "abc")


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        pytest.param(
            {"containers": [A, B]},
            {"containers": [{"name": "b", "image": "x"}, C]},
            {"containers": [A, {"name": "b", "image": "x"}, C]},
            id="elements merge by key, new ones are appended",
        ),
        pytest.param(
            {"containers": [A, B]},
            {"containers": [{"name": "a", "$patch": "delete"}]},
            {"containers": [B]},
            id="an element is deleted",
        ),
        pytest.param(
            {"containers": [A, B]},
            {"containers": [C, {"$patch": "replace"}]},
            {"containers": [C]},
            id="a list is replaced",
        ),
        pytest.param(
            {"nodeSelector": {"a": "1", "b": "2"}},
            {"nodeSelector": {"a": None, "c": "3"}},
            {"nodeSelector": {"b": "2", "c": "3"}},
            id="maps merge, nulls delete",
        ),
        pytest.param(
            {"nodeSelector": {"a": "1"}},
            {"nodeSelector": {"$patch": "replace", "c": "3"}},
            {"nodeSelector": {"c": "3"}},
            id="a map is replaced",
        ),
        pytest.param(
            {"nodeSelector": {"a": "1"}, "priority": 1},
            {"nodeSelector": {"$patch": "delete"}},
            {"nodeSelector": {}, "priority": 1},
            id="a map is emptied",
        ),
        pytest.param(
            {"tolerations": [{"key": "a"}]},
            {"tolerations": [{"key": "b"}]},
            {"tolerations": [{"key": "b"}]},
            id="a list without merge key is replaced",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "emptyDir": {}}]},
            {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]},
            {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
            id="retainKeys drops the other member of a union",
        ),
        pytest.param(
            {"containers": [A, B, C]},
            {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]},
            {"containers": [B, C, A]},
            id="an order is set, others keep their place",
        ),
        pytest.param(
            {},
            {"affinity": {"nodeAffinity": None, "podAffinity": {}}},
            {"affinity": {"podAffinity": {}}},
            id="nulls in what is new mean nothing",
        ),
    ],
)
def test_merging(before: dict[str, Any], patch: dict[str, Any], after: dict[str, Any]) -> None:
    """Lists merge by key, maps by name, and every $patch directive does what it says."""
    assert after == patched_pod(before, patch)


def test_lists_of_plain_values_merge_as_sets() -> None:
    """Finalizers are added without repeating, and removed by their own directive."""
    before = {"metadata": {"finalizers": ["a", "b"]}}
    added = strategic_merge_patch(before, {"metadata": {"finalizers": ["b", "c"]}}, POD)
    assert added["metadata"]["finalizers"] == ["a", "b", "c"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "x"]}}
    assert strategic_merge_patch(before, patch, POD)["metadata"]["finalizers"] == ["b"]


def test_budget_selector_is_replaced() -> None:
    """The one struct whose patch strategy is replace."""
    before = {"spec": {"selector": {"matchLabels": {"a": "b"}}}}
    patch = {"spec": {"selector": {"matchLabels": {"c": "d"}}}}
    budget = schema_of("policy", "PodDisruptionBudget")
    assert strategic_merge_patch(before, patch, budget)["spec"]["selector"] == {"matchLabels": {"c": "d"}}


def test_set_image_as_kubectl_sends_it() -> None:
    """`kubectl set image` changes one container and keeps the order of all."""
    before = deployment()
    before["spec"]["template"]["spec"]["containers"].append({"name": "side", "image": "busybox"})
    patch = {
        "spec": {
            "template": {
                "spec": {
                    "$setElementOrder/containers": [{"name": "c"}, {"name": "side"}],
                    "containers": [{"name": "c", "image": "nginx:2"}],
                }
            }
        }
    }
    after = strategic_merge_patch(before, patch, DEPLOYMENT)["spec"]["template"]["spec"]["containers"]
    assert names(after) == ["c", "side"]
    assert after[0]["image"] == "nginx:2"
    assert after[0]["ports"] == [{"containerPort": 80}]


def test_strategy_switched_with_retain_keys() -> None:
    """$retainKeys drops the fields of the old strategy."""
    before = deployment(strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}})
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert strategic_merge_patch(before, patch, DEPLOYMENT)["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ([], 400),
        ({"spec": {"$patch": "explode"}}, 400),
        ({"spec": {"containers": [{"image": "x"}]}}, 422),
        ({"spec": {"containers": ["x"]}}, 422),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}}, 400),
        ({"spec": {"$setElementOrder/containers": "a"}}, 400),
        ({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name"], "hostPath": {}}]}}, 400),
    ],
)
def test_refusals(patch: object, code: int) -> None:
    """A strategic merge patch that makes no sense is refused with the right status."""
    with pytest.raises(StatusError) as caught:
        strategic_merge_patch({"spec": {"containers": [dict(A)]}}, patch, POD)
    assert code == caught.value.code


@PROPERTY
@given(configurations, configurations)
def test_patching_twice_changes_nothing_more(obj: dict[str, Any], patch: dict[str, Any]) -> None:
    """Applying a strategic merge patch twice is the same as once."""
    once = strategic_merge_patch(obj, patch, DEPLOYMENT)
    assert once == strategic_merge_patch(once, patch, DEPLOYMENT)


@PROPERTY
@given(configurations)
def test_patching_with_itself_changes_nothing(obj: dict[str, Any]) -> None:
    """Patching an object with itself gives the object."""
    ports = [
        port["containerPort"]
        for container in obj["spec"].get("template", {"spec": {}})["spec"].get("containers", ())
        for port in container.get("ports", ())
    ]
    # Upstream, too, merges two protocols of one port into one: its merge key is the port alone.
    if len(set(ports)) == len(ports):
        assert obj == strategic_merge_patch(obj, obj, DEPLOYMENT)


@pytest.mark.parametrize(
    ("held", "patch", "merged"),
    [
        ("ab", "c", "cab"),
        ("ab", "cb", "cab"),
        ("ab", "ba", "ba"),
        ("ab", "bca", "bca"),
        ("", "ab", "ab"),
    ],
)
def test_the_patch_gives_the_order(held: str, patch: str, merged: str) -> None:
    """What the patch names comes in its order, and what is new before what only the object has."""
    before = {"containers": [{"name": name} for name in held]}
    after = patched_pod(before, {"containers": [{"name": name} for name in patch]})
    assert names(after["containers"]) == list(merged)
    kept = {"metadata": {"finalizers": [*held]}}
    listed = strategic_merge_patch(kept, {"metadata": {"finalizers": [*patch]}}, POD)
    assert listed["metadata"]["finalizers"] == list(merged)
