"""Which change can turn a rule's "no" into a "yes", so that a pod waits only for what can help it.

The answer errs on one side only: whenever a pod that fitted nowhere fits somewhere after some changes,
one of them is said to help.  These are the steps of the argument, which every rule has to honour:

- A node that could not take the pod even if it were empty (`NodeRule.admits`) is of no interest until
  the node itself changes, or the pod's volumes and devices do; once it could, the pod is to be tried
  again, whichever rules refused it.
- Any other node was refused by a rule that looks at pods, and stays refused until that very rule changes its
  mind.  So only the rules that refused some node need to be asked, each by itself.
- A rule about single nodes that no longer refuses one is not enough where another that is asked anyway does.
- A rule looks at the cluster with all changes made so far, and asks whether it refuses the nodes that the
  change touches now, never whether it did just before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from berth.engine.placement.plan import Plan
from berth.engine.rules import NODE_RULES, TOPOLOGY_RULES, compiled
from berth.engine.rules.base import NodeRule
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import (
    OF_NODES,
    OF_PODS,
    ClusterEvent,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    PodDeleted,
)
from berth.engine.state.pod_class import PodClass


def can_help(
    cluster: Cluster, pod_class: PodClass, refused_by: Collection[str], change: ClusterEvent
) -> bool:
    """Whether pods of a class that no node could take may fit after a change.

    Args:
        cluster: With the change, and perhaps later ones, applied.
        refused_by: The names of the rules that refused some node at the last attempt.
    """
    if _is_void(change):
        return False
    if _topology_helped(pod_class, refused_by, change):
        return True
    if isinstance(change, OF_NODES) and not isinstance(change, NodeDeleted):
        return _node_opens(cluster, pod_class, change)
    return _node_rule_helped(cluster, pod_class, refused_by, change)


def _is_void(change: ClusterEvent) -> bool:
    """Whether no rule that refuses nodes can see the change."""
    if isinstance(change, NodeUpdated):
        return not (
            change.labels or change.taints or change.allocatable or change.unschedulable or change.features
        )
    # A pod on a node that is not there is counted nowhere.
    return isinstance(change, OF_PODS) and change.slot < 0


def _node_opens(cluster: Cluster, pod_class: PodClass, change: NodeAdded | NodeUpdated) -> bool:
    """Whether the node is to be considered now, and perhaps was not before."""
    rules = _node_rules(cluster, pod_class)
    if isinstance(change, NodeUpdated) and not any(r.filters and r.helped_by(change) for r in rules):
        return False
    return _admitted(cluster, rules, change.slot)


def _node_rule_helped(
    cluster: Cluster, pod_class: PodClass, refused_by: Collection[str], change: ClusterEvent
) -> bool:
    rules = [rule for rule in _node_rules(cluster, pod_class) if rule.filters]
    if isinstance(change, (*OF_PODS, *OF_NODES)):
        rules = [rule for rule in rules if rule.name in refused_by]
    # What else changes is the pod's own, and may be why an earlier change was of no help.
    helped = [rule for rule in rules if rule.helped_by(change)]
    if not helped:
        return False
    if isinstance(change, PodDeleted) and not any(rule.static for rule in helped):
        return _is_open(cluster, pod_class, refused_by, change.slot)
    return True


def _is_open(cluster: Cluster, pod_class: PodClass, refused_by: Collection[str], slot: int) -> bool:
    """Whether the node could take the pod as far as the rules know that will be asked when it changes."""
    plan = pod_class.plan
    if isinstance(plan, Plan) and any(r.name in refused_by and r.bars(slot) for r in plan.topology_rules):
        return False
    return _admitted(cluster, _node_rules(cluster, pod_class), slot)


def _topology_helped(pod_class: PodClass, refused_by: Collection[str], change: ClusterEvent) -> bool:
    plan = pod_class.plan
    if not isinstance(plan, Plan):
        # To make the counts only to answer this would cost more than trying the pod.
        return any(rule.name in refused_by and isinstance(change, rule.helpers) for rule in TOPOLOGY_RULES)
    for rule in plan.topology_rules:  # noqa: SIM110 - half the time of a generator, and this is asked often
        if rule.name in refused_by and rule.helped_by(change):
            return True
    return False


def _admitted(cluster: Cluster, rules: Sequence[NodeRule], slot: int) -> bool:
    """Whether the node could take the pod but for other pods."""
    return bool(cluster.nodes.alive[slot]) and all(not r.filters or r.admits(slot) for r in rules)


def _node_rules(cluster: Cluster, pod_class: PodClass) -> Sequence[NodeRule]:
    """The rules about single nodes; unlike those about other pods they are made in no time."""
    plan = pod_class.plan
    return plan.node_rules if isinstance(plan, Plan) else compiled(NODE_RULES, cluster, pod_class)
