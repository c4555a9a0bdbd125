"""What a pod asks for and what a node has, in exact numbers; rounding comes last, as upstream does it."""

from collections.abc import Callable, Iterable
from fractions import Fraction

from berth.kube.amounts import quantity
from berth.kube.amounts.quantity import Quantity
from berth.kube.objects import (
    Container,
    ContainerStatus,
    Node,
    Pod,
    PodStatus,
    ResourceList,
    ResourceRequirements,
)
from tests.reference.rules.node_ports import stays
from tests.reference.world import World

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
    return larger(larger({} if hopeless(pod) else spec, amounts(actual.requests)), amounts(allocated))


def hopeless(pod: Pod) -> bool:
    """Whether the pod cannot be resized as it wants."""
    pending = [c for c in (pod.status or PodStatus()).conditions or [] if c.type == "PodResizePending"]
    return bool(pending) and pending[0].reason == "Infeasible"


def status_of(pod: Pod, container: Container) -> ContainerStatus:
    status = pod.status or PodStatus()
    known: list[ContainerStatus] = [*(status.container_statuses or ())]
    known += status.init_container_statuses or ()
    return next((found for found in known if found.name == container.name), ContainerStatus())


def stated(pod: Pod, container: Container) -> Amounts:
    del pod
    return amounts((container.resources or ResourceRequirements()).requests)


def largest(pod: Pod, container: Container) -> Amounts:
    """What a running container counts with in 1.36; the status of one that is to end is not looked at."""
    if container in (pod.spec.init_containers or []) and not stays(container):
        return stated(pod, container)
    known = status_of(pod, container)
    return being_resized(pod, stated(pod, container), known.resources, known.allocated_resources)


def allocated(pod: Pod, container: Container) -> Amounts:
    known = status_of(pod, container).allocated_resources
    if known is not None:
        return amounts(known)
    return {} if hopeless(pod) else stated(pod, container)


def actual(pod: Pod, container: Container) -> Amounts:
    known = status_of(pod, container).resources
    if known is not None and known.requests is not None:
        return amounts(known.requests)
    return allocated(pod, container)


def held_by_containers(pod: Pod, assumed: ResourceList | None) -> Amounts:
    """What the containers of a running pod count with since 1.37: the largest of three sums."""
    status = pod.status or PodStatus()
    has = status.resources.requests if status.resources is not None else None
    if status.allocated_resources is not None and has is not None:
        found = larger(amounts(has), amounts(status.allocated_resources))
    else:
        found = larger(sum_of_containers(pod, actual, assumed), sum_of_containers(pod, allocated, assumed))
    return found if hopeless(pod) else larger(found, sum_of_containers(pod, stated, assumed))


def sum_of_containers(
    pod: Pod, asked: Callable[[Pod, Container], Amounts], assumed: ResourceList | None
) -> Amounts:
    """The most the containers need at any time: init containers run one by one, sidecars all along."""
    together: Amounts = {}
    for container in pod.spec.containers or []:
        together = add(together, amounts(assumed) | asked(pod, container))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in pod.spec.init_containers or []:
        wanted = amounts(assumed) | asked(pod, container)
        if stays(container):
            sidecars = add(sidecars, wanted)
            starting = larger(starting, sidecars)
        else:
            starting = larger(starting, add(wanted, sidecars))
    return larger(add(together, sidecars), starting)


def pod_level(resources: ResourceRequirements | None) -> Amounts:
    """Requests for the pod as a whole, which replace the sum of its containers."""
    requests = amounts((resources or ResourceRequirements()).requests)
    return {name: amount for name, amount in requests.items() if is_pod_level(name)}


def is_pod_level(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def pod_requests(pod: Pod, *, whole_pod: bool = True, assumed: ResourceList | None = None) -> Amounts:
    """What a pod that is to be placed asks for."""
    total = sum_of_containers(pod, stated, assumed)
    if whole_pod:
        total = total | pod_level(pod.spec.resources)
    return add(total, amounts(pod.spec.overhead))


def held_by(world: World, pod: Pod, assumed: ResourceList | None = None) -> Amounts:
    """What a pod on a node takes away from others."""
    by_pod = world.args.version.footprint_by_pod
    total = held_by_containers(pod, assumed) if by_pod else sum_of_containers(pod, largest, assumed)
    whole = pod_level(pod.spec.resources)
    status = pod.status or PodStatus()
    if whole and status.resources is not None:
        effective = being_resized(pod, whole, status.resources, status.allocated_resources)
        names = effective if by_pod else whole
        whole = {name: effective.get(name, NOTHING) for name in names if is_pod_level(name)}
    return add(total | whole, amounts(pod.spec.overhead))


def rated_at(world: World, pod: Pod) -> Amounts:
    """The same with the assumption for containers that do not say."""
    assumed = ASSUMED
    if pod_level(pod.spec.resources):
        known = held_by(world, pod)
        assumed = {name: raw for name, raw in ASSUMED.items() if name not in known}
    return held_by(world, pod, assumed)


def taken_by(requests: Iterable[Amounts]) -> dict[str, int]:
    """All requests together; each is rounded by itself."""
    total: dict[str, int] = {}
    for request in requests:
        for resource, amount in request.items():
            total[resource] = total.get(resource, 0) + rounded(resource, amount)
    return total


def allocatable(node: Node, resource: str) -> int:
    amount = ((node.status.allocatable if node.status is not None else None) or {}).get(resource)
    return 0 if amount is None else rounded(resource, quantity.stored(amount))
