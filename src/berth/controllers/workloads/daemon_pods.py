"""Which nodes a DaemonSet wants, and the pods it makes for them."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from berth.controllers.workloads.pods import pod_from
from berth.engine.rules.node_affinity.admission import matches_during_execution, matches_when_placed
from berth.engine.rules.taint_toleration.taints import first_untolerated
from berth.kube.api_resources import DAEMON_SETS
from berth.kube.gates import FeatureGates
from berth.kube.objects import (
    LivePod,
    LiveWorkload,
    Node,
    ObjectMeta,
    PodSpec,
    RawObject,
    Toleration,
)
from berth.kube.ownership import owner_reference
from berth.kube.pods import is_finished
from berth.kube.well_known import REQUIRED_DURING_SCHEDULING, REVISION_HASH

_TOLERATED = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)


class Eligibility:
    """What one DaemonSet's template says about nodes, read once a generation."""

    def __init__(self, daemon_set: LiveWorkload, gates: FeatureGates) -> None:
        template = daemon_set.spec.template or {}
        spec = msgspec.convert(template.get("spec") or {}, PodSpec)
        metadata = msgspec.convert(template.get("metadata") or {}, ObjectMeta)
        self._gates = gates
        tolerations = [*(spec.tolerations or ()), *daemon_tolerations(host_network=bool(spec.host_network))]
        self._pod = LivePod(metadata=metadata, spec=msgspec.structs.replace(spec, tolerations=tolerations))
        self._known: dict[str, tuple[Node, tuple[bool, bool, bool]]] = {}

    def of(self, node: Node) -> tuple[bool, bool]:
        """Whether a pod should be started on the node, and whether one that is there may stay."""
        return self._of(node)[:2]

    def holds_during_execution(self, node: Node) -> bool:
        """Whether the rules that must hold during execution hold; where they do not, no pod is started."""
        return self._of(node)[2]

    def _of(self, node: Node) -> tuple[bool, bool, bool]:
        name = node.metadata.name or ""
        known = self._known.get(name)
        if known is None or known[0] is not node:
            known = self._known[name] = (node, self._judge(node))
        return known[1]

    def _judge(self, node: Node) -> tuple[bool, bool, bool]:
        wanted = self._pod.spec.node_name
        if (wanted and wanted != node.metadata.name) or not matches_when_placed(self._pod, node, self._gates):
            return False, False, False
        holds = matches_during_execution(self._pod, node, self._gates)
        taints = (node.spec.taints if node.spec else None) or []
        tolerations = self._pod.spec.tolerations
        if first_untolerated(tolerations, taints) is None:
            return holds, True, holds
        evicting = [taint for taint in taints if taint.effect == "NoExecute"]
        return False, first_untolerated(tolerations, evicting) is None, holds


def is_evicted(pod: LivePod, node: Node, gates: FeatureGates) -> bool:
    """Whether a pod breaks a rule of its own that running pods are evicted for."""
    if not pod.spec.node_name or is_finished(pod):
        return False
    return not matches_during_execution(pod, node, gates)


def daemon_tolerations(*, host_network: bool) -> list[Toleration]:
    """What every daemon pod tolerates, so that it is there before its node is ready."""
    conditions = [*_TOLERATED, ("network-unavailable", "NoSchedule")] if host_network else _TOLERATED
    return [
        Toleration(key=f"node.kubernetes.io/{condition}", operator="Exists", effect=effect)
        for condition, effect in conditions
    ]


def daemon_pod(daemon_set: LiveWorkload, node: str, revision_hash: str) -> RawObject:
    """The pod for one node: pinned by name, which replaces its own rule since that was just checked."""
    pod = pod_from(
        daemon_set.spec.template,
        owner_reference(DAEMON_SETS, daemon_set.metadata),
        daemon_set.metadata.namespace,
        generate_name=f"{daemon_set.metadata.name}-",
        labels={REVISION_HASH: revision_hash},
    )
    spec = pod["spec"]
    affinity = copy.deepcopy(spec.get("affinity") or {})
    pin = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity.setdefault("nodeAffinity", {})[REQUIRED_DURING_SCHEDULING] = {"nodeSelectorTerms": [pin]}
    spec["affinity"] = affinity
    given: list[RawObject] = list(spec.get("tolerations") or ())
    for toleration in daemon_tolerations(host_network=bool(spec.get("hostNetwork"))):
        entry: dict[str, Any] = msgspec.to_builtins(toleration)
        if entry not in given:
            given.append(entry)
    spec["tolerations"] = given
    return pod


def node_of(pod: LivePod) -> str | None:
    """The node a daemon pod runs on or is pinned to."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    for term in (required.node_selector_terms if required else None) or ():
        for field in (term.match_fields if term else None) or ():
            if field.key == "metadata.name" and field.operator == "In" and len(field.values or ()) == 1:
                return (field.values or [""])[0]
    return None
