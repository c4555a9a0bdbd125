"""Annotations that look like Berth's and are not are told wherever pods get them from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from berth.kube import well_known
from berth.kube.manifests.manifest import load
from berth.kube.manifests.unknown_names import (
    FLEET_ANNOTATIONS,
    OWN_ANNOTATIONS,
    POD_ANNOTATIONS,
    unknown_annotations,
)

if TYPE_CHECKING:
    from pathlib import Path

SPEC = {"containers": [{"name": "c", "image": "i"}]}
TEMPLATED = [
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
    ("v1", "ReplicationController"),
]


def told(folder: Path, *objects: dict[str, Any]) -> list[str]:
    """What is said about objects, without the file's name."""
    file = folder / "a.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return [str(found).removeprefix(f"{file}: ") for found in unknown_annotations(load([file]))]


def pod(name: str, *annotations: str) -> dict[str, Any]:
    metadata = {"name": name, "annotations": dict.fromkeys(annotations, "{}")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": SPEC}


def templated(api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w"}, "spec": spec}


TEMPLATE = {"template": {"metadata": {"annotations": {"berth.dev/afinity": "{}"}}, "spec": SPEC}}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("afinity", "affinity"),
        ("Affinity", "affinity"),
        ("pod-affinity", "affinity"),
        ("workload-afinity", "workload-affinity"),
        ("runfor", "run-for"),
        ("exitcode", "exit-code"),
    ],
)
def test_what_is_meant(tmp_path: Path, name: str, meant: str) -> None:
    """The nearest annotation is named."""
    path = f"metadata.annotations[berth.dev/{name}]"
    assert told(tmp_path, pod("p", f"berth.dev/{name}")) == [
        f"Pod default/p: {path}: unknown annotation; did you mean berth.dev/{meant}?"
    ]


def test_nothing_alike(tmp_path: Path) -> None:
    """One that is like no other is told without a guess."""
    assert told(tmp_path, pod("p", "berth.dev/xyz")) == [
        "Pod default/p: metadata.annotations[berth.dev/xyz]: unknown annotation"
    ]


@pytest.mark.parametrize(("api_version", "kind"), TEMPLATED)
def test_templates(tmp_path: Path, api_version: str, kind: str) -> None:
    """A template's annotations become those of pods."""
    path = "spec.template.metadata.annotations[berth.dev/afinity]"
    assert told(tmp_path, templated(api_version, kind, TEMPLATE)) == [
        f"{kind} default/w: {path}: unknown annotation; did you mean berth.dev/affinity?"
    ]


def test_cron_jobs(tmp_path: Path) -> None:
    """The template of a CronJob is within that of its jobs; one without any is fine."""
    (sentence,) = told(tmp_path, templated("batch/v1", "CronJob", {"jobTemplate": {"spec": TEMPLATE}}))
    assert "spec.jobTemplate.spec.template.metadata.annotations[berth.dev/afinity]: " in sentence
    assert not told(tmp_path, templated("batch/v1", "CronJob", {}))


def test_each_once(tmp_path: Path) -> None:
    """Many pods with the same one are one warning."""
    (sentence,) = told(tmp_path, pod("p", "berth.dev/afinity"), pod("q", "berth.dev/afinity"))
    assert sentence.startswith("Pod default/p and 1 more: ")


def test_known_ones(tmp_path: Path) -> None:
    """Nothing is said about annotations that are read, by hollow nodes too, nor about other people's."""
    read = (well_known.RUN_FOR, well_known.EXIT_CODE, well_known.START_AFTER, well_known.STOP_AFTER)
    assert {*read, "berth.dev/affinity"} <= {*POD_ANNOTATIONS}
    assert not told(tmp_path, pod("p", *POD_ANNOTATIONS, "example.com/afinity", "afinity"))


@pytest.mark.parametrize(("api_version", "kind"), TEMPLATED)
def test_rules_beside_a_template_are_told(tmp_path: Path, api_version: str, kind: str) -> None:
    """Rules on a workload's own metadata count for nobody; what else may be there is left alone."""
    workload = templated(api_version, kind, {"template": {"spec": SPEC}})
    names = (
        "berth.dev/affinity",
        "berth.dev/lint-ignore",
        "berth.dev/workload-affinity",
        "berth.dev/keep-spread",
    )
    workload["metadata"]["annotations"] = dict.fromkeys(names, "{}")
    (found,) = told(tmp_path, workload)
    assert found.endswith(
        "metadata.annotations[berth.dev/affinity]: nothing reads it there; "
        "write it in spec.template.metadata.annotations"
    )


FLEET = [
    ("policy.karmada.io/v1alpha1", "PropagationPolicy"),
    ("policy.karmada.io/v1alpha1", "ClusterPropagationPolicy"),
    ("work.karmada.io/v1alpha2", "ResourceBinding"),
    ("work.karmada.io/v1alpha2", "ClusterResourceBinding"),
]
WORKLOADS = [("apps/v1", "Deployment"), ("flink.apache.org/v1beta1", "FlinkDeployment")]


def annotated(api_version: str, kind: str, *names: str) -> dict[str, Any]:
    metadata = {"name": "w", "annotations": dict.fromkeys(names, "{}")}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": metadata,
        "spec": {"template": {"spec": SPEC}},
    }


@pytest.mark.parametrize(("api_version", "kind"), [*FLEET, *WORKLOADS])
@pytest.mark.parametrize(
    "name",
    [
        "berth.dev/workload-afinity",
        "berth.dev/workloadAffinity",
        "bert.dev/workload-affinity",
        "karmada.io/workload-affinity",
        "policy.karmada.io/workload-afinity",
        "workload-affinity",
    ],
)
def test_misspelt_rules_of_the_fleet(tmp_path: Path, api_version: str, kind: str, name: str) -> None:
    """A misspelt key or prefix of the rules between workloads is told wherever they may be written."""
    (found,) = told(tmp_path, annotated(api_version, kind, name, "example.com/workload-affinity"))
    assert found.endswith(
        f": metadata.annotations[{name}]: unknown annotation; did you mean berth.dev/workload-affinity?"
    )


@pytest.mark.parametrize(("api_version", "kind"), FLEET)
def test_rules_of_pods_on_the_fleets_kinds(tmp_path: Path, api_version: str, kind: str) -> None:
    """What only pods can have is not read there; what can be there is known."""
    (found,) = told(tmp_path, annotated(api_version, kind, "berth.dev/affinity", *FLEET_ANNOTATIONS))
    assert found.endswith(
        "[berth.dev/affinity]: unknown annotation; did you mean berth.dev/workload-affinity?"
    )


def test_known_ones_of_other_kinds(tmp_path: Path) -> None:
    """Nothing is said about any that some part of Berth reads or writes; a form nobody checks is no error."""
    own = {text for text in vars(well_known).values() if str(text).startswith("berth.dev/")}
    assert own - {well_known.BERTH_API_VERSION} <= {*OWN_ANNOTATIONS}
    assert not told(tmp_path, annotated("example.com/v1", "Thing", *OWN_ANNOTATIONS))
    for metadata in ({"name": "w", "annotations": None}, {"name": "w", "annotations": ["berth.dev/x"]}):
        assert not told(tmp_path, {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata})


def test_moving_has_no_effect_on_others(tmp_path: Path) -> None:
    """Whoever asks for pods of a StatefulSet or a Job to be moved is told that they are not."""
    for version, kind in TEMPLATED:
        body = {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": "w", "annotations": {well_known.REBALANCE: "hard"}},
            "spec": {"template": {"metadata": {"labels": {"app": "w"}}, "spec": SPEC}},
        }
        found = told(tmp_path, body)
        assert bool(found) is (kind not in ("Deployment", "ReplicaSet"))
        assert all("only pods of Deployments and ReplicaSets are moved" in each for each in found)
