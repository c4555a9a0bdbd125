"""Reasons with codes: words for one node and for many, and every rule's own reasons."""

import pytest
from hypothesis import given

from berth.engine.placement.evaluation import evaluate
from berth.engine.rules import RULES
from berth.engine.rules.node_affinity.rule import AFFINITY
from berth.engine.rules.verdicts import MOST_PEERS, Cause, Reason, merged, waiting_words, words_of
from berth.kube.objects import Pod
from berth.kube.selectors import NodeTerms
from tests.support.cluster import Cluster
from tests.support.engine import engine_of, plan_of
from tests.support.generated import strategies

IN_THE_WAY = Reason(
    "InTheWay", "node(s) are taken", "{peers} in {key}={domain} is here", "{peers} in {key}={domain} are here"
)


def cause(domain: str, *peers: str) -> Cause:
    return Cause(IN_THE_WAY, {"key": "zone", "domain": domain}, topology=("zone", domain), peers=peers)


def owner(pod: str) -> str | None:
    return {"web": "Deployment/web", "api": "Deployment/api"}.get(pod.partition("/")[2].partition("-")[0])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["500m"], "500m"),
        (["500m", "2", "0"], "0 to 2"),
        (["900Mi", "2Gi"], "900Mi to 2Gi"),
        (["zone=a", "zone=b"], "zone=a or b"),
        (["zone=a", "zone=b", "zone=c", "zone=d"], "zone=…"),
        (["no label disk", "disk=hdd"], "disk=hdd or no label disk"),
        (["a", "b", "c", "d", "e"], "a, b or 3 more"),
    ],
)
def test_many_values_as_one(values: list[str], expected: str) -> None:
    """Figures become ranges from the least to the most, names a list."""
    assert merged(values) == expected


def test_one_node_names_the_pod_and_its_workload() -> None:
    """Pods of one workload are told with it."""
    assert str(cause("a", "shop/web-1")) == "pod shop/web-1 in zone=a is here"
    assert cause("a", "shop/web-1").words(owner) == "pod shop/web-1 of Deployment/web in zone=a is here"
    several = cause("a", "shop/web-1", "shop/api-1", "shop/x", "shop/y")
    assert several.words(owner) == "pod shop/web-1, shop/api-1, shop/x and others in zone=a is here"


def test_many_nodes_name_all_workloads() -> None:
    """Not the first node's peer stands for all, but the workloads, the commonest first, and pods without."""
    causes = [
        cause("a", "shop/api-1"),
        cause("b", "shop/web-1"),
        cause("b", "shop/web-2"),
        cause("b", "shop/x"),
    ]
    expected = "pods of Deployment/web and Deployment/api and pod shop/x in zone=a or b are here"
    assert words_of(causes, owner) == expected
    everywhere = [cause(domain, "shop/web-1") for domain in "abcd"]
    assert words_of(everywhere, owner) == "pods of Deployment/web in zone=… are here"


def test_a_number_of_pods_is_told_only_if_all_are_known() -> None:
    """Of a node with more peers than are listed nobody says how many there are."""
    few = [f"shop/x{i}" for i in range(MOST_PEERS - 1)]
    known = [cause("a", *few), cause("a", "shop/y")]
    assert words_of(known, owner) == f"pods shop/x0, shop/x1 and {MOST_PEERS - 2} more in zone=a are here"
    capped = [cause("a", *few, "shop/x9"), cause("a", "shop/y")]
    assert words_of(capped, owner) == "pods shop/x0, shop/x1 and others in zone=a are here"


@given(strategies.clusters(), strategies.pending_pods())
def test_every_cause_is_one_that_its_rule_declares(cluster: Cluster, pod: Pod) -> None:
    """A verdict has a cause for each of kube-scheduler's sentences, and all its holes are filled."""
    reasons = {rule.name: rule.reasons for rule in RULES}
    found = evaluate(plan_of(engine_of(cluster), pod)).verdicts
    for verdict in (each for verdicts in found.values() for each in verdicts):
        assert verdict.because
        assert tuple(dict.fromkeys(cause.sentence for cause in verdict.because)) == verdict.reasons
        for each in verdict.because:
            assert each.reason in reasons[verdict.rule]
            assert each.sentence
            assert "{" not in str(each)
            assert words_of([each, each], owner)


def test_every_reason_says_what_would_help() -> None:
    """Every reason says what a pod that is refused for it waits for, and which events may bring that."""
    for reason in (reason for rule in RULES for reason in rule.reasons):
        assert reason.waits_for, reason.code
        assert reason.events, reason.code


def test_nobody_waits_for_a_node_that_nothing_selects() -> None:
    """A node selector without a term that says anything matches no node, whatever comes."""
    values = {"field": "nodeAffinity", "wanted": str(NodeTerms(())), "found": ""}
    assert waiting_words([Cause(AFFINITY, values, "spec.affinity")], owner) == ""
