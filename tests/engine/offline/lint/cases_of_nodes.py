"""Of nodes, budgets and priorities: manifests that have the fault, and such that barely have not."""

from __future__ import annotations

from tests.support.builders import EXECUTION, HOSTNAME, PREFERRED, REQUIRED, ZONE
from tests.support.manifests.lint import (
    HPA,
    Object,
    annotated,
    apart,
    budget,
    deployment,
    node,
    nodes,
    on_nodes,
    pod,
    priority_class,
    spread,
    template,
    term,
    together,
    within,
)
from tests.support.manifests.lint_case import Case

SPEC = "spec.template.spec"
AFFINITY, ANTI = f"{SPEC}.affinity.podAffinity.{REQUIRED}", f"{SPEC}.affinity.podAntiAffinity.{REQUIRED}"
NODES = f"{SPEC}.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
SPREAD = f"{SPEC}.topologySpreadConstraints[0]"
RULES = (
    '{"nodeAffinity": {"%s": {"nodeSelectorTerms": '
    '[{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}'
)
JOB: Object = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "batch"},
    "spec": {"parallelism": 3, "template": template()},
}
GPU = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
TAINTED = node("t", "c", taints=[GPU])
EXPRESSED = [within("disk", "hdd"), within("disk", "ssd")]
NVMES = [node("n1", disk="nvme"), node("n2", disk="nvmx")]
SSD = on_nodes(within("disk", "ssd"), kind=EXECUTION)
MORE_THAN_3 = within("cores", "3", operator="Gt")
HIGH = priority_class("high", 5)
CANARY = deployment("canary", priorityClassName="high", **apart(term()))
CACHE = deployment("cache", priorityClassName="high", **together(term()))


OF_NODES: dict[str, list[Case]] = {
    "BERTH113": [
        Case([deployment(**on_nodes())], [deployment(**on_nodes(EXPRESSED[0]))], "error", NODES),
        Case([deployment(**on_nodes(*EXPRESSED))], [deployment(**on_nodes(EXPRESSED[0]))], "error", NODES),
        Case(
            [deployment(**on_nodes(MORE_THAN_3, within("cores", "4", operator="Lt")))],
            [deployment(**on_nodes(MORE_THAN_3, within("cores", "5", operator="Lt")))],
            "error",
            NODES,
        ),
        Case(
            [deployment(nodeSelector={"disk": "ssd"}, **on_nodes(within("disk", operator="DoesNotExist")))],
            [deployment(nodeSelector={"disk": "ssd"}, **on_nodes(within("tape", operator="DoesNotExist")))],
            "error",
            NODES,
        ),
        Case(
            [*nodes(1), deployment(nodeSelector={"disk": "ssd"})],
            [node("n1", disk="ssd"), deployment(nodeSelector={"disk": "ssd"})],
            "error",
            f"{SPEC}.nodeSelector",
        ),
        Case(
            [TAINTED, deployment()],
            [TAINTED, deployment(tolerations=[{"key": "dedicated", "operator": "Exists"}])],
            "error",
            f"{SPEC}.tolerations",
        ),
        Case(
            [*nodes(1), deployment(kind="DaemonSet", nodeSelector={"disk": "ssd"})],
            [node("n1", disk="ssd"), deployment(kind="DaemonSet", nodeSelector={"disk": "ssd"})],
            "info",
            f"{SPEC}.nodeSelector",
        ),
    ],
    "BERTH114": [
        Case(
            [*nodes(1), TAINTED, deployment(tolerations=[{"key": "dedicated", "value": "gpus"}])],
            [*nodes(1), TAINTED, deployment(tolerations=[{"key": "dedicated", "value": "gpu"}])],
            "warning",
            f"{SPEC}.tolerations[0]",
        ),
        Case(
            [*nodes(1), deployment(tolerations=[{"key": "spot", "operator": "Exists"}])],
            [
                *nodes(1),
                deployment(tolerations=[{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]),
            ],
            "info",
            f"{SPEC}.tolerations[0]",
        ),
    ],
    "BERTH115": [
        Case(
            [*nodes(2), deployment(replicas=3, **spread(HOSTNAME))],
            [*nodes(3), deployment(replicas=3, **spread(HOSTNAME))],
            "info",
            SPREAD,
        ),
    ],
    "BERTH116": [
        Case(
            [node("n1", disk="ssd"), deployment(nodeSelector={"disk": "sdd"})],
            [node("n1", disk="ssd"), deployment(nodeSelector={"disk": "hdd"})],
            "error",
            f"{SPEC}.nodeSelector[disk]",
        ),
        Case(
            [node("n1", disktype="ssd"), deployment(nodeSelector={"disktyp": "ssd"})],
            [node("n1", disktype="ssd"), deployment(nodeSelector={"disktype": "ssd"})],
            "error",
            f"{SPEC}.nodeSelector[disktyp]",
        ),
        Case(
            [
                *NVMES,
                deployment(**on_nodes(within("disk", "nvme", "nvmy"))),
            ],
            [
                *NVMES,
                deployment(**on_nodes(within("disk", "nvme", "nvmx", "nvmy"))),
            ],
            "warning",
            f"{NODES}[0].matchExpressions[0]",
        ),
        Case(
            [
                node("n1", disk="ssd"),
                deployment(
                    affinity={
                        "nodeAffinity": {
                            PREFERRED: [
                                {"weight": 1, "preference": {"matchExpressions": [within("disk", "sdd")]}}
                            ]
                        }
                    }
                ),
            ],
            [
                node("n1", disk="ssd"),
                deployment(
                    affinity={
                        "nodeAffinity": {
                            PREFERRED: [
                                {"weight": 1, "preference": {"matchExpressions": [within("disk", "tape")]}}
                            ]
                        }
                    }
                ),
            ],
            "warning",
            f"{SPEC}.affinity.nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0]",
        ),
    ],
    "BERTH117": [
        Case([budget(maxUnavailable=0)], [budget(maxUnavailable=1)], "error", "spec.maxUnavailable"),
        Case([budget(maxUnavailable="0%")], [budget(maxUnavailable="1%")], "error", "spec.maxUnavailable"),
        Case([budget(maxUnavailable=1), JOB], [budget(minAvailable=1), JOB], "error", "spec.maxUnavailable"),
        Case(
            [budget(minAvailable="50%"), deployment(kind="DaemonSet")],
            [budget(minAvailable="50%"), deployment(replicas=2)],
            "error",
            "spec.minAvailable",
        ),
        Case([budget(minAvailable="100%")], [budget(minAvailable="99%")], "error", "spec.minAvailable"),
        Case(
            [budget(minAvailable=2), deployment(replicas=2)],
            [budget(minAvailable=2), deployment(replicas=3)],
            "error",
            "spec.minAvailable",
        ),
        Case(
            [budget(minAvailable="60%"), deployment(replicas=2)],
            [budget(minAvailable="50%"), deployment(replicas=2)],
            "error",
            "spec.minAvailable",
        ),
        Case(
            [budget(minAvailable=1), deployment(replicas=1)],
            [budget(minAvailable=1), deployment(replicas=None)],
            "error",
            "spec.minAvailable",
        ),
        Case(
            [budget(minAvailable=2), deployment(replicas=2)],
            [budget(minAvailable=2), deployment(replicas=2), HPA],
            "error",
            "spec.minAvailable",
        ),
    ],
    "BERTH118": [
        Case(
            [budget(app="wbe", maxUnavailable=1), deployment()],
            [budget(maxUnavailable=1), deployment()],
            "warning",
            "spec.selector",
        ),
        Case(
            [budget(app="db", maxUnavailable=1), deployment()],
            [budget(app="db", maxUnavailable=1)],
            "info",
            "spec.selector",
        ),
        Case(
            [{**budget(maxUnavailable=1), "metadata": {"name": "keep", "namespace": "shop"}}, deployment()],
            [budget(maxUnavailable=1), deployment()],
            "info",
            "spec.selector",
        ),
        Case(
            [*nodes(1), budget(app="db", maxUnavailable=1)],
            [*nodes(1), budget(app="db", maxUnavailable=1), pod(labels={"app": "db"}, nodeName="n0")],
            "warning",
            "spec.selector",
        ),
    ],
    "BERTH119": [
        Case(
            [budget(maxUnavailable=1), budget("more", maxUnavailable=1), deployment()],
            [
                budget(maxUnavailable=1),
                budget("more", "db", maxUnavailable=1),
                deployment(),
                deployment("db"),
            ],
            "error",
            "spec.selector",
        ),
    ],
    "BERTH120": [
        Case(
            [
                HIGH,
                CANARY,
                deployment(),
            ],
            [
                priority_class("high", 0),
                CANARY,
                deployment(),
            ],
            "warning",
            f"{ANTI}[0]",
        ),
        Case(
            [
                HIGH,
                CACHE,
                deployment(),
            ],
            [
                HIGH,
                CACHE,
                deployment(priorityClassName="high"),
            ],
            "warning",
            f"{AFFINITY}[0]",
        ),
        Case(
            [
                HIGH,
                CANARY,
                deployment(),
            ],
            [
                HIGH,
                deployment("canary", priorityClassName="high", preemptionPolicy="Never", **apart(term())),
                deployment(),
            ],
            "warning",
            f"{ANTI}[0]",
        ),
    ],
    "BERTH121": [
        Case(
            [*nodes(2), deployment(cpu="8001m")],
            [*nodes(2), deployment(cpu="8")],
            "error",
            f"{SPEC}.containers[0].resources.requests[cpu]",
        ),
    ],
    "BERTH122": [
        Case(
            [deployment(**apart(term("db", ZONE, namespaceSelector={})))],
            [deployment(**apart(term("db", HOSTNAME, namespaceSelector={})))],
            "warning",
            f"{ANTI}[0]",
        ),
    ],
    "BERTH123": [
        Case(
            [node("n1", disk="ssd"), node("n2"), deployment(**SSD)],
            [
                node("n1", disk="ssd"),
                node("n2", disk="ssd"),
                deployment(**SSD),
            ],
            "warning",
            f"{SPEC}.affinity.nodeAffinity.{EXECUTION}",
        ),
        Case(
            [*nodes(2), deployment(kind="StatefulSet", **apart(term(), kind=EXECUTION))],
            [*nodes(3), deployment(kind="StatefulSet", **apart(term(), kind=EXECUTION))],
            "warning",
            f"{SPEC}.affinity.podAntiAffinity.{EXECUTION}[0]",
        ),
    ],
    "BERTH124": [
        Case(
            [deployment(**SSD)],
            [deployment(**on_nodes(within("disk", "ssd")))],
            "error",
            f"{SPEC}.affinity.nodeAffinity.{EXECUTION}",
            ("--feature-gates", "NodeAffinityEviction=false"),
        ),
        Case(
            [annotated(deployment(), template=True, affinity=RULES % EXECUTION)],
            [annotated(deployment(), template=True, affinity=RULES % REQUIRED)],
            "error",
            f"spec.template.metadata.annotations[berth.dev/affinity].nodeAffinity.{EXECUTION}",
            ("--feature-gates", "NodeAffinityEviction=false"),
        ),
    ],
    "BERTH125": [
        Case(
            [deployment(**SSD)],
            [annotated(deployment(), template=True, affinity=RULES % EXECUTION)],
            "info",
            f"{SPEC}.affinity.nodeAffinity.{EXECUTION}",
        ),
    ],
    "BERTH126": [
        Case(
            [*nodes(2), deployment(cpu="5", replicas=3)],
            [*nodes(2), deployment(cpu="4", replicas=3)],
            "warning",
            "spec",
        ),
        Case(
            [*nodes(1), pod("first", cpu="5", nodeName="n0"), pod("next", cpu="5")],
            [*nodes(1), pod("first", cpu="5", nodeName="n0"), pod("next", cpu="3")],
            "warning",
            "spec",
        ),
        Case(
            [*nodes(1), deployment(replicas=2_000_000_000)],
            [*nodes(1), deployment(replicas=100)],
            "warning",
            "spec.replicas",
        ),
    ],
    "BERTH127": [
        Case(
            [priority_class("critical", 1), deployment(priorityClassName="critcal")],
            [priority_class("critical", 1), deployment(priorityClassName="critical")],
            "error",
            f"{SPEC}.priorityClassName",
        ),
    ],
}
