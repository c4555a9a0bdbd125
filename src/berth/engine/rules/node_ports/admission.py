"""Host ports of one pod beside the others of its node, as a kubelet looks at them."""

from __future__ import annotations

from collections.abc import Iterable

from berth.engine.rules.node_ports.rule import IN_USE, NodePorts, conflict
from berth.engine.rules.verdicts import RuleVerdict
from berth.engine.state.pod_class import host_ports
from berth.kube.objects import Pod
from berth.kube.well_known import UNSCHEDULABLE


def admission(pod: Pod, others: Iterable[Pod]) -> RuleVerdict | None:
    """Why a kubelet does not take the pod, None if it does."""
    wanted = list(host_ports(pod.spec))
    if not wanted or not any(conflict(wanted, host_ports(other.spec)) for other in others):
        return None
    return RuleVerdict(NodePorts.name, UNSCHEDULABLE, (IN_USE.sentence,))
