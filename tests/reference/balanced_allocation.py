"""NodeResourcesBalancedAllocation: better a node whose cpu and memory use the pod brings closer together."""

from berth.kube.objects import Node, Pod
from tests.reference.node_resources_fit import RATED
from tests.reference.requests import NOTHING, allocatable, held_by, rounded, taken_by
from tests.reference.scaling import MAX_SCORE, unscaled
from tests.reference.verdicts import SKIP, Scores, Status
from tests.reference.world import World, name_of


def balance(taken: dict[str, int], capacity: dict[str, int]) -> int:
    """100 if cpu and memory are used to the same degree, 50 if one is full and the other empty."""
    shares = [min(taken[r] / capacity[r], 1.0) for r in RATED if capacity[r]]
    deviation = abs((shares[0] - shares[1]) / 2) if len(shares) == 2 else 0.0
    return int((1 - deviation) * MAX_SCORE)


def score(world: World, pod: Pod, feasible: list[Node]) -> Scores | Status:
    requests = held_by(pod)
    wanted = {r: rounded(r, requests.get(r, NOTHING)) for r in RATED}
    if not any(wanted.values()):
        return Status(SKIP)
    raw = {}
    for node in feasible:
        capacity = {r: allocatable(node, r) for r in RATED}
        taken = taken_by(held_by(other) for other in world.pods_on(node))
        before = {r: taken.get(r, 0) for r in RATED}
        after = {r: before[r] + wanted[r] for r in RATED}
        change = balance(after, capacity) - balance(before, capacity)
        raw[name_of(node)] = MAX_SCORE // 2 + (MAX_SCORE // 2 + change) // 2
    return unscaled(raw)
