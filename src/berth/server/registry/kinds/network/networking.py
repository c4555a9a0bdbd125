"""The kinds of networking.k8s.io: Ingresses, which requests go to which Service, and NetworkPolicies.

Upstream: pkg/apis/networking/validation.
"""

from __future__ import annotations

import re

from berth.kube import names
from berth.kube.objects import RawObject
from berth.server.fields import annotations_of, at, items, mapping, mappings
from berth.server.registry import checks
from berth.server.registry.checks import FieldErrors, each, forbidden, invalid, numbered, one_of, required
from berth.server.registry.kinds.network.services import balancers
from berth.server.registry.strategy import Strategy, served
from berth.server.tables import AGE, NAME, NONE, Column, default_name, listed, selector, text

_NETWORKING = "networking.k8s.io/v1"
_CLASS = "kubernetes.io/ingress.class"
_WILDCARD = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_wildcard = re.compile(_WILDCARD).fullmatch
_NO_WILDCARD = names.regex_message(
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must "
    "consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
    _WILDCARD,
    "*.example.com",
)
_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
# How rules of a direction are called, and whom they are about.
_DIRECTIONS = {"Ingress": ("ingress", "from"), "Egress": ("egress", "to")}
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_NOT_INSIDE, _NOT_AT_THE_END = ("//", "/./", "/../", "%2f", "%2F"), ("/..", "/.")


class IngressStrategy(Strategy):
    """What is served is said by rules, or by a backend for all of it."""

    def check(self, obj: RawObject) -> FieldErrors:
        spec = mapping(obj, "spec")
        rules, backend = mappings(spec, "rules"), spec.get("defaultBackend")
        if not rules and backend is None:
            yield invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified")
        if backend is not None:
            yield from _backend("spec.defaultBackend", mapping(backend))
        for path, rule in numbered("spec.rules", rules):
            yield from _rule(path, rule)
        for path, tls in numbered("spec.tls", mappings(spec, "tls")):
            for where, host in numbered(f"{path}.hosts", tls.get("hosts") or ()):
                yield from each(where, host, _host_errors(host))
            yield from checks.subdomain(f"{path}.secretName", tls.get("secretName"), needed=False)
        yield from checks.form("spec", spec, "ingressClassName", names.dns_subdomain_errors)

    def validate_create(self, obj: RawObject) -> FieldErrors:
        said, name = annotations_of(obj).get(_CLASS), at(obj, "spec", "ingressClassName")
        if said is not None and name is not None and said != name:
            detail = "must match `ingressClassName` when both are specified"
            yield invalid(f"annotations.{_CLASS}", said, detail)


def _rule(path: str, rule: RawObject) -> FieldErrors:
    host, http = rule.get("host"), rule.get("http")
    if host:
        if checks.parsed(host) is not None:
            yield invalid(f"{path}.host", host, "must be a DNS name, not an IP address")
        yield from each(f"{path}.host", host, _host_errors(host))
    if http is None:
        return
    yield from checks.has(f"{path}.http", mapping(http), "paths")
    for where, one in numbered(f"{path}.http.paths", mappings(http, "paths")):
        yield from _path(where, one)


def _host_errors(host: str) -> list[str]:
    if "*" not in host:
        return names.dns_subdomain_errors(host)
    return checks.form_errors(host, _wildcard, _NO_WILDCARD)


def _path(path: str, given: RawObject) -> FieldErrors:
    kind, text, at = given.get("pathType"), given.get("path") or "", f"{path}.path"
    if kind is None:
        yield required(f"{path}.pathType", "pathType must be specified")
        return
    if kind not in _TYPES:
        yield from one_of(f"{path}.pathType", kind, _TYPES, needed=False)
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        yield invalid(at, text, "must be an absolute path")
    if kind in ("Exact", "Prefix"):
        yield from each(at, text, (f"must not contain '{one}'" for one in _NOT_INSIDE if one in text))
        ends = (f"cannot end with '{one}'" for one in _NOT_AT_THE_END if text.endswith(one))
        yield from each(at, text, ends)
    yield from _backend(f"{path}.backend", mapping(given, "backend"))


def _backend(path: str, backend: RawObject) -> FieldErrors:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        held, where = mapping(resource), f"{path}.resource"
        yield from checks.form(where, held, "apiGroup", names.dns_subdomain_errors)
        yield from checks.reference(where, held)
    elif service is not None:
        yield from checks.label(f"{path}.service.name", mapping(service).get("name"))
        yield from _port(path, mapping(service, "port"))
    else:
        yield invalid(path, "", "resource or service backend is required")


def _port(path: str, port: RawObject) -> FieldErrors:
    given = [name for name in ("name", "number") if port.get(name)]
    if not given:
        yield required(path, "port name or number is required")
    elif len(given) > 1:
        yield invalid(path, "", "cannot set both port name & port number")
    else:
        yield from checks.port(f"{path}.service.port.{given[0]}", port[given[0]])


class NetworkPolicyStrategy(Strategy):
    """Which directions it is about, and whom and what it lets through."""

    def default(self, obj: RawObject) -> None:
        spec = checks.spec_of(obj)
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        for rules, _ in _DIRECTIONS.values():
            for rule in mappings(spec.get(rules)):
                for port in mappings(rule, "ports"):
                    port.setdefault("protocol", "TCP")

    def check(self, obj: RawObject) -> FieldErrors:
        spec = mapping(obj, "spec")
        for rules, peers in _DIRECTIONS.values():
            for path, rule in numbered(f"spec.{rules}", mappings(spec.get(rules))):
                for where, port in numbered(f"{path}.ports", mappings(rule, "ports")):
                    yield from _port_errors(where, port)
                for where, peer in numbered(f"{path}.{peers}", mappings(rule.get(peers))):
                    yield from _peer_errors(where, peer)
        for path, direction in numbered("spec.policyTypes", spec.get("policyTypes") or ()):
            yield from one_of(path, direction, tuple(_DIRECTIONS), needed=False)


def _port_errors(path: str, port: RawObject) -> FieldErrors:
    yield from one_of(f"{path}.protocol", port.get("protocol"), _PROTOCOLS, needed=False)
    number, last = port.get("port"), port.get("endPort")
    yield from checks.between(f"{path}.port", number, 1, 65535)
    if isinstance(last, int) and isinstance(number, int) and last < number:
        yield invalid(f"{path}.endPort", number, "must be greater than or equal to `port`")


def _peer_errors(path: str, peer: RawObject) -> FieldErrors:
    block = peer.get("ipBlock")
    if not any(peer.get(name) is not None for name in ("podSelector", "namespaceSelector", "ipBlock")):
        yield required(path, "must specify a peer")
    elif block is not None and len(peer) > 1:
        yield forbidden(path, "may not specify both ipBlock and another peer")
    elif block is not None:
        cidr, where = str(mapping(block).get("cidr") or ""), f"{path}.ipBlock.cidr"
        yield from checks.network(where, cidr) if cidr else (required(where),)


def _parameters(obj: RawObject, _: float) -> str:
    found = at(obj, "spec", "parameters")
    if not isinstance(found, dict):
        return NONE
    group = f".{found['apiGroup']}" if found.get("apiGroup") else ""
    return f"{found.get('kind')}{group}/{found.get('name')}"


GROUP_PRIORITIES = {"networking.k8s.io": 17_200}
STRATEGIES = (
    Strategy(
        served(_NETWORKING, "IngressClass", namespaced=False),
        columns=(
            default_name("ingressclass.kubernetes.io/is-default-class"),
            Column("Controller", text("spec", "controller")),
            Column("Parameters", _parameters),
            AGE,
        ),
    ),
    IngressStrategy(
        served(_NETWORKING, "Ingress", short="ing", subresources="status"),
        columns=(
            NAME,
            Column("Class", text("spec", "ingressClassName", otherwise=NONE)),
            Column(
                "Hosts",
                lambda obj, _: listed(
                    [str(each["host"]) for each in items(obj, "spec", "rules") if at(each, "host")], "*"
                ),
            ),
            Column("Address", lambda obj, _: ",".join(balancers(obj))),
            Column("Ports", lambda obj, _: "80, 443" if at(obj, "spec", "tls") else "80"),
            AGE,
        ),
        first_status={"loadBalancer": {}},
    ),
    NetworkPolicyStrategy(
        served(_NETWORKING, "NetworkPolicy", short="netpol"),
        columns=(NAME, Column("Pod-Selector", lambda obj, _: selector(at(obj, "spec", "podSelector"))), AGE),
    ),
)
