"""Services, which get an address of their own.

Upstream: pkg/registry/core/service (alloc.go, strategy.go) and validateService in pkg/apis/core/validation.
"""

from __future__ import annotations

import ipaddress
from itertools import count

from berth.kube import names
from berth.kube.objects import RawObject
from berth.kube.validation.containers import PROTOCOLS
from berth.kube.validation.errors import DUPLICATE, FieldError
from berth.server import errors, fields
from berth.server.fields import items, mapping, mappings
from berth.server.registry import checks
from berth.server.registry.checks import FieldErrors, forbidden, invalid, numbered, once, one_of, required
from berth.server.registry.strategy import Registry, Strategy, served
from berth.server.storage.bucket import decode
from berth.server.storage.selectors import paths
from berth.server.tables import AGE, NAME, NONE, UNKNOWN, Column, labels, text

_SERVICE_NETWORK = ipaddress.ip_network("10.96.0.0/12")
FIRST_ADDRESS = str(_SERVICE_NETWORK[1])
_NODE_PORTS = range(30_000, 32_768)
_OUT_OF_RANGE = "provided port is not in the valid range. The range of valid ports is 30000-32767"
_STICKY = 10_800  # seconds
CLUSTER, EXTERNAL, BALANCED = "ClusterIP", "ExternalName", "LoadBalancer"
WITH_NODE_PORTS = ("NodePort", BALANCED)
HEADLESS = "None"
_LONGEST_AFFINITY = 86_400
_POLICIES = ("Cluster", "Local")
_FAMILIES, _FAMILY_POLICIES = ("IPv4", "IPv6"), ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_BALANCED_ONLY = "may only be used when `type` is 'LoadBalancer'"


class ServiceStrategy(Strategy):
    """A Service keeps the address and the node ports it got; nothing answers there."""

    def default(self, obj: RawObject) -> None:
        spec = checks.spec_of(obj)
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
        for port in mappings(spec, "ports"):
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port")

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        spec, before = obj["spec"], mapping(old, "spec")
        if spec.get("clusterIP"):
            spec.setdefault("clusterIPs", [spec["clusterIP"]])
        _drop_of_type(spec, before)
        if spec["type"] == EXTERNAL:
            return
        if not spec.get("clusterIP"):
            spec.update({name: before[name] for name in ("clusterIP", "clusterIPs") if name in before})
        if not spec.get("clusterIP"):
            address = self._free_address(registry)
            spec["clusterIP"], spec["clusterIPs"] = address, [address]
        # Who finds the addresses of a Service without a selector may find any.
        both = spec["clusterIP"] == HEADLESS and not spec.get("selector")
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if both else ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "RequireDualStack" if both else "SingleStack")

    def _free_address(self, registry: Registry) -> str:
        bucket = registry.bucket(self.resource.plural)
        taken = {record.fields.get("spec.clusterIP") for record in bucket.newest_in("")}
        addresses = (str(_SERVICE_NETWORK[number]) for number in count(len(taken) + 1))
        return next(address for address in addresses if address not in taken)

    def check(self, obj: RawObject) -> FieldErrors:
        spec = obj["spec"]
        kind, ports = spec["type"], mappings(spec, "ports")
        if not ports and spec.get("clusterIP") != HEADLESS and kind != EXTERNAL:
            yield required("spec.ports")
        yield from _of_kind(kind, spec)
        seen: set[str] = set()
        for path, port in numbered("spec.ports", ports):
            yield from _port(path, port, seen, several=len(ports) > 1)
        yield from _affinity(spec)
        if kind != EXTERNAL:
            yield from _addresses(spec)
        for path, address in numbered("spec.externalIPs", spec.get("externalIPs") or ()):
            yield from (*checks.address(path, address), *checks.outside(path, address))
        yield from one_of("spec.type", kind, (CLUSTER, EXTERNAL, *reversed(WITH_NODE_PORTS)))
        yield from _together(kind, ports)
        yield from _balancing(kind, spec)
        yield from _traffic(kind, spec)

    def validate_update(self, obj: RawObject, old: RawObject) -> FieldErrors:
        new, before = obj["spec"].get("clusterIPs"), old["spec"].get("clusterIPs")
        if EXTERNAL not in (obj["spec"]["type"], old["spec"].get("type")) and before and new != before:
            yield invalid("spec.clusterIPs[0]", new, "may not change once set")

    def judge(self, registry: Registry, obj: RawObject, old: RawObject | None) -> list[FieldError]:
        found = super().judge(registry, obj, old)
        return found or list(self._give_node_ports(registry, obj, mapping(old, "spec")))

    def _give_node_ports(self, registry: Registry, obj: RawObject, before: RawObject) -> FieldErrors:
        """Reserve the node ports that are asked for, and find some for the others, in place."""
        spec = obj["spec"]
        if spec["type"] not in WITH_NODE_PORTS or spec.get("allocateLoadBalancerNodePorts") is False:
            return
        own = {
            (port.get("port"), port.get("protocol")): port.get("nodePort")
            for port in mappings(before, "ports")
        }
        bucket = registry.bucket(self.resource.plural)
        key = (obj["metadata"]["namespace"], obj["metadata"].get("name") or "")
        taken = {
            (port.get("nodePort"), port.get("protocol"))
            for record in bucket.newest_in("")
            if record.key != key and record.fields.get("spec.type") in WITH_NODE_PORTS
            for port in mappings(decode(record.data), "spec", "ports")
        }
        for path, port in numbered("spec.ports", mappings(spec, "ports")):
            protocol = port.get("protocol")
            given = port.get("nodePort") or own.get((port.get("port"), protocol))
            if given and given not in _NODE_PORTS:
                yield invalid(f"{path}.nodePort", given, _OUT_OF_RANGE)
            elif given and (given, protocol) in taken:
                yield invalid(f"{path}.nodePort", given, "provided port is already allocated")
            used = {number for number, _ in taken}
            port["nodePort"] = given or next((free for free in _NODE_PORTS if free not in used), None)
            if port["nodePort"] is None:
                raise errors.internal("failed to allocate a nodePort: range is full")
            taken.add((port["nodePort"], protocol))


def _drop_of_type(spec: RawObject, before: RawObject) -> None:
    """A Service of another type than before does not keep what only the old type has."""
    kind, was = spec["type"], before.get("type")
    if was in WITH_NODE_PORTS and kind not in WITH_NODE_PORTS:
        known = {port.get("nodePort") for port in mappings(before, "ports")}
        for port in mappings(spec, "ports"):
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


# --- what upstream asks of their ports, addresses, families and policies


def _of_kind(kind: str, spec: RawObject) -> FieldErrors:
    if kind in WITH_NODE_PORTS and spec.get("clusterIP") == HEADLESS:
        yield invalid("spec.clusterIPs[0]", HEADLESS, f"may not be set to 'None' for {kind} services")
    if kind != EXTERNAL:
        return
    for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            yield forbidden(f"spec.{field}", "may not be set for ExternalName services")
    yield from checks.subdomain("spec.externalName", str(spec.get("externalName") or "").removesuffix("."))


def _port(path: str, port: RawObject, seen: set[str], *, several: bool) -> FieldErrors:
    name = port.get("name")
    yield from checks.label(f"{path}.name", name, needed=several)
    if name:
        yield from once(seen, f"{path}.name", name)
    yield from checks.port(f"{path}.port", port.get("port"))
    yield from one_of(f"{path}.protocol", port.get("protocol"), PROTOCOLS)
    yield from checks.port(f"{path}.targetPort", port.get("targetPort"))
    yield from checks.form(path, port, "appProtocol", names.label_key_errors)


def _affinity(spec: RawObject) -> FieldErrors:
    affinity, config = spec.get("sessionAffinity"), spec.get("sessionAffinityConfig")
    yield from one_of("spec.sessionAffinity", affinity, ("ClientIP", "None"))
    path = "spec.sessionAffinityConfig"
    if affinity == "ClientIP":
        seconds = mapping(config, "clientIP").get("timeoutSeconds") or 0
        if not 0 < seconds <= _LONGEST_AFFINITY:
            detail = f"must be greater than 0 and less than {_LONGEST_AFFINITY}"
            yield invalid(f"{path}.clientIP.timeoutSeconds", seconds, detail)
    elif affinity == "None" and config is not None:
        yield forbidden(path, "must not be set when session affinity is None")


def _addresses(spec: RawObject) -> FieldErrors:
    first, given, path = spec.get("clusterIP"), spec.get("clusterIPs") or [], "spec.clusterIPs"
    if first and not given:
        yield required(path)
    elif first and given[0] != first:
        yield invalid(path, given, "first value must match `clusterIP`")
    elif given and not first:
        yield invalid(path, given, "must be empty when `clusterIP` is not specified")
    seen: set[str] = set()
    for at, family in numbered("spec.ipFamilies", spec.get("ipFamilies") or ()):
        yield from one_of(at, family, _FAMILIES, needed=False)
        yield from once(seen, at, family)
    yield from checks.choice("spec", spec, "ipFamilyPolicy", *_FAMILY_POLICIES)
    if given[:1] == [HEADLESS]:
        if len(given) > 1:
            yield invalid(path, given, "'None' must be the first and only value")
        return
    for at, address in numbered(path, given):
        yield from checks.address(at, address)
    if len(given) > 2:
        yield invalid(path, given, "may only hold up to 2 values")
    versions = [found.version for found in map(checks.parsed, given) if found is not None]
    if len(versions) == len(given) and len(set(versions)) < len(versions):
        yield invalid(path, given, "may specify no more than one IP for each IP family")


def _together(kind: str, ports: list[RawObject]) -> FieldErrors:
    """What ports may not have in common, and which may not have one of the nodes."""
    if kind == CLUSTER:
        for path, port in numbered("spec.ports", ports):
            if port.get("nodePort"):
                yield forbidden(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'")
    seen: set[tuple[str, object, object]] = set()
    for field in ("nodePort", "port"):
        for path, port in numbered("spec.ports", ports):
            key = (field, port.get("protocol"), port.get(field))
            if key in seen and field == "nodePort" and port.get(field):
                yield FieldError(f"{path}.nodePort", DUPLICATE, "", port[field])
            elif key in seen and field == "port":
                # By the names of its Go fields, as messages show a port.
                shown = {"Name": "", "Protocol": port.get("protocol"), "AppProtocol": None}
                shown |= {"Port": port.get("port"), "TargetPort": 0, "NodePort": 0}
                yield FieldError(path, DUPLICATE, "", shown)
            seen.add(key)


def _balancing(kind: str, spec: RawObject) -> FieldErrors:
    ranges, path = spec.get("loadBalancerSourceRanges") or (), "spec.LoadBalancerSourceRanges"
    if ranges and kind != BALANCED:
        yield forbidden(path, _BALANCED_ONLY)
    for at, block in numbered(path, ranges):
        yield from checks.network(at, block.strip())
    if kind == BALANCED:
        yield from checks.form("spec", spec, "loadBalancerClass", names.label_key_errors)
        return
    for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if spec.get(field) is not None:
            yield forbidden(f"spec.{field}", _BALANCED_ONLY)


def _traffic(kind: str, spec: RawObject) -> FieldErrors:
    outside, path = spec.get("externalTrafficPolicy"), "spec.externalTrafficPolicy"
    if kind in WITH_NODE_PORTS or (kind == CLUSTER and spec.get("externalIPs")):
        yield from one_of(path, outside, _POLICIES)
    elif outside:
        yield invalid(path, outside, "may only be set for externally-accessible services")
    if spec.get("healthCheckNodePort") and (kind, outside) != (BALANCED, "Local"):
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield invalid("spec.healthCheckNodePort", spec["healthCheckNodePort"], detail)
    yield from checks.choice("spec", spec, "internalTrafficPolicy", *_POLICIES)
    yield from checks.choice("spec", spec, "trafficDistribution", *_DISTRIBUTIONS)


# --- columns


def balancers(obj: RawObject) -> list[str]:
    found = items(obj, "status", "loadBalancer", "ingress")
    return sorted({str(fields.at(each, "ip") or fields.at(each, "hostname") or "") for each in found} - {""})


def _external_ip(service: RawObject, _: float) -> str:
    own = [str(each) for each in items(service, "spec", "externalIPs")]
    match fields.at(service, "spec", "type"):
        case "ClusterIP" | "NodePort":
            return ",".join(own) or NONE
        case "LoadBalancer":
            return ",".join([*balancers(service), *own]) or "<pending>"
        case "ExternalName":
            return str(fields.at(service, "spec", "externalName") or "")
    return UNKNOWN


def _cluster_ip(service: RawObject, _: float) -> str:
    all_of_them = items(service, "spec", "clusterIPs")
    return str((all_of_them[0] if all_of_them else fields.at(service, "spec", "clusterIP")) or NONE)


def _ports(service: RawObject, _: float) -> str:
    shown = []
    for port in mappings(service, "spec", "ports"):
        on_nodes = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port')}{on_nodes}/{port.get('protocol') or 'TCP'}")
    return ",".join(shown) or NONE


STRATEGIES = (
    ServiceStrategy(
        served("v1", "Service", short="svc", categories="all", subresources="status"),
        columns=(
            NAME,
            Column("Type", text("spec", "type")),
            Column("Cluster-IP", _cluster_ip),
            Column("External-IP", _external_ip),
            Column("Port(s)", _ports),
            AGE,
            Column("Selector", lambda obj, _: labels(mapping(obj, "spec", "selector")), wide=True),
        ),
        fields=paths("spec.clusterIP", "spec.type"),
        first_status={"loadBalancer": {}},
        generation=False,
        create_on_update=True,
        returns_deleted=True,
    ),
)
