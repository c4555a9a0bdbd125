"""What an object uses of a quota, and which scopes it is in: one evaluator a resource, as upstream has them.

An evaluator first looks at an object (`look`), and answers everything else about what it saw.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from msgspec.structs import replace

from berth.kube.affinity.annotations import followed_affinity
from berth.kube.amounts.quantity import Quantity, stored
from berth.kube.amounts.resource_lists import (
    ONE,
    ZERO,
    Amounts,
    add,
    aggregate,
    amounts_in,
    is_sidecar,
    limits_of,
    positive,
    requests_of,
    whole,
)
from berth.kube.amounts.resource_names import EPHEMERAL_STORAGE, is_huge_page, is_native, is_pod_level
from berth.kube.objects import (
    Affinity,
    Container,
    ContainerStatus,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    RawObject,
    ResourceList,
    ResourceRequirements,
)
from berth.kube.pods import condition, is_finished
from berth.kube.selectors import EXISTS, Requirement
from berth.kube.text.decoding import convert, without_nulls
from berth.kube.times import seconds_of
from berth.kube.well_known import BETA_STORAGE_CLASS

_COMPUTE = ("cpu", "memory")
_LOCAL = (*_COMPUTE, EPHEMERAL_STORAGE)

# --- scopes: which of the objects of its namespace a quota is about ----------------------------------

TERMINATING, NOT_TERMINATING = "Terminating", "NotTerminating"
BEST_EFFORT, NOT_BEST_EFFORT = "BestEffort", "NotBestEffort"
PRIORITY_CLASS, CROSS_NAMESPACE = "PriorityClass", "CrossNamespacePodAffinity"
VOLUME_ATTRIBUTES_CLASS = "VolumeAttributesClass"


class ScopeRequirement(NamedTuple):
    """One scope that a quota asks for; most of them can only be there or not."""

    scope: str
    operator: str = EXISTS
    values: tuple[str, ...] = ()

    def matches(self, names: Collection[str]) -> bool:
        """Whether an object that refers to these classes (most refer to one or none) is meant."""
        if self.operator == EXISTS:
            return bool(names)
        asked = Requirement(self.scope, self.operator, frozenset(self.values))
        return any(map(asked.matches_value, names)) if names else asked.matches_value(None)


def requirements_of(spec: RawObject) -> Iterator[ScopeRequirement]:
    """The scopes in the spec of a ResourceQuota, however they are written."""
    for scope in spec.get("scopes") or ():
        yield ScopeRequirement(str(scope))
    for item in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        values = tuple(map(str, item.get("values") or ()))
        yield ScopeRequirement(str(item.get("scopeName")), str(item.get("operator")), values)


def has_deadline(spec: PodSpec) -> bool:
    return spec.active_deadline_seconds is not None and spec.active_deadline_seconds >= 0


def _is_best_effort(spec: PodSpec) -> bool:
    """Whether neither the pod nor any of its containers asks for cpu or memory."""
    containers = [*(spec.containers or ()), *(spec.init_containers or ())]
    stated = [spec.resources, *(container.resources for container in containers)]
    return not any(
        positive((listed or {}).get(name))
        for resources in stated
        if resources is not None
        for listed in (resources.requests, resources.limits)
        for name in _COMPUTE
    )


def _looks_abroad(affinity: Affinity | None) -> bool:
    rules = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ()
    terms = (term for each in rules if each is not None for term in _terms(each))
    return any(term.namespaces or term.namespace_selector is not None for term in terms)


def _terms(rules: PodAffinity) -> Iterator[PodAffinityTerm]:
    for _, required in rules.required:
        yield from required or ()
    for weighted in rules.preferred_during_scheduling_ignored_during_execution or ():
        if weighted.pod_affinity_term is not None:
            yield weighted.pod_affinity_term


def _attributes_classes(claim: RawObject) -> set[str]:
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    named = (
        spec.get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return {name for name in named if name}


_JUDGES: dict[str, Callable[[PodSpec], bool]] = {
    TERMINATING: has_deadline,
    NOT_TERMINATING: lambda spec: not has_deadline(spec),
    BEST_EFFORT: _is_best_effort,
    NOT_BEST_EFFORT: lambda spec: not _is_best_effort(spec),
}
SCOPES = (*_JUDGES, PRIORITY_CLASS, CROSS_NAMESPACE, VOLUME_ATTRIBUTES_CLASS)


# --- evaluators -----------------------------------------------------------------------------------

REQUESTS, LIMITS = "requests.", "limits."
_POD_NAMES = frozenset(
    {"count/pods", "pods"} | {f"{prefix}{name}" for prefix in ("", REQUESTS, LIMITS) for name in _LOCAL}
)
# A quota on one of these requires every container to state it.
_MUST_BE_SAID = frozenset(f"{prefix}{name}" for prefix in ("", REQUESTS, LIMITS) for name in _COMPUTE)
_DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
_OF_STORAGE_CLASS = ".storageclass.storage.k8s.io/"
_STORAGE = ("persistentvolumeclaims", "requests.storage")
_OF_DEVICE_CLASS = ".deviceclass.resource.k8s.io/devices"
_MOST_DEVICES = 32  # that a request for all of them may get
_ALIASES = {"configmaps", "resourcequotas", "replicationcontrollers", "secrets"}
_NOT_COUNTED = {("", "events"), ("events.k8s.io", "events")}


class QuotaEvaluator:
    """Objects of a resource that are only counted."""

    grows: ClassVar[bool] = False  # with an update
    # What they use besides, by name and by how the names end.
    also: ClassVar[tuple[str, ...]] = ()
    endings: ClassVar[tuple[str, ...]] = ()

    def __init__(self, group: str, plural: str) -> None:
        self.count_name = f"count/{plural}.{group}" if group else f"count/{plural}"
        named = {self.count_name} | ({plural} if not group and plural in _ALIASES else set())
        self._each = dict.fromkeys(named, ONE)

    def matching(self, names: Iterable[str]) -> list[str]:
        """Those of the resources in a quota that objects of this kind use."""
        return sorted(name for name in names if self._counts(name))

    def _counts(self, name: str) -> bool:
        return name in self._each or name in self.also or name.endswith(self.endings)

    def look(self, obj: RawObject) -> Any:  # noqa: ANN401 - what the other methods are asked about
        return obj

    def usage(self, seen: Any, now: float) -> Amounts:  # noqa: ANN401, ARG002 - only pods end by time
        return self._each

    def in_scope(self, seen: Any, wanted: ScopeRequirement) -> bool:  # noqa: ANN401, ARG002
        return False

    def missing(self, seen: Any, names: Sequence[str]) -> str:  # noqa: ANN401, ARG002
        """What the object has to say and does not, as a sentence; empty if it says everything."""
        return ""

    def may_grow(self, seen: Any, before: Any) -> bool:  # noqa: ANN401, ARG002
        """Whether an update has to ask the quotas; what it uses less of is never asked."""
        return self.grows


class PodQuota(QuotaEvaluator):
    """A pod uses what it requests and may use, as long as it is not at its end."""

    def _counts(self, name: str) -> bool:
        resource = name.removeprefix(REQUESTS)
        if name in _POD_NAMES or is_huge_page(resource):
            return True
        return resource != name and (not is_native(name) or resource.startswith(_DEVICE_CLASS))

    def look(self, obj: RawObject) -> Pod:
        return convert(without_nulls(obj), Pod)

    def usage(self, seen: Pod, now: float) -> Amounts:
        held = {} if is_over(seen, now) else _compute(*_whole(seen))
        return {self.count_name: ONE, **held}

    def in_scope(self, seen: Pod, wanted: ScopeRequirement) -> bool:
        if wanted.scope == PRIORITY_CLASS:
            name = seen.spec.priority_class_name
            return wanted.matches((name,) if name else ())
        if wanted.scope == CROSS_NAMESPACE:
            return _looks_abroad(followed_affinity(seen))
        judge = _JUDGES.get(wanted.scope)
        return judge is not None and judge(seen.spec)

    def missing(self, seen: Pod, names: Sequence[str]) -> str:
        required = _MUST_BE_SAID.intersection(names)
        if not required or _says_for_all(seen.spec):
            return ""
        lacking: dict[str, set[str]] = {}
        for container in (*(seen.spec.containers or ()), *(seen.spec.init_containers or ())):
            resources = container.resources or ResourceRequirements()
            given = _compute(amounts_in(resources.requests), amounts_in(resources.limits))
            for name in required - given.keys():
                lacking.setdefault(name, set()).add(container.name or "")
        if not lacking:
            return ""
        said = (f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking))
        return f"must specify {'; '.join(said)}"

    def may_grow(self, seen: Pod, before: Pod) -> bool:
        return has_deadline(seen.spec) != has_deadline(before.spec)


def is_over(pod: Pod, now: float) -> bool:
    """Whether a pod has ended, or should long be gone and is only held up."""
    return is_finished(pod) or ((until := held_until(pod)) is not None and now > until)


def held_until(pod: Pod) -> float | None:
    """Until when a pod that is being deleted is charged at most."""
    metadata = pod.metadata
    when, grace = seconds_of(metadata.deletion_timestamp), metadata.deletion_grace_period_seconds
    return when + grace if when is not None and grace is not None else None


def _says_for_all(spec: PodSpec) -> bool:
    """Whether the pod as a whole says what it asks for, which containers then need not."""
    own = spec.resources or ResourceRequirements()
    return any(is_pod_level(name) for listed in (own.requests, own.limits) for name in listed or ())


def _compute(requests: Amounts, limits: Amounts) -> dict[str, Quantity]:
    used = {"pods": ONE}
    for name, amount in requests.items():
        if name in _LOCAL or is_huge_page(name):
            used[name] = used[f"{REQUESTS}{name}"] = amount
        elif not is_native(name) or name.startswith(_DEVICE_CLASS):
            used[f"{REQUESTS}{name}"] = amount
    for name in _LOCAL:
        if name in limits:
            used[f"{LIMITS}{name}"] = limits[name]
    return used


def _whole(pod: Pod) -> tuple[Amounts, Amounts]:
    """Requests and limits of a pod: of its containers together, what it says itself, and its overhead."""
    spec = _resized(pod.spec, pod.status) if pod.status is not None else pod.spec
    own, overhead = spec.resources or ResourceRequirements(), amounts_in(spec.overhead)
    requests, limits = aggregate(spec, requests_of, stored), aggregate(spec, limits_of, stored)
    for amounts, listed in ((requests, own.requests), (limits, own.limits)):
        stated = amounts_in(listed)
        amounts.update({name: amount for name, amount in stated.items() if is_pod_level(name)})
    add(requests, overhead)
    add(limits, {name: overhead[name] for name in overhead if name in limits and limits[name].unscaled})
    return requests, limits


def _resized(spec: PodSpec, status: PodStatus) -> PodSpec:
    """The spec with the most of what containers ask for, were allocated and have."""
    entries = {
        entry.name: entry
        for entry in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
        if entry.resources is not None
    }
    if not entries:
        return spec
    pending = condition(status.conditions, "PodResizePending")
    infeasible = pending is not None and pending.reason == "Infeasible"

    def resized(each: Container) -> Container:
        entry = entries.get(each.name)
        return each if entry is None else _as_running(each, entry, infeasible=infeasible)

    init_containers = [resized(each) if is_sidecar(each) else each for each in spec.init_containers or ()]
    containers = [resized(each) for each in spec.containers or ()]
    return replace(spec, containers=containers, init_containers=init_containers)


def _as_running(container: Container, entry: ContainerStatus, *, infeasible: bool) -> Container:
    wanted = ResourceRequirements() if infeasible else container.resources or ResourceRequirements()
    has = entry.resources or ResourceRequirements()
    return replace(
        container,
        resources=ResourceRequirements(
            requests=_most(wanted.requests, has.requests, entry.allocated_resources),
            limits=_most(wanted.limits, has.limits),
        ),
    )


def _most(*lists: ResourceList | None) -> ResourceList:
    most: ResourceList = {}
    for listed in lists:
        for name, raw in (listed or {}).items():
            if name not in most or stored(raw).exceeds(stored(most[name])):
                most[name] = raw
    return most


class ServiceQuota(QuotaEvaluator):
    """A Service may use a load balancer and ports of the nodes."""

    grows = True
    also = ("services", "services.nodeports", "services.loadbalancers")

    def usage(self, seen: RawObject, now: float) -> Amounts:  # noqa: ARG002
        spec = seen.get("spec") or {}
        kind, ports = spec.get("type"), spec.get("ports") or ()
        opened = len(ports) if kind in ("NodePort", "LoadBalancer") else 0
        balanced = kind == "LoadBalancer"
        if balanced and spec.get("allocateLoadBalancerNodePorts") is False:
            opened = sum(bool(port.get("nodePort")) for port in ports)
        return {
            self.count_name: ONE,
            "services": ONE,
            "services.nodeports": whole(opened),
            "services.loadbalancers": ONE if balanced else ZERO,
        }


class StorageQuota(QuotaEvaluator):
    """A claim uses storage, in all and of its class."""

    grows = True
    also = _STORAGE
    endings = tuple(f"{_OF_STORAGE_CLASS}{name}" for name in _STORAGE)

    def usage(self, seen: RawObject, now: float) -> Amounts:  # noqa: ARG002
        spec, status = seen.get("spec") or {}, seen.get("status") or {}
        used = {self.count_name: ONE, "persistentvolumeclaims": ONE}
        asked = amounts_in((spec.get("resources") or {}).get("requests")).get("storage")
        if asked is not None:
            allocated = amounts_in(status.get("allocatedResources")).get("storage", asked)
            most = allocated if allocated.exceeds(asked) else asked
            used["requests.storage"] = whole(most.value) if most.milli_value % 1000 else most
        annotated = (seen["metadata"].get("annotations") or {}).get(BETA_STORAGE_CLASS)
        if kind := annotated or spec.get("storageClassName"):
            used |= {f"{kind}{_OF_STORAGE_CLASS}{name}": used[name] for name in _STORAGE if name in used}
        return used

    def in_scope(self, seen: RawObject, wanted: ScopeRequirement) -> bool:
        return wanted.scope == VOLUME_ATTRIBUTES_CLASS and wanted.matches(_attributes_classes(seen))


class DeviceQuota(QuotaEvaluator):
    """A claim uses as many devices of a class as it may get at most."""

    grows = True
    endings = (_OF_DEVICE_CLASS,)

    def usage(self, seen: RawObject, now: float) -> Amounts:  # noqa: ARG002
        counts: dict[str, int] = {}
        for request in ((seen.get("spec") or {}).get("devices") or {}).get("requests") or ():
            most: dict[str, int] = {}
            for one in request.get("firstAvailable") or [request.get("exactly") or {}]:
                kind = one.get("deviceClassName")
                if kind:
                    most[kind] = max(most.get(kind, 0), _devices(one))
            for kind, number in most.items():
                counts[kind] = counts.get(kind, 0) + number
        return {
            self.count_name: ONE,
            **{f"{kind}{_OF_DEVICE_CLASS}": whole(number) for kind, number in counts.items()},
        }


def _devices(request: RawObject) -> int:
    mode = request.get("allocationMode")
    if mode == "All":
        return _MOST_DEVICES
    return int(request.get("count") or 1) if mode in (None, "ExactCount") else 0


PODS = PodQuota("", "pods")
_OWN: dict[tuple[str, str], QuotaEvaluator] = {
    ("", "pods"): PODS,
    ("", "services"): ServiceQuota("", "services"),
    ("", "persistentvolumeclaims"): StorageQuota("", "persistentvolumeclaims"),
    ("resource.k8s.io", "resourceclaims"): DeviceQuota("resource.k8s.io", "resourceclaims"),
}


@lru_cache(maxsize=1024)
def evaluator_of(group: str, plural: str) -> QuotaEvaluator | None:
    """The evaluator of a namespaced resource's objects; None if quotas ignore them."""
    if (group, plural) in _NOT_COUNTED:
        return None
    return _OWN.get((group, plural)) or QuotaEvaluator(group, plural)
