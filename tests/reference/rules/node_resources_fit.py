"""NodeResourcesFit: a node must have what the pod requests, and the emptier it is the better."""

import math
from fractions import Fraction
from itertools import pairwise

from berth.kube.objects import Node, Pod
from tests.reference.rules.requests import (
    ASSUMED,
    NOTHING,
    allocatable,
    held_by,
    pod_requests,
    rated_at,
    rounded,
    taken_by,
)
from tests.reference.rules.scaling import MAX_SCORE, unscaled
from tests.reference.verdicts import (
    SUCCESS,
    UNRESOLVABLE,
    UNSCHEDULABLE,
    Rejections,
    Scores,
    Status,
)
from tests.reference.world import Args, World, name_of

TOO_MANY_PODS = "Too many pods"


def insufficient(resource: str) -> str:
    return f"Insufficient {resource}"


def counted(resource: str) -> bool:
    """Unprefixed names that Kubernetes does not know are nobody's business."""
    return resource in ("cpu", "memory", "ephemeral-storage") or (
        ("/" in resource and not resource.startswith("requests."))
        or resource.startswith(("hugepages-", "attachable-volumes-"))
    )


def ignored(resource: str, args: Args) -> bool:
    """Only what vendors add can be left to others to check."""
    group, slash, _ = resource.partition("/")
    vendors = slash and "kubernetes.io/" not in resource
    return bool(vendors) and (resource in args.ignored_resources or group in args.ignored_resource_groups)


def rated(resource: str, wanted: int) -> bool:
    """Whether a resource plays a role when nodes are compared."""
    if resource in ("cpu", "memory", "ephemeral-storage"):
        return True
    return counted(resource) and wanted != 0


def prefilter(_world: World, _pod: Pod) -> Status:
    return Status(SUCCESS)


def reject(world: World, pod: Pod) -> Rejections:
    wanted = {
        r: rounded(r, amount)
        for r, amount in pod_requests(pod).items()
        if counted(r) and not ignored(r, world.args)
    }
    rejections = {}
    for node in world.nodes:
        taken = taken_by(held_by(world, other) for other in world.pods_on(node))
        reasons = []
        code = UNSCHEDULABLE
        if len(world.pods_on(node)) + 1 > allocatable(node, "pods"):
            reasons.append(TOO_MANY_PODS)
        for resource, amount in wanted.items():
            if amount > 0 and amount > allocatable(node, resource) - taken.get(resource, 0):
                reasons.append(insufficient(resource))
            if amount > 0 and amount > allocatable(node, resource):
                code = UNRESOLVABLE
        if reasons:
            rejections[name_of(node)] = Status(code, tuple(reasons))
    return rejections


def score(world: World, pod: Pod, feasible: list[Node]) -> Scores:
    # Upstream forgets the requests for the pod as a whole here, on the incoming pod only.
    wanted = pod_requests(pod, whole_pod=False, assumed=ASSUMED)
    raw = {}
    for node in feasible:
        taken = taken_by([wanted, *(rated_at(world, other) for other in world.pods_on(node))])
        shares = []
        for resource, weight in world.args.fit_resources:
            capacity = allocatable(node, resource)
            if capacity and rated(resource, rounded(resource, wanted.get(resource, NOTHING))):
                shares.append((rate(world.args, min(taken.get(resource, 0), capacity), capacity), weight))
        raw[name_of(node)] = mean(world.args, shares)
    return unscaled(raw)


def rate(args: Args, taken: int, capacity: int) -> int:
    """How good it is that so much of the capacity is taken."""
    if args.fit_strategy == "LeastAllocated":
        return (capacity - taken) * MAX_SCORE // capacity
    if args.fit_strategy == "MostAllocated":
        return taken * MAX_SCORE // capacity
    return on_line(args.fit_shape, taken * 100 // capacity)


def on_line(shape: tuple[tuple[int, int], ...], percent: int) -> int:
    """The height, from 0 to 100, of the broken line through the points of the shape."""
    points = [(utilization, 10 * score) for utilization, score in shape]
    if percent <= points[0][0]:
        return points[0][1]
    for (left, low), (right, high) in pairwise(points):
        if percent <= right:
            return low + math.trunc(Fraction((high - low) * (percent - left), right - left))
    return points[-1][1]


def mean(args: Args, shares: list[tuple[int, int]]) -> int:
    if args.fit_strategy == "RequestedToCapacityRatio":
        # Here resources that score nothing do not count at all, and halves are rounded up.
        shares = [(share, weight) for share, weight in shares if share > 0]
    total = sum(weight for _, weight in shares)
    if not total:
        return 0
    exact = Fraction(sum(share * weight for share, weight in shares), total)
    half = Fraction(1, 2) if args.fit_strategy == "RequestedToCapacityRatio" else 0
    return math.floor(exact + half)
