"""How much of each resource a pod asks for, as the scheduler counts it.

The API server keeps quantities in resource lists rounded up to thousandths, each by itself; sums of
those are taken exactly and rounded up to whole units once at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import msgspec

from berth.kube.amounts import quantity
from berth.kube.amounts.resource_lists import add, combined, raise_to
from berth.kube.amounts.resource_names import (
    CPU,
    EPHEMERAL_STORAGE,
    HUGE_PAGES_PREFIX,
    MEMORY,
    PODS,
    is_extended,
    is_pod_level,
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
from berth.kube.versions import NEWEST, KubernetesVersion

# --- what it holds while it may be resized: what it wants, what it was allocated, what it has -----
# Amounts are exact here, in billionths of a resource's unit.

NANO = 10**9
Exact = dict[str, int]  # resource -> billionths of its unit


class Footprint:
    """How much a pod on a node counts for, by its specification and its status."""

    # Of the pod as a whole, whether a resource counts only if its specification says it.
    stated_only: ClassVar[bool] = False

    def __init__(self, status: PodStatus) -> None:
        self._status = status
        pending = [c for c in status.conditions or () if c.type == "PodResizePending"]
        self._infeasible = bool(pending) and pending[0].reason == "Infeasible"
        groups = (status.init_container_statuses or (), status.container_statuses or ())
        self._by_name: dict[str, ContainerStatus] = {
            entry.name or "": entry for group in groups for entry in reversed(group)
        }

    def of_containers(self, spec: PodSpec, missing: Exact) -> Exact:
        """The sum over the containers; `missing` is what each is taken to ask for if it does not say."""
        raise NotImplementedError

    def of_pod(self, spec: PodSpec) -> Exact:
        """What the pod as a whole asks for instead."""
        stated = parse(pod_level_requests(spec))
        if not stated or self._status.resources is None:
            return stated
        has, allocated = self._status.resources.requests, self._status.allocated_resources
        most = self._most(requested(spec.resources), has, allocated)
        names = stated if self.stated_only else filter(is_pod_level, most)
        return {name: most.get(name, 0) for name in names}

    def _most(self, wanted: Exact, *others: ResourceList | None) -> Exact:
        return most_of({} if self._infeasible else wanted, *map(parse, others))


class ContainerFootprint(Footprint):
    """Every container holds the most of the three."""

    stated_only = True

    def of_containers(self, spec: PodSpec, missing: Exact) -> Exact:
        # The status of a container that only prepares the others does not count.
        return aggregate(spec, missing, self._of, desired)

    def _of(self, container: Container) -> Exact:
        entry = self._by_name.get(container.name or "")
        if entry is None or entry.resources is None:
            return desired(container)
        return self._most(desired(container), entry.resources.requests, entry.allocated_resources)


class PodFootprint(Footprint):
    """The pod holds the most of three sums over its containers.

    What the status says of the pod as a whole stands for the sums of what was allocated and what it has.
    """

    def of_containers(self, spec: PodSpec, missing: Exact) -> Exact:
        allocated, has = self._whole() or (
            aggregate(spec, missing, self._allocated, self._allocated),
            aggregate(spec, missing, self._has, self._has),
        )
        wanted = {} if self._infeasible else aggregate(spec, missing, desired, desired)
        return most_of(wanted, has, allocated)

    def _whole(self) -> tuple[Exact, Exact] | None:
        has, allocated = self._status.resources, self._status.allocated_resources
        if allocated is None or has is None or has.requests is None:
            return None
        return parse(allocated), parse(has.requests)

    def _allocated(self, container: Container) -> Exact:
        entry = self._by_name.get(container.name or "")
        if entry is not None and entry.allocated_resources is not None:
            return parse(entry.allocated_resources)
        return {} if self._infeasible else desired(container)

    def _has(self, container: Container) -> Exact:
        entry = self._by_name.get(container.name or "")
        if entry is not None and entry.resources is not None and entry.resources.requests is not None:
            return parse(entry.resources.requests)
        return self._allocated(container)


def aggregate(
    spec: PodSpec,
    missing: Exact,
    lasting: Callable[[Container], Exact],
    preparing: Callable[[Container], Exact],
) -> Exact:
    """`combined` where a container is taken to need what is `missing` of the resources it does not name."""
    return combined(
        spec,
        lambda container: {**missing, **lasting(container)},
        lambda container: {**missing, **preparing(container)},
    )


def pod_level_requests(spec: PodSpec) -> ResourceList:
    requests = (spec.resources and spec.resources.requests) or {}
    return {name: raw for name, raw in requests.items() if is_pod_level(name)}


# --- exact amounts --------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _nano(raw: RawQuantity) -> int:
    return int(quantity.stored(raw).amount * NANO)


def parse(resources: ResourceList | None) -> Exact:
    return {name: _nano(raw) for name, raw in resources.items()} if resources else {}


def requested(resources: ResourceRequirements | None) -> Exact:
    return parse(resources.requests) if resources is not None else {}


def desired(container: Container) -> Exact:
    return requested(container.resources)


def most_of(first: Exact, *others: Exact) -> Exact:
    most = dict(first)
    for other in others:
        raise_to(most, other)
    return most


# --- what it asks for -----------------------------------------------------------------------------

# A container that requests nothing still counts this much when nodes are compared by load.
DEFAULT_MILLI_CPU = 100
DEFAULT_MEMORY = 200 * 1024 * 1024

_MAX = 2**61  # amounts beyond any machine's; a few of them still add up without overflow
_FLOOR: Exact = {CPU: DEFAULT_MILLI_CPU * NANO // 1000, MEMORY: DEFAULT_MEMORY * NANO}


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
    prefixed = name.startswith((HUGE_PAGES_PREFIX, "attachable-volumes-"))
    return prefixed or "kubernetes.io/" in name or is_extended(name)


def to_units(name: str, amount: int) -> int:
    return min(-(-amount // (NANO // 1000 if name == CPU else NANO)), _MAX)


def units_of(resources: ResourceList | None) -> dict[str, int]:
    """A node's allocatable in the scheduler's units, untracked resources left out."""
    return {
        name: quantity.milli_value(raw) if name == CPU else quantity.value(raw)
        for name, raw in (resources or {}).items()
        if name in (CPU, MEMORY, EPHEMERAL_STORAGE, PODS) or is_scalar(name)
    }


def in_bytes(resource: str) -> bool:
    return resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith(HUGE_PAGES_PREFIX)


def spelled(resource: str, amount: int) -> str:
    """Units as a person would write them: ``500m``, ``1536Mi``, ``2``."""
    if resource == CPU:
        return quantity.format_quantity(f"{amount}m")
    if in_bytes(resource) and amount and amount % 1024 == 0:
        return quantity.format_quantity(f"{amount // 1024}Ki")
    return str(amount)


def pod_requests(
    spec: PodSpec, status: PodStatus | None = None, version: KubernetesVersion = NEWEST
) -> Requests:
    """The requests of a pod; `status` is given for running pods, whose resize may be in flight."""
    if status is not None:
        footprint = PodFootprint if version.footprint_by_pod else ContainerFootprint
        return _compute(spec, footprint(status))
    containers = [c.resources for c in spec.containers or ()]
    starting = [(c.resources, c.restart_policy) for c in spec.init_containers or ()]
    key = _encode((containers, starting, spec.overhead, spec.resources))
    found = _known.get(key)
    if found is None:
        if len(_known) >= _KNOWN_LIMIT:
            _known.clear()
        found = _known[key] = _compute(spec, None)
    return found


def _compute(spec: PodSpec, footprint: Footprint | None) -> Requests:
    exact = _total(spec, footprint, {})
    pod_level = pod_level_requests(spec)
    missing = {k: v for k, v in _FLOOR.items() if k not in exact} if pod_level else _FLOOR
    nonzero = _total(spec, footprint, missing)
    scored = nonzero
    if pod_level or footprint is not None:
        scored = aggregate(spec, _FLOOR, desired, desired)
        add(scored, parse(spec.overhead))
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


def _tracked(amounts: Exact) -> dict[str, int]:
    return {
        k: to_units(k, v) for k, v in amounts.items() if k in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar(k)
    }


def _cpu_and_memory(amounts: Exact) -> tuple[int, int]:
    return to_units(CPU, amounts.get(CPU, 0)), to_units(MEMORY, amounts.get(MEMORY, 0))


def _total(spec: PodSpec, footprint: Footprint | None, missing: Exact) -> Exact:
    if footprint is None:
        total = aggregate(spec, missing, desired, desired)
        total.update(parse(pod_level_requests(spec)))
    else:
        total = footprint.of_containers(spec, missing)
        total.update(footprint.of_pod(spec))
    add(total, parse(spec.overhead))
    return total
