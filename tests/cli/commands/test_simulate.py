"""`berth simulate` on files, as people have them."""

import json
import sys
from pathlib import Path

import pytest
import yaml

from berth.cli.input import manifests
from berth.engine.state.options import Options
from berth.kube.workloads import expansion
from tests.support.cli.command import NODES, WEB, Terminal, berth, files, pod

TABLE = """\
NAMESPACE   POD                NODE     ZONE     SCORE    OWNER
shop        web-{hash}-0   n1       a        454      Deployment/web
shop        web-{hash}-1   n2       b        454      Deployment/web
default     big                <none>   <none>   <none>   <none>

ZONE a   1 node, 1 pod
  n1   +shop/web-{hash}-0
ZONE b   1 node, 1 pod
  n2   +shop/web-{hash}-1
(+ placed now)

NAMESPACE   OWNER            SPREAD OVER   KIND   SKEW   MAX   OK    PODS PER DOMAIN
shop        Deployment/web   zone          hard   0      1     yes   a 1, b 1

2 of 3 pods placed. Not placed:
  default/big: 0/2 nodes are available: 2 Insufficient cpu.
"""


def test_the_whole_picture(tmp_path: Path) -> None:
    """Placements, the map of domains, the skew, and what was left, each where a reader looks for it."""
    outcome = berth("simulate", "-f", files(tmp_path, NODES, WEB, pod("big", cpu="9")))
    name = outcome.out.split("web-")[1].split("-")[0]
    assert (1, TABLE.format(hash=name), "") == (outcome.code, outcome.out, outcome.err)


def test_all_placed(tmp_path: Path) -> None:
    """Exit code 0 means that every pod found a node."""
    outcome = berth("simulate", "-f", files(tmp_path, NODES, WEB))
    assert outcome.code == 0
    assert outcome.out.endswith("All 2 pods were placed.\n")


def test_nothing_to_place(tmp_path: Path) -> None:
    """Nodes alone are fine."""
    outcome = berth("simulate", "-f", files(tmp_path, NODES))
    assert outcome.code == 0
    assert outcome.out.endswith("There is no pending pod to place.\n")


def test_standard_input_beside_files(tmp_path: Path) -> None:
    """`-` reads manifests from standard input, multi-document YAML included."""
    outcome = berth("simulate", "-f", files(tmp_path, NODES), "-f", "-", stdin=f"{pod('a')}---{pod('b')}")
    assert outcome.code == 0
    assert outcome.out.endswith("All 2 pods were placed.\n")


def test_json_output(tmp_path: Path) -> None:
    """The JSON is a versioned object with everything the tables show."""
    outcome = berth("simulate", "-o", "json", "-f", files(tmp_path, NODES, WEB, pod("big", cpu="9")))
    document = json.loads(outcome.out)
    assert (document["apiVersion"], document["kind"]) == ("berth.dev/v1alpha1", "Simulation")
    assert document["summary"] == {"nodes": 2, "running": 0, "pending": 3, "placed": 2, "unplaced": 1}
    assert [placement["node"] for placement in document["placements"]] == ["n1", "n2"]
    (unplaced,) = document["unplaced"]
    assert unplaced == {
        "namespace": "default",
        "pod": "big",
        "owner": None,
        "reason": "Unschedulable",
        "message": "0/2 nodes are available: 2 Insufficient cpu.",
        "priority": 0,
        "noPreemption": None,
        "details": unplaced["details"],
    }
    assert [(detail["code"], detail["nodes"]) for detail in unplaced["details"]] == [("NodeTooSmall", 2)]
    assert [zone["zone"] for zone in document["domains"]] == ["a", "b"]
    (spread,) = document["spread"]
    assert (
        spread["counts"],
        spread["skew"],
        spread["maxSkew"],
        spread["ok"],
    ) == ({"a": 1, "b": 1}, 0, 1, True)


def test_yaml_output_is_the_same_object(tmp_path: Path) -> None:
    """YAML and JSON differ in spelling only."""
    folder = files(tmp_path, NODES, WEB)
    as_json = json.loads(berth("simulate", "-o", "json", "-f", folder).out)
    assert as_json == yaml.safe_load(berth("simulate", "-o", "yaml", "-f", folder).out)


def test_wide_output(tmp_path: Path) -> None:
    """Wide adds the priority and the full topology key."""
    out = berth("simulate", "-o", "wide", "-f", files(tmp_path, NODES, WEB)).out
    assert "PRIORITY" in out
    assert "topology.kubernetes.io/zone" in out


def test_one_namespace(tmp_path: Path) -> None:
    """-n shows one namespace; the exit code is about what is shown."""
    outcome = berth("simulate", "-n", "shop", "-f", files(tmp_path, NODES, WEB, pod("big", cpu="9")))
    assert outcome.code == 0
    assert "big" not in outcome.out


def test_a_namespace_without_pending_pods(tmp_path: Path) -> None:
    """What is not there is not there in that namespace: others have pods that wait."""
    outcome = berth("simulate", "-n", "empty", "-f", files(tmp_path, NODES, WEB))
    assert outcome.out.endswith("There is no pending pod in namespace empty to place.\n")


def test_many_pods_and_nodes_are_summed_up(tmp_path: Path) -> None:
    """Beyond what a person reads, rows are summed up by owner and by zone."""
    nodes = "---".join(NODES.replace("n1", f"a{i}").replace("n2", f"b{i}") for i in range(30))
    web = WEB.replace("replicas: 2", "replicas: 120")
    out = berth("simulate", "-f", files(tmp_path, nodes, web)).out
    assert "shop        Deployment/web   120    120      60      a 60, b 60" in out
    assert "a      30      60     60           0             2 / 2 / 2" in out
    assert "(60 nodes; -o wide lists every one)" in out
    assert len(out.splitlines()) < 15


def test_a_seed_is_repeatable(tmp_path: Path) -> None:
    """The same seed gives the same placement."""
    folder = files(tmp_path, NODES, *(pod(f"p{i}") for i in range(5)))
    runs = {berth("simulate", "--seed", "7", "-f", folder).out for _ in range(3)}
    assert len(runs) == 1


def test_feature_gates(tmp_path: Path) -> None:
    """A disabled feature is not applied, and an unknown one is refused."""
    folder = files(tmp_path, NODES, WEB)
    assert "SPREAD" not in berth("simulate", "--feature-gates", "EvenPodsSpread=false", "-f", folder).out
    outcome = berth("simulate", "--feature-gates", "Frob=true", "-f", folder)
    assert outcome.code == 2
    assert outcome.err.startswith("error: --feature-gates: unrecognized feature gate: Frob")


# --- saving ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["out.yaml", "out.json"])
def test_save_keeps_everything(tmp_path: Path, name: str) -> None:
    """All objects are written, with their nodes and with fields Berth does not know."""
    folder, target = tmp_path / "in", tmp_path / name
    folder.mkdir()
    files(
        folder,
        NODES,
        WEB,
        pod("own", "  dnsPolicy: None", metadata=", finalizers: [x/y]"),
        "kind: Widget\nsize: 3\n",
    )
    assert berth("simulate", "-f", folder, "--save", target).code == 0
    items = yaml.safe_load(target.read_text())["items"]
    by_kind: dict[str, list[dict[str, object]]] = {}
    for item in items:
        by_kind.setdefault(item["kind"], []).append(item)
    assert {kind: len(found) for kind, found in by_kind.items()} == {
        "Node": 2,
        "Deployment": 1,
        "Pod": 3,
        "Widget": 1,
    }
    assert by_kind["Widget"] == [{"kind": "Widget", "size": 3}]
    own, *made = by_kind["Pod"]
    assert (own["spec"]["dnsPolicy"], own["metadata"]["finalizers"]) == ("None", ["x/y"])  # type: ignore[index]
    assert [item["spec"]["terminationGracePeriodSeconds"] for item in made] == [5, 5]  # type: ignore[index]
    assert all(item["spec"]["nodeName"] in ("n1", "n2") for item in by_kind["Pod"])  # type: ignore[index]


def test_what_was_saved_is_complete(tmp_path: Path) -> None:
    """A saved result has nothing left to place, DaemonSets and spread constraints included."""
    daemon = (
        WEB.replace("kind: Deployment", "kind: DaemonSet")
        .replace("  replicas: 2\n", "")
        .replace("web", "agent")
    )
    target = tmp_path / "saved.json"
    assert berth("simulate", "-f", files(tmp_path, NODES, WEB, daemon), "--save", target).code == 0
    outcome = berth("simulate", "-f", target)
    assert outcome.code == 0
    assert outcome.out.endswith("There is no pending pod to place.\n")


def test_saved_pods_of_a_stateful_set_keep_their_claims(tmp_path: Path) -> None:
    """What controllers make for a StatefulSet and for ephemeral volumes is saved whole, and read again."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    database = yaml.safe_load(WEB.replace("kind: Deployment", "kind: StatefulSet").replace("web", "db"))
    database["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
    database["spec"]["template"]["spec"]["volumes"] = [
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}},
        {"name": "tmp", "emptyDir": {}},
    ]
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "disks.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    source = files(tmp_path, NODES, json.dumps(database), json.dumps(storage))
    target = tmp_path / "saved.json"
    assert berth("simulate", "-f", source, "--save", target).code == 0
    items = json.loads(target.read_text())["items"]
    volumes = [item["spec"]["volumes"] for item in items if item["kind"] == "Pod"]
    assert [[volume["name"] for volume in each] for each in volumes] == [["scratch", "tmp", "data"]] * 2
    assert volumes[0][2]["persistentVolumeClaim"]["claimName"] == "data-db-0"
    claims = {item["metadata"]["name"]: item["spec"] for item in items if "Claim" in item["kind"]}
    names = {"data-db-0", "data-db-1", "db-0-scratch", "db-1-scratch"}
    assert claims.keys() == names
    assert claims["data-db-0"]["resources"] == claim["resources"]
    again = berth("simulate", "-f", target)
    assert again.out.endswith("There is no pending pod to place.\n")


def test_save_to_standard_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dash is no file: what is saved comes in the place of the report, ready for a pipe."""
    monkeypatch.chdir(tmp_path)
    source = files(tmp_path, NODES, WEB)
    before = sorted(tmp_path.iterdir())
    outcome = berth("simulate", "-f", source, "--save", "-")
    assert (outcome.code, outcome.err) == (0, "")
    pods = [item for item in json.loads(outcome.out)["items"] if item["kind"] == "Pod"]
    assert [bool(item["spec"]["nodeName"]) for item in pods] == [True, True]
    assert sorted(tmp_path.iterdir()) == before


def test_an_unwritable_target(tmp_path: Path) -> None:
    """If the result cannot be saved, that is said in one sentence."""
    outcome = berth("simulate", "-f", files(tmp_path, NODES), "--save", tmp_path / "no" / "out.json")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.endswith("out.json: cannot be written: No such file or directory\n")


# --- bad input -----------------------------------------------------------------------------

OPERATOR = """\
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: Is, values: [ssd]}]}]
"""


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("kind: [Pod\n", ["1.yaml", "not valid YAML", "line 2"]),
        (
            pod("p", OPERATOR),
            ["1.yaml", "Pod default/p", "nodeSelectorTerms[0].matchExpressions[0].operator", '"Is"'],
        ),
        (pod("p", cpu="1x"), ["1.yaml", "Pod default/p", "spec.containers[0].resources.requests[cpu]", "1x"]),
        (NODES, ["Node n1", "twice", "0.yaml", "1.yaml"]),
        ("just text\n", ["1.yaml", "just text"]),
        ("metadata: {name: x}\n", ["1.yaml", "kind"]),
        (
            WEB.replace("maxSkew: 1", "maxSkew: 0"),
            ["Deployment shop/web", "topologySpreadConstraints[0].maxSkew"],
        ),
        (pod("p", "  tolerations: 5"), ["1.yaml", "Pod default/p", "spec.tolerations", "5"]),
        (
            pod("p", metadata=", annotations: {berth.dev/affinity: 'podAffinities: {}'}"),
            ["Pod default/p", "metadata.annotations[berth.dev/affinity].podAffinities", "unknown field"],
        ),
    ],
    ids=["yaml", "operator", "quantity", "twice", "text", "kind", "template", "type", "annotation"],
)
def test_bad_input_is_one_sentence(tmp_path: Path, content: str, words: list[str]) -> None:
    """File, object and field are named on stderr, nothing is shown or saved, and the exit code is 2."""
    folder, target = tmp_path / "in", tmp_path / "out.json"
    folder.mkdir()
    outcome = berth("simulate", "-f", files(folder, NODES, content), "--save", target)
    assert (outcome.code, outcome.out, len(outcome.err.splitlines())) == (2, "", 1)
    assert outcome.err.startswith("error: ")
    assert [word for word in words if word not in outcome.err] == []
    assert not target.exists()


def test_a_missing_file() -> None:
    """A file that is not there is named."""
    outcome = berth("simulate", "-f", "/nowhere/pods.yaml")
    assert (outcome.code, outcome.err) == (2, "error: /nowhere/pods.yaml: no such file or folder\n")


def test_a_folder_without_manifests(tmp_path: Path) -> None:
    """An empty folder is a mistake worth telling."""
    outcome = berth("simulate", "-f", tmp_path)
    assert (outcome.code, outcome.out) == (2, "")


WIDGET = """
apiVersion: example.com/v1
kind: Widget
metadata: {name: w}
spec: {big: 123456789012345678901234567890, old: 010}
"""


@pytest.mark.parametrize("name", ["all.json", "all.yaml"])
def test_saved_integers_keep_their_digits(tmp_path: Path, name: str) -> None:
    """Saved integers keep their digits, also in objects Berth does not know."""
    target, again = tmp_path / name, tmp_path / f"again-{name}"
    folder = tmp_path / "in"
    folder.mkdir()
    assert berth("simulate", "-f", files(folder, NODES, WIDGET), "--save", target).code == 0
    assert "123456789012345678901234567890" in target.read_text()
    assert yaml.safe_load(target.read_text())["items"][-1]["spec"]["old"] == 8
    assert berth("simulate", "-f", target, "--save", again).code == 0
    assert target.read_text() == again.read_text()


def test_a_link_that_leads_to_itself_cannot_be_saved_to(tmp_path: Path) -> None:
    """It is a sentence, as for whatever else cannot be written."""
    loop, source = tmp_path / "loop", tmp_path / "node.json"
    loop.symlink_to("loop")
    source.write_text('{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}')
    outcome = berth("simulate", "-f", source, "--save", loop)
    assert outcome.code == 2
    assert f"error: {loop}: cannot be written: Too many levels of symbolic links" in outcome.err


def test_what_nests_too_deeply_to_be_saved(tmp_path: Path) -> None:
    """JSON can be read deeper than YAML can be written."""
    source, target = tmp_path / "deep.json", tmp_path / "all.yaml"
    source.write_text('{"kind": "Foo", "spec": ' + "[" * 400 + "]" * 400 + "}")
    outcome = berth("simulate", "-f", source, "--save", target)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"error: {target}: cannot be written: an object is nested too deeply\n"
    assert not target.exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            WEB.replace("replicas: 2", "replicas: 2147483647"),
            "Deployment shop/web: spec.replicas: 2147483647 is",
        ),
        (WEB.replace("replicas: 2", "replicas: 99999999999"), "spec.replicas: expected a 32-bit integer"),
        (
            pod(spec="  priority: 99999999999999999999"),
            "Pod default/p: spec.priority: expected a 32-bit integer",
        ),
    ],
)
def test_numbers_out_of_range_are_bad_input(
    tmp_path: Path, text: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers out of range are refused at once, in one sentence."""
    monkeypatch.setattr(expansion, "MAX_PODS_OF_A_WORKLOAD", 1000)
    outcome = berth("simulate", "-f", files(tmp_path, NODES, text))
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert sentence in outcome.err


def test_progress_of_reading_and_taking_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, work that takes long enough shows how far it is."""
    shown = Terminal()
    monkeypatch.setattr(manifests, "_SHOW_AFTER", 0.0)
    monkeypatch.setattr(manifests, "_SHOW_EVERY", 0.0)
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    manifests.read_files((str(files(tmp_path, NODES, WEB)),), Options())
    assert "reading" in shown.getvalue()
    assert "taking in" in shown.getvalue()


def test_no_progress_before_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick work shows nothing."""
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    manifests.read_files((str(files(tmp_path, NODES, WEB)),), Options())
    assert "reading" not in shown.getvalue()
