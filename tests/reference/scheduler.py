"""One scheduling attempt: every rule is asked about every node, then the feasible nodes are rated."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from berth.kube.objects import MountingPod, Node, Pod
from berth.kube.validation.containers import validate_mounts
from berth.kube.validation.objects import validate_pod
from tests.reference.rules import (
    balanced_allocation,
    image_locality,
    inter_pod_affinity,
    node_affinity,
    node_declared_features,
    node_name,
    node_ports,
    node_resources_fit,
    node_unschedulable,
    node_volume_limits,
    pod_topology_spread,
    taint_toleration,
    volume_restrictions,
)
from tests.reference.verdicts import (
    ERROR,
    SKIP,
    SUCCESS,
    UNRESOLVABLE,
    Rejections,
    Result,
    Scores,
    Status,
)
from tests.reference.world import World, name_of

# Rules that have a PreFilter step since it has them.
EARLY = ("NodeName", "NodeUnschedulable", "TaintToleration")


def always(world: World, pod: Pod) -> Status:
    del world, pod
    return Status(SUCCESS)


@dataclass(frozen=True)
class Rule:
    name: str
    prefilter: Callable[[World, Pod], Status] | None = None
    reject: Callable[[World, Pod], Rejections] | None = None
    score: Callable[[World, Pod, list[Node]], Scores | Status] | None = None
    weight: int = 0


RULES = (
    Rule("NodeName", node_name.prefilter, node_name.reject),
    Rule("NodeUnschedulable", always, node_unschedulable.reject),
    Rule("TaintToleration", always, taint_toleration.reject, taint_toleration.score, 3),
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
# Asked only if they are wanted.
EXTRA = (
    Rule("VolumeRestrictions", volume_restrictions.prefilter, volume_restrictions.reject),
    Rule("NodeVolumeLimits", node_volume_limits.prefilter, node_volume_limits.reject),
    Rule("ImageLocality", score=image_locality.score, weight=1),
    Rule("NodeDeclaredFeatures", node_declared_features.prefilter, node_declared_features.reject),
)


def rules_of(world: World) -> list[Rule]:
    rules = [*RULES, *(rule for rule in EXTRA if rule.name in world.args.extra_plugins)]
    if world.args.version.early_prefilters:
        return rules
    return [replace(rule, prefilter=None) if rule.name in EARLY else rule for rule in rules]


def evaluate_pod(world: World, pod: Pod, mounting: MountingPod | None = None) -> Result:
    """What becomes of the pod, given as its owner would submit it."""
    pod = world.admitted(pod)
    result = Result()
    errors = [*validate_pod(pod), *validate_mounts(pod, mounting or MountingPod())]
    result.validation = [{"field": e.field, "type": e.type, "detail": e.detail} for e in errors]
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
