"""NodeResourcesFit: a node must have what the pod requests, and the emptier it is the better."""

from berth.kube.objects import Node, Pod
from tests.reference.requests import ASSUMED, allocatable, held_by, pod_requests, rated_at, rounded, taken_by
from tests.reference.scaling import MAX_SCORE, unscaled
from tests.reference.verdicts import SUCCESS, UNRESOLVABLE, UNSCHEDULABLE, Rejections, Scores, Status
from tests.reference.world import World, name_of

TOO_MANY_PODS = "Too many pods"
RATED = ("cpu", "memory")


def insufficient(resource: str) -> str:
    return f"Insufficient {resource}"


def counted(resource: str) -> bool:
    """Unprefixed names that Kubernetes does not know are nobody's business."""
    return resource in ("cpu", "memory", "ephemeral-storage") or (
        ("/" in resource and not resource.startswith("requests."))
        or resource.startswith(("hugepages-", "attachable-volumes-"))
    )


def prefilter(_world: World, _pod: Pod) -> Status:
    return Status(SUCCESS)


def reject(world: World, pod: Pod) -> Rejections:
    wanted = {r: rounded(r, amount) for r, amount in pod_requests(pod).items() if counted(r)}
    rejections = {}
    for node in world.nodes:
        taken = taken_by(held_by(other) for other in world.pods_on(node))
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
        taken = taken_by([wanted, *(rated_at(other) for other in world.pods_on(node))])
        free_shares = []
        for resource in RATED:
            capacity = allocatable(node, resource)
            if capacity:
                free = max(capacity - taken.get(resource, 0), 0)
                free_shares.append(free * MAX_SCORE // capacity)
        raw[name_of(node)] = sum(free_shares) // len(free_shares) if free_shares else 0
    return unscaled(raw)
