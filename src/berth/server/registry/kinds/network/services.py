"""Services, which get an address of their own, and ports on every node if they ask for them.

Upstream: pkg/registry/core/service (alloc.go, strategy.go).
"""

from __future__ import annotations

import ipaddress

from berth.kube.objects import Key, RawObject
from berth.kube.validation import FieldError
from berth.server.registry.checks import Found, invalid
from berth.server.registry.fields import mapping, mappings, spec_of
from berth.server.registry.resources import served
from berth.server.registry.service_rules import (
    BALANCED,
    CLUSTER,
    EXTERNAL,
    HEADLESS,
    WITH_NODE_PORTS,
    service_errors,
)
from berth.server.registry.strategy import Registry, Strategy
from berth.server.storage.selectors import paths
from berth.server.storage.store import decode
from berth.server.tables import cluster as tables

_SERVICE_NETWORK = ipaddress.ip_network("10.96.0.0/12")
FIRST_ADDRESS = str(_SERVICE_NETWORK[1])
_NODE_PORTS = range(30_000, 32_768)
_OUT_OF_RANGE = "provided port is not in the valid range. The range of valid ports is 30000-32767"
_STICKY = 10_800  # seconds


class ServiceStrategy(Strategy):
    """A Service keeps the address and the node ports it got; nothing answers there."""

    def default(self, obj: RawObject) -> None:
        spec = spec_of(obj)
        kind = spec.setdefault("type", "ClusterIP")
        if spec.setdefault("sessionAffinity", "None") == "ClientIP":
            config = spec.setdefault("sessionAffinityConfig", {})
            config.setdefault("clientIP", {}).setdefault("timeoutSeconds", _STICKY)
        if kind != EXTERNAL:
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if kind in WITH_NODE_PORTS or (kind == CLUSTER and spec.get("externalIPs")):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if kind == BALANCED:
            spec.setdefault("allocateLoadBalancerNodePorts", True)
        for port in mappings(spec.get("ports")):
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port")

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        spec, before = obj["spec"], mapping((old or {}).get("spec"))
        if spec.get("clusterIP"):
            spec.setdefault("clusterIPs", [spec["clusterIP"]])
        _drop_of_type(spec, before)
        if not spec.get("clusterIP") and spec["type"] != EXTERNAL:
            for name in ("clusterIP", "clusterIPs"):
                if name in before:
                    spec[name] = before[name]
        if not spec.get("clusterIP") and spec["type"] != EXTERNAL:
            address = self._free_address(registry)
            spec["clusterIP"], spec["clusterIPs"] = address, [address]
        if spec["type"] != EXTERNAL:
            # Who finds the addresses of a Service without a selector may find any.
            both = spec.get("clusterIP") == HEADLESS and not spec.get("selector")
            spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if both else ["IPv4"])
            spec.setdefault("ipFamilyPolicy", "RequireDualStack" if both else "SingleStack")

    def _free_address(self, registry: Registry) -> str:
        bucket = registry.builtin("", self.resource.plural).bucket
        taken = {record.fields.get("spec.clusterIP") for record in bucket.newest_in("")}
        count = len(taken)
        while (address := str(_SERVICE_NETWORK[count + 1])) in taken:
            count += 1
        return address

    def check(self, obj: RawObject) -> Found:
        return service_errors(obj["spec"])

    def validate_update(self, obj: RawObject, old: RawObject) -> list[FieldError]:
        new, before = obj["spec"].get("clusterIPs"), old["spec"].get("clusterIPs")
        if EXTERNAL in (obj["spec"]["type"], old["spec"].get("type")) or not before or new == before:
            return []
        return [invalid("spec.clusterIPs[0]", new, "may not change once set")]

    def judge(self, registry: Registry, obj: RawObject, old: RawObject | None) -> list[FieldError]:
        found = super().judge(registry, obj, old)
        return found or list(self._give_node_ports(registry, obj, mapping((old or {}).get("spec"))))

    def _give_node_ports(self, registry: Registry, obj: RawObject, before: RawObject) -> Found:
        """Reserve the node ports that are asked for, and find some for the others, in place."""
        spec = obj["spec"]
        if spec["type"] not in WITH_NODE_PORTS or spec.get("allocateLoadBalancerNodePorts") is False:
            return
        own = {(port.get("port"), port.get("protocol")): port.get("nodePort") for port in _ports(before)}
        bucket, key = registry.builtin("", self.resource.plural).bucket, _key(obj)
        taken = {
            (port.get("nodePort"), port.get("protocol"))
            for record in bucket.newest_in("")
            if record.key != key and record.fields.get("spec.type") in WITH_NODE_PORTS
            for port in _ports(mapping(decode(record.data).get("spec")))
        }
        for index, port in enumerate(_ports(spec)):
            known = own.get((port.get("port"), port.get("protocol")))
            given = port.get("nodePort") or known
            protocol, path = port.get("protocol"), f"spec.ports[{index}].nodePort"
            if given and given not in _NODE_PORTS:
                yield invalid(path, given, _OUT_OF_RANGE)
            elif given and (given, protocol) in taken:
                yield invalid(path, given, "provided port is already allocated")
            port["nodePort"] = given or next(
                free for free in _NODE_PORTS if not {(free, "TCP"), (free, "UDP"), (free, "SCTP")} & taken
            )
            taken.add((port["nodePort"], protocol))


def _drop_of_type(spec: RawObject, before: RawObject) -> None:
    """A Service of another type than before does not keep what only the old type has."""
    kind, was = spec["type"], before.get("type")
    if was in WITH_NODE_PORTS and kind not in WITH_NODE_PORTS:
        known = {port.get("nodePort") for port in _ports(before)}
        for port in _ports(spec):
            if port.get("nodePort") in known:
                port.pop("nodePort", None)
        if spec.get("externalTrafficPolicy") == before.get("externalTrafficPolicy"):
            spec.pop("externalTrafficPolicy", None)
    if was == BALANCED and kind != BALANCED:
        spec.pop("allocateLoadBalancerNodePorts", None)
    if was not in (None, EXTERNAL) and kind == EXTERNAL:
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
            if spec.get(name) == before.get(name):
                spec.pop(name, None)


def _ports(spec: RawObject) -> list[RawObject]:
    return mappings(spec.get("ports"))


def _key(obj: RawObject) -> Key:
    return obj["metadata"]["namespace"], obj["metadata"].get("name") or ""


STRATEGIES = (
    ServiceStrategy(
        served("v1", "services", "Service", short="svc", categories="all", subresources="status"),
        columns=tables.SERVICE,
        fields=paths("spec.clusterIP", "spec.type"),
        first_status={"loadBalancer": {}},
        generation=False,
        create_on_update=True,
        returns_deleted=True,
    ),
)
