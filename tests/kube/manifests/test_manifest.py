"""Manifests: what people have, and one clear sentence when it cannot be used."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from berth.kube.manifests.manifest import Manifest, ManifestError, load
from berth.kube.objects import Node, Pod, Service, Workload
from tests.kube.written import written
from tests.support.manifests.problems import problems

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
    """Folders are read recursively and in order, and nothing but manifests."""
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
    """A dash stands for standard input, as with kubectl."""
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


@pytest.mark.parametrize("file", ["s.json", "s.yaml"])
def test_null_in_the_two_kinds_of_selectors(tmp_path: Path, file: str) -> None:
    """A Service's selector is a map of labels, a Deployment's an object."""
    service = {"kind": "Service", "metadata": {"name": "a"}, "spec": {"selector": {"app": None}}}
    selector = {"matchLabels": {"app": None}, "matchExpressions": None}
    deployment = {"kind": "Deployment", "metadata": {"name": "a"}, "spec": {"selector": selector}}
    (tmp_path / file).write_text(json.dumps({"kind": "List", "items": [service, deployment]}))
    first, second = load([file])
    assert isinstance(first.object, Service)
    assert first.object.spec.selector == {"app": ""}
    assert isinstance(second.object, Workload)
    assert second.object.spec.selector
    assert second.object.spec.selector.match_labels == {"app": ""}


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
        (
            "p.yaml",
            "{kind: Pod, metdata: {name: a}}",
            "metadata.name is missing; metdata: unknown field; did you mean metadata?",
        ),
        (
            "p.json",
            '{"kind": "Node", "metadata": {"nmae": "a"}}',
            "metadata.name is missing; metadata.nmae: unknown field; did you mean metadata.name?",
        ),
        ("l.json", '{"kind": "List", "items": [3]}', "l.json, items[0]: expected a mapping, got 3"),
        ("l.yaml", "{kind: List, items: [3]}", "l.yaml, document 1, items[0]: expected an object"),
        (
            "l.yaml",
            "{kind: List, items: {a: b}}",
            "l.yaml, document 1: items: expected a list, got a mapping",
        ),
        ("l.json", '{"kind": "List", "items": {"a": 1}}', "l.json: items: expected a list, got a mapping"),
        ("l.json", '{"kind": "PodList", "items": 1e999}', 'l.json: items: expected a list, got "1e999"'),
        ("p.json", "[" * 100_000, "p.json: not valid JSON: nested too deeply"),
        ("p.json", '{"a":' * 100_000, "p.json: not valid JSON: nested too deeply"),
        ("p.yaml", '{"a":' * 100_000, "p.yaml: not valid YAML: line 1: nested more than 200 levels deep"),
        (
            "p.json",
            '{"kind": "Foo", "metadata": {"name": "a"}, "spec": {"x": [{}, {"y": 1, "z": 2, "y": 3}]}}',
            "p.json: Foo a: spec.x[1].y is set twice",
        ),
        (
            "l.json",
            '{"kind": "List", "items": [{"kind": "Pod", "metadata": {"name": "a", "name": "b"}}]}',
            "l.json: Pod default/b: metadata.name is set twice",
        ),
        (
            "p.yaml",
            "{apiVersion: v2, kind: Pod, metadata: {name: a}}",
            "p.yaml: Pod default/a: apiVersion: there is no v2 of this kind, expected v1",
        ),
        (
            "d.yaml",
            "{apiVersion: v1, kind: Deployment, metadata: {name: a}}",
            "d.yaml: Deployment default/a: apiVersion: there is no v1 of this kind, expected apps/v1",
        ),
        (
            "g.yaml",
            "{apiVersion: scheduling.k8s.io/v1, kind: PodGroup, metadata: {name: g}}",
            "there is no scheduling.k8s.io/v1 of this kind, expected scheduling.k8s.io/v1beta1",
        ),
        (
            "g.yaml",
            "{apiVersion: scheduling.x-k8s.io/v1, kind: PodGroup, metadata: {name: g}}",
            "there is no scheduling.x-k8s.io/v1 of this kind, expected scheduling.x-k8s.io/v1alpha1",
        ),
    ],
)
def test_bad_input_is_named_in_one_sentence(tmp_path: Path, file: str, text: str, sentence: str) -> None:
    """File, object and field, and what was found there."""
    (tmp_path / file).write_text(text)
    with pytest.raises(ManifestError) as error:
        load([file])
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


HUGE = 10**30


@pytest.mark.parametrize("suffix", ["json", "yaml"])
@pytest.mark.parametrize(
    ("kind", "body", "path", "value", "wanted"),
    [
        ("Pod", {"spec": {"priority": HUGE}}, "spec.priority", HUGE, "32"),
        ("Pod", {"spec": {"priority": -(2**31) - 1}}, "spec.priority", -(2**31) - 1, "32"),
        (
            "Pod",
            {"spec": {"topologySpreadConstraints": [{"maxSkew": 2**31}]}},
            "spec.topologySpreadConstraints[0].maxSkew",
            2**31,
            "32",
        ),
        (
            "Pod",
            {"spec": {"topologySpreadConstraints": [{"minDomains": 2**31}]}},
            "spec.topologySpreadConstraints[0].minDomains",
            2**31,
            "32",
        ),
        (
            "Pod",
            {"spec": {"tolerations": [{"tolerationSeconds": 2**63}]}},
            "spec.tolerations[0].tolerationSeconds",
            2**63,
            "64",
        ),
        (
            "Pod",
            {"spec": {"containers": [{"ports": [{"hostPort": HUGE}]}]}},
            "spec.containers[0].ports[0].hostPort",
            HUGE,
            "32",
        ),
        ("Node", {"status": {"images": [{"sizeBytes": HUGE}]}}, "status.images[0].sizeBytes", HUGE, "64"),
        ("Deployment", {"spec": {"replicas": HUGE}}, "spec.replicas", HUGE, "32"),
        ("Job", {"spec": {"parallelism": 3_000_000_000}}, "spec.parallelism", 3_000_000_000, "32"),
        ("Job", {"spec": {"completions": 3_000_000_000}}, "spec.completions", 3_000_000_000, "32"),
        ("PriorityClass", {"value": 2**31}, "value", 2**31, "32"),
    ],
)
def test_integers_have_the_width_kubernetes_gives_them(
    tmp_path: Path, suffix: str, kind: str, body: dict[str, Any], path: str, value: int, wanted: str
) -> None:
    """Nothing that no API server could store gets in."""
    (tmp_path / f"x.{suffix}").write_text(json.dumps({"kind": kind, "metadata": {"name": "a"}, **body}))
    with pytest.raises(ManifestError) as error:
        load([f"x.{suffix}"])
    assert str(error.value).endswith(f"a: {path}: expected a {wanted}-bit integer, got {value}")


@pytest.mark.parametrize("file", ["p.json", "p.yaml"])
@pytest.mark.parametrize("amount", [str(10**25), "1e999999", str(2**63)])
def test_amounts_keep_their_digits(tmp_path: Path, file: str, amount: str) -> None:
    """A number beyond any integer or float is a quantity like its text."""
    (tmp_path / file).write_text(
        '{"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": '
        f'[{{"resources": {{"requests": {{"cpu": {amount}}}}}}}]}}}}'
    )
    (manifest,) = load([file])
    assert isinstance(manifest.object, Pod)
    assert manifest.object.spec.containers
    assert manifest.object.spec.containers[0].resources
    assert manifest.object.spec.containers[0].resources.requests == {"cpu": amount}


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    """Wherever it is, and whether the object is one we read or not."""
    for text in (
        '{"kind": "Pod", "metadata": {"name": "\xff"}}',
        '{"kind": "List", "items": [{"kind": "Pod", "metadata": {"name": "\xff"}}]}',
        '{"kind": "List", "items": [{"kind": "Foo", "spec": "\xff"}]}',
    ):
        (tmp_path / "p.json").write_bytes(text.encode("latin-1"))
        with pytest.raises(ManifestError, match=r"^p\.json.*: not UTF-8 text$"):
            load(["p.json"])


def test_a_stored_object_is_not_searched_for_repeated_keys(tmp_path: Path) -> None:
    """A dump has hundreds of thousands of them, and no server stores a key twice."""
    written(tmp_path, p_json='{"kind": "Pod", "metadata": {"name": "a", "uid": "u", "name": "b"}}')
    assert titles(load(["p.json"])) == ["Pod default/b"]


def test_lists_in_lists_have_an_end(tmp_path: Path) -> None:
    """However they nest, there is a sentence."""
    written(tmp_path, l_json='{"kind": "List", "items": [' * 490 + "]}" * 490)
    try:
        assert load(["l.json"]) == []
    except ManifestError as error:
        assert "nested too deeply" in str(error)  # noqa: PT017 - depends on how deep the caller is


@pytest.mark.parametrize("file", ["empty.json", "empty.yaml"])
@pytest.mark.parametrize("text", ["", " \n", "\ufeff"])
def test_empty_files_hold_nothing(tmp_path: Path, file: str, text: str) -> None:
    """Empty files hold nothing, whatever they are called."""
    (tmp_path / file).write_text(text)
    assert load([file]) == []


def test_no_file_can_be_given_twice(tmp_path: Path) -> None:
    """The complaint is about the file, not about each object in it."""
    written(tmp_path, d__a_yaml="{kind: Node, metadata: {name: n1}}")
    (tmp_path / "link.yaml").symlink_to("d/a.yaml")
    for given, sentence in (
        (["d/a.yaml", "d/a.yaml"], "d/a.yaml is given twice"),
        (["d", "d/a.yaml"], "d/a.yaml is given twice"),
        (["d", "link.yaml"], "link.yaml is given twice, also as d/a.yaml"),
        (["-", "-"], "standard input is given twice"),
    ):
        with pytest.raises(ManifestError) as error:
            load(given, io.BytesIO())
        assert str(error.value) == sentence


@pytest.mark.parametrize("file", ["l.json", "l.yaml"])
def test_progress_counts_bytes_of_all_files(tmp_path: Path, file: str) -> None:
    """It never goes back, and says the same total throughout."""
    for name in ("a", "b"):
        items = [{"kind": "Node", "metadata": {"name": f"{name}{i}"}} for i in range(400)]
        (tmp_path / f"{name}-{file}").write_text(json.dumps({"kind": "List", "items": items}, indent=1))
    sizes = [(tmp_path / f"{name}-{file}").stat().st_size for name in ("a", "b")]
    told: list[tuple[int, int]] = []
    load([f"a-{file}", f"b-{file}"], progress=lambda done, total: told.append((done, total)))
    assert {total for _, total in told} == {sum(sizes)}
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert sizes[0] < told[-1][0] <= sum(sizes)


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
    """A file that is missing, no text or no file, and a folder without manifests, are told in a sentence."""
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
