"""Manifests: what people have, and one clear sentence when it cannot be used."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from berth.kube.manifests import Manifest, ManifestError, load, problems
from berth.kube.objects import Node, Pod, Workload

if TYPE_CHECKING:
    from pathlib import Path

POD = """
apiVersion: v1
kind: Pod
metadata:
  name: web
  creationTimestamp: 2024-01-02T03:04:05Z
spec:
  dnsPolicy: None
  containers:
  - name: main
    image: nginx
    resources: {requests: {cpu: 100m}}
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(tmp_path: Path, **files: str) -> None:
    for name, text in files.items():
        file = tmp_path / name.replace("__", "/").replace("_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def titles(manifests: list[Manifest]) -> list[str]:
    return [manifest.title for manifest in manifests]


def test_a_manifest_has_a_view_and_keeps_the_original(tmp_path: Path) -> None:
    """Fields no view knows survive; dates are still the text they were."""
    written(tmp_path, pod_yaml=POD)
    (manifest,) = load(["pod.yaml"])
    assert isinstance(manifest.object, Pod)
    assert manifest.object.metadata.creation_timestamp == "2024-01-02T03:04:05Z"
    assert (manifest.namespace, manifest.name, manifest.kind) == ("default", "web", "Pod")
    assert manifest.object.metadata.namespace == "default"
    assert manifest.to_dict()["spec"]["dnsPolicy"] == "None"
    assert "namespace" not in manifest.to_dict()["metadata"]


def test_json_and_yaml_give_the_same(tmp_path: Path) -> None:
    """A file's content decides, whatever it is called."""
    written(tmp_path, pod_yaml=POD)
    (from_yaml,) = load(["pod.yaml"])
    text = json.dumps(from_yaml.to_dict(), indent=2)
    written(tmp_path, pod_json=text, pod_txt=text)
    for file in ("pod.json", "pod.txt"):
        (from_json,) = load([file])
        assert from_json.object == from_yaml.object
        assert from_json.to_dict() == from_yaml.to_dict()


def test_yaml_in_flow_style_is_not_taken_for_broken_json(tmp_path: Path) -> None:
    """A brace at the start does not make it JSON."""
    written(tmp_path, pod_yaml="{kind: Pod, metadata: {name: web}}")
    assert titles(load(["pod.yaml"])) == ["Pod default/web"]


def test_folders_are_read_in_order_without_what_is_hidden(tmp_path: Path) -> None:
    """Recursively, sorted, only manifests."""
    written(
        tmp_path,
        d__b_yaml="{kind: Pod, metadata: {name: b}}",
        d__a_yml="{kind: Pod, metadata: {name: a}}",
        d__sub__c_json='{"kind": "Pod", "metadata": {"name": "c"}}',
        d___hidden_yaml="nonsense: [",
        d__README_md="nonsense",
    )
    (tmp_path / "d" / ".git").mkdir()
    (tmp_path / "d" / ".git" / "x.yaml").write_text("nonsense")
    assert titles(load(["d"])) == ["Pod default/a", "Pod default/b", "Pod default/c"]


def test_standard_input_is_a_dash() -> None:
    """As with kubectl."""
    manifests = load(["-"], io.BytesIO(b"\xef\xbb\xbf" + POD.encode()))
    assert titles(manifests) == ["Pod default/web"]
    assert str(manifests[0]) == "standard input: Pod default/web"


LISTED: list[dict[str, Any]] = [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "managedFields": [{"x": 1}]},
        "status": {},
    },
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "x"},
        "data": {"a": "b"},
    },
    {"apiVersion": "v1", "kind": "List", "items": [{"kind": "Namespace", "metadata": {"name": "x"}}]},
]


@pytest.mark.parametrize("file", ["all.json", "all.yaml"])
def test_lists_are_flattened(tmp_path: Path, file: str) -> None:
    """Lists of anything, lists in lists; kinds without a view are kept as they are."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": LISTED})
    (tmp_path / file).write_text(text)
    manifests = load([file])
    assert titles(manifests) == ["Node n", "ConfigMap x/c", "Namespace x"]
    assert isinstance(manifests[0].object, Node)
    assert manifests[1].object is None
    assert manifests[1].to_dict() == LISTED[1]
    assert str(manifests[0].source).endswith("items[0]")


@pytest.mark.parametrize("file", ["all.json", "all.yaml"])
def test_items_of_a_typed_list_need_no_kind(tmp_path: Path, file: str) -> None:
    """The items of a PodList are pods, of a DeploymentList deployments."""
    pods = {"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}}]}
    deployments = {"apiVersion": "apps/v1", "kind": "DeploymentList", "items": [{"metadata": {"name": "a"}}]}
    for listed, view in ((pods, Pod), (deployments, Workload)):
        (tmp_path / file).write_text(json.dumps(listed))
        (manifest,) = load([file])
        assert isinstance(manifest.object, view)


@pytest.mark.parametrize("file", ["all.json", "all.yaml"])
def test_a_list_of_nothing_and_a_kind_with_items_of_its_own(tmp_path: Path, file: str) -> None:
    """An empty cluster gives an empty list; what other kinds mean by items is their business."""
    for items in ("[]", "null"):
        (tmp_path / file).write_text(f'{{"apiVersion": "v1", "kind": "List", "items": {items}}}')
        assert load([file]) == []
    (tmp_path / file).write_text('{"kind": "AllowList", "metadata": {"name": "a"}, "items": {"b": 1}}')
    assert titles(load([file])) == ["AllowList a"]


def test_kinds_of_other_groups_are_not_mistaken_for_ours(tmp_path: Path) -> None:
    """Knative has a Service too; kustomizations need no name."""
    written(
        tmp_path,
        k_yaml="{apiVersion: knative.dev/v1, kind: Service, metadata: {name: s}, spec: {selector: 3}}\n"
        "---\n{kind: Kustomization, metadata: 3}\n",
    )
    assert [(m.title, m.object) for m in load(["k.yaml"])] == [("Service s", None), ("Kustomization", None)]


@pytest.mark.parametrize("file", ["p.json", "p.yaml"])
def test_null_means_absent(tmp_path: Path, file: str) -> None:
    """A null field is no field; a null label is empty and a null amount zero, as in Kubernetes."""
    container = {"name": None, "resources": {"limits": {"cpu": None}}}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "a", "labels": {"x": None}},
        "spec": {"containers": [container]},
    }
    (tmp_path / file).write_text(json.dumps({**pod, "status": None}))
    (manifest,) = load([file])
    view = manifest.object
    assert isinstance(view, Pod)
    assert view.metadata.labels == {"x": ""}
    assert view.spec.containers
    assert view.spec.containers[0].resources
    assert view.spec.containers[0].resources.limits == {"cpu": 0}


def test_generated_names_are_numbered(tmp_path: Path) -> None:
    """What has only a generateName is named after it, so that it can be talked about."""
    written(tmp_path, p_yaml="\n---\n".join(["{kind: Pod, metadata: {generateName: run-}}"] * 2))
    assert titles(load(["p.yaml"])) == ["Pod default/run-0", "Pod default/run-1"]


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        (
            "p.yaml",
            POD.replace("100m", "1x"),
            'p.yaml: Pod default/web: spec.containers[0].resources.requests[cpu]: "1x" is not a quantity: ',
        ),
        (
            "d.yaml",
            "{kind: Deployment, metadata: {name: web, namespace: x}, spec: {replicas: three}}",
            'd.yaml: Deployment x/web: spec.replicas: expected an integer, got "three"',
        ),
        (
            "j.yaml",
            (
                "{kind: CronJob, metadata: {name: j},"
                " spec: {jobTemplate: {spec: {template: {spec: {overhead: {cpu: 1y}}}}}}}"
            ),
            "j.yaml: CronJob default/j: spec.jobTemplate.spec.template.spec.overhead[cpu]: ",
        ),
        (
            "n.yaml",
            "{kind: Node, metadata: {name: n1}, status: {capacity: {cpu: 1..2}}}",
            "n.yaml: Node n1: status.capacity[cpu]: ",
        ),
        (
            "n.json",
            '{"kind": "Node", "metadata": {"name": "n", "labels": {"a": "b", "c": 1}}}',
            "labels[c]: expected a string, got 1",
        ),
        (
            "p.yaml",
            "{kind: Pod, metadata: {name: a, labels: [a]}}",
            "metadata.labels: expected a mapping, got a list",
        ),
        (
            "p.yaml",
            "{kind: Pod, metadata: {name: a, annotations: {berth.dev/affinity: '{nodeAfinity: {}}'}}}",
            "p.yaml: Pod default/a: metadata.annotations[berth.dev/affinity].nodeAfinity: unknown field",
        ),
        (
            "d.yaml",
            (
                "{kind: Deployment, metadata: {name: a},"
                " spec: {template: {metadata: {annotations: {berth.dev/affinity: '[]'}}}}}"
            ),
            "spec.template.metadata.annotations[berth.dev/affinity]: expected a mapping, got a list",
        ),
        ("p.yaml", "a: b: c", "p.yaml: not valid YAML: line 1: "),
        ("p.json", '{"a": 1,\n "b": }', "p.json: not valid JSON: line 2: "),
        ("p.json", '[{"kind": "Pod"}]', "p.json: expected a mapping, got a list"),
        (
            "p.yaml",
            "- kind: Pod",
            "p.yaml, document 1: expected an object with apiVersion and kind, got a list",
        ),
        ("p.yaml", "hello", 'p.yaml, document 1: expected an object with apiVersion and kind, got "hello"'),
        ("p.yaml", "a: 1\n---\n{metadata: {name: a}}", "p.yaml, document 1: kind is missing"),
        ("p.yaml", "kind: [Pod]", "p.yaml, document 1: kind: expected a string, got a list"),
        ("p.yaml", "{kind: Pod, apiVersion: 1}", "p.yaml, document 1: apiVersion: expected a string, got 1"),
        ("p.yaml", "{kind: Pod, metadata: {}}", "p.yaml, document 1: Pod: metadata.name is missing"),
        ("l.json", '{"kind": "List", "items": [3]}', "l.json, items[0]: expected a mapping, got 3"),
        ("l.yaml", "{kind: List, items: [3]}", "l.yaml, document 1, items[0]: expected an object"),
    ],
)
def test_bad_input_is_named_in_one_sentence(tmp_path: Path, file: str, text: str, sentence: str) -> None:
    """File, object and field, and what was found there."""
    (tmp_path / file).write_text(text)
    with pytest.raises(ManifestError) as error:
        load([file])
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_there_twice_is_named_with_both_places(tmp_path: Path) -> None:
    """The second of two objects of the same name would hide the first."""
    written(
        tmp_path,
        a_yaml="{kind: Node, metadata: {name: n1}}",
        b_json='{"kind": "Node", "metadata": {"name": "n1"}}',
    )
    with pytest.raises(ManifestError, match=r"^Node n1 is there twice: in a.yaml, document 1 and in b.json$"):
        load(["a.yaml", "b.json"])


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Missing, empty of manifests, not text, not a file."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "latin.yaml").write_bytes(b"a: b\nname: M\xfcller\n")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    for name, sentence in (
        ("none.yaml", "none.yaml: no such file or folder"),
        ("empty", "empty: no .yaml, .yml or .json file in this folder"),
        ("latin.yaml", "latin.yaml: line 2: not UTF-8 text"),
        ("loop.yaml", "loop.yaml: cannot be read: "),
    ):
        with pytest.raises(ManifestError) as error:
            load([name])
        assert str(error.value).startswith(sentence)


def test_problems_are_what_the_api_server_would_say(tmp_path: Path) -> None:
    """Loading accepts what has the right form; validity is a question of its own."""
    written(
        tmp_path, p_yaml=POD.replace("name: main", "name: Main"), n_yaml="{kind: Node, metadata: {name: N1}}"
    )
    found = [f"{manifest}: {error}" for manifest, error in problems(load(["p.yaml", "n.yaml"]))]
    assert found[0].startswith('p.yaml: Pod default/web: spec.containers[0].name: Invalid value: "Main": ')
    assert found[1].startswith('n.yaml: Node N1: metadata.name: Invalid value: "N1": ')
