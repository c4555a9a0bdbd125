"""One scheduling attempt: every rule is asked about every node, then the feasible nodes are rated."""

from collections.abc import Callable
from dataclasses import dataclass

from berth.kube.objects import Node, Pod
from berth.kube.validation import validate_pod
from tests.reference import (
    balanced_allocation,
    image_locality,
    inter_pod_affinity,
    node_affinity,
    node_name,
    node_ports,
    node_resources_fit,
    node_unschedulable,
    pod_topology_spread,
    taint_toleration,
)
from tests.reference.verdicts import ERROR, SKIP, UNRESOLVABLE, Rejections, Result, Scores, Status
from tests.reference.world import World, admitted, name_of


@dataclass(frozen=True)
class Rule:
    name: str
    prefilter: Callable[[World, Pod], Status] | None = None
    reject: Callable[[World, Pod], Rejections] | None = None
    score: Callable[[World, Pod, list[Node]], Scores | Status] | None = None
    weight: int = 0


RULES = (
    Rule("NodeUnschedulable", reject=node_unschedulable.reject),
    Rule("NodeName", reject=node_name.reject),
    Rule("TaintToleration", reject=taint_toleration.reject, score=taint_toleration.score, weight=3),
    Rule("NodeAffinity", node_affinity.prefilter, node_affinity.reject, node_affinity.score, 2),
    Rule("NodePorts", node_ports.prefilter, node_ports.reject),
    Rule(
        "NodeResourcesFit",
        node_resources_fit.prefilter,
        node_resources_fit.reject,
        node_resources_fit.score,
        1,
    ),
    Rule(
        "PodTopologySpread",
        pod_topology_spread.prefilter,
        pod_topology_spread.reject,
        pod_topology_spread.score,
        2,
    ),
    Rule(
        "InterPodAffinity",
        inter_pod_affinity.prefilter,
        inter_pod_affinity.reject,
        inter_pod_affinity.score,
        2,
    ),
    Rule("NodeResourcesBalancedAllocation", score=balanced_allocation.score, weight=1),
)
IMAGE_LOCALITY = Rule("ImageLocality", score=image_locality.score, weight=1)


def rules_of(world: World) -> tuple[Rule, ...]:
    return (*RULES, IMAGE_LOCALITY) if world.args.image_locality else RULES


def evaluate_pod(world: World, pod: Pod) -> Result:
    """What becomes of the pod, given as its owner would submit it."""
    pod = admitted(pod)
    result = Result()
    result.validation = [{"field": e.field, "type": e.type, "detail": e.detail} for e in validate_pod(pod)]
    if not result.validation:
        find_feasible(world, pod, result)
        if result.feasible:
            rate(world, pod, result)
    return result


def find_feasible(world: World, pod: Pod, result: Result) -> None:
    for rule in rules_of(world):
        if rule.name in world.args.not_filtering:
            continue
        if rule.prefilter is not None:
            result.prefilter[rule.name] = rule.prefilter(world, pod)
        skipped = rule.name in result.prefilter and result.prefilter[rule.name].code == SKIP
        if rule.reject is not None and not skipped:
            for node, status in rule.reject(world, pod).items():
                result.filter.setdefault(node, {})[rule.name] = status
    if all(status.code != UNRESOLVABLE for status in result.prefilter.values()):
        result.feasible = [name_of(node) for node in world.nodes if name_of(node) not in result.filter]


def rate(world: World, pod: Pod, result: Result) -> None:
    feasible = [node for node in world.nodes if name_of(node) in result.feasible]
    totals = dict.fromkeys(result.feasible, 0)
    for rule in rules_of(world):
        scores = rule.score(world, pod, feasible) if rule.score is not None else {}
        if isinstance(scores, Status):
            result.prescore[rule.name] = scores
            if scores.code == ERROR:
                result.error = f"PreScore {rule.name}: {scores.reasons[0]}"
        elif scores:
            result.scores[rule.name] = scores
            for node, score in scores.items():
                totals[node] += rule.weight * score.normalized
    if result.error is None:
        result.weighted_total = totals
    else:
        result.scores = {}


def place(world: World, pod: Pod) -> Result:
    """Evaluate the pod and, if a node is found, let it run there."""
    result = evaluate_pod(world, pod)
    if result.chosen is not None:
        world.bind(pod, result.chosen)
    return result
