import numpy as np
from hypothesis import HealthCheck, given, settings

from berth.engine.rules.base import NodeRule
from berth.kube.objects import Pod
from tests.support.cluster import Cluster
from tests.support.engine import engine_of, plan_of
from tests.support.generated import strategies


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(strategies.clusters(), strategies.pending_pods())
def test_one_node_is_judged_like_all(cluster: Cluster, pod: Pod) -> None:
    """The shortcut for a single changed node gives what the vectors give."""
    engine = engine_of(cluster)
    slots = np.arange(engine.nodes.count)
    for rule in plan_of(engine, pod).node_rules:
        assert isinstance(rule, NodeRule)
        if rule.filters:
            assert rule.feasible(slots).tolist() == [rule.feasible_at(slot) for slot in slots.tolist()]
        if rule.scores:
            assert rule.raw(slots).tolist() == [rule.raw_at(slot) for slot in slots.tolist()]
