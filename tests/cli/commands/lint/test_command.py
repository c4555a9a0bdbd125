"""`berth lint`, as people and programs see it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.support.cli.command import Outcome, berth
from tests.support.manifests.lint import Object, annotated, apart, deployment, nodes, spread, term

BROKEN = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      nodeSelectr: {disk: ssd}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: topology.kubernetes.io/zone
          whenUnsatisfiable: DoNotSchedule
          labelSelector: {matchLabels: {app: web}}
      containers: [{name: c, image: i}]
"""
TOLD = """\
web.yaml:11: error BERTH002 Deployment shop/web: spec.template.spec.nodeSelectr
  Deployment has no such field, so it is dropped
  fix: did you mean spec.template.spec.nodeSelector?

web.yaml:13: info BERTH111 Deployment shop/web: spec.template.spec.topologySpreadConstraints[0]
  old and new pods of a rollout are counted together, so the new ones may end up uneven
  fix: add matchLabelKeys: [pod-template-hash]

1 error, 1 remark in 1 object.
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a manifest that has two faults."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "web.yaml").write_text(BROKEN)
    return tmp_path


def write(file: Path, *objects: Object) -> Path:
    file.write_text(yaml.safe_dump_all(objects))
    return file


def codes(*arguments: str | Path, stdin: str | bytes = "") -> list[str]:
    outcome = berth("lint", *arguments, "-o", "json", stdin=stdin)
    assert outcome.code in (0, 1), outcome.err
    return [finding["code"] for finding in json.loads(outcome.out)["findings"]]


def test_findings_for_people(folder: Path) -> None:
    """File and line, severity, code, object and field; what will happen, and what to do; and how many."""
    assert berth("lint", "-f", "web.yaml") == Outcome(1, TOLD, "")
    assert berth("lint", "web.yaml") == Outcome(1, TOLD, ""), "the same without -f, as pre-commit gives files"
    assert berth("lint", ".").out == TOLD, "or a folder"
    piped = berth("lint", "-f", "-", stdin=(folder / "web.yaml").read_bytes())
    assert piped.out == TOLD.replace("web.yaml", "standard input")


def test_nothing_found(folder: Path) -> None:
    """Where nothing is found one line says so, and the exit code is 0."""
    write(folder / "good.yaml", deployment())
    assert berth("lint", "-f", "good.yaml") == Outcome(0, "Nothing found in 1 object.\n", "")


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        ((), 1),
        (("--validate=warn",), 0),
        (("--validate=warn", "--fail-on=warning"), 1),
        (("--validate=ignore", "--fail-on=warning"), 0),
        (("--validate=ignore", "--fail-on=info"), 1),
        (("--ignore", "BERTH002"), 0),
        (("--ignore", "berth002,BERTH111", "--fail-on", "info"), 0),
        (("--ignore", "BERTH111", "--ignore", "BERTH002", "--fail-on", "info"), 0),
    ],
)
def test_exit_codes(folder: Path, flags: tuple[str, ...], code: int) -> None:
    """1 if something is at least as bad as --fail-on, after what is not to be told."""
    for form in ("table", "json", "sarif", "github"):
        assert berth("lint", "-f", folder / "web.yaml", "-o", form, *flags).code == code


@pytest.mark.parametrize("template", [False, True], ids=["object", "template"])
def test_an_annotation_leaves_findings_out(folder: Path, template: bool) -> None:
    """On the object or on its pods' template; what it does not name is told, and the number of the others."""
    unwanted = annotated(deployment(**spread()), template=template, lint_ignore="berth111, BERTH117")
    assert codes("-f", write(folder / "a.yaml", unwanted)) == []
    both = annotated(deployment(**spread(app="wbe")), template=template, lint_ignore="BERTH111 BERTH117")
    assert codes("-f", write(folder / "a.yaml", both)) == ["BERTH102"]
    outcome = berth("lint", "-f", write(folder / "a.yaml", unwanted))
    assert outcome.out == "Nothing found in 1 object, 1 ignored.\n"


def test_document(folder: Path) -> None:
    """The stable object has everything, and says whether it failed."""
    assert folder.is_dir()
    outcome = berth("lint", "-f", "web.yaml", "-o", "json")
    document = json.loads(outcome.out)
    assert document["kind"] == "Lint"
    assert document["summary"] == {
        "objects": 1,
        "errors": 1,
        "warnings": 0,
        "infos": 1,
        "ignored": 0,
        "failed": True,
    }
    assert document["findings"][0] == {
        "code": "BERTH002",
        "name": "unknown-field",
        "severity": "error",
        "file": "web.yaml",
        "line": 11,
        "object": "Deployment shop/web",
        "path": "spec.template.spec.nodeSelectr",
        "why": "Deployment has no such field, so it is dropped",
        "fix": "did you mean spec.template.spec.nodeSelector?",
    }


def test_workflow_commands(folder: Path) -> None:
    """One line a finding, in which nothing that was written can end a property or begin a command."""
    odd = folder / "50%,a:b.yaml"
    odd.write_text(BROKEN)
    first, second, last = berth("lint", "-f", odd.name, "-o", "github").out.splitlines()
    assert first == (
        "::error file=50%25%2Ca%3Ab.yaml,line=11,title=BERTH002 Deployment shop/web::"
        "spec.template.spec.nodeSelectr: Deployment has no such field, so it is dropped%0A"
        "fix: did you mean spec.template.spec.nodeSelector?"
    )
    assert second.startswith("::notice file=50%25%2Ca%3Ab.yaml,line=13,title=BERTH111 ")
    assert last == "1 error, 1 remark in 1 object."


def test_a_field_cannot_smuggle_a_command(folder: Path) -> None:
    """A name with a line break stays on its line."""
    (folder / "a.yaml").write_text(
        'apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [], "a\\n::error::b%": 1}\n'
    )
    lines = berth("lint", "-f", "a.yaml", "-o", "github").out.splitlines()
    assert not [line for line in lines if line.startswith("::error::")]


# --- a cluster ---------------------------------------------------------------------------------------------


def test_a_dump_is_the_cluster(folder: Path) -> None:
    """Rules are tried on its nodes, and only what is in the files is judged."""
    web = write(folder / "a.yaml", deployment(replicas=4, **apart(term())))
    other = deployment("db", replicas=9, **apart(term("db")))
    dump = write(folder / "dump.yaml", *nodes(3), other)
    assert codes("-f", web) == []
    assert codes("-f", web, "--cluster", dump) == ["BERTH105"]
    assert codes("-f", web, "-f", dump) == ["BERTH105", "BERTH105"]


def test_files_replace_what_the_cluster_has(folder: Path) -> None:
    """An object counts as the files have it, and its pods as it will make them."""
    old = deployment(replicas=2, cpu="8")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d", "uid": "u", "controller": True}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"web-5d-{i}",
                "uid": f"p{i}",
                "labels": {"app": "web", "pod-template-hash": "5d"},
                "ownerReferences": [owner],
            },
            "spec": {**old["spec"]["template"]["spec"], "nodeName": f"n{i}"},
        }
        for i in range(2)
    ]
    dump = write(folder / "dump.yaml", *nodes(2), old, *pods)
    assert codes("-f", write(folder / "a.yaml", deployment(replicas=2, cpu="5")), "--cluster", dump) == []
    assert codes("-f", write(folder / "a.yaml", deployment(replicas=3, cpu="5")), "--cluster", dump) == [
        "BERTH126"
    ]
    beside = write(folder / "a.yaml", deployment("db", replicas=1, cpu="5"))
    assert codes("-f", beside, "--cluster", dump) == ["BERTH126"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "give the files to judge with -f, or --kubeconfig to judge what a cluster has"),
        (
            ("-f", "web.yaml", "--cluster", "web.yaml", "--kubeconfig", "k"),
            "--cluster reads files and --kubeconfig a cluster; give one of them",
        ),
        (("-f", "-", "--cluster", "-"), "standard input is either to be judged or the cluster, not both"),
        (("-f", "missing.yaml"), "missing.yaml: no such file or folder"),
        (("-f", "web.yaml", "--cluster", "missing"), "missing: no such file or folder"),
        (("-f", "web.yaml", "-f", "./web.yaml"), "./web.yaml is given twice, also as web.yaml"),
        (
            ("-f", "web.yaml", "--ignore", "BERTH9"),
            "Invalid value for '--ignore': there is no check BERTH9; they are BERTH001 to BERTH203",
        ),
        (
            ("-f", "web.yaml", "--feature-gates", "X"),
            "--feature-gates: missing bool value for X: write X=true or X=false",
        ),
    ],
)
def test_bad_input(folder: Path, arguments: tuple[str, ...], sentence: str) -> None:
    """Bad input is refused in one sentence, with exit code 2."""
    assert folder.is_dir()
    outcome = berth("lint", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.splitlines()[0] == f"error: {sentence}"


# --- files as they are -------------------------------------------------------------------------------------


def test_files_of_others(folder: Path) -> None:
    """Noted and left out beside manifests; bad input if there is nothing else, unless somebody is lenient."""
    (folder / "compose.yaml").write_text("services: {web: {image: web}}\n")
    (folder / "values.yaml").write_text("replicaCount: 1\nimage: {tag: x}\n")
    beside = berth("lint", "-f", "web.yaml", "-f", "compose.yaml")
    assert (beside.code, beside.out) == (1, TOLD)
    assert beside.err == "note: compose.yaml, document 1: kind is missing\n"
    alone = berth("lint", "-f", "compose.yaml", "-f", "values.yaml")
    assert alone.code == 2
    assert alone.err == (
        "error: compose.yaml, document 1: kind is missing\nerror: values.yaml, document 1: kind is missing\n"
    )
    lenient = berth("lint", "--lenient", "compose.yaml")
    assert lenient == Outcome(
        0, "Nothing found in 0 objects.\n", "note: compose.yaml, document 1: kind is missing\n"
    )


def test_files_that_are_no_yaml(folder: Path) -> None:
    """The other files are judged all the same; it is bad input, unless somebody is lenient."""
    (folder / "chart.yaml").write_text("kind: {{ .Values.kind }}\nx: [\n")
    strict = berth("lint", "-f", ".")
    assert (strict.code, strict.out) == (2, TOLD)
    assert strict.err.startswith("error: chart.yaml: not valid YAML: line ")
    lenient = berth("lint", "-f", ".", "--lenient")
    assert (lenient.code, lenient.out) == (1, TOLD)
    assert lenient.err.startswith("note: chart.yaml: not valid YAML: line ")


@pytest.mark.parametrize("text", ["", "\n", "---\n", "# nothing\n---\n...\n"], ids=repr)
def test_empty_files(folder: Path, text: str) -> None:
    """A chart may render to nothing."""
    (folder / "empty.yaml").write_text(text)
    assert berth("lint", "-f", "empty.yaml") == Outcome(0, "Nothing found in 0 objects.\n", "")
    assert berth("lint", "-f", "-", stdin=text).code == 0


def test_an_object_that_cannot_be_read(folder: Path) -> None:
    """It is a finding on its line, and the others are judged."""
    (folder / "web.yaml").write_text(f"{BROKEN}---\n{BROKEN.replace('replicas: 2', 'replicas: two')}")
    outcome = berth("lint", "-f", "web.yaml")
    assert outcome.out.startswith(TOLD.partition("\n\n1 error")[0])
    there = "web.yaml:23: error BERTH001 Deployment shop/web: spec.replicas"
    assert f'{there}\n  expected an integer, got "two"' in outcome.out


def test_windows_line_ends(folder: Path) -> None:
    """Lines are counted as an editor counts them."""
    (folder / "web.yaml").write_bytes(BROKEN.replace("\n", "\r\n").encode())
    assert berth("lint", "-f", "web.yaml").out == TOLD


def test_a_list_in_json(folder: Path) -> None:
    """What kubectl prints has lines, too."""
    items = [yaml.safe_load(BROKEN), deployment("db", **spread(app="db"))]
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    (folder / "all.json").write_text(json.dumps(listed, indent=2))
    lines = (folder / "all.json").read_text().splitlines()
    found = json.loads(berth("lint", "-f", "all.json", "-o", "json").out)["findings"]
    assert [finding["code"] for finding in found] == ["BERTH002", "BERTH111", "BERTH111"]
    assert "nodeSelectr" in lines[found[0]["line"] - 1]
    assert lines[found[2]["line"] - 1].strip() == "{"


@pytest.mark.parametrize(
    ("kind", "prefix"),
    [
        ("Pod", ""),
        ("ReplicaSet", "spec.template."),
        ("StatefulSet", "spec.template."),
        ("DaemonSet", "spec.template."),
        ("ReplicationController", "spec.template."),
        ("Job", "spec.template."),
        ("CronJob", "spec.jobTemplate.spec.template."),
    ],
)
def test_every_kind_of_workload(folder: Path, kind: str, prefix: str) -> None:
    """Whatever makes pods is judged by them, be it suspended or scaled to nothing."""
    template = deployment(**spread(app="wbe"))["spec"]["template"]
    obj: Object = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "x"}}
    if kind == "Pod":
        obj |= {"apiVersion": "v1", **template, "metadata": {"name": "x", **template["metadata"]}}
    elif kind == "CronJob":
        obj |= {"apiVersion": "batch/v1", "spec": {"suspend": True, "schedule": "@daily"}}
        obj["spec"]["jobTemplate"] = {"spec": {"template": template, "suspend": True}}
    elif kind == "Job":
        obj |= {"apiVersion": "batch/v1", "spec": {"template": template, "suspend": True}}
    elif kind == "ReplicationController":
        obj |= {"apiVersion": "v1", "spec": {"template": template, "replicas": 0}}
    else:
        obj["spec"] = {"template": template, "selector": {"matchLabels": {"app": "web"}}}
    if kind in ("Job", "CronJob"):
        template["spec"]["restartPolicy"] = "Never"
    file = write(folder / "a.yaml", obj)
    (found,) = json.loads(berth("lint", "-f", file, "-o", "json").out)["findings"]
    assert found["code"] == "BERTH102"
    assert found["path"] == f"{prefix}spec.topologySpreadConstraints[0].labelSelector"
