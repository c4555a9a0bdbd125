"""On which nodes a DaemonSet wants a pod: asked by its controller, and by who makes the pods without one.

Whether there is room on the node is left to scheduling.
Upstream: NodeShouldRunDaemonPod in pkg/controller/daemon.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from berth.engine.rules.node_affinity.rule import NodeRequirements
from berth.engine.rules.node_name.rule import names_another
from berth.engine.rules.taint_toleration.rule import drives_out, keeps_off
from berth.kube.gates import FeatureGates
from berth.kube.objects import Node, ObjectMeta, Pod, PodSpec, PodTemplateSpec
from berth.kube.workloads.pod_templates import daemon_tolerations


class NodeEligibility(NamedTuple):
    """Whether a pod should be started on a node, whether one that is there may stay, and whether the rules
    hold that must hold during execution: where they do not, no pod is started."""

    starts: bool
    stays: bool
    holds: bool

    @property
    def keeps(self) -> bool:
        """Whether a pod that is there belongs there."""
        return self.stays and self.holds


class DaemonEligibility:
    """What the template of one DaemonSet says about nodes, asked once for a node as it is."""

    def __init__(self, template: PodTemplateSpec | None, gates: FeatureGates) -> None:
        metadata = (template.metadata if template else None) or ObjectMeta()
        spec = (template.spec if template else None) or PodSpec()
        tolerated = daemon_tolerations(host_network=bool(spec.host_network))
        spec = replace(spec, tolerations=[*(spec.tolerations or ()), *tolerated])
        self._pod = Pod(metadata=metadata, spec=spec)
        self._required = NodeRequirements(self._pod, gates)
        self._known: dict[str, tuple[Node, NodeEligibility]] = {}

    def of(self, node: Node) -> NodeEligibility:
        name = node.metadata.name or ""
        known = self._known.get(name)
        if known is None or known[0] is not node:
            known = self._known[name] = (node, self._judge(node))
        return known[1]

    def _judge(self, node: Node) -> NodeEligibility:
        if names_another(self._pod, node) or not self._required.hold_when_placed(node):
            return NodeEligibility(starts=False, stays=False, holds=False)
        holds = self._required.hold_during_execution(node)
        kept_off = keeps_off(self._pod, node)
        stays = not (kept_off and drives_out(self._pod, node))
        return NodeEligibility(starts=holds and not kept_off, stays=stays, holds=holds)


def may_keep_running(pod: Pod, node: Node, gates: FeatureGates) -> bool:
    """Whether a pod's own rules hold on its node that must hold while it runs."""
    return NodeRequirements(pod, gates).hold_during_execution(node)
