"""Services, which get an address of their own, and the addresses behind them: Endpoints and EndpointSlices.

Upstream: pkg/registry/core/service (alloc.go, strategy.go), pkg/apis/discovery, and validateService and
validateEndpointSubsets in pkg/apis/core/validation.
"""

from __future__ import annotations

import ipaddress

from berth.kube import names
from berth.kube.objects import RawObject
from berth.kube.validation.containers import PROTOCOLS
from berth.kube.validation.errors import DUPLICATE, FieldError
from berth.server.fields import mapping, mappings
from berth.server.registry import checks
from berth.server.registry.checks import Found, each, forbidden, invalid, once, one_of, required
from berth.server.registry.strategy import Registry, Strategy, served
from berth.server.storage.bucket import decode
from berth.server.storage.selectors import paths
from berth.server.tables import cluster as tables

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
_TYPES = ("FQDN", "IPv4", "IPv6")
_MOST_ADDRESSES, _MOST_ENDPOINTS, _MOST_PORTS = 100, 1000, 20_000


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
        spec, before = obj["spec"], mapping((old or {}).get("spec"))
        if spec.get("clusterIP"):
            spec.setdefault("clusterIPs", [spec["clusterIP"]])
        _drop_of_type(spec, before)
        if not spec.get("clusterIP") and spec["type"] != EXTERNAL:
            spec.update({name: before[name] for name in ("clusterIP", "clusterIPs") if name in before})
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
        return _errors(obj["spec"])

    def validate_update(self, obj: RawObject, old: RawObject) -> Found:
        new, before = obj["spec"].get("clusterIPs"), old["spec"].get("clusterIPs")
        if EXTERNAL not in (obj["spec"]["type"], old["spec"].get("type")) and before and new != before:
            yield invalid("spec.clusterIPs[0]", new, "may not change once set")

    def admit_and_validate(
        self, registry: Registry, obj: RawObject, old: RawObject | None
    ) -> list[FieldError]:
        found = super().admit_and_validate(registry, obj, old)
        return found or list(self._give_node_ports(registry, obj, mapping((old or {}).get("spec"))))

    def _give_node_ports(self, registry: Registry, obj: RawObject, before: RawObject) -> Found:
        """Reserve the node ports that are asked for, and find some for the others, in place."""
        spec = obj["spec"]
        if spec["type"] not in WITH_NODE_PORTS or spec.get("allocateLoadBalancerNodePorts") is False:
            return
        own = {(port.get("port"), port.get("protocol")): port.get("nodePort") for port in _ports(before)}
        bucket = registry.builtin("", self.resource.plural).bucket
        key = (obj["metadata"]["namespace"], obj["metadata"].get("name") or "")
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
    return mappings(spec, "ports")


# --- what upstream asks of their ports, addresses, families and policies


def _errors(spec: RawObject) -> Found:
    kind, ports = spec["type"], mappings(spec, "ports")
    if not ports and spec.get("clusterIP") != HEADLESS and kind != EXTERNAL:
        yield required("spec.ports")
    yield from _of_kind(kind, spec)
    seen: set[str] = set()
    for i, port in enumerate(ports):
        yield from _port(f"spec.ports[{i}]", port, seen, several=len(ports) > 1)
    yield from _affinity(spec)
    if kind != EXTERNAL:
        yield from _addresses(spec)
    for i, address in enumerate(spec.get("externalIPs") or ()):
        at = f"spec.externalIPs[{i}]"
        yield from (*checks.address(at, address), *checks.outside(at, address))
    yield from one_of("spec.type", kind, (CLUSTER, EXTERNAL, *reversed(WITH_NODE_PORTS)))
    yield from _together(kind, ports)
    yield from _balancing(kind, spec)
    yield from _traffic(kind, spec)


def _of_kind(kind: str, spec: RawObject) -> Found:
    if kind in WITH_NODE_PORTS and spec.get("clusterIP") == HEADLESS:
        yield invalid("spec.clusterIPs[0]", HEADLESS, f"may not be set to 'None' for {kind} services")
    if kind != EXTERNAL:
        return
    for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            yield forbidden(f"spec.{field}", "may not be set for ExternalName services")
    yield from checks.subdomain("spec.externalName", str(spec.get("externalName") or "").removesuffix("."))


def _port(path: str, port: RawObject, seen: set[str], *, several: bool) -> Found:
    name, protocol = port.get("name"), port.get("appProtocol")
    if name:
        yield from checks.label(f"{path}.name", name)
        yield from once(seen, f"{path}.name", name)
    elif several:
        yield required(f"{path}.name")
    yield from checks.port(f"{path}.port", port.get("port"))
    yield from one_of(f"{path}.protocol", port.get("protocol"), PROTOCOLS)
    yield from checks.port(f"{path}.targetPort", port.get("targetPort"))
    if protocol is not None:
        yield from each(f"{path}.appProtocol", protocol, names.label_key_errors(protocol))


def _affinity(spec: RawObject) -> Found:
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


def _addresses(spec: RawObject) -> Found:
    first, given, path = spec.get("clusterIP"), spec.get("clusterIPs") or [], "spec.clusterIPs"
    if first and not given:
        yield required(path)
    elif first and given[0] != first:
        yield invalid(path, given, "first value must match `clusterIP`")
    elif given and not first:
        yield invalid(path, given, "must be empty when `clusterIP` is not specified")
    seen: set[str] = set()
    for i, family in enumerate(spec.get("ipFamilies") or ()):
        yield from one_of(f"spec.ipFamilies[{i}]", family, _FAMILIES, needed=False)
        yield from once(seen, f"spec.ipFamilies[{i}]", family)
    yield from checks.choice("spec", spec, "ipFamilyPolicy", *_FAMILY_POLICIES)
    if given[:1] == [HEADLESS]:
        if len(given) > 1:
            yield invalid(path, given, "'None' must be the first and only value")
        return
    for i, address in enumerate(given):
        yield from checks.address(f"{path}[{i}]", address)
    if len(given) > 2:
        yield invalid(path, given, "may only hold up to 2 values")
    versions = [found.version for found in map(checks.parsed, given) if found is not None]
    if len(versions) == len(given) and len(set(versions)) < len(versions):
        yield invalid(path, given, "may specify no more than one IP for each IP family")


def _together(kind: str, ports: list[RawObject]) -> Found:
    """What ports may not have in common, and which may not have one of the nodes."""
    if kind == CLUSTER:
        for i, port in enumerate(ports):
            if port.get("nodePort"):
                yield forbidden(f"spec.ports[{i}].nodePort", "may not be used when `type` is 'ClusterIP'")
    seen: set[tuple[str, object, object]] = set()
    for field in ("nodePort", "port"):
        for i, port in enumerate(ports):
            key = (field, port.get("protocol"), port.get(field))
            if key in seen and field == "nodePort" and port.get(field):
                yield FieldError(f"spec.ports[{i}].nodePort", DUPLICATE, "", port[field])
            elif key in seen and field == "port":
                # By the names of its Go fields, as messages show a port.
                shown = {"Name": "", "Protocol": port.get("protocol"), "AppProtocol": None}
                shown |= {"Port": port.get("port"), "TargetPort": 0, "NodePort": 0}
                yield FieldError(f"spec.ports[{i}]", DUPLICATE, "", shown)
            seen.add(key)


def _balancing(kind: str, spec: RawObject) -> Found:
    ranges, name = spec.get("loadBalancerSourceRanges") or (), spec.get("loadBalancerClass")
    path = "spec.LoadBalancerSourceRanges"
    if ranges and kind != BALANCED:
        yield forbidden(path, _BALANCED_ONLY)
    for i, text in enumerate(ranges):
        yield from checks.network(f"{path}[{i}]", text.strip())
    if spec.get("allocateLoadBalancerNodePorts") is not None and kind != BALANCED:
        yield forbidden("spec.allocateLoadBalancerNodePorts", _BALANCED_ONLY)
    if name is not None and kind != BALANCED:
        yield forbidden("spec.loadBalancerClass", _BALANCED_ONLY)
    elif name is not None:
        yield from each("spec.loadBalancerClass", name, names.label_key_errors(name))


def _traffic(kind: str, spec: RawObject) -> Found:
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


# --- endpoints


class EndpointsStrategy(Strategy):
    """The older kind, which clients are told not to use."""

    def default(self, obj: RawObject) -> None:
        if not obj.get("subsets"):
            obj.pop("subsets", None)
        for subset in mappings(obj, "subsets"):
            for port in mappings(subset, "ports"):
                port.setdefault("protocol", "TCP")

    def check(self, obj: RawObject) -> Found:
        own = _is_own(obj)
        for i, subset in enumerate(mappings(obj, "subsets")):
            path, ports = f"subsets[{i}]", mappings(subset, "ports")
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                yield required(path, "must specify `addresses` or `notReadyAddresses`")
            for name in ("addresses", "notReadyAddresses"):
                for j, address in enumerate(mappings(subset.get(name))):
                    yield from _address(f"{path}.{name}[{j}]", address, own=own)
            for j, port in enumerate(ports):
                at = f"{path}.ports[{j}]"
                if len(ports) > 1 and not port.get("name"):
                    yield required(f"{at}.name")
                yield from checks.label(f"{at}.name", port["name"]) if port.get("name") else ()
                yield from checks.port(f"{at}.port", port.get("port"))
                yield from _protocols(at, port)


def _is_own(obj: RawObject) -> bool:
    """Whether this is about the server itself, which may well listen on the loopback alone."""
    metadata = obj["metadata"]
    return (metadata.get("namespace"), metadata.get("name")) == ("default", "kubernetes")


def _address(path: str, address: RawObject, *, own: bool) -> Found:
    ip, host, node = address.get("ip") or "", address.get("hostname"), address.get("nodeName")
    known = checks.parsed(ip) is not None
    yield from checks.address(f"{path}.ip", ip)
    if host:
        yield from checks.label(f"{path}.hostname", host)
    if node is not None:
        yield from each(f"{path}.nodeName", node, names.dns_subdomain_errors(node))
    at = f"{path}.ip"
    if not known:
        yield invalid(at, ip, "must be a valid IP address")
    elif not own:
        yield from checks.outside(at, ip)


def _protocols(path: str, port: RawObject) -> Found:
    application = port.get("appProtocol")
    yield from one_of(f"{path}.protocol", port.get("protocol"), PROTOCOLS)
    if application is not None:
        yield from each(f"{path}.appProtocol", application, names.label_key_errors(application))


class EndpointSliceStrategy(Strategy):
    """A part of the addresses behind a Service."""

    def default(self, obj: RawObject) -> None:
        for endpoint in mappings(obj, "endpoints"):
            endpoint.setdefault("conditions", {})
        for port in mappings(obj, "ports"):
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def check(self, obj: RawObject) -> Found:
        kind = obj.get("addressType")
        yield from one_of("addressType", kind, _TYPES)
        yield from _endpoints(str(kind), mappings(obj, "endpoints"), own=_is_own(obj))
        ports = mappings(obj, "ports")
        if len(ports) > _MOST_PORTS:
            yield checks.too_many("ports", ports, _MOST_PORTS)
            return
        seen: set[str] = set()
        for i, port in enumerate(ports):
            at, name = f"ports[{i}]", port.get("name") or ""
            yield from checks.label(f"{at}.name", name) if name else ()
            yield from checks.once(seen, f"{at}.name", name)
            yield from _protocols(at, port)


def _endpoints(kind: str, endpoints: list[RawObject], *, own: bool) -> Found:
    if len(endpoints) > _MOST_ENDPOINTS:
        yield checks.too_many("endpoints", endpoints, _MOST_ENDPOINTS)
        return
    for i, endpoint in enumerate(endpoints):
        path, addresses = f"endpoints[{i}]", endpoint.get("addresses") or []
        if not addresses:
            yield required(f"{path}.addresses", "must contain at least 1 address")
        elif len(addresses) > _MOST_ADDRESSES:
            yield checks.too_many(f"{path}.addresses", addresses, _MOST_ADDRESSES)
        for j, address in enumerate(addresses):
            yield from _typed(kind, f"{path}.addresses", j, address, own=own)
        for field, rule in (("nodeName", names.dns_subdomain_errors), ("hostname", names.dns_label_errors)):
            if endpoint.get(field) is not None:
                yield from each(f"{path}.{field}", endpoint[field], rule(endpoint[field]))


def _typed(kind: str, path: str, index: int, address: str, *, own: bool) -> Found:
    at, found = f"{path}[{index}]", checks.parsed(address)
    if kind == "FQDN":
        yield from each(at, address, names.dns_subdomain_errors(address.removesuffix(".")))
    elif kind in _TYPES and found is None:
        yield from checks.address(at, address)
    elif kind in _TYPES and found is not None:
        if f"IPv{found.version}" != kind:
            yield invalid(path, address, f"must be an {kind} address")
        if not own:
            yield from checks.outside(at, address)


STRATEGIES = (
    ServiceStrategy(
        served("v1", "Service", short="svc", categories="all", subresources="status"),
        columns=tables.SERVICE,
        fields=paths("spec.clusterIP", "spec.type"),
        first_status={"loadBalancer": {}},
        generation=False,
        create_on_update=True,
        returns_deleted=True,
    ),
    EndpointsStrategy(
        served("v1", "Endpoints", short="ep"),
        columns=tables.ENDPOINTS,
        generation=False,
        create_on_update=True,
        deprecated="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    EndpointSliceStrategy(
        served("discovery.k8s.io/v1", "EndpointSlice"),
        columns=tables.ENDPOINT_SLICE,
        needs_version=True,
    ),
)
