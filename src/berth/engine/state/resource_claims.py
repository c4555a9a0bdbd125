"""The ResourceClaims of a cluster, and what pods need of them.

Berth allocates no devices.  A claim that somebody else has allocated says where its pods can run and how many
may use it; one that nobody has allocated lets its pods run nowhere.  A pod without claims costs nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from berth.engine.state.classes import PlanCache
from berth.engine.state.columns import take_out
from berth.engine.state.pod_class import DeviceClaimUse, PodClass
from berth.kube import objects
from berth.kube.objects import Key
from berth.kube.ownership import controller_of
from berth.kube.selectors import NodeTerms, parse_node_selector
from berth.kube.well_known import TRUE

MOST_CONSUMERS = 256  # of one claim; the API server refuses more
IN_USE = "resourceclaim in use"


@dataclass(frozen=True, slots=True)
class ResourceClaimRecord:
    """A ResourceClaim; two states of it that make equal records are the same to placement.

    Attributes:
        owner: UID of the controller, for a claim made for a pod.
        allocation: Which devices, None while it has none.
        nodes: Where those can be used, None for everywhere.
        consumers: UIDs of what it is reserved for.
        skips_operations: Its devices need a kubelet that can leave some of their operations out.
        failure: Why its devices cannot be made ready, None if they can.
        ready: Whether its devices have all conditions that they need before a pod is bound.
    """

    key: Key
    uid: str
    deleting: bool
    owner: str | None
    allocation: objects.AllocationResult | None
    nodes: NodeTerms | None
    consumers: frozenset[str]
    skips_operations: bool
    failure: str | None
    ready: bool

    @property
    def name(self) -> str:
        return self.key[1]

    def __str__(self) -> str:
        return "/".join(self.key)


@dataclass(frozen=True, slots=True)
class DeviceNeeds:
    """What a pod needs of its claims.

    Attributes:
        refusal: Why no node will do.
        claims: Those that are there.
        unallocated: Those among them that would have to be allocated first.
    """

    refusal: str | None = None
    claims: tuple[ResourceClaimRecord, ...] = ()
    unallocated: tuple[ResourceClaimRecord, ...] = ()


class ResourceClaimIndex:
    """All ResourceClaims.

    Attributes:
        known: Whether the objects are there to be judged by; if not, pods with claims are placed as if
            they had none. To be set before the first pod is placed.
    """

    def __init__(self, plans: PlanCache) -> None:
        self.known = False
        self._plans = plans
        self._claims: dict[Key, ResourceClaimRecord] = {}
        self._users: dict[Key, dict[PodClass, None]] = {}

    def set_claim(self, claim: objects.ResourceClaim) -> bool:
        """Take over a claim; True if placement can see a difference."""
        new = record_of(claim)
        if self._claims.get(new.key) == new:
            return False
        self._claims[new.key] = new
        self._changed(new.key)
        return True

    def remove_claim(self, namespace: str, name: str) -> bool:
        if self._claims.pop((namespace, name), None) is None:
            return False
        self._changed((namespace, name))
        return True

    def get(self, key: Key) -> ResourceClaimRecord | None:
        return self._claims.get(key)

    # --- whom it concerns ------------------------------------------------------------------

    def concerns(self, pod_class: PodClass) -> bool:
        return self.known and bool(pod_class.device_claims)

    def class_joins(self, pod_class: PodClass) -> None:
        for key in keys_of(pod_class):
            self._users.setdefault(key, {})[pod_class] = None

    def class_leaves(self, pod_class: PodClass) -> None:
        for key in keys_of(pod_class):
            take_out(self._users, key, pod_class)

    def _changed(self, key: Key) -> None:
        for pod_class in self._users.get(key, ()):
            if pod_class.plan is not None:
                self._plans.drop(pod_class)

    # --- what pods need --------------------------------------------------------------------

    def needs_of(self, pod_class: PodClass) -> DeviceNeeds:
        claims: list[ResourceClaimRecord] = []
        for use in pod_class.device_claims:
            if use.refusal is not None:
                return DeviceNeeds(use.refusal)
            claim = self._claims.get((pod_class.namespace, use.name))
            if claim is None:
                return DeviceNeeds(f'could not find ResourceClaim "{pod_class.namespace}/{use.name}"')
            refusal = _refusal(pod_class, use, claim)
            if refusal is not None:
                return DeviceNeeds(refusal)
            claims.append(claim)
        unallocated = tuple(claim for claim in claims if claim.allocation is None)
        return DeviceNeeds(_unusable(pod_class, claims), tuple(claims), unallocated)


def keys_of(pod_class: PodClass) -> list[Key]:
    """The claims of a pod, each once, that have a name already."""
    uses = (use.name for use in pod_class.device_claims if use.refusal is None)
    return [(pod_class.namespace, name) for name in dict.fromkeys(uses)]


def _refusal(pod_class: PodClass, use: DeviceClaimUse, claim: ResourceClaimRecord) -> str | None:
    """Why the claim is not one for the pod, in kube-scheduler's words."""
    if claim.deleting:
        return f'resourceclaim "{claim.name}" is being deleted'
    pod = pod_class.pod.metadata
    if use.own and claim.owner != (pod.uid or ""):
        namespace = pod_class.namespace
        return f"ResourceClaim {claim} was not created for Pod {namespace}/{pod.name} (Pod is not owner)"
    return None


def _unusable(pod_class: PodClass, claims: Iterable[ResourceClaimRecord]) -> str | None:
    uid = pod_class.pod.metadata.uid or ""
    for claim in claims:
        if claim.allocation is None:
            return f"resource claim {claim} is not allocated, and Berth allocates no devices"
        if len(claim.consumers) >= MOST_CONSUMERS and uid not in claim.consumers:
            return IN_USE
    return None


def record_of(view: objects.ResourceClaim) -> ResourceClaimRecord:
    meta, status = view.metadata, view.status or objects.ResourceClaimStatus()
    allocation, owner = status.allocation, controller_of(meta)
    results = (allocation.devices.results if allocation and allocation.devices else None) or []
    return ResourceClaimRecord(
        key=(meta.namespace or "default", meta.name or ""),
        uid=meta.uid or "",
        deleting=meta.deletion_timestamp is not None,
        owner=None if owner is None else owner.uid or "",
        allocation=allocation,
        nodes=parse_node_selector(allocation.node_selector if allocation else None),
        consumers=frozenset(consumer.uid or "" for consumer in status.reserved_for or ()),
        skips_operations=any(result.skip_node_operations for result in results),
        failure=next(_failures(status, results), None),
        ready=all(_holding(status, each).keys() >= set(each.binding_conditions or ()) for each in results),
    )


def _holding(
    status: objects.ResourceClaimStatus, result: objects.DeviceRequestAllocationResult
) -> dict[str | None, objects.UntimedCondition]:
    """The conditions of a device that are true."""
    wanted = (result.driver, result.pool, result.device)
    for device in status.devices or ():
        if (device.driver, device.pool, device.device) == wanted:
            return {found.type: found for found in device.conditions or () if found.status == TRUE}
    return {}


def _failures(
    status: objects.ResourceClaimStatus, results: Iterable[objects.DeviceRequestAllocationResult]
) -> Iterator[str]:
    for result in results:
        found = _holding(status, result) if result.binding_conditions else {}
        for kind in result.binding_failure_conditions or ():
            if kind in found:
                yield f"reason={found[kind].reason or ''}, message={found[kind].message or ''}"
