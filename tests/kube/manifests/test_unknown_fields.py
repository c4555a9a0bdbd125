"""Fields that no kind has are told once, with what is meant; all that Kubernetes has are known."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import msgspec
import pytest

from berth.kube.manifests import kinds
from berth.kube.manifests.manifest import Manifest, load
from berth.kube.manifests.unknown_fields import unknown_fields
from berth.kube.schema import SchemaNode, SchemaRegistry
from berth.kube.schema.builtin import newer_fields
from berth.kube.text import json_reader, yaml_reader
from tests.support.builders import EXECUTION, PREFERRED, REQUIRED, ZONE

if TYPE_CHECKING:
    from pathlib import Path

MISSPELT = "requiredDuringSchedulingRequiredDuringExection"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(params=["all.json", "all.yaml"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


def told(file: Path, *objects: object) -> list[str]:
    """What is said about objects in a list, without the file's name."""
    # JSON is YAML too, except for the tabs and line breaks in strings that nobody has here.
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    if file.suffix == ".yaml":
        file.write_text("# not JSON\n" + file.read_text())
    return [str(found).removeprefix(f"{file}: ") for found in unknown_fields(load([file]))]


def pod(name: str = "p", /, **spec: object) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers, **spec},
    }


def deployment(**spec: object) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod(**spec)["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }


def affinity(kind: str, **rules: object) -> dict[str, object]:
    return {"affinity": {kind: rules}}


NODE, POD, ANTI = (f"spec.affinity.{kind}" for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity"))
SPREAD = "spec.topologySpreadConstraints"
CONTAINER = {"name": "c", "image": "i"}


def inline(kind: str, field: str) -> dict[str, object]:
    """A preferred term with a field beside its weight."""
    return affinity(kind, **{PREFERRED: [{"weight": 1, field: []}]})


@pytest.mark.parametrize(
    ("spec", "path", "meant"),
    [
        ({"afinity": {}}, "spec.afinity", "spec.affinity"),
        ({"afinity": None}, "spec.afinity", "spec.affinity"),
        ({"nodeselector": {}}, "spec.nodeselector", "spec.nodeSelector"),
        (affinity("nodeAffinity", **{MISSPELT: {}}), f"{NODE}.{MISSPELT}", EXECUTION),
        (affinity("podAffinity", **{MISSPELT: []}), f"{POD}.{MISSPELT}", EXECUTION),
        (affinity("podAffinity", **{REQUIRED[:-4]: []}), f"{POD}.{REQUIRED[:-4]}", REQUIRED),
        (affinity("podAntiAffinity", **{f"R{EXECUTION[1:]}": []}), f"{ANTI}.R{EXECUTION[1:]}", EXECUTION),
        (affinity("podAffinity", requiredDuringScheduling=[]), f"{POD}.requiredDuringScheduling", REQUIRED),
        (affinity("podAffinity", requiredDuringExecution=[]), f"{POD}.requiredDuringExecution", EXECUTION),
        (
            affinity("podAffinity", preferredDuringScheduling=[]),
            f"{POD}.preferredDuringScheduling",
            PREFERRED,
        ),
        (
            inline("nodeAffinity", "matchExpressions"),
            f"{NODE}.{PREFERRED}[0].matchExpressions",
            "preference.matchExpressions",
        ),
        (
            inline("podAffinity", "topologyKey"),
            f"{POD}.{PREFERRED}[0].topologyKey",
            "podAffinityTerm.topologyKey",
        ),
        (
            affinity("nodeAffinity", **{REQUIRED: {"matchExpressions": []}}),
            f"{NODE}.{REQUIRED}.matchExpressions",
            "nodeSelectorTerms[].matchExpressions",
        ),
        (
            affinity("podAffinity", **{REQUIRED: [{"topologyKey": ZONE, "selector": {}}]}),
            f"{POD}.{REQUIRED}[0].selector",
            "labelSelector",
        ),
        (
            {"topologySpreadConstraints": [{"selector": {}}]},
            f"{SPREAD}[0].selector",
            f"{SPREAD}[0].labelSelector",
        ),
        (
            affinity("nodeAffinity", **{REQUIRED: {"nodeSelectorTerms": [{"matchLabels": {"a": "b"}}]}}),
            f"{NODE}.{REQUIRED}.nodeSelectorTerms[0].matchLabels",
            "matchExpressions, a list",
        ),
        (
            {"containers": [{**CONTAINER, "resources": {"request": {"cpu": 7}}}]},
            "spec.containers[0].resources.request",
            "spec.containers[0].resources.requests",
        ),
        ({"nodeAffinity": {}}, "spec.nodeAffinity", "spec.affinity.nodeAffinity"),
        ({"topologySpreadConstraint": {"maxSkew": 1}}, SPREAD[:-1], f"{SPREAD}, a list"),
        (
            {"containers": [{**CONTAINER, "nodeSelector": {}}]},
            "spec.containers[0].nodeSelector",
            "spec.nodeSelector",
        ),
        (
            {"tolerations": [{"oprator": "Exists"}]},
            "spec.tolerations[0].oprator",
            "spec.tolerations[0].operator",
        ),
        ({"qqq": 1}, "spec.qqq", ""),
    ],
    ids=lambda value: value.rpartition(".")[2][:30] if isinstance(value, str) else "",
)
def test_what_is_meant(file: Path, spec: dict[str, Any], path: str, meant: str) -> None:
    """The sentence names object, path and the field that is meant, in YAML and JSON."""
    rest = f"; did you mean {meant}?" if meant else ""
    assert told(file, pod(**spec)) == [f"Pod default/p: {path}: unknown field{rest}"]


def test_paths_of_templates(file: Path) -> None:
    """In a workload the path leads through its template."""
    assert told(file, deployment(afinity={})) == [
        (
            "Deployment default/web: spec.template.spec.afinity: unknown field; did you mean "
            "spec.template.spec.affinity?"
        )
    ]


def test_a_field_of_the_template_beside_it(file: Path) -> None:
    """What belongs deeper is found there, what is in the wrong part of the object too."""
    written = deployment()
    written["spec"]["affinity"] = {}
    assert told(file, written, {**pod(), "nodeSelector": {}}) == [
        "Deployment default/web: spec.affinity: unknown field; did you mean spec.template.spec.affinity?",
        "Pod default/p: nodeSelector: unknown field; did you mean spec.nodeSelector?",
    ]


def test_once_with_a_count(file: Path) -> None:
    """Many objects with the same field, or one with it in many places, are one sentence."""
    twice: list[object] = [{"selector": {}}, {"selector": {}}]
    found = told(
        file,
        pod("a", afinity={}, topologySpreadConstraints=twice),
        pod("b", afinity={}),
        pod("c", afinity={}),
    )
    assert found == [
        "Pod default/a and 2 more: spec.afinity: unknown field; did you mean spec.affinity?",
        (
            "Pod default/a: spec.topologySpreadConstraints[0].selector: unknown field; did you mean "
            "spec.topologySpreadConstraints[0].labelSelector?"
        ),
    ]


def test_items_that_do_not_say_what_they_are(tmp_path: Path) -> None:
    """The items of a PodList are pods."""
    item = pod(afinity={})
    del item["kind"], item["apiVersion"]
    tmp_path.joinpath("l.json").write_text(
        json.dumps({"kind": "PodList", "apiVersion": "v1", "items": [item]})
    )
    assert [found.path for found in unknown_fields(load(["l.json"]))] == [("spec", "afinity")]


def test_other_kinds_are_not_looked_at(file: Path) -> None:
    """A kind that Berth does not read may hold anything, also one that shares a name with one of ours."""
    other = {
        "apiVersion": "example.com/v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"afinity": 1},
    }
    assert not told(file, other, {**other, "kind": "Widget"})


def test_earlier_versions(file: Path) -> None:
    """Fields that only an earlier version had are known there, and only there."""
    written = deployment()
    written["spec"]["rollbackTo"] = {"revision": 1}
    earlier = {**written, "apiVersion": "extensions/v1beta1", "metadata": {"name": "old"}}
    assert told(file, earlier, written) == ["Deployment default/web: spec.rollbackTo: unknown field"]


def test_free_names(file: Path) -> None:
    """Labels, amounts and whatever else has names of the user's choice are not fields."""
    given = pod(nodeSelector={"afinity": "x"}, overhead={"afinity": "1"})
    fields: dict[str, object] = {"f:spec": {"f:afinity": {}}}
    given["metadata"] |= {
        "labels": {"afinity": "x"},
        "annotations": {"afinity": "x"},
        "managedFields": [{"manager": "m", "fieldsType": "FieldsV1", "fieldsV1": fields}],
    }
    assert not told(file, given)


@pytest.mark.parametrize(
    ("api_version", "field", "near"),
    [
        ("scheduling.x-k8s.io/v1alpha1", "minMembers", "minMember"),
        ("scheduling.x-k8s.io/v1alpha1", "scheduleTimeoutSecond", "scheduleTimeoutSeconds"),
        ("scheduling.k8s.io/v1alpha3", "schedulingPolcy", "schedulingPolicy"),
    ],
)
def test_fields_of_every_pod_group(file: Path, api_version: str, field: str, near: str) -> None:
    """The PodGroup of the coscheduling plugin, and every version of Kubernetes' own, has known fields."""
    group = {"apiVersion": api_version, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {field: 3}}
    assert told(file, group) == [
        f"PodGroup default/g: spec.{field}: unknown field; did you mean spec.{near}?"
    ]


def test_sound_labelled_pod_groups(file: Path) -> None:
    """All that the plugin's PodGroup has is known, and without an apiVersion it may be either kind."""
    spec = {"minMember": 3, "minResources": {"cpu": 3, "memory": "1Gi"}, "scheduleTimeoutSeconds": 9}
    whole = {"kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec, "status": {"phase": "Running"}}
    assert not told(file, whole, {**whole, "apiVersion": "scheduling.x-k8s.io/v1alpha1"})


# --- no false alarm -------------------------------------------------------------------------------------

READ = [
    *sorted(
        (f"{group}/v1".lstrip("/"), kind)
        for group, kind in kinds._VIEWS
        if group != "extensions" and kind != "PodGroup"
    ),
    ("scheduling.k8s.io/v1alpha2", "PodGroup"),
]


def filled(node: SchemaNode) -> Any:
    """A value with every field there is."""
    if node.items is not None:
        return [filled(node.items)]
    if node.values is not None:
        return {"any": filled(node.values)}
    if node.struct is not None:
        given = {name: filled(inner) for name, inner in node.struct.fields.items()}
        return {**given, **{name: {"any": [1]} for name in newer_fields(node.struct)}}
    return None


@pytest.mark.parametrize(("api_version", "kind"), READ)
def test_every_field_of_kubernetes_is_known(file: Path, api_version: str, kind: str) -> None:
    """An object that has every field of its kind, also those since v1.37, gives no warning; another does."""
    group, _, version = api_version.rpartition("/")
    schema = SchemaRegistry().for_kind(group, version, kind)
    assert schema is not None
    whole = filled(schema.root) | {"apiVersion": api_version, "kind": kind}
    assert not unknown_fields([load_one(file, whole)])
    assert len(unknown_fields([load_one(file, whole | {"qqq": 1})])) == 1


def load_one(file: Path, given: dict[str, Any]) -> Manifest:
    """A manifest of a small object that holds `given` instead."""
    text = json.dumps(given)
    raw = msgspec.Raw(text.encode()) if file.suffix == ".json" else next(yaml_reader.read(text)).value
    file.write_text(json.dumps(pod()))
    return replace(load([file])[0], kind=given["kind"], api_version=given["apiVersion"], raw=raw)


@pytest.mark.parametrize(
    "spec",
    [
        {"evictionResponders": [{"name": "r", "priority": 1}]},
        {"volumes": [{"name": "v", "emptyDir": {"mode": 448}}]},
        {"schedulingGroup": {"podGroupName": "g"}, "hostnameOverride": "h"},
        {"containers": [{"name": "c", "image": "i", "restartPolicyRules": [{"action": "Restart"}]}]},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_fields_that_placing_does_not_use(file: Path, spec: dict[str, object]) -> None:
    """What Kubernetes has and Berth has no use for is not a mistake."""
    assert not told(file, pod(**spec))


def test_sound_objects_stay_undecoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In JSON only an object with an unknown field is taken apart: a dump has a hundred megabytes."""
    items = [pod("a"), pod("b", afinity={}), pod("c")]
    tmp_path.joinpath("l.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    manifests = load(["l.json"])
    decode = Mock(wraps=json_reader.to_builtins)
    monkeypatch.setattr(json_reader, "to_builtins", decode)
    assert len(unknown_fields(manifests)) == 1
    assert decode.call_count == 1
