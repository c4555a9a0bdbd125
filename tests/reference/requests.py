"""What a pod asks for and what a node has, in exact numbers; rounding comes last, as upstream does it."""

from collections.abc import Iterable
from fractions import Fraction

from berth.kube.amounts import quantity
from berth.kube.amounts.quantity import Quantity
from berth.kube.objects import Container, Node, Pod, PodStatus, ResourceList, ResourceRequirements
from tests.reference.node_ports import stays

Amounts = dict[str, Quantity]

NOTHING = quantity.stored(0)
# What a container that asks for nothing is taken to need, when nodes are rated.
ASSUMED: ResourceList = {"cpu": "100m", "memory": 200 * 1024 * 1024}


def rounded(resource: str, amount: Quantity) -> int:
    """Upstream counts cpu in thousandths and everything else in whole units."""
    return amount.milli_value if resource == "cpu" else amount.value


def amounts(resources: ResourceList | None) -> Amounts:
    return {name: quantity.stored(raw) for name, raw in (resources or {}).items()}


def add(one: Amounts, other: Amounts) -> Amounts:
    if not one or not other:
        return one or other
    return {name: one.get(name, NOTHING).plus(other.get(name, NOTHING)) for name in one | other}


def larger(one: Amounts, other: Amounts) -> Amounts:
    if not one or not other:
        return one or other
    both = one | other
    return {name: max((side.get(name, both[name]) for side in (one, other)), key=size) for name in both}


def size(amount: Quantity) -> Fraction:
    return amount.amount


def being_resized(
    pod: Pod, spec: Amounts, actual: ResourceRequirements | None, allocated: ResourceList | None
) -> Amounts:
    """A running container counts with the largest of what it wants, has and was promised."""
    if actual is None:
        return spec
    pending = [c for c in (pod.status or PodStatus()).conditions or [] if c.type == "PodResizePending"]
    hopeless = bool(pending) and pending[0].reason == "Infeasible"
    return larger(larger({} if hopeless else spec, amounts(actual.requests)), amounts(allocated))


def container_requests(
    pod: Pod, container: Container, *, running: bool, assumed: ResourceList | None
) -> Amounts:
    wanted = amounts((container.resources or ResourceRequirements()).requests)
    status = pod.status or PodStatus()
    if running:
        for known in (*(status.container_statuses or ()), *(status.init_container_statuses or ())):
            if known.name == container.name:
                wanted = being_resized(pod, wanted, known.resources, known.allocated_resources)
    return amounts(assumed) | wanted


def sum_of_containers(pod: Pod, *, running: bool, assumed: ResourceList | None) -> Amounts:
    """The most the containers need at any time: init containers run one by one, sidecars all along."""
    together: Amounts = {}
    for container in pod.spec.containers or []:
        together = add(together, container_requests(pod, container, running=running, assumed=assumed))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in pod.spec.init_containers or []:
        resized = running and stays(container)
        wanted = container_requests(pod, container, running=resized, assumed=assumed)
        if stays(container):
            sidecars = add(sidecars, wanted)
            starting = larger(starting, sidecars)
        else:
            starting = larger(starting, add(wanted, sidecars))
    return larger(add(together, sidecars), starting)


def pod_level(resources: ResourceRequirements | None) -> Amounts:
    """Requests for the pod as a whole, which replace the sum of its containers."""
    stated = amounts((resources or ResourceRequirements()).requests)
    return {n: amount for n, amount in stated.items() if n in ("cpu", "memory") or n.startswith("hugepages-")}


def pod_requests(
    pod: Pod, *, running: bool = False, whole_pod: bool = True, assumed: ResourceList | None = None
) -> Amounts:
    total = sum_of_containers(pod, running=running, assumed=assumed)
    stated = pod_level(pod.spec.resources)
    if whole_pod and stated:
        status = pod.status or PodStatus()
        if running and status.resources is not None:
            effective = being_resized(pod, stated, status.resources, status.allocated_resources)
            stated = {name: effective.get(name, NOTHING) for name in stated}
        total = total | stated
    return add(total, amounts(pod.spec.overhead))


def held_by(pod: Pod) -> Amounts:
    """What a pod on a node takes away from others."""
    return pod_requests(pod, running=True)


def rated_at(pod: Pod) -> Amounts:
    """The same with the assumption for containers that do not say."""
    assumed = ASSUMED
    if pod_level(pod.spec.resources):
        stated = held_by(pod)
        assumed = {name: raw for name, raw in ASSUMED.items() if name not in stated}
    return pod_requests(pod, running=True, assumed=assumed)


def taken_by(requests: Iterable[Amounts]) -> dict[str, int]:
    """All requests together; each is rounded by itself."""
    total: dict[str, int] = {}
    for request in requests:
        for resource, amount in request.items():
            total[resource] = total.get(resource, 0) + rounded(resource, amount)
    return total


def allocatable(node: Node, resource: str) -> int:
    stated = (node.status.allocatable if node.status is not None else None) or {}
    return rounded(resource, quantity.stored(stated[resource])) if resource in stated else 0
