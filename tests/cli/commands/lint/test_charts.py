"""Shapes of well-known charts, and what is common in repositories, are not faults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.support.builders import HOSTNAME, PREFERRED, REQUIRED, ZONE
from tests.support.cli.command import berth
from tests.support.manifests.lint import (
    Object,
    apart,
    budget,
    deployment,
    node,
    on_nodes,
    spread,
    term,
    within,
)

LABELS = {"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": "release"}
SELECTOR = {"matchLabels": LABELS}
CONTROL_PLANE: Object = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
SPOT: Object = {"key": "spot", "value": "true", "effect": "NoSchedule"}
LINUX: Object = {"kubernetes.io/os": "linux"}
MASTER: Object = {"node-role.kubernetes.io/control-plane": ""}
# A managed cluster: three zones, control plane and spot nodes tainted, some nodes cordoned or in trouble.
CLUSTER = [
    *(node(f"w{zone}{i}", zone, **LINUX) for zone in "abc" for i in range(2)),
    node("cp", None, taints=[CONTROL_PLANE], **MASTER),
    *(node(f"s{zone}", zone, taints=[SPOT], **LINUX) for zone in "abc"),
    node("late", "a", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]),
]
WISH: Object = {"weight": 100, "podAffinityTerm": {"labelSelector": SELECTOR, "topologyKey": HOSTNAME}}
SOFT: Object = {"affinity": {"podAntiAffinity": {PREFERRED: [WISH]}}}
SPREADS: Object = {
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": action, "labelSelector": SELECTOR}
        for key, action in ((ZONE, "DoNotSchedule"), (HOSTNAME, "ScheduleAnyway"))
    ]
}
EXCLUDED = [
    within("kubernetes.io/os", "linux"),
    within("node-role.kubernetes.io/infra", operator="DoesNotExist"),
]
PROMETHEUS_NODE_EXPORTER = deployment(
    "exporter",
    kind="DaemonSet",
    hostNetwork=True,
    tolerations=[{"operator": "Exists", "effect": "NoSchedule"}],
    **on_nodes(within("eks.amazonaws.com/compute-type", "fargate", operator="NotIn")),
)
COREDNS = deployment(
    "coredns",
    labels={"k8s-app": "kube-dns"},
    priorityClassName="system-cluster-critical",
    tolerations=[
        {"key": "CriticalAddonsOnly", "operator": "Exists"},
        {**CONTROL_PLANE, "operator": "Exists"},
    ],
    strategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
    nodeSelector={"kubernetes.io/os": "linux"},
    affinity={
        "podAntiAffinity": {
            PREFERRED: [
                {
                    "weight": 100,
                    "podAffinityTerm": {
                        "labelSelector": {"matchExpressions": [within("k8s-app", "kube-dns")]},
                        "topologyKey": HOSTNAME,
                    },
                }
            ]
        }
    },
)
WITH_CRD: Object = {
    "apiVersion": "monitoring.coreos.com/v1",
    "kind": "ServiceMonitor",
    "metadata": {"name": "web"},
}
SERVICE: Object = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"selector": LABELS, "ports": [{"port": 80}]},
}
DNS_BUDGET = budget("dns", maxUnavailable=1)
DNS_BUDGET["spec"]["selector"] = {"matchLabels": {"k8s-app": "kube-dns"}}
SHAPES: dict[str, list[Object]] = {
    "bitnami": [deployment(replicas=3, labels=LABELS, **SOFT), SERVICE, WITH_CRD],
    "spread over zones and nodes": [deployment(replicas=5, labels=LABELS, **SPREADS)],
    "hard anti-affinity that may surge": [deployment(replicas=4, **apart(term()))],
    "quorum": [
        deployment("etcd", 3, kind="StatefulSet", **apart(term("etcd"))),
        budget(app="etcd", maxUnavailable=1),
    ],
    "budget of an autoscaled workload": [deployment(replicas=None), budget(minAvailable=1)],
    "budget of half": [deployment(replicas=2), budget(minAvailable="50%")],
    "node exporter": [PROMETHEUS_NODE_EXPORTER],
    "coredns": [COREDNS, DNS_BUDGET],
    "exclusion of nodes": [deployment(**on_nodes(*EXCLUDED))],
    "zones by name": [deployment(replicas=3, **on_nodes(within(ZONE, "a", "b", "c", "d")), **spread())],
    "spot tolerated": [deployment(tolerations=[{**SPOT, "operator": "Equal"}], **spread())],
    "one replica": [deployment(replicas=1, **apart(term()), **spread())],
    "kept off another": [deployment(**apart(term("noisy"))), deployment("noisy")],
    "canary beside stable": [
        deployment(**spread()),
        deployment("canary", 1, labels={"app": "web", "track": "canary"}),
    ],
    "one kind for two": [
        deployment(affinity={"podAffinity": {REQUIRED: [term("db", ZONE)]}}),
        deployment("db"),
    ],
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("cluster", [[], CLUSTER], ids=["files", "cluster"])
def test_no_false_alarm(name: str, cluster: list[Object], tmp_path: Path) -> None:
    """No usual chart has errors or warnings, without nodes and with those of a usual cluster."""
    (tmp_path / "chart.yaml").write_text(yaml.safe_dump_all(SHAPES[name]))
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(cluster))
    given = ("--cluster", tmp_path / "cluster.yaml") if cluster else ()
    outcome = berth("lint", "-f", tmp_path / "chart.yaml", *given, "-o", "json")
    assert outcome.code == 0, outcome.out + outcome.err
    found = json.loads(outcome.out)["findings"]
    assert [(each["code"], each["why"]) for each in found if each["severity"] != "info"] == []
