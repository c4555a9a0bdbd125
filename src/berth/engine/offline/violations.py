"""Which rules a running pod breaks where it runs.

A rule is broken if it would refuse the pod's own node, were the pod placed there now.  So there is
no second implementation of any rule: the pod is taken out of the counts, its node is judged, and
the pod is put back.
"""

from __future__ import annotations

from berth.engine.placement.plan import plan_for
from berth.engine.rules.verdicts import RuleVerdict
from berth.engine.state.cluster import Cluster


def violations(cluster: Cluster, key: str) -> list[RuleVerdict]:
    """The rules that the pod `namespace/name` breaks, in the order of the rules.

    Raises:
        KeyError: no such pod, or it runs on a node that is not there.
    """
    slot = cluster.slot_of_pod(key)
    with cluster.without(key) as (pod_class,):
        rules = [rule for rule in plan_for(cluster, pod_class).rules if rule.filters]
        found = [rule.verdict(slot) for rule in rules]
    return [verdict for verdict in found if verdict is not None]
