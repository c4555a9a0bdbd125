"""Of documents and rules between pods: manifests that have the fault, and such that barely have not."""

from __future__ import annotations

from tests.support.builders import EXECUTION, HOSTNAME, REQUIRED, ZONE
from tests.support.manifests.lint import (
    HPA,
    Object,
    annotated,
    apart,
    deployment,
    node,
    nodes,
    on_nodes,
    pod,
    policy,
    spread,
    term,
    together,
    within,
)
from tests.support.manifests.lint_case import Case

EMPTY = {**deployment()["spec"], "selector": {}}
SPEC = "spec.template.spec"
AFFINITY, ANTI = f"{SPEC}.affinity.podAffinity.{REQUIRED}", f"{SPEC}.affinity.podAntiAffinity.{REQUIRED}"
SPREAD = f"{SPEC}.topologySpreadConstraints[0]"
ROLLING = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
RULES = (
    '{"nodeAffinity": {"%s": {"nodeSelectorTerms": '
    '[{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}'
)
GPU = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
TAINTED = node("t", "c", taints=[GPU])
ELSEWHERE: Object = {"namespaces": ["other"]}
ONE_CLUSTER = {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}
VERSIONED = {"app": "web", "v": "1"}
NOT_B = on_nodes(within(ZONE, "b", operator="NotIn"))
IN_AB = on_nodes(within(ZONE, "a", "b"))
IGNORED = spread(nodeAffinityPolicy="Ignore")


def selecting(**labels: str) -> Object:
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": HOSTNAME}


def relabelled(obj: Object, **labels: str) -> Object:
    obj["spec"]["template"]["metadata"]["labels"] = labels
    return obj


BETWEEN_PODS: dict[str, list[Case]] = {
    "BERTH001": [
        Case(
            [deployment() | {"spec": {"replicas": "three"}}],
            [deployment(replicas=3)],
            "error",
            "spec.replicas",
        ),
        Case(
            [annotated(deployment(), template=True, affinity='{"podAfinity": {}}')],
            [annotated(deployment(), template=True, affinity='{"podAffinity": {}}')],
            "error",
            "spec.template.metadata.annotations[berth.dev/affinity].podAfinity",
        ),
    ],
    "BERTH002": [
        Case([deployment(nodeSelectors={})], [deployment(nodeSelector={})], "error", f"{SPEC}.nodeSelectors"),
        Case(
            [deployment(nodeSelectors={})],
            [deployment(nodeSelector={})],
            "warning",
            f"{SPEC}.nodeSelectors",
            ("--validate=warn",),
        ),
        Case(
            [policy({"clusterAfinity": {}}), deployment()],
            [policy({"clusterAffinity": {}}), deployment()],
            "error",
            "spec.placement.clusterAfinity",
        ),
    ],
    "BERTH003": [
        Case([{**deployment(), "apiVersion": "app/v1"}], [deployment()], "error", "apiVersion"),
        Case([{**deployment(), "kind": "Deploymnt"}], [deployment()], "error", "kind"),
    ],
    "BERTH004": [
        Case([deployment(**spread(maxSkew=0))], [deployment(**spread())], "error", f"{SPREAD}.maxSkew"),
        Case(
            [annotated(deployment(), template=True, affinity=RULES.replace("Exists", "Exist") % EXECUTION)],
            [annotated(deployment(), template=True, affinity=RULES % EXECUTION)],
            "error",
            f"spec.template.metadata.annotations[berth.dev/affinity].nodeAffinity.{EXECUTION}"
            ".nodeSelectorTerms[0].matchExpressions[0].operator",
        ),
        Case(
            [policy({"spreadConstraints": [{"spreadByField": "zone", "maxGroups": 2}]}), deployment()],
            [policy(ONE_CLUSTER), deployment()],
            "error",
            "spec.placement.spreadConstraints",
        ),
    ],
    "BERTH005": [
        Case(
            [annotated(pod(), afinity="{}")],
            [annotated(pod(), affinity="{}")],
            "error",
            "metadata.annotations[berth.dev/afinity]",
        ),
    ],
    "BERTH006": [Case([pod(), pod()], [pod(), pod("q")], "warning", "metadata.name")],
    "BERTH007": [
        Case(
            [annotated(pod(), lint_ignore="BERTH11, BERTH112")],
            [annotated(pod(), lint_ignore="BERTH111, BERTH112")],
            "warning",
            "metadata.annotations[berth.dev/lint-ignore]",
        ),
    ],
    "BERTH008": [
        Case(
            [annotated(deployment(), affinity=RULES % EXECUTION)],
            [annotated(deployment(), template=True, affinity=RULES % EXECUTION)],
            "error",
            "metadata.annotations[berth.dev/affinity]",
        ),
    ],
    "BERTH101": [
        Case([{**deployment(), "spec": EMPTY}], [deployment()], "error", "spec.selector"),
        Case(
            [relabelled(deployment(), app="wbe")],
            [relabelled(deployment(), app="web", tier="front")],
            "error",
            "spec.selector",
        ),
    ],
    "BERTH102": [
        Case(
            [deployment(**spread(app="wbe"))], [deployment(**spread())], "warning", f"{SPREAD}.labelSelector"
        ),
        Case(
            [deployment(**spread(app="db")), deployment("db")],
            [deployment(**spread()), deployment("db")],
            "info",
            f"{SPREAD}.labelSelector",
        ),
        Case(
            [deployment(**spread(labelSelector={}))],
            [deployment(**spread(labelSelector={"matchExpressions": [within("app", operator="Exists")]}))],
            "warning",
            f"{SPREAD}.labelSelector",
        ),
        Case(
            [deployment(**apart(term("wbe")))],
            [deployment(**apart(term("noisy-neighbour")))],
            "warning",
            f"{ANTI}[0].labelSelector",
        ),
    ],
    "BERTH103": [
        Case(
            [*nodes(1), deployment(**together(term("db")))],
            [*nodes(1), deployment(**together(term("db"))), deployment("db")],
            "error",
            f"{AFFINITY}[0].labelSelector",
        ),
        Case(
            [deployment(**together(term("dbs"))), deployment("db")],
            [deployment(**together(term("db"))), deployment("db")],
            "warning",
            f"{AFFINITY}[0].labelSelector",
        ),
        Case(
            [deployment(**together(term("db"), term("cache"))), deployment("db"), deployment("cache")],
            [deployment(**together(term("db"), term("db", ZONE))), deployment("db"), deployment("cache")],
            "error",
            f"{AFFINITY}[0].labelSelector",
        ),
        Case(
            [deployment(**together(term("db")))],
            [deployment(**together(term()))],
            "info",
            f"{AFFINITY}[0].labelSelector",
        ),
    ],
    "BERTH104": [
        Case(
            [*nodes(1), deployment("a", **together(term("b"))), deployment("b", **together(term("a")))],
            [*nodes(1), deployment("a", **together(term("b"))), deployment("b", **together(term("b")))],
            "error",
            f"{AFFINITY}[0].labelSelector",
        ),
        Case(
            [*nodes(1), deployment(**together(term(**ELSEWHERE)))],
            [*nodes(1), deployment(**together(term(namespaces=["default"])))],
            "error",
            f"{AFFINITY}[0].labelSelector",
        ),
        Case(
            [
                deployment(
                    labels=VERSIONED,
                    **together(term(), selecting(v="2")),
                )
            ],
            [
                deployment(
                    labels=VERSIONED,
                    **together(term(), selecting(v="1")),
                )
            ],
            "warning",
            f"{AFFINITY}[0].labelSelector",
        ),
    ],
    "BERTH105": [
        Case(
            [*nodes(3), HPA, deployment(replicas=2, **apart(term()), strategy={"type": "Recreate"})],
            [*nodes(9), HPA, deployment(replicas=2, **apart(term()), strategy={"type": "Recreate"})],
            "warning",
            f"{ANTI}[0].topologyKey",
        ),
        Case(
            [*nodes(3), deployment(replicas=4, **apart(term()))],
            [*nodes(3), deployment(replicas=3, **apart(term()), strategy={"type": "Recreate"})],
            "error",
            f"{ANTI}[0].topologyKey",
        ),
        Case(
            [*nodes(3), deployment(replicas=3, nodeSelector={ZONE: "a"}, **apart(term()))],
            [*nodes(3), node("n9", None), deployment(replicas=4, **apart(term(key=ZONE)))],
            "error",
            f"{ANTI}[0].topologyKey",
        ),
    ],
    "BERTH106": [
        Case(
            [*nodes(3), deployment(replicas=3, **apart(term()))],
            [*nodes(4), deployment(replicas=3, **apart(term()))],
            "error",
            f"{ANTI}[0]",
        ),
        Case(
            [*nodes(4), deployment(replicas=4, **apart(term()), strategy=ROLLING)],
            [*nodes(4), deployment(replicas=4, **apart(term()))],
            "error",
            f"{ANTI}[0]",
        ),
        Case(
            [*nodes(3), deployment(replicas=3, **apart(term()))],
            [*nodes(3), deployment(replicas=3, **apart(term(matchLabelKeys=["pod-template-hash"])))],
            "error",
            f"{ANTI}[0]",
        ),
        Case(
            [deployment(kind="DaemonSet", **apart(term()), strategy=ROLLING)],
            [deployment(kind="DaemonSet", **apart(term()))],
            "error",
            f"{ANTI}[0]",
        ),
        Case(
            [deployment(replicas=3, **apart(term()))],
            [deployment(replicas=3, kind="StatefulSet", **apart(term()))],
            "info",
            f"{ANTI}[0]",
        ),
    ],
    "BERTH107": [
        Case(
            [*nodes(2), deployment(**spread("example.com/rack"))],
            [node("n1", rack="1"), deployment(**spread("rack"))],
            "error",
            f"{SPREAD}.topologyKey",
        ),
        Case(
            [*nodes(2), deployment(**apart(term("db", "rack")))],
            [node("n1", rack="1"), deployment(**apart(term("db", "rack")))],
            "warning",
            f"{ANTI}[0].topologyKey",
        ),
        Case(
            [*nodes(2), node("n9", None), deployment(**spread())],
            [*nodes(2), node("n9", None, taints=[GPU]), deployment(**spread())],
            "warning",
            f"{SPREAD}.topologyKey",
        ),
        Case(
            [deployment(**spread("topology.kubernetes.io/zones"))],
            [deployment(**spread("topology.kubernetes.io/rack"))],
            "warning",
            f"{SPREAD}.topologyKey",
        ),
    ],
    "BERTH108": [
        Case(
            [*nodes(4, "ab"), deployment(replicas=3, **spread(minDomains=3))],
            [*nodes(4, "abc"), deployment(replicas=3, **spread(minDomains=3))],
            "error",
            f"{SPREAD}.minDomains",
        ),
        Case(
            [*nodes(4, "ab"), deployment(replicas=2, **spread(minDomains=3))],
            [*nodes(4, "ab"), deployment(replicas=2, **spread(minDomains=2))],
            "info",
            f"{SPREAD}.minDomains",
        ),
    ],
    "BERTH109": [
        Case(
            [*nodes(2, "ab"), TAINTED, deployment(replicas=3, **spread())],
            [*nodes(2, "ab"), TAINTED, deployment(replicas=3, **spread(nodeTaintsPolicy="Honor"))],
            "error",
            SPREAD,
        ),
        Case(
            [
                *nodes(2, "ab"),
                deployment(
                    replicas=3,
                    **IGNORED,
                    **NOT_B,
                ),
            ],
            [
                *nodes(2, "ab"),
                deployment(replicas=3, **spread(), **NOT_B),
            ],
            "error",
            SPREAD,
        ),
        Case(
            [*nodes(2, "ab"), TAINTED, deployment(replicas=2, **spread())],
            [*nodes(2, "ab"), node("t", "a", taints=[GPU]), deployment(replicas=2, **spread())],
            "warning",
            SPREAD,
        ),
    ],
    "BERTH110": [
        Case(
            [deployment(affinity=together(term())["affinity"] | apart(term(key=ZONE))["affinity"])],
            [deployment(affinity=together(term(key=ZONE))["affinity"] | apart(term())["affinity"])],
            "error",
            f"{ANTI}[0]",
        ),
        Case(
            [deployment(affinity=together(term())["affinity"] | apart(term())["affinity"])],
            [deployment(replicas=1, affinity=together(term())["affinity"] | apart(term())["affinity"])],
            "error",
            f"{ANTI}[0]",
        ),
        Case(
            [*nodes(2, "ab"), deployment(**together(term(key=ZONE)), **spread())],
            [*nodes(2, "a"), deployment(**together(term(key=ZONE)), **spread())],
            "error",
            SPREAD,
        ),
        Case(
            [deployment(**together(term(key=ZONE)), **spread())],
            [deployment(**together(term(key=ZONE)), **spread(HOSTNAME))],
            "warning",
            SPREAD,
        ),
    ],
    "BERTH111": [
        Case(
            [deployment(**spread())],
            [deployment(**spread(matchLabelKeys=["pod-template-hash"]))],
            "info",
            SPREAD,
        ),
        Case(
            [deployment(**spread(hard=False))], [deployment(replicas=1, **spread(hard=False))], "info", SPREAD
        ),
    ],
    "BERTH112": [
        Case(
            [deployment(nodeSelector={ZONE: "a"}, **spread())],
            [deployment(**IN_AB, **spread())],
            "warning",
            SPREAD,
        ),
        Case(
            [deployment(replicas=3, **IN_AB, **spread(minDomains=3))],
            [deployment(replicas=3, **on_nodes(within(ZONE, "a", "b", "c")), **spread(minDomains=3))],
            "error",
            f"{SPREAD}.minDomains",
        ),
        Case(
            [deployment(replicas=3, **IN_AB, **IGNORED)],
            [deployment(replicas=2, **IN_AB, **IGNORED)],
            "warning",
            f"{SPREAD}.nodeAffinityPolicy",
        ),
    ],
}
