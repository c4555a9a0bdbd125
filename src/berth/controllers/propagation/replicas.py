"""How many replicas a workload has, and what each needs.

Upstream: pkg/resourceinterpreter/default/native/replica.go.  Other kinds are propagated whole.
"""

from __future__ import annotations

from typing import Any

from berth.kube.amounts.pod_resources import aggregate
from berth.kube.amounts.quantity import QuantityError, read
from berth.kube.api_resources import DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, STATEFUL_SETS, Resource
from berth.kube.objects import (
    LiveJob,
    LivePod,
    LiveWorkload,
    PodSpec,
    RawObject,
    ResourceList,
    ResourceRequirements,
)
from berth.kube.text.decoding import DecodeError, convert

_SCALED = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)


def replicas_of(resource: Resource, template: Any) -> tuple[int, RawObject | None] | None:  # noqa: ANN401 - a view
    """Replicas, and what one of them needs if that is anything; None for what has no replicas."""
    if resource in _SCALED and isinstance(template, LiveWorkload):
        return template.spec.replicas or 0, _requirements(_pod_spec(template.spec.template))
    if resource == JOBS and isinstance(template, LiveJob):
        spec = template.spec
        parallel = spec.parallelism or 0
        completions = parallel if spec.completions is None else spec.completions
        return min(parallel, completions), _requirements(_pod_spec(spec.template))
    if resource == PODS and isinstance(template, LivePod):
        return 1, None
    return None


def _pod_spec(template: RawObject | None) -> RawObject:
    spec = (template or {}).get("spec")
    return spec if isinstance(spec, dict) else {}


def _requirements(spec: RawObject) -> RawObject | None:
    needs = {"nodeClaim": _node_claim(spec), "resourceRequest": _request(spec)}
    return {name: value for name, value in needs.items() if value} or None


def _node_claim(spec: RawObject) -> RawObject:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    claim = {
        "hardNodeAffinity": affinity.get("requiredDuringSchedulingIgnoredDuringExecution"),
        "nodeSelector": spec.get("nodeSelector"),
        "tolerations": spec.get("tolerations"),
    }
    return {name: value for name, value in claim.items() if value}


def _request(spec: RawObject) -> dict[str, str]:
    try:
        pod = convert(
            {name: spec.get(name) for name in ("containers", "initContainers", "overhead")}, PodSpec
        )
        total = aggregate(pod, _requested, read)
        overhead = {name: read(raw) for name, raw in (pod.overhead or {}).items()}
    except (DecodeError, QuantityError):
        return {}  # the server refused what it could not read; this one is older than its rules
    for name, amount in overhead.items():
        total[name] = total[name].plus(amount) if name in total else amount
    return {name: str(amount) for name, amount in total.items() if amount.unscaled > 0}


def _requested(resources: ResourceRequirements) -> ResourceList | None:
    """What is limited and not requested is requested up to the limit."""
    return {**(resources.limits or {}), **(resources.requests or {})} or None
