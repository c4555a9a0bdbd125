"""NetworkPolicies: which directions they are about, and whom and what they let through."""

from __future__ import annotations

from collections.abc import Iterator

from berth.kube.objects import RawObject
from berth.kube.validation import FieldError
from berth.kube.validation.errors import FORBIDDEN, INVALID, NOT_SUPPORTED, REQUIRED
from berth.server.registry import checks
from berth.server.registry.fields import mapping, mappings, spec_of
from berth.server.registry.resources import served
from berth.server.registry.strategy import Strategy
from berth.server.tables import cluster as tables

_DIRECTIONS = {"Ingress": ("ingress", "from"), "Egress": ("egress", "to")}
_PROTOCOLS = ("TCP", "UDP", "SCTP")


class NetworkPolicyStrategy(Strategy):
    def default(self, obj: RawObject) -> None:
        spec = spec_of(obj)
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        for rules, _ in _DIRECTIONS.values():
            for rule in mappings(spec.get(rules)):
                for port in mappings(rule.get("ports")):
                    port.setdefault("protocol", "TCP")

    def check(self, obj: RawObject) -> Iterator[FieldError]:
        spec = mapping(obj.get("spec"))
        for rules, peers in _DIRECTIONS.values():
            for i, rule in enumerate(mappings(spec.get(rules))):
                path = f"spec.{rules}[{i}]"
                for j, port in enumerate(mappings(rule.get("ports"))):
                    yield from _port_errors(f"{path}.ports[{j}]", port)
                for j, peer in enumerate(mappings(rule.get(peers))):
                    yield from _peer_errors(f"{path}.{peers}[{j}]", peer)
        for i, direction in enumerate(spec.get("policyTypes") or ()):
            if direction not in _DIRECTIONS:
                yield _unsupported(f"spec.policyTypes[{i}]", direction, tuple(_DIRECTIONS))


def _port_errors(path: str, port: RawObject) -> Iterator[FieldError]:
    if port.get("protocol") not in _PROTOCOLS:
        yield _unsupported(f"{path}.protocol", port.get("protocol"), _PROTOCOLS)
    number, last = port.get("port"), port.get("endPort")
    if isinstance(number, int) and not 1 <= number <= 65535:
        yield FieldError(f"{path}.port", INVALID, "must be between 1 and 65535, inclusive", number)
    if isinstance(last, int) and isinstance(number, int) and last < number:
        yield FieldError(f"{path}.endPort", INVALID, "must be greater than or equal to `port`", number)


def _peer_errors(path: str, peer: RawObject) -> Iterator[FieldError]:
    block = peer.get("ipBlock")
    if not any(peer.get(name) is not None for name in ("podSelector", "namespaceSelector", "ipBlock")):
        yield FieldError(path, REQUIRED, "must specify a peer")
    elif block is not None and len(peer) > 1:
        yield FieldError(path, FORBIDDEN, "may not specify both ipBlock and another peer")
    elif block is not None:
        cidr = str(mapping(block).get("cidr") or "")
        if not cidr:
            yield FieldError(f"{path}.ipBlock.cidr", REQUIRED)
        else:
            yield from checks.network(f"{path}.ipBlock.cidr", cidr)


def _unsupported(path: str, value: object, known: tuple[str, ...]) -> FieldError:
    return FieldError(
        path, NOT_SUPPORTED, "supported values: " + ", ".join(f'"{one}"' for one in known), value
    )


STRATEGIES = (
    NetworkPolicyStrategy(
        served("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", short="netpol"),
        columns=tables.NETWORK_POLICY,
    ),
)
