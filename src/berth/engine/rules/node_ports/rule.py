"""Two pods cannot share a host port on a node."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import numpy as np
from msgspec.structs import replace

from berth.engine.rules.base import NodeRule
from berth.engine.rules.changes import Change, Question, on_pod
from berth.engine.rules.verdicts import PROCEED, SKIPPED, Cause, Reason, RuleVerdict, SharedVerdict
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import ClusterEvent, NodeAdded, PodDeleted
from berth.engine.state.columns import BoolArray, IndexArray, Slots
from berth.engine.state.hypothetical_removal import HypotheticalRemoval
from berth.engine.state.pod_class import PodClass, host_ports
from berth.engine.state.tables import HostPort
from berth.kube.objects import Pod, PodSpec
from berth.kube.well_known import UNSCHEDULABLE

IN_USE = Reason(
    "HostPortInUse",
    "node(s) didn't have free ports for the requested pod ports",
    "host port {port} on {ip} is in use by {peers}",
    waits_for="host port {port} to be free: {peers} to leave a node",
    events=(PodDeleted, NodeAdded),
    resolvable=True,
)
_UNKNOWN_HOLDER = "host port {port} on {ip} is in use"


def conflict(wanted: Collection[HostPort], taken: Iterable[HostPort]) -> bool:
    return any(
        (port.protocol, port.port) == (other.protocol, other.port) and port.conflicts(other.ip)
        for other in taken
        for port in wanted
    )


class NodePorts(NodeRule):
    name = "NodePorts"
    relax_rank = 3
    path = "spec.containers[*].ports[*].hostPort"
    reasons = (IN_USE,)
    static = False

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        self.filters = bool(pod_class.host_ports)
        self.prefilter = PROCEED if self.filters else SKIPPED

    @classmethod
    def relaxations(cls, question: Question) -> Iterable[Change]:
        """Host ports that a pod could do without."""
        for i, container in enumerate(question.pod.spec.containers or ()):
            for j, port in enumerate(container.ports or ()):
                if not port.host_port:
                    continue

                def apply(spec: PodSpec, dropped: object = port) -> PodSpec:
                    containers = [
                        replace(c, ports=[p for p in c.ports if p is not dropped]) if c.ports else c
                        for c in spec.containers or ()
                    ]
                    return replace(spec, containers=containers)

                path = f"spec.containers[{i}].ports[{j}].hostPort"
                phrase = f"without the host port {port.host_port}/{port.protocol or 'TCP'}"
                yield Change("host-port", path, phrase, on_pod(apply))

    def feasible(self, slots: Slots) -> BoolArray:
        return ~self._taken(self.pod_class.host_ports, slots)

    def _taken(
        self, ports: Iterable[HostPort], slots: Slots, gone: HypotheticalRemoval | None = None
    ) -> BoolArray:
        taken = np.zeros_like(self.nodes.alive[slots])
        for port in ports:
            for ip, column in self.nodes.ports.get((port.protocol, port.port), {}).items():
                if port.conflicts(ip):
                    freed = 0 if gone is None else gone.ports(HostPort(port.protocol, port.port, ip))[slots]
                    taken |= column[slots] > freed
        return taken

    def feasible_at(self, slot: int) -> bool:
        return not any(
            port.conflicts(ip) and column[slot] > 0
            for port in self.pod_class.host_ports
            for ip, column in self.nodes.ports.get((port.protocol, port.port), {}).items()
        )

    def helped_by(self, change: ClusterEvent) -> bool:
        if not isinstance(change, PodDeleted):
            return False
        freed = conflict(self.pod_class.host_ports, change.pod_class.host_ports)
        return freed and self.feasible_at(change.slot)

    def causes(self, slot: int) -> Iterator[Cause]:
        at = np.array([slot], dtype=np.intp)
        for port in self.pod_class.host_ports:
            if self._taken((port,), at)[0]:
                yield self._cause(port, slot)

    def _cause(self, port: HostPort, slot: int) -> Cause:
        values = {"port": f"{port.port}/{port.protocol}", "ip": port.ip}
        for name, pod_class in self.cluster.pods_on(self.nodes.names[slot] or ""):
            if conflict((port,), pod_class.host_ports):
                return Cause(IN_USE, values, self.path, peers=(name,))
        return Cause(IN_USE, values, self.path, worded=_UNKNOWN_HOLDER)

    def verdicts(self, slots: IndexArray, gone: HypotheticalRemoval) -> Iterable[SharedVerdict]:
        yield SharedVerdict.of(slots[self._taken(self.pod_class.host_ports, slots, gone)], IN_USE)


def admission(pod: Pod, others: Iterable[Pod]) -> RuleVerdict | None:
    """Why a kubelet does not take the pod, None if it does."""
    wanted = list(host_ports(pod.spec))
    if not wanted or not any(conflict(wanted, host_ports(other.spec)) for other in others):
        return None
    return RuleVerdict(NodePorts.name, UNSCHEDULABLE, (IN_USE.sentence,))
