"""Kinds that a group does not have are told once, with what is meant; all that Kubernetes has are known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from berth.cli.fleet.objects import karmada_schemas
from berth.kube.manifests.manifest import ManifestError, load
from berth.kube.manifests.unknown_names import unknown_kinds, unserved_versions
from berth.kube.schema import builtin

if TYPE_CHECKING:
    from pathlib import Path

    from berth.kube.manifests.unknown_fields import CustomSchemas


def told(
    folder: Path, *types: tuple[str | None, str], custom: CustomSchemas | None = None, wrapped: bool = True
) -> list[str]:
    """What is said about objects of some types, without the file's name."""
    objects = [
        {"kind": kind, "metadata": {"name": f"o{i}"}} | ({"apiVersion": version} if version else {})
        for i, (version, kind) in enumerate(types)
    ]
    file = folder / "k.json"
    file.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": objects} if wrapped else objects[0])
    )
    return [str(found).removeprefix(f"{file}: ") for found in unknown_kinds(load([file]), custom)]


@pytest.mark.parametrize(
    ("api_version", "kind", "meant"),
    [
        ("v1", "Podd", "Pod"),
        ("v1", "pod", "Pod"),
        ("v1", "Pods", "Pod"),
        ("v1", "Lst", "List"),
        ("v1", "ConfigMapp", "ConfigMap"),
        ("v1", "Deploymnt", "Deployment of apps/v1"),
        ("v1", "Ingress", "Ingress of networking.k8s.io/v1"),
        ("apps/v1", "Deploymnt", "Deployment"),
        ("apps/v1", "ConfigMap", "ConfigMap of v1"),
        ("apps/v1beta1", "Statefulset", "StatefulSet"),
        ("extensions/v1beta1", "Daemonset", "DaemonSet"),
        ("batch/v1", "Cronjob", "CronJob"),
        ("policy/v1", "PodDisruptionBuget", "PodDisruptionBudget"),
        ("scheduling.k8s.io/v1", "PriorityClas", "PriorityClass"),
        ("scheduling.k8s.io/v9", "PriorityClas", "PriorityClass"),
        ("scheduling.x-k8s.io/v1alpha1", "Podgroup", "PodGroup"),
        ("storage.k8s.io/v1", "StorageClas", "StorageClass"),
        ("app/v1", "Deployment", "Deployment of apps/v1"),
        ("app/v1", "Deploymnt", "Deployment of apps/v1"),
        ("core/v1", "Pod", "Pod of v1"),
        ("polcy/v1", "PodDisruptionBudget", "PodDisruptionBudget of policy/v1"),
        ("storage.k8.io/v1", "StorageClass", "StorageClass of storage.k8s.io/v1"),
    ],
)
def test_what_is_meant(tmp_path: Path, api_version: str, kind: str, meant: str) -> None:
    """The nearest kind of the group is named, or that of another group with where it belongs."""
    assert told(tmp_path, (api_version, kind), wrapped=False) == [
        f"kind: {kind} is not a kind of {api_version}; did you mean {meant}?"
    ]


def test_nothing_alike(tmp_path: Path) -> None:
    """A kind that is like no other is told without a guess."""
    assert told(tmp_path, ("v1", "Xyz")) == ["kind: Xyz is not a kind of v1"]


def test_without_a_version(tmp_path: Path) -> None:
    """Where the apiVersion is left out, what is like a kind that is read is told, and nothing else."""
    expected = ["kind: Podd is not a kind of Kubernetes; did you mean Pod?"]
    assert told(tmp_path, (None, "Podd"), (None, "Widget"), (None, "Ingress"), (None, "Pod")) == expected


def test_each_once(tmp_path: Path) -> None:
    """Many objects of one kind are one warning, with their number."""
    assert told(tmp_path, ("v1", "Podd"), ("v1", "Xyz"), ("v1", "Podd")) == [
        "kind: Podd (of 2 objects) is not a kind of v1; did you mean Pod?",
        "kind: Xyz is not a kind of v1",
    ]


def test_all_kinds_of_kubernetes_are_known(tmp_path: Path) -> None:
    """Nothing is said about a kind that is only not read, nor about its list."""
    built_in = [(version, kind) for kind, version in builtin.api_versions().items()]
    assert ("v1", "Secret") in built_in
    others = [
        ("v1", "ComponentStatus"),
        ("v1", "Config"),
        ("extensions/v1beta1", "Ingress"),
        ("policy/v1beta1", "PodSecurityPolicy"),
        ("storage.k8s.io/v1", "VolumeAttributesClass"),
        ("scheduling.x-k8s.io/v1alpha1", "ElasticQuota"),
        ("v1", "ServiceAccountList"),
    ]
    assert not told(tmp_path, *built_in, *others)


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("example.com/v1", "Deploymnt"),
        ("networking.k8s.io/v1", "Ingres"),
        ("policy.karmada.io/v1alpha1", "PropagationPolcy"),
        ("scheduling.k8s.io/v9", "Widget"),
        ("scheduling.x-k8s.io/v1alpha1", "Widget"),
    ],
)
def test_other_groups_are_not_looked_at(tmp_path: Path, api_version: str, kind: str) -> None:
    """A group that is not read may have any kind, and so may versions and custom resources to come."""
    assert not told(tmp_path, (api_version, kind))


def test_custom_kinds(tmp_path: Path) -> None:
    """Where Karmada's kinds are read, theirs are told too, and its others are known."""
    policy, work = "policy.karmada.io/v1alpha1", "work.karmada.io/v1alpha2"
    known = [
        (policy, "ClusterOverridePolicy"),
        (policy, "PropagationPolicy"),
        ("work.karmada.io/v1alpha1", "Work"),
    ]
    wrong = [(policy, "PropagationPolcy"), (work, "ResourceBindng")]
    assert told(tmp_path, *known, *wrong, custom=karmada_schemas()) == [
        f"kind: PropagationPolcy is not a kind of {policy}; did you mean PropagationPolicy?",
        f"kind: ResourceBindng is not a kind of {work}; did you mean ResourceBinding?",
    ]


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("serving.knative.dev/v1", "Service"),
        ("apps.kruise.io/v1alpha1", "StatefulSet"),
        ("batch.volcano.sh/v1alpha1", "Job"),
        ("scheduling.volcano.sh/v1beta1", "PodGroup"),
        ("gateway.networking.k8s.io/v1", "HTTPRoute"),
        ("resource.k8s.io/v1", "DeviceClass"),
        ("autoscaling/v2", "HorizontalPodAutoscaler"),
        ("example.com/v1", "Deployment"),
    ],
)
def test_the_groups_of_others_are_left_alone(tmp_path: Path, api_version: str, kind: str) -> None:
    """A group that is not nearly one of Kubernetes' may have kinds of any name."""
    assert told(tmp_path, (api_version, kind)) == []


# --- versions that are gone ------------------------------------------------------------------------------


def old(folder: Path, *objects: Mapping[str, object]) -> list[str]:
    file = folder / "o.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return [str(found).removeprefix(f"{file}: ") for found in unserved_versions(load([file]))]


@pytest.mark.parametrize(
    ("api_version", "kind", "instead"),
    [
        ("extensions/v1beta1", "Deployment", "apps/v1"),
        ("apps/v1beta2", "StatefulSet", "apps/v1"),
        ("batch/v1beta1", "CronJob", "batch/v1"),
        ("policy/v1beta1", "PodDisruptionBudget", "policy/v1"),
        ("scheduling.k8s.io/v1beta1", "PriorityClass", "scheduling.k8s.io/v1"),
        ("storage.k8s.io/v1beta1", "StorageClass", "storage.k8s.io/v1"),
        ("resource.k8s.io/v1alpha3", "ResourceClaim", "resource.k8s.io/v1"),
    ],
)
def test_versions_that_no_server_has(tmp_path: Path, api_version: str, kind: str, instead: str) -> None:
    """They are read, and told once with what to write; what a server stored it had."""
    metadata = ({"name": "a"}, {"name": "b"}, {"name": "c", "uid": "1"})
    (found,) = old(
        tmp_path, *({"apiVersion": api_version, "kind": kind, "metadata": each} for each in metadata)
    )
    assert found.endswith(
        f"a and 1 more: apiVersion: no server of today has {api_version} of this kind; write {instead}"
    )


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("apps/v1", "Deployment"),
        ("resource.k8s.io/v1beta1", "ResourceClaim"),
        ("scheduling.k8s.io/v1alpha2", "PodGroup"),
        ("scheduling.k8s.io/v1beta1", "PodGroup"),
        ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
        ("example.com/v1beta1", "Deployment"),
    ],
)
def test_versions_that_some_server_has(tmp_path: Path, api_version: str, kind: str) -> None:
    """Nothing is said of what can be applied."""
    assert not old(tmp_path, {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}})


@pytest.mark.parametrize("file", ["all.json", "all.yaml"])
def test_a_list_whose_items_are_misspelt(tmp_path: Path, file: str) -> None:
    """All that it holds would be lost in silence."""
    (tmp_path / file).write_text('{"apiVersion": "v1", "kind": "List", "item": [{"kind": "Pod"}]}')
    with pytest.raises(ManifestError, match="item: unknown field; did you mean items"):
        load([str(tmp_path / file)])
