"""`berth explain` and `berth demo`, as people see them."""

import json
from pathlib import Path

import pytest

from tests.support.cli.command import NODES, WEB, berth, files, pod

STUCK = """\
Pod default/p
0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.

NODE   ZONE   RULE           WHY
n1     a      NodeAffinity   nodeSelector wants disk=ssd, the node has no label disk
n2     b      NodeAffinity   nodeSelector wants disk=ssd, the node has no label disk

It waits for:
  - a node with disk=ssd

What would help:
  - without the nodeSelector disk=ssd, 2 nodes fit
  - with the label disk=ssd on n1 or n2, if true there, that node fits
"""


def test_a_pod_that_does_not_fit(tmp_path: Path) -> None:
    """The sentence, every node with its reason, and what would help; exit code 1."""
    outcome = berth("explain", "p", "-f", files(tmp_path, NODES, pod("p", "  nodeSelector: {disk: ssd}")))
    assert (outcome.code, outcome.out, outcome.err) == (1, STUCK, "")


def test_a_pod_that_fits(tmp_path: Path) -> None:
    """The scores are shown rule by rule, the best node is marked; exit code 0."""
    outcome = berth("explain", "pod/p", "-f", files(tmp_path, NODES, pod("p")))
    assert outcome.code == 0
    assert "2/2 nodes are available: default/p goes to n1." in outcome.out
    assert "n1 *" in outcome.out
    assert "NodeResourcesFit x1" in outcome.out
    assert outcome.out.endswith("2 nodes have the highest total, 454; n1 is taken.\n")


def test_a_running_pod(tmp_path: Path) -> None:
    """A running pod is where it is, and its rules hold or not."""
    folder = files(tmp_path, NODES, pod("p", "  nodeName: n2\n  nodeSelector: {disk: ssd}"))
    outcome = berth("explain", "p", "-f", folder)
    assert outcome.code == 0
    assert "default/p runs on n2, where it would not be placed again: NodeAffinity." in outcome.out


@pytest.mark.parametrize(
    ("group", "metadata", "spec"),
    [
        (
            (
                "apiVersion: scheduling.k8s.io/v1alpha2\nkind: PodGroup\nmetadata: {name: train}\n"
                "spec: {schedulingPolicy: {gang: {minCount: 12}}}"
            ),
            "",
            "  schedulingGroup: {podGroupName: train}",
        ),
        (
            (
                "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: train}\n"
                "spec: {minMember: 12}"
            ),
            ", labels: {scheduling.x-k8s.io/pod-group: train}",
            "",
        ),
    ],
    ids=["native", "labelled"],
)
def test_a_member_of_a_group_without_room(tmp_path: Path, group: str, metadata: str, spec: str) -> None:
    """It is not said to go anywhere, by explain nor by simulate; exit code 1."""
    folder = files(tmp_path, NODES, group, *(pod(f"m{i}", spec, metadata=metadata) for i in range(12)))
    outcome = berth("explain", "m3", "-f", folder)
    assert (outcome.code, outcome.err) == (1, "")
    assert "pod group default/train needs 12 of 12 pods placed together" in outcome.out
    assert "There is room for 8 of them." in outcome.out
    assert "goes to" not in outcome.out
    outcome = berth("simulate", "-f", folder)
    assert (outcome.code, "0 of 12 pods placed." in outcome.out) == (1, True)


def test_a_pod_of_another_scheduler(tmp_path: Path) -> None:
    """It goes nowhere until that scheduler places it; whoever speaks for it can say so. Exit code 1."""
    folder = files(tmp_path, NODES, pod("p", "  schedulerName: volcano"))
    outcome = berth("explain", "p", "-f", folder)
    assert outcome.code == 1
    assert "waits for scheduler volcano; those placed here are of default-scheduler and berth" in outcome.out
    assert "goes to" not in outcome.out
    document = json.loads(berth("explain", "p", "-f", folder, "-o", "json").out)
    assert (document["state"], document["node"]) == ("OtherScheduler", None)
    asked = berth("explain", "p", "-f", folder, "--scheduler-name", "volcano")
    assert (asked.code, "goes to n1" in asked.out) == (0, True)


def test_a_pod_on_a_node_that_is_not_ready(tmp_path: Path) -> None:
    """Nobody can say that it runs: the node's condition is told, with a note about the taint; exit code 1."""
    down = NODES.replace(
        'pods: "10"}}',
        'pods: "10"}, conditions: [{type: Ready, status: "False", reason: KubeletNotReady, '
        "message: runtime is down., lastTransitionTime: 2026-01-01T00:00:00Z}]}",
        1,
    )
    folder = files(tmp_path, down, pod("p", "  nodeName: n1"))
    outcome = berth("explain", "p", "-f", folder)
    assert outcome.code == 1
    assert outcome.err == "note: node n1 reports NotReady: it is judged with the taint for it\n"
    assert outcome.out.splitlines()[1] == (
        "default/p is assigned to n1, which is NotReady since 2026-01-01T00:00:00Z "
        "(KubeletNotReady: runtime is down), where it would not be placed again: TaintToleration."
    )
    document = json.loads(berth("explain", "p", "-f", folder, "-o", "json").out)
    assert (document["state"], document["node"]) == ("NodeNotReady", "n1")


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_has_ended(tmp_path: Path, phase: str) -> None:
    """It is found, and said to have ended and why, without any node; exit code 0."""
    ended = pod("p", f"  nodeName: n1\nstatus: {{phase: {phase}, reason: Evicted, message: low on disk.}}")
    folder = files(tmp_path, NODES, ended)
    outcome = berth("explain", "p", "-f", folder)
    expected = f"default/p has ended on n1: {phase} (Evicted: low on disk). It is not placed again."
    assert (outcome.code, outcome.out, outcome.err) == (0, f"Pod default/p\n{expected}\n", "")
    document = json.loads(berth("explain", "p", "-f", folder, "-o", "json").out)
    assert (document["state"], document["node"], document["nodes"]) == (phase, "n1", [])


def test_a_pod_that_is_being_deleted(tmp_path: Path) -> None:
    """It needs nothing, so the exit code is 0."""
    going = pod("p", "  nodeName: n1", metadata=', deletionTimestamp: "2026-01-01T00:00:00Z"')
    outcome = berth("explain", "p", "-f", files(tmp_path, NODES, going))
    expected = "Pod default/p\ndefault/p is being deleted; it is on n1 until it has stopped.\n"
    assert (outcome.code, outcome.out, outcome.err) == (0, expected, "")


def test_a_pod_whose_node_is_not_there(tmp_path: Path) -> None:
    """Nobody runs it: exit code 1, and no word of where it runs or stays."""
    folder = files(tmp_path, NODES, pod("p", "  nodeName: n9"))
    outcome = berth("explain", "p", "-f", folder)
    assert outcome.code == 1
    assert outcome.out.splitlines()[1] == "default/p is assigned to n9, which is not among the files."
    assert "stays" not in outcome.out
    document = json.loads(berth("explain", "p", "-f", folder, "-o", "json").out)
    assert (document["state"], document["node"]) == ("NodeNotFound", "n9")


def test_a_pod_that_has_ended_is_meant_last(tmp_path: Path) -> None:
    """Without a namespace, the one that is still there is found before one that ended elsewhere."""
    ended = pod("p", "status: {phase: Failed}", metadata=", namespace: old")
    folder = files(tmp_path, NODES, ended, pod("p", metadata=", namespace: shop"))
    assert berth("explain", "p", "-f", folder).out.startswith("Pod shop/p\n")
    assert berth("explain", "p", "-n", "old", "-f", folder).out.startswith(
        "Pod old/p\nold/p has ended: Failed."
    )


def test_wide_shows_raw_scores_and_reasons(tmp_path: Path) -> None:
    """Wide adds what went in: raw scores and kube-scheduler's reasons."""
    folder = files(tmp_path, NODES, pod("p", "  nodeSelector: {kubernetes.io/hostname: n1}"))
    out = berth("explain", "p", "-o", "wide", "-f", folder).out
    assert "100 (0)" in out
    assert "node(s) didn't match Pod's node affinity/selector: nodeSelector wants" in out


def test_json_output(tmp_path: Path) -> None:
    """The JSON is a versioned object with nodes, rejections, scores and relaxations."""
    folder = files(tmp_path, NODES, pod("p", "  nodeSelector: {disk: ssd}"))
    outcome = berth("explain", "p", "-o", "json", "-f", folder)
    document = json.loads(outcome.out)
    assert (document["apiVersion"], document["kind"]) == ("berth.dev/v1alpha1", "Explanation")
    assert (document["pod"], document["state"], document["node"]) == ("p", "DoesNotFit", None)
    assert [node["rejections"][0]["rule"] for node in document["nodes"]] == ["NodeAffinity", "NodeAffinity"]
    assert document["relaxations"][0] == {
        "sentence": "without the nodeSelector disk=ssd, 2 nodes fit",
        "changes": [
            {"kind": "node-selector", "object": None, "path": "spec.nodeSelector[disk]", "value": None}
        ],
        "nodes": ["n1", "n2"],
    }


def test_a_workload(tmp_path: Path) -> None:
    """A workload stands for its next replica, in whatever namespace it is."""
    outcome = berth("explain", "deployment/web", "-f", files(tmp_path, NODES, WEB))
    assert outcome.code == 0
    assert outcome.out.startswith("Pod shop/web-")


def test_a_pod_that_is_not_there(tmp_path: Path) -> None:
    """Near names are listed; exit code 2."""
    outcome = berth("explain", "reprot", "-f", files(tmp_path, NODES, pod("report"), pod("other")))
    expected = "error: pod default/reprot is not among the files; did you mean default/report?\n"
    assert (2, "", expected) == (outcome.code, outcome.out, outcome.err)


def test_a_deployment_named_like_a_pod(tmp_path: Path) -> None:
    """Whoever writes a Deployment's name alone is told how to ask for it."""
    outcome = berth("explain", "web", "-f", files(tmp_path, NODES, WEB))
    assert outcome.code == 2
    assert "did you mean deployment/web" in outcome.err


def test_the_namespace_counts(tmp_path: Path) -> None:
    """With -n only that namespace is looked at."""
    folder = files(tmp_path, NODES, pod("p"))
    assert berth("explain", "p", "-n", "shop", "-f", folder).code == 2
    assert berth("explain", "p", "-n", "default", "-f", folder).code == 0


def test_an_unknown_kind(tmp_path: Path) -> None:
    """A kind that has no pods is refused."""
    outcome = berth("explain", "service/x", "-f", files(tmp_path, NODES))
    assert outcome.code == 2
    assert "service is not a kind of workload" in outcome.err


def test_many_refused_nodes_share_lines(tmp_path: Path) -> None:
    """Beyond what a person reads, nodes refused for the same reasons share a line."""
    nodes = "---".join(NODES.replace("n1", f"a{i}").replace("n2", f"b{i}") for i in range(30))
    out = berth("explain", "p", "-f", files(tmp_path, nodes, pod("p", cpu="9"))).out
    assert "a0, b0, a1 and 57 more" in out
    assert "(60 nodes; -o wide lists every one)" in out


def test_a_node_that_has_not_been_heard_of(tmp_path: Path) -> None:
    """Ready=Unknown is called that: nobody knows whether the node is ready."""
    unknown = NODES.replace('pods: "10"}}', 'pods: "10"}, conditions: [{type: Ready, status: Unknown}]}', 1)
    outcome = berth("explain", "p", "-f", files(tmp_path, unknown, pod("p")))
    assert outcome.err == "note: node n1 reports Ready=Unknown: it is judged with the taint for it\n"


def test_the_demonstration() -> None:
    """The demo places all but one pod, explains that one, and ends with what to try."""
    outcome = berth("demo")
    assert (outcome.code, outcome.err) == (0, "")
    assert "10 of 11 pods placed." in outcome.out
    assert "default/report: 0/6 nodes are available: 1 Insufficient cpu" in outcome.out
    assert "  - with 500m less cpu (at most 2500m), node-b1 fits" in outcome.out
    assert outcome.out.splitlines()[-1].startswith("Try it on your own manifests")


@pytest.mark.parametrize(
    ("replicas", "said"),
    [
        (2, "Beyond those it has, 2 further replicas would find a node, and not the next: 0/2 nodes"),
        (5, "1 of its 5 pods finds no node and waits. Beyond those it has, no further replica would"),
        (7, "3 of its 7 pods find no node and wait. Beyond those it has, no further replica would"),
    ],
)
def test_replicas_that_wait_and_further_ones(tmp_path: Path, replicas: int, said: str) -> None:
    """It is told how many replicas fit beyond those there are, also if some of these wait already."""
    half = 'containers: [{name: c, image: i, resources: {requests: {cpu: "2"}}}]'
    web = (
        f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  replicas: {replicas}\n"
        f"  selector: {{matchLabels: {{app: web}}}}\n"
        f"  template:\n    metadata: {{labels: {{app: web}}}}\n    spec:\n      {half}"
    )
    outcome = berth("explain", "deploy/web", "-f", files(tmp_path, NODES, web))
    assert said in outcome.out
    assert outcome.code == (0 if replicas == 2 else 1)


def test_no_room_for_the_next_replica(tmp_path: Path) -> None:
    """All there are have a node, and the next finds none: the verdict says why, once."""
    owner = "[{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: true}]"
    there = [
        pod(f"web-{node}", f"  nodeName: {node}", cpu="4", metadata=f", ownerReferences: {owner}")
        for node in ("n1", "n2")
    ]
    web = (
        "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web, uid: u}\nspec:\n  replicas: 2\n"
        "  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n"
        '    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "4"}}}]}'
    )
    lines = berth("explain", "rs/web", "-f", files(tmp_path, NODES, web, *there)).out.splitlines()
    assert lines[1:3] == [
        "0/2 nodes are available: 2 Insufficient cpu.",
        "Beyond those it has, no further replica would find a node.",
    ]
