"""How much of each resource a pod asks for, as the scheduler counts it.

The API server keeps quantities in resource lists rounded up to thousandths, each by itself; sums of
those are taken exactly and rounded up to whole units once at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from berth.engine.state.footprint import (
    NANO,
    ContainerFootprint,
    Exact,
    Footprint,
    PodFootprint,
    add,
    aggregate,
    desired,
    parse,
    pod_level_requests,
)
from berth.kube import names
from berth.kube.amounts import quantity
from berth.kube.amounts.resource_names import (
    CPU,
    EPHEMERAL_STORAGE,
    HUGE_PAGES_PREFIX,
    MEMORY,
    PODS,
)
from berth.kube.objects import PodSpec, PodStatus, ResourceList
from berth.kube.versions import NEWEST, KubernetesVersion

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
    return min(-(-amount // (NANO // 1000 if name == CPU else NANO)), _MAX)


def units_of(resources: ResourceList | None) -> dict[str, int]:
    """A node's allocatable in the scheduler's units, untracked resources left out."""
    return {
        name: quantity.milli_value(raw) if name == CPU else quantity.value(raw)
        for name, raw in (resources or {}).items()
        if name in (CPU, MEMORY, EPHEMERAL_STORAGE, PODS) or is_scalar(name)
    }


def pod_requests(
    spec: PodSpec, status: PodStatus | None = None, version: KubernetesVersion = NEWEST
) -> Requests:
    """The requests of a pod; `status` is given for running pods, whose resize may be in flight."""
    if status is not None:
        return _compute(
            spec, PodFootprint(status) if version.footprint_by_pod else ContainerFootprint(status)
        )
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
