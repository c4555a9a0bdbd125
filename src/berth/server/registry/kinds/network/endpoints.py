"""The addresses behind Services: Endpoints and EndpointSlices.

Upstream: pkg/apis/discovery, and validateEndpointSubsets in pkg/apis/core/validation.
"""

from __future__ import annotations

from berth.kube import names
from berth.kube.objects import RawObject
from berth.kube.validation.containers import PROTOCOLS
from berth.kube.validation.errors import too_many
from berth.server import fields
from berth.server.fields import items, mappings
from berth.server.registry import checks
from berth.server.registry.checks import FieldErrors, each, invalid, numbered, one_of, required
from berth.server.registry.strategy import Strategy, served
from berth.server.tables import AGE, NAME, UNSET, Column, listed, text

_TYPES = ("FQDN", "IPv4", "IPv6")
_MOST_ADDRESSES, _MOST_ENDPOINTS, _MOST_PORTS = 100, 1000, 20_000


class EndpointsStrategy(Strategy):
    """The older kind, which clients are told not to use."""

    def default(self, obj: RawObject) -> None:
        if not obj.get("subsets"):
            obj.pop("subsets", None)
        for subset in mappings(obj, "subsets"):
            for port in mappings(subset, "ports"):
                port.setdefault("protocol", "TCP")

    def check(self, obj: RawObject) -> FieldErrors:
        own = _is_own(obj)
        for path, subset in numbered("subsets", mappings(obj, "subsets")):
            ports = mappings(subset, "ports")
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                yield required(path, "must specify `addresses` or `notReadyAddresses`")
            for name in ("addresses", "notReadyAddresses"):
                for at, address in numbered(f"{path}.{name}", mappings(subset.get(name))):
                    yield from _address(at, address, own=own)
            for at, port in numbered(f"{path}.ports", ports):
                yield from checks.label(f"{at}.name", port.get("name"), needed=len(ports) > 1)
                yield from checks.port(f"{at}.port", port.get("port"))
                yield from _protocols(at, port)


def _is_own(obj: RawObject) -> bool:
    """Whether this is about the server itself, which may well listen on the loopback alone."""
    metadata = obj["metadata"]
    return (metadata.get("namespace"), metadata.get("name")) == ("default", "kubernetes")


def _address(path: str, address: RawObject, *, own: bool) -> FieldErrors:
    ip, at = address.get("ip") or "", f"{path}.ip"
    yield from checks.address(at, ip)
    yield from checks.label(f"{path}.hostname", address.get("hostname"), needed=False)
    yield from checks.form(path, address, "nodeName", names.dns_subdomain_errors)
    if checks.parsed(ip) is None:
        yield invalid(at, ip, "must be a valid IP address")
    elif not own:
        yield from checks.outside(at, ip)


def _protocols(path: str, port: RawObject) -> FieldErrors:
    yield from one_of(f"{path}.protocol", port.get("protocol"), PROTOCOLS)
    yield from checks.form(path, port, "appProtocol", names.label_key_errors)


class EndpointSliceStrategy(Strategy):
    """A part of the addresses behind a Service."""

    def default(self, obj: RawObject) -> None:
        for endpoint in mappings(obj, "endpoints"):
            endpoint.setdefault("conditions", {})
        for port in mappings(obj, "ports"):
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def check(self, obj: RawObject) -> FieldErrors:
        kind = obj.get("addressType")
        yield from one_of("addressType", kind, _TYPES)
        yield from _endpoints(str(kind), mappings(obj, "endpoints"), own=_is_own(obj))
        ports = mappings(obj, "ports")
        if len(ports) > _MOST_PORTS:
            yield too_many("ports", ports, _MOST_PORTS)
            return
        seen: set[str] = set()
        for at, port in numbered("ports", ports):
            name = port.get("name") or ""
            yield from checks.label(f"{at}.name", name, needed=False)
            yield from checks.once(seen, f"{at}.name", name)
            yield from _protocols(at, port)


def _endpoints(kind: str, endpoints: list[RawObject], *, own: bool) -> FieldErrors:
    if len(endpoints) > _MOST_ENDPOINTS:
        yield too_many("endpoints", endpoints, _MOST_ENDPOINTS)
        return
    for path, endpoint in numbered("endpoints", endpoints):
        addresses = endpoint.get("addresses") or []
        if not addresses:
            yield required(f"{path}.addresses", "must contain at least 1 address")
        elif len(addresses) > _MOST_ADDRESSES:
            yield too_many(f"{path}.addresses", addresses, _MOST_ADDRESSES)
        for j, address in enumerate(addresses):
            yield from _typed(kind, f"{path}.addresses", j, address, own=own)
        yield from checks.form(path, endpoint, "nodeName", names.dns_subdomain_errors)
        yield from checks.form(path, endpoint, "hostname", names.dns_label_errors)


def _typed(kind: str, path: str, index: int, address: str, *, own: bool) -> FieldErrors:
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


def _ready_addresses(obj: RawObject, _: float) -> str:
    found: list[str] = []
    for subset in items(obj, "subsets"):
        hosts = [str(fields.at(each, "ip")) for each in items(subset, "addresses")]
        ports = items(subset, "ports")
        found += [f"{host}:{fields.at(port, 'port')}" for port in ports for host in hosts] if ports else hosts
    return listed(found)


def _slice_ports(obj: RawObject, _: float) -> str:
    return listed([str(fields.at(each, "port") or "*") for each in items(obj, "ports")], UNSET)


def _slice_addresses(obj: RawObject, _: float) -> str:
    found = [str(host) for each in items(obj, "endpoints") for host in items(each, "addresses")]
    return listed(found, UNSET)


GROUP_PRIORITIES = {"discovery.k8s.io": 16_200}
STRATEGIES = (
    EndpointsStrategy(
        served("v1", "Endpoints", short="ep"),
        columns=(NAME, Column("Endpoints", _ready_addresses), AGE),
        generation=False,
        create_on_update=True,
        deprecated="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    EndpointSliceStrategy(
        served("discovery.k8s.io/v1", "EndpointSlice"),
        columns=(
            NAME,
            Column("AddressType", text("addressType")),
            Column("Ports", _slice_ports),
            Column("Endpoints", _slice_addresses),
            AGE,
        ),
        needs_version=True,
    ),
)
