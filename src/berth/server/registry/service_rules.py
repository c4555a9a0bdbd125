"""What upstream asks of a Service: its ports, addresses, families and policies.

Upstream: validateService in pkg/apis/core/validation.
"""

from __future__ import annotations

from berth.kube import names
from berth.kube.objects import RawObject
from berth.kube.validation import FieldError
from berth.kube.validation.containers import PROTOCOLS
from berth.kube.validation.errors import DUPLICATE
from berth.server.registry import checks
from berth.server.registry.checks import Found, each, forbidden, invalid, one_of, required
from berth.server.registry.fields import mapping, mappings

CLUSTER, EXTERNAL, BALANCED = "ClusterIP", "ExternalName", "LoadBalancer"
WITH_NODE_PORTS = ("NodePort", BALANCED)
HEADLESS = "None"
_LONGEST_AFFINITY = 86_400
_POLICIES = ("Cluster", "Local")
_FAMILIES, _FAMILY_POLICIES = ("IPv4", "IPv6"), ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_BALANCED_ONLY = "may only be used when `type` is 'LoadBalancer'"


def service_errors(spec: RawObject) -> Found:
    kind, ports = spec["type"], mappings(spec.get("ports"))
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
        if name in seen:
            yield FieldError(f"{path}.name", DUPLICATE, "", name)
        seen.add(name)
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
        seconds = mapping(mapping(config).get("clientIP")).get("timeoutSeconds") or 0
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
        if family in seen:
            yield FieldError(f"spec.ipFamilies[{i}]", DUPLICATE, "", family)
        seen.add(family)
    if spec.get("ipFamilyPolicy") is not None:
        yield from one_of("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], _FAMILY_POLICIES, needed=False)
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
                yield FieldError(f"spec.ports[{i}]", DUPLICATE, "", _shown(port))
            seen.add(key)


def _shown(port: RawObject) -> RawObject:
    """A port as messages show one that there is already: by the names of its Go fields."""
    return {
        "Name": "",
        "Protocol": port.get("protocol"),
        "AppProtocol": None,
        "Port": port.get("port"),
        "TargetPort": 0,
        "NodePort": 0,
    }


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
    outside, inside = spec.get("externalTrafficPolicy"), spec.get("internalTrafficPolicy")
    path = "spec.externalTrafficPolicy"
    if kind in WITH_NODE_PORTS or (kind == CLUSTER and spec.get("externalIPs")):
        yield from one_of(path, outside, _POLICIES)
    elif outside:
        yield invalid(path, outside, "may only be set for externally-accessible services")
    if spec.get("healthCheckNodePort") and (kind, outside) != (BALANCED, "Local"):
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield invalid("spec.healthCheckNodePort", spec["healthCheckNodePort"], detail)
    if inside is not None:
        yield from one_of("spec.internalTrafficPolicy", inside, _POLICIES, needed=False)
    if spec.get("trafficDistribution") is not None:
        yield from one_of(
            "spec.trafficDistribution", spec["trafficDistribution"], _DISTRIBUTIONS, needed=False
        )
