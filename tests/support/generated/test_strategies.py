from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from berth.kube.defaults import created
from berth.kube.objects import Pod
from berth.kube.validation.objects import validate, validate_pod
from tests.reference import evaluate_pod
from tests.reference.scheduler import RULES
from tests.support.changes import Change, apply
from tests.support.cluster import Cluster, key_of
from tests.support.generated.strategies import EXTRA, clusters, histories, pending_pods

SLOW = settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@SLOW
@given(clusters(), pending_pods())
def test_valid(cluster: Cluster, pod: Pod) -> None:
    """The API server would accept every generated object."""
    assert [error for p in (*cluster.pods, pod) for error in validate_pod(created(p))] == []
    assert [error for node in cluster.nodes for error in validate(node)] == []
    assert [error for namespace in cluster.namespaces for error in validate(namespace)] == []


@SLOW
@given(clusters(), pending_pods())
def test_reference_agrees_with_itself(cluster: Cluster, pod: Pod) -> None:
    """A pod is placed on one of the best feasible nodes, or none is feasible, or scoring failed."""
    result = evaluate_pod(cluster.world(), pod)

    assert set(result.feasible).isdisjoint(result.filter)
    assert (result.chosen is None) == (not result.feasible or result.error is not None)
    assert result.chosen is None or result.chosen in result.max_nodes


@SLOW
@given(histories())
def test_changes(history: tuple[Cluster, tuple[Change, ...]]) -> None:
    """Changes leave a cluster whose pods and nodes have names of their own."""
    cluster, happened = history
    for change in happened:
        cluster = apply(cluster, change)

    assert [name for name, n in Counter(map(key_of, cluster.pods)).items() if n > 1] == []
    assert [name for name, n in Counter(node.metadata.name for node in cluster.nodes).items() if n > 1] == []


@pytest.mark.parametrize("rule", [rule.name for rule in RULES if rule.name != "NodeName"] + [*EXTRA])
def test_every_rule_bites(rule: str) -> None:
    """Some generated cluster is one in which the rule rejects a node or prefers one."""
    cluster, pod = find(
        st.tuples(clusters(), pending_pods()),
        lambda question: matters(*question, rule=rule),
        settings=settings(SLOW, max_examples=500, derandomize=True, phases=[Phase.generate]),
    )

    assert matters(cluster, pod, rule=rule)


def matters(cluster: Cluster, pod: Pod, *, rule: str) -> bool:
    result = evaluate_pod(cluster.world(), pod)
    rates = len({score.normalized for score in result.scores.get(rule, {}).values()}) > 1
    return rates or any(rule in rejections for rejections in result.filter.values())
