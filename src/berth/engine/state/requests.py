"""How much of each resource a pod asks for, as the scheduler counts it.

The API server keeps quantities in resource lists rounded up to thousandths, each by itself; sums of
those are taken exactly and rounded up to whole units once at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from berth.kube import names
from berth.kube.amounts import quantity
from berth.kube.amounts.resource_names import (
    CPU,
    EPHEMERAL_STORAGE,
    HUGE_PAGES_PREFIX,
    MEMORY,
    PODS,
)
from berth.kube.objects import (
    Container,
    ContainerStatus,
    PodSpec,
    PodStatus,
    RawQuantity,
    ResourceList,
    ResourceRequirements,
)

# A container that requests nothing still counts this much when nodes are compared by load.
DEFAULT_MILLI_CPU = 100
DEFAULT_MEMORY = 200 * 1024 * 1024

_NANO = 10**9
_MAX = 2**61  # amounts beyond any machine's; a few of them still add up without overflow
_Exact = dict[str, int]  # resource -> billionths of its unit
_FLOOR: _Exact = {CPU: DEFAULT_MILLI_CPU * _NANO // 1000, MEMORY: DEFAULT_MEMORY * _NANO}


@dataclass(frozen=True, slots=True)
class Requests:
    """A pod's requests in the scheduler's integer units (millicores for cpu).

    Attributes:
        plain: What must fit, by resource.
        nonzero: cpu and memory that a running pod adds to its node's load.
        scored: cpu and memory that an incoming pod adds for NodeResourcesFit's score;
            upstream leaves pod-level requests out here.
        scored_otherwise: What it adds of other resources, where that is not what `plain` says.
    """

    plain: Mapping[str, int]
    nonzero: tuple[int, int]
    scored: tuple[int, int]
    scored_otherwise: Mapping[str, int] = field(default_factory=dict)


_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_known: dict[bytes, Requests] = {}
_KNOWN_LIMIT = 8192


@lru_cache(maxsize=1024)
def is_scalar(name: str) -> bool:
    """Whether the scheduler tracks a resource beyond cpu, memory, ephemeral storage and pods."""
    return (
        name.startswith((HUGE_PAGES_PREFIX, "attachable-volumes-"))
        or "kubernetes.io/" in name
        or (
            "/" in name
            and not name.startswith("requests.")
            and not names.label_key_errors(f"requests.{name}")
        )
    )


def to_units(name: str, amount: int) -> int:
    return min(-(-amount // (_NANO // 1000 if name == CPU else _NANO)), _MAX)


def units_of(resources: ResourceList | None) -> dict[str, int]:
    """A node's allocatable in the scheduler's units, untracked resources left out."""
    return {
        name: quantity.milli_value(raw) if name == CPU else quantity.value(raw)
        for name, raw in (resources or {}).items()
        if name in (CPU, MEMORY, EPHEMERAL_STORAGE, PODS) or is_scalar(name)
    }


def pod_requests(spec: PodSpec, status: PodStatus | None = None) -> Requests:
    """The requests of a pod; `status` is given for running pods, whose resize may be in flight."""
    if status is not None:
        return _compute(spec, status)
    containers = [c.resources for c in spec.containers or ()]
    starting = [(c.resources, c.restart_policy) for c in spec.init_containers or ()]
    key = _encode((containers, starting, spec.overhead, spec.resources))
    found = _known.get(key)
    if found is None:
        if len(_known) >= _KNOWN_LIMIT:
            _known.clear()
        found = _known[key] = _compute(spec, None)
    return found


def _compute(spec: PodSpec, status: PodStatus | None) -> Requests:
    exact = _aggregate(spec, status, {}, pod_level=True)
    pod_level = _pod_level_requests(spec)
    missing = {k: v for k, v in _FLOOR.items() if k not in exact} if pod_level else _FLOOR
    nonzero = _aggregate(spec, status, missing, pod_level=True)
    scored = _aggregate(spec, None, _FLOOR, pod_level=False) if pod_level or status else nonzero
    plain = _tracked(exact)
    containers = plain if scored is nonzero else _tracked(scored)
    return Requests(
        plain,
        _cpu_and_memory(nonzero),
        _cpu_and_memory(scored),
        {
            k: containers.get(k, 0)
            for k in plain | containers
            if k not in (CPU, MEMORY) and containers.get(k, 0) != plain.get(k, 0)
        },
    )


def _tracked(amounts: _Exact) -> dict[str, int]:
    return {
        k: to_units(k, v) for k, v in amounts.items() if k in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar(k)
    }


def _cpu_and_memory(amounts: _Exact) -> tuple[int, int]:
    return to_units(CPU, amounts.get(CPU, 0)), to_units(MEMORY, amounts.get(MEMORY, 0))


@lru_cache(maxsize=4096)
def _nano(raw: RawQuantity) -> int:
    return int(quantity.stored(raw).amount * _NANO)


def _parse(resources: ResourceList | None) -> _Exact:
    return {name: _nano(raw) for name, raw in resources.items()} if resources else {}


def _requested(resources: ResourceRequirements | None) -> _Exact:
    return _parse(resources.requests) if resources is not None else {}


def _aggregate(spec: PodSpec, status: PodStatus | None, missing: _Exact, *, pod_level: bool) -> _Exact:
    effective = _EffectiveRequests(status)
    total: _Exact = {}
    for container in spec.containers or ():
        _add(total, {**missing, **effective.of(container)})
    sidecars: _Exact = {}
    highest: _Exact = {}
    for container in spec.init_containers or ():
        if container.restart_policy == "Always":
            wanted = {**missing, **effective.of(container)}
            _add(total, wanted)
            _add(sidecars, wanted)
            _raise_to(highest, sidecars)
        else:
            # Runs before the pod's containers, but beside the sidecars started so far.
            wanted = {**missing, **_requested(container.resources)}
            _add(wanted, sidecars)
            _raise_to(highest, wanted)
    _raise_to(total, highest)
    if pod_level:
        total.update(effective.of_pod(spec))
    _add(total, _parse(spec.overhead))
    return total


def _add(total: _Exact, more: _Exact) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: _Exact, other: _Exact) -> None:
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def _pod_level_requests(spec: PodSpec) -> ResourceList:
    requests = (spec.resources and spec.resources.requests) or {}
    return {n: q for n, q in requests.items() if n in (CPU, MEMORY) or n.startswith(HUGE_PAGES_PREFIX)}


class _EffectiveRequests:
    """What a container holds while a resize is in flight: the most of desired, actual and allocated."""

    def __init__(self, status: PodStatus | None) -> None:
        self._status = status
        self._infeasible = False
        self._by_name: dict[str, ContainerStatus] = {}
        if status is None:
            return
        groups: Iterable[Sequence[ContainerStatus] | None] = (
            status.container_statuses,
            status.init_container_statuses,
        )
        for group in groups:
            for entry in group or ():
                if entry.resources is not None:
                    self._by_name[entry.name or ""] = entry
        pending = [c for c in status.conditions or () if c.type == "PodResizePending"]
        self._infeasible = bool(pending) and pending[0].reason == "Infeasible"

    def of(self, container: Container) -> _Exact:
        desired = _requested(container.resources)
        entry = self._by_name.get(container.name or "")
        if entry is None or entry.resources is None:
            return desired
        return self._most(desired, entry.resources.requests, entry.allocated_resources)

    def of_pod(self, spec: PodSpec) -> _Exact:
        desired = _parse(_pod_level_requests(spec))
        if not desired or self._status is None or self._status.resources is None:
            return desired
        everything = _requested(spec.resources)
        most = self._most(everything, self._status.resources.requests, self._status.allocated_resources)
        return {name: most.get(name, 0) for name in desired}

    def _most(self, desired: _Exact, actual: ResourceList | None, allocated: ResourceList | None) -> _Exact:
        most: _Exact = {} if self._infeasible else dict(desired)
        _raise_to(most, _parse(actual))
        _raise_to(most, _parse(allocated))
        return most
