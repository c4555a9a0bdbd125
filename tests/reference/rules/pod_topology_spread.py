"""PodTopologySpread: pods of a group are kept evenly distributed over domains.

Follows the MaxSkew section of KEP-895: the skew of a domain is its number of matching pods minus the
smallest number in any domain.
"""

import math
from dataclasses import dataclass

from berth.kube.objects import Node, Pod, TopologySpreadConstraint
from berth.kube.selectors import IN, Requirement, Selector, parse_label_selector
from tests.reference.rules import node_affinity, taint_toleration
from tests.reference.rules.default_spreading import siblings
from tests.reference.rules.scaling import MAX_SCORE
from tests.reference.verdicts import (
    SKIP,
    SUCCESS,
    UNRESOLVABLE,
    UNSCHEDULABLE,
    Rejections,
    Score,
    Scores,
    Status,
)
from tests.reference.world import World, labels_of, name_of, namespace_of

REASON = "node(s) didn't match pod topology spread constraints"
REASON_NO_LABEL = f"{REASON} (missing required label)"
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SOFT),
)


@dataclass(frozen=True)
class Constraint:
    topology_key: str
    max_skew: int
    selector: Selector
    min_domains: int
    honor_affinity: bool
    honor_taints: bool

    def includes(self, node: Node, pod: Pod) -> bool:
        """Whether the node is one on which pods are counted."""
        if self.honor_affinity and not node_affinity.allows(pod, node):
            return False
        return not (self.honor_taints and taint_toleration.keeps_away(node, pod))

    def matching(self, world: World, node: Node, namespace: str) -> int:
        """How many pods on the node belong to the group; the empty selector stands for none."""
        if self.selector.everything:
            return 0
        return sum(
            self.selector.matches(labels_of(other))
            for other in world.pods_on(node)
            if namespace_of(other) == namespace and other.metadata.deletion_timestamp is None
        )


def constraints_of(world: World, pod: Pod, kind: str) -> list[Constraint]:
    own = pod.spec.topology_spread_constraints
    if own:
        return [constraint_of(c, group_of(c, pod)) for c in own if c.when_unsatisfiable == kind]
    defaults = SYSTEM_DEFAULTS if world.args.defaulting_type == "System" else world.args.default_constraints
    group = siblings(world, pod)
    if group.everything:
        return []
    return [constraint_of(c, group) for c in defaults if c.when_unsatisfiable == kind]


def group_of(constraint: TopologySpreadConstraint, pod: Pod) -> Selector:
    labels = labels_of(pod)
    keys = [key for key in constraint.match_label_keys or [] if key in labels]
    return parse_label_selector(constraint.label_selector).also(
        Requirement(key, IN, frozenset((labels[key],))) for key in keys
    )


def constraint_of(constraint: TopologySpreadConstraint, group: Selector) -> Constraint:
    return Constraint(
        topology_key=constraint.topology_key or "",
        max_skew=constraint.max_skew or 0,
        selector=group,
        min_domains=constraint.min_domains if constraint.min_domains is not None else 1,
        honor_affinity=(constraint.node_affinity_policy or "Honor") == "Honor",
        honor_taints=(constraint.node_taints_policy or "Ignore") == "Honor",
    )


def has_all_keys(node: Node, constraints: list[Constraint]) -> bool:
    return all(constraint.topology_key in labels_of(node) for constraint in constraints)


# --- hard ---------------------------------------------------------------------


def prefilter(world: World, pod: Pod) -> Status:
    return Status(SUCCESS if constraints_of(world, pod, HARD) else SKIP)


def reject(world: World, pod: Pod) -> Rejections:
    constraints = constraints_of(world, pod, HARD)
    counts = [domain_counts(world, pod, constraint, constraints) for constraint in constraints]
    rejections = {}
    for node in world.nodes:
        for constraint, by_domain in zip(constraints, counts, strict=True):
            status = judge(node, pod, constraint, by_domain)
            if status is not None:
                rejections[name_of(node)] = status
                break
    return rejections


def domain_counts(
    world: World, pod: Pod, constraint: Constraint, constraints: list[Constraint]
) -> dict[str, int]:
    by_domain: dict[str, int] = {}
    for node in world.nodes:
        if has_all_keys(node, constraints) and constraint.includes(node, pod):
            domain = labels_of(node)[constraint.topology_key]
            found = constraint.matching(world, node, namespace_of(pod))
            by_domain[domain] = by_domain.get(domain, 0) + found
    return by_domain


def judge(node: Node, pod: Pod, constraint: Constraint, by_domain: dict[str, int]) -> Status | None:
    if constraint.topology_key not in labels_of(node):
        return Status(UNRESOLVABLE, (REASON_NO_LABEL,))
    # A domain that is missing counts as an empty one.
    smallest = min(by_domain.values()) if len(by_domain) >= constraint.min_domains else 0
    domain = labels_of(node)[constraint.topology_key]
    itself = 1 if constraint.selector.matches(labels_of(pod)) else 0
    if by_domain.get(domain, 0) + itself - smallest > constraint.max_skew:
        return Status(UNSCHEDULABLE, (REASON,))
    return None


# --- soft ---------------------------------------------------------------------


def score(world: World, pod: Pod, feasible: list[Node]) -> Scores | Status:
    constraints = constraints_of(world, pod, SOFT)
    if not constraints:
        return Status(SKIP)
    every_key_needed = bool(pod.spec.topology_spread_constraints) or world.args.defaulting_type != "System"

    def taking_part(nodes: list[Node]) -> list[Node]:
        return [node for node in nodes if not every_key_needed or has_all_keys(node, constraints)]

    rated = taking_part(feasible)
    sums = {name_of(node): 0.0 for node in rated}
    for constraint in constraints:
        key = constraint.topology_key
        counts = soft_counts(world, pod, constraint, rated, taking_part(world.nodes))
        domains = len(rated) if key == HOSTNAME else len({labels_of(node).get(key, "") for node in rated})
        weight = math.log(domains + 2)
        for node in rated:
            if key in labels_of(node):
                sums[name_of(node)] += counts[name_of(node)] * weight + (constraint.max_skew - 1)
    raw = {node: half_up(total) for node, total in sums.items()}
    return {name_of(node): normalized(name_of(node), raw) for node in feasible}


def soft_counts(
    world: World, pod: Pod, constraint: Constraint, rated: list[Node], counting: list[Node]
) -> dict[str, int]:
    """For each rated node the matching pods of its domain; a hostname is a domain of one node."""
    namespace = namespace_of(pod)
    key = constraint.topology_key
    if key == HOSTNAME:
        return {name_of(node): constraint.matching(world, node, namespace) for node in rated}
    by_domain: dict[str, int] = {}
    for node in counting:
        if constraint.includes(node, pod):
            domain = labels_of(node).get(key, "")
            by_domain[domain] = by_domain.get(domain, 0) + constraint.matching(world, node, namespace)
    return {name_of(node): by_domain.get(labels_of(node).get(key, ""), 0) for node in rated}


def half_up(amount: float) -> int:
    return math.floor(amount) + (1 if amount - math.floor(amount) >= 0.5 else 0)


def normalized(node: str, raw: dict[str, int]) -> Score:
    if node not in raw:
        return Score(0, 0)
    most, least = max(raw.values()), min(raw.values())
    return Score(raw[node], MAX_SCORE * (most + least - raw[node]) // most if most else MAX_SCORE)
