"""Endpoints and EndpointSlices: the addresses behind Services.

Upstream: validateEndpointSubsets in pkg/apis/core/validation, and pkg/apis/discovery.
"""

from __future__ import annotations

from collections.abc import Iterable

from berth.kube import names
from berth.kube.objects import RawObject
from berth.kube.validation import FieldError
from berth.kube.validation.containers import PROTOCOLS
from berth.kube.validation.errors import DUPLICATE, TOO_MANY
from berth.server.registry import checks
from berth.server.registry.checks import Found, each, invalid, one_of, required
from berth.server.registry.fields import mappings
from berth.server.registry.resources import served
from berth.server.registry.strategy import Strategy
from berth.server.tables import cluster as tables

_TYPES = ("FQDN", "IPv4", "IPv6")
_MOST_ADDRESSES, _MOST_ENDPOINTS, _MOST_PORTS = 100, 1000, 20_000


class EndpointsStrategy(Strategy):
    """The older kind, which clients are told not to use."""

    def default(self, obj: RawObject) -> None:
        if not obj.get("subsets"):
            obj.pop("subsets", None)
        for subset in mappings(obj.get("subsets")):
            for port in mappings(subset.get("ports")):
                port.setdefault("protocol", "TCP")

    def check(self, obj: RawObject) -> Iterable[FieldError]:
        own = _is_own(obj)
        for i, subset in enumerate(mappings(obj.get("subsets"))):
            path, ports = f"subsets[{i}]", mappings(subset.get("ports"))
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
        for endpoint in mappings(obj.get("endpoints")):
            endpoint.setdefault("conditions", {})
        for port in mappings(obj.get("ports")):
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def check(self, obj: RawObject) -> Iterable[FieldError]:
        kind = obj.get("addressType")
        yield from one_of("addressType", kind, _TYPES)
        yield from _endpoints(str(kind), mappings(obj.get("endpoints")), own=_is_own(obj))
        ports = mappings(obj.get("ports"))
        if len(ports) > _MOST_PORTS:
            yield _too_many("ports", ports, _MOST_PORTS)
            return
        seen: set[str] = set()
        for i, port in enumerate(ports):
            at, name = f"ports[{i}]", port.get("name") or ""
            yield from checks.label(f"{at}.name", name) if name else ()
            if name in seen:
                yield FieldError(f"{at}.name", DUPLICATE, "", name)
            seen.add(name)
            yield from _protocols(at, port)


def _too_many(path: str, items: list[object] | list[RawObject], most: int) -> FieldError:
    return FieldError(path, TOO_MANY, f"must have at most {most} items", len(items))


def _endpoints(kind: str, endpoints: list[RawObject], *, own: bool) -> Found:
    if len(endpoints) > _MOST_ENDPOINTS:
        yield _too_many("endpoints", endpoints, _MOST_ENDPOINTS)
        return
    for i, endpoint in enumerate(endpoints):
        path, addresses = f"endpoints[{i}]", endpoint.get("addresses") or []
        if not addresses:
            yield required(f"{path}.addresses", "must contain at least 1 address")
        elif len(addresses) > _MOST_ADDRESSES:
            yield _too_many(f"{path}.addresses", addresses, _MOST_ADDRESSES)
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
    EndpointsStrategy(
        served("v1", "endpoints", "Endpoints", short="ep"),
        columns=tables.ENDPOINTS,
        generation=False,
        create_on_update=True,
        deprecated="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    EndpointSliceStrategy(
        served("discovery.k8s.io/v1", "endpointslices", "EndpointSlice"),
        columns=tables.ENDPOINT_SLICE,
        needs_version=True,
    ),
)
