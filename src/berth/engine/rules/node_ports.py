"""Two pods cannot share a host port on a node."""

from __future__ import annotations

import numpy as np

from berth.engine.arrays import BoolArray, Slots
from berth.engine.cluster import Cluster
from berth.engine.nodes import HostPort
from berth.engine.podclass import PodClass
from berth.engine.rules.base import PROCEED, SKIPPED, UNSCHEDULABLE, NodeRule, Rejection

REASON = "node(s) didn't have free ports for the requested pod ports"


class NodePorts(NodeRule):
    name = "NodePorts"
    static = False

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        self.filters = bool(pod_class.host_ports)
        self.prefilter = PROCEED if self.filters else SKIPPED

    def feasible(self, slots: Slots) -> BoolArray:
        free = np.ones_like(self.nodes.alive[slots])
        for port in self.pod_class.host_ports:
            free &= ~self._taken(port, slots)
        return free

    def _taken(self, port: HostPort, slots: Slots) -> BoolArray:
        taken = np.zeros_like(self.nodes.alive[slots])
        for ip, column in self.nodes.ports.get((port.protocol, port.port), {}).items():
            if port.conflicts(ip):
                taken |= column[slots] > 0
        return taken

    def reject(self, slot: int) -> Rejection | None:
        at = np.array([slot], dtype=np.intp)
        taken = [port for port in self.pod_class.host_ports if self._taken(port, at)[0]]
        if not taken:
            return None
        causes = tuple(f"host port {p.port}/{p.protocol} on {p.ip} is in use" for p in taken)
        return Rejection(self.name, UNSCHEDULABLE, (REASON,), causes)
