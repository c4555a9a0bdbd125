"""`berth audit`, as people and programs see it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.api.client import Client
from tests.support.api.objects import pod as served_pod
from tests.support.api.servers import running_server
from tests.support.builders import EXECUTION
from tests.support.cli.command import NODES, berth, files, pod
from tests.support.paths import ROOT

REQUIRES = f"""
  nodeName: n1
  affinity:
    nodeAffinity:
      {EXECUTION}:
        nodeSelectorTerms: [{{matchExpressions: [{{key: disk, operator: Exists}}]}}]
"""
SELECTS = "  nodeName: n1\n  nodeSelector: {disk: ssd}"
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: keep}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
"""
WEB = ", labels: {app: web}"
OWNED = ", ownerReferences: [{apiVersion: v1, kind: ReplicaSet, name: r, uid: u, controller: true}]"
NEW_NODE = """
apiVersion: v1
kind: Node
metadata: {name: new, labels: {disk: ssd}}
status: {capacity: {cpu: '4', memory: 8Gi, pods: '10'}}
"""
SHARE = ("--max-evicted-share", "0.2")
# Stored by a server: it has a uid.
MISSPELT = f""", uid: "1", annotations: {{berth.dev/affinity: '{{nodeAffinity: {{{EXECUTION}: \
{{nodeSelectorTerms: [{{matchExpressions: [{{key: disk, operator: Exist}}]}}]}}}}}}'}}"""

BROKEN = f"""\
NAMESPACE   POD   NODE   RULE           KIND        WHY
default     p     n1     NodeAffinity   execution   {EXECUTION} wants disk, the node has no label disk

What the controllers would evict:
NAMESPACE   POD   NODE   REPLACEMENT   HELD BACK BY   WHY
default     p     n1     nowhere       budget keep    disk, the node has no label disk

1 pod breaks a hard rule (NodeAffinity 1).
1 pod would be evicted, only when a budget allows it, with no node for the replacement.
"""


def test_a_clean_cluster(tmp_path: Path) -> None:
    """Of a clean cluster nothing is printed but the verdict, with exit code 0."""
    outcome = berth("audit", "-f", files(tmp_path, NODES, pod("p", "  nodeName: n1")))
    assert (outcome.code, outcome.out, outcome.err) == (0, "Every hard rule holds.\n", "")


def test_nothing_runs(tmp_path: Path) -> None:
    """Pods that are pending are nobody's business here."""
    outcome = berth("audit", "-f", files(tmp_path, NODES, pod("p", "  nodeSelector: {disk: ssd}")))
    assert (outcome.code, outcome.out) == (0, "There is no running pod to judge.\n")


def test_a_broken_rule(tmp_path: Path) -> None:
    """Who, where, which rule and why; who would go, and what stops it; exit code 1."""
    folder = files(tmp_path, NODES, pod("p", REQUIRES, metadata=WEB), BUDGET)
    outcome = berth("audit", "-f", folder)
    assert (outcome.code, outcome.out, outcome.err) == (1, BROKEN, "")


def test_a_rule_for_newcomers_is_not_broken(tmp_path: Path) -> None:
    """A cordon is shown, and the exit code is 0."""
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n3}\nspec: {unschedulable: true}"
    node += "\nstatus: {capacity: {cpu: '4', memory: 8Gi, pods: '10'}}"
    outcome = berth("audit", "-f", files(tmp_path, node, pod("p", "  nodeName: n3")))
    assert outcome.code == 0
    assert "1 pod breaks a rule for newcomers only (NodeUnschedulable 1).\n" in outcome.out
    assert outcome.out.endswith("Every hard rule holds.\n")


def test_an_uneven_hard_constraint(tmp_path: Path) -> None:
    """A hard constraint that is not kept is shown with its skew, and the exit code is 1."""
    constraint = "{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, "
    constraint += "labelSelector: {matchLabels: {app: web}}}"
    spec = f"  nodeName: n1\n  topologySpreadConstraints: [{constraint}]"
    folder = files(tmp_path, NODES, *(pod(name, spec, metadata=WEB) for name in ("w1", "w2")))
    outcome = berth("audit", "-f", folder)
    assert outcome.code == 1
    assert re.search(r"^default +Pod/w1 +hostname +hard +2 +1 +no +n1 2, n2 0$", outcome.out, re.MULTILINE)
    assert "2 spread constraints are not kept (2 hard, 0 soft).\n" in outcome.out


def test_who_would_be_moved_and_who_stays(tmp_path: Path) -> None:
    """With --rebalance every move is shown with its node, and why a workload stays uneven."""
    constraint = "{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, "
    constraint += "labelSelector: {matchLabels: {app: web}}}"
    spec = f"  nodeName: n1\n  topologySpreadConstraints: [{constraint}]"
    pods = [pod(name, spec, metadata=WEB + OWNED) for name in ("w1", "w2")]
    folder = files(tmp_path, NODES, *pods)
    assert "moved for evenness" not in berth("audit", "-f", folder).out
    assert "Nobody would be moved for evenness." in berth("audit", "-f", folder, "--rebalance").out
    outcome = berth("audit", "-f", folder, "--rebalance=hard")
    assert re.search(r"^default +ReplicaSet/r +w2 +n1 +n2 ", outcome.out, re.MULTILINE)
    document = json.loads(berth("audit", "-f", folder, "--rebalance=hard", "-o", "json").out)
    [workload] = document["rebalancing"]
    assert [(move["pod"], move["landsOn"]) for move in workload["moves"]] == [("w2", "n2")]
    for name in ("closed", "budget"):
        (tmp_path / name).mkdir()
    before, n2, after = NODES.partition("    metadata: {name: n2")
    closed = files(tmp_path / "closed", f"{before}    spec: {{unschedulable: true}}\n{n2}{after}", *pods)
    stays = berth("audit", "-f", closed, "--rebalance=hard").out
    assert "default ReplicaSet/r stays uneven: no node would take a replacement." in " ".join(stays.split())
    budget = files(tmp_path / "budget", NODES, *pods, BUDGET.replace("minAvailable: 1", "minAvailable: 2"))
    stays = berth("audit", "-f", budget, "--rebalance=hard").out
    assert "a disruption budget lets none go: keep." in " ".join(stays.split())


def test_filters(tmp_path: Path) -> None:
    """By namespace and by rule, in whatever case; the exit code is that of what is shown."""
    folder = files(tmp_path, NODES, pod("p", SELECTS))
    assert berth("audit", "-f", folder, "-n", "default", "--rule", "nodeaffinity").code == 1
    assert berth("audit", "-f", folder, "-n", "shop").out == "Every hard rule holds.\n"
    assert berth("audit", "-f", folder, "--rule", "NodePorts", "--rule", "VolumeZone").code == 0
    refused = berth("audit", "-f", folder, "--rule", "Luck")
    assert (refused.code, "'Luck' is not one of" in refused.err) == (2, True)


def test_a_gate_that_is_off(tmp_path: Path) -> None:
    """With its gate off an execution-time rule does not exist, so that nothing breaks it."""
    folder = files(tmp_path, NODES, pod("p", REQUIRES))
    assert berth("audit", "-f", folder, "--feature-gates", "NodeAffinityEviction=false").code == 0


def test_bad_input(tmp_path: Path) -> None:
    """Bad input is refused in one sentence, with exit code 2."""
    outcome = berth("audit", "-f", files(tmp_path, "kind: Pod\napiVersion: v1\nspec: 3"))
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: ")


def test_wide_shows_where_the_rule_stands(tmp_path: Path) -> None:
    """The wide table adds the owner and the path of the rule."""
    out = berth("audit", "-f", files(tmp_path, NODES, pod("p", REQUIRES)), "-o", "wide").out
    assert "OWNER" in out
    assert f"spec.affinity.nodeAffinity.{EXECUTION}   " in out


def test_many_broken_rules_are_summed_up(tmp_path: Path) -> None:
    """Beyond what a person reads, pods of one owner share a line; wide lists all."""
    owner = (
        ", ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: web, uid: u, controller: true}]"
    )
    node = NODES.replace('pods: "10"', 'pods: "200"').replace('cpu: "4"', 'cpu: "400"')
    pods = "---".join(pod(f"web-{i}", SELECTS, metadata=owner) for i in range(101))
    folder = files(tmp_path, node, pods)
    out = berth("audit", "-f", folder).out
    assert re.search(
        r"^default +StatefulSet/web +NodeAffinity +hard +101 +1 +nodeSelector", out, re.MULTILINE
    )
    assert "(101 broken rules; -o wide lists every one)" in out
    assert berth("audit", "-f", folder, "-o", "wide").out.count("nodeSelector wants") == 101


PATH = f"spec.affinity.nodeAffinity.{EXECUTION}"


def test_output_for_programs(tmp_path: Path) -> None:
    """An audit for programs is one versioned object, the same in JSON and YAML."""
    folder = files(tmp_path, NODES, pod("p", REQUIRES, metadata=WEB), BUDGET)
    outcome = berth("audit", "-f", folder, "-o", "json")
    document = json.loads(outcome.out)
    assert outcome.code == 1
    assert yaml.safe_load(berth("audit", "-f", folder, "-o", "yaml").out) == document
    assert (document["apiVersion"], document["kind"]) == ("berth.dev/v1alpha1", "Audit")
    assert document["summary"] == {
        "clean": False,
        "nodes": 2,
        "running": 1,
        "broken": 1,
        "uneven": 0,
        "evictions": 1,
        "stopped": 1,
        "halted": 0,
        "invalidAnnotations": 0,
    }
    assert document["violations"] == [
        {
            "namespace": "default",
            "pod": "p",
            "owner": None,
            "node": "n1",
            "rule": "NodeAffinity",
            "reason": "node(s) didn't match Pod's node affinity/selector",
            "cause": f"{EXECUTION} wants disk, the node has no label disk",
            "path": PATH,
            "ofPeer": False,
            "hard": True,
            "execution": True,
            "code": "NodeAffinityMismatch",
            "topology": None,
            "peers": [],
            "workloads": [],
            "values": {"field": EXECUTION, "wanted": "disk", "found": "no label disk"},
        }
    ]


def test_evictions_for_programs(tmp_path: Path) -> None:
    """Programs are told who would be evicted and why, and what holds that back."""
    folder = files(tmp_path, NODES, pod("p", REQUIRES, metadata=WEB), BUDGET)
    document = json.loads(berth("audit", "-f", folder, "-o", "json").out)
    (eviction,) = document["evictions"]
    assert (eviction["pod"], eviction["landsOn"], eviction["stoppedBy"]) == ("p", None, ["keep"])
    assert (eviction["haltedIn"], document["halts"], document["invalidAnnotations"]) == (None, [], [])
    assert [(breach["kind"], breach["path"]) for breach in eviction["breaches"]] == [("node", PATH)]
    assert document["budgets"] == [
        {
            "namespace": "default",
            "name": "keep",
            "selector": "app=web",
            "pods": 1,
            "healthy": 1,
            "desired": 1,
            "allowed": 0,
            "computed": True,
        }
    ]


def test_every_field_is_documented(tmp_path: Path) -> None:
    """docs/output.md names every field that an audit prints."""
    text = ROOT.joinpath("docs/output.md").read_text(encoding="utf-8")
    section = text.partition("## `kind: Audit`")[2].partition("\n## ")[0]
    folder = files(
        tmp_path,
        NODES,
        pod("p", REQUIRES, metadata=WEB),
        pod("q", "  nodeName: n1", metadata=MISSPELT),
        BUDGET,
    )
    document = json.loads(berth("audit", "-f", folder, "-o", "json", "--halt-above", "0", *SHARE).out)
    names = set(document) - {"apiVersion", "kind"} | set(document["summary"])
    for part in ("violations", "evictions", "budgets", "halts", "invalidAnnotations"):
        names |= set(document[part][0])
    documented = set(re.findall(r"`(?:….)?(\w+)(?:\[\])?`", section))
    assert names - documented == set()


def test_too_many_at_once(tmp_path: Path) -> None:
    """The controllers would stop: said of the pod and at the end, with the share they were told of."""
    folder = files(tmp_path, NODES, pod("p", REQUIRES), pod("q", "  nodeName: n1"))
    out = berth("audit", "-f", folder, "--halt-above", "0", *SHARE).out
    assert re.search(r"^default +p +n1 +nowhere +halt in the cluster +disk,", out, re.MULTILINE)
    assert "1 pod would be evicted, only when a halt is over, with no node for the replacement.\n" in out
    assert "Evictions would be halted in the cluster: 1 of 2 pods (50%) would have to go.\n" in out
    assert "halt" not in berth("audit", "-f", folder, "--halt-above", "0").out
    assert berth("audit", "-f", folder, "--eviction-domain", "?").code == 2


def test_those_with_a_place_go_one_by_one(tmp_path: Path) -> None:
    """A pod with a controller and a place for its replacement goes from a halted domain, if it may."""
    folder = files(tmp_path, NODES, NEW_NODE, pod("p", REQUIRES, metadata=OWNED), pod("q", "  nodeName: n1"))
    asked = ("audit", "-f", folder, "--halt-above", "0", *SHARE)
    out = berth(*asked).out
    assert re.search(r"^default +p +n1 +new +one by one in the cluster +disk,", out, re.MULTILINE)
    assert "1 pod would be evicted, one by one.\n" in out
    assert "Evictions would go one by one in the cluster: 1 of 2 pods (50%) would have to go" in out
    document = json.loads(berth(*asked, "-o", "json").out)
    assert (document["evictions"][0]["oneByOne"], document["summary"]["halted"]) == (True, 0)
    assert (document["halts"][0]["moving"], document["halts"][0]["staying"]) == (1, 0)
    stopped = json.loads(berth(*asked, "--halt-policy", "stop", "-o", "json").out)
    assert (stopped["evictions"][0]["oneByOne"], stopped["summary"]["halted"]) == (False, 1)


def test_an_annotation_that_a_server_stored_and_nobody_can_follow(tmp_path: Path) -> None:
    """It is told of, its rules are left out as the controllers do it, and everything else is judged."""
    outcome = berth(
        "audit",
        "-f",
        files(tmp_path, NODES, pod("p", SELECTS), pod("q", "  nodeName: n1", metadata=MISSPELT)),
    )
    assert outcome.code == 1
    assert re.search(
        r"^default +q +n1 +metadata\.annotations\[berth\.dev/affinity\]", outcome.out, re.MULTILINE
    )
    assert 'Invalid value: "Exist": not a valid selector operator' in outcome.out
    assert "the rules in the annotation of pod default/q do not count" in outcome.err


def test_an_annotation_in_a_file_is_for_its_author_to_put_right(tmp_path: Path) -> None:
    """An invalid annotation in a file is bad input, not a finding."""
    outcome = berth(
        "audit",
        "-f",
        files(tmp_path, NODES, pod("q", "  nodeName: n1", metadata=MISSPELT.replace(', uid: "1"', ""))),
    )
    assert (outcome.code, outcome.out) == (2, "")


def test_the_documented_output_is_real() -> None:
    """docs/cli.md shows what the example prints."""
    text = ROOT.joinpath("docs/cli.md").read_text(encoding="utf-8")
    ((file, shown),) = re.findall(r"^```\n\$ berth audit -f (\S+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert berth("audit", "-f", ROOT / file).out == shown


# --- a live cluster -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A pod whose node lacks the label it requires, and a budget that nobody has counted yet."""
    with running_server(tmp_path_factory.mktemp("data")) as client:
        client.made("/api/v1/nodes", {"metadata": {"name": "n1"}, "status": {"capacity": {"pods": "10"}}})
        rule = {
            EXECUTION: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]}
        }
        made = served_pod("p", nodeName="n1", affinity={"nodeAffinity": rule})
        made["metadata"]["labels"] = {"app": "web"}
        client.made("/api/v1/namespaces/default/pods", made)
        client.made("/apis/policy/v1/namespaces/default/poddisruptionbudgets", yaml.safe_load(BUDGET))
        yield client


def test_a_live_cluster_with_its_budgets(server: Client) -> None:
    """Budgets are listed, too; nothing is written."""
    outcome = berth("audit", "--kubeconfig", server.prepared.kubeconfig, "-o", "json")
    document = json.loads(outcome.out)
    assert (outcome.code, outcome.err) == (1, "")
    assert [violation["pod"] for violation in document["violations"]] == ["p"]
    assert [budget["name"] for budget in document["budgets"]] == ["keep"]
