"""NodeResourcesBalancedAllocation: better a node whose shares in use the pod brings closer together."""

import math

from berth.kube.objects import Node, Pod
from tests.reference.rules.node_resources_fit import rated
from tests.reference.rules.requests import NOTHING, allocatable, held_by, rounded, taken_by
from tests.reference.rules.scaling import MAX_SCORE, unscaled
from tests.reference.verdicts import SKIP, Scores, Status
from tests.reference.world import World, name_of


def balance(taken: dict[str, int], capacity: dict[str, int]) -> int:
    """100 if all resources are used to the same degree, 50 if one is full and another empty."""
    shares = [min(taken[r] / capacity[r], 1.0) for r in capacity if capacity[r]]
    return int((1 - deviation(shares)) * MAX_SCORE)


def deviation(shares: list[float]) -> float:
    if len(shares) < 2:
        return 0.0
    if len(shares) == 2:
        return abs((shares[0] - shares[1]) / 2)
    mean = added(shares) / len(shares)
    return math.sqrt(added([(share - mean) * (share - mean) for share in shares]) / len(shares))


def added(numbers: list[float]) -> float:
    """From left to right, rounding each time."""
    total = 0.0
    for number in numbers:
        total += number
    return total


def score(world: World, pod: Pod, feasible: list[Node]) -> Scores | Status:
    requests = held_by(world, pod)
    listed = world.args.balanced_resources
    wanted = {r: rounded(r, requests.get(r, NOTHING)) for r in listed}
    if not any(wanted.values()):
        return Status(SKIP)
    raw = {}
    for node in feasible:
        capacity = {r: allocatable(node, r) for r in listed if rated(r, wanted[r])}
        taken = taken_by(held_by(world, other) for other in world.pods_on(node))
        before = {r: taken.get(r, 0) for r in listed}
        after = {r: before[r] + wanted[r] for r in listed}
        change = balance(after, capacity) - balance(before, capacity)
        raw[name_of(node)] = MAX_SCORE // 2 + (MAX_SCORE // 2 + change) // 2
    return unscaled(raw)
