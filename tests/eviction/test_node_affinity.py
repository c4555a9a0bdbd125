"""A pod whose node no longer has what it requires is evicted, and nobody else is."""

from __future__ import annotations

import json

from berth.engine.state.options import Options
from berth.eviction import EvictionSettings
from berth.eviction.reports import BROKEN, EVICTED
from berth.kube.api_resources import PODS
from berth.kube.gates import FeatureGates
from berth.machines.contract import Evict, Get, Patch
from tests.support.builders import EXECUTION
from tests.support.scripts.eviction import RULE, needs_label, user_b
from tests.support.scripts.script import Raw


def test_a_pod_that_matches_is_left_alone() -> None:
    """Nothing is written while every pod's node has what the pod requires."""
    made = user_b()
    made.advance(300)
    assert made.writes() == []


def test_a_label_that_goes_takes_the_pods_that_require_it() -> None:
    """A label removed from a node evicts the pods that require it, and no others."""
    made = user_b()
    made.relabel("n1", userB=None)
    made.settle()
    assert made.going() == {"b"}


def test_a_value_that_changes_does_so_too() -> None:
    """A label whose value no longer matches evicts the pods that require the old one."""
    made = user_b()
    made.relabel("n1", userB="deny")
    made.settle()
    assert made.going() == {"b"}


def test_pods_of_other_nodes_stay() -> None:
    """A pod with the same rule on a node that still matches is not evicted."""
    made = user_b()
    made.pod("b2", "n2", RULE)
    made.relabel("n1", userB=None)
    made.settle()
    assert made.going() == {"b"}


def test_the_rule_may_be_in_the_annotation() -> None:
    """A rule in the annotation evicts, and is named there in log and event."""
    made = user_b()
    made.pod("annotated", "n2", annotations={"berth.dev/affinity": json.dumps(RULE)})
    made.relabel("n2", userB=None)
    made.settle()
    assert made.going() == {"annotated"}
    where = f"metadata.annotations[berth.dev/affinity].nodeAffinity.{EXECUTION}"
    (broken,) = [decision for decision in made.decisions if decision.what == BROKEN]
    assert broken.details["rule"] == where
    (event,) = made.events("NodeAffinityEviction")
    assert event["message"].startswith(f"Evicted: {where} does not hold on node n2: ")


def test_a_rule_that_arrives_with_the_annotation_is_judged_at_once() -> None:
    """A rule added by annotation to a running pod is judged at once."""
    made = user_b()
    made.change(
        PODS, "other", {"metadata": {"annotations": {"berth.dev/affinity": json.dumps(needs_label("x"))}}}
    )
    made.settle()
    assert made.going() == {"other"}


def test_ignored_during_execution_is_ignored() -> None:
    """A rule that is ignored during execution never evicts."""
    made = user_b()
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "userB", "operator": "Exists"}]}]}
    rule: Raw = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    made.pod("p", "n2", rule)
    made.relabel("n2", userB=None)
    made.advance(60)
    assert made.going() == set()


def test_mirror_pods_and_finished_pods_are_excluded() -> None:
    """Mirror pods and finished pods are not evicted."""
    made = user_b()
    made.pod("static", "n2", RULE, annotations={"kubernetes.io/config.mirror": "x"})
    made.pod("finished", "n2", RULE)
    made.finish("finished", "Succeeded")
    made.relabel("n2", userB=None)
    made.advance(60)
    assert made.attempts() == []


def test_terminating_pods_are_not_evicted_again() -> None:
    """A pod that is already terminating is not evicted."""
    made = user_b()
    made.delete(PODS, "b")
    made.relabel("n1", userB=None)
    made.advance(60)
    assert made.attempts() == []


def test_with_the_gate_off_nothing_happens() -> None:
    """With NodeAffinityEviction off nothing is written."""
    gates = FeatureGates(node_affinity_eviction=False)
    made = user_b(EvictionSettings(options=Options(gates=gates)))
    made.relabel("n1", userB=None)
    made.advance(60)
    assert made.writes() == []


# --- how it goes --------------------------------------------------------------------------------------


def test_the_condition_comes_before_the_eviction() -> None:
    """The DisruptionTarget condition is written before the eviction is asked for."""
    made = user_b()
    made.relabel("n1", userB=None)
    made.settle()
    steps = [action for action in made.done if isinstance(action, Patch | Get | Evict)]
    assert [type(step) for step in steps] == [Patch, Get, Evict, Patch]
    assert made.condition("b") == ("True", "RequiredNodeAffinityViolation")


def test_the_eviction_is_for_the_pod_and_the_version_that_was_marked() -> None:
    """The eviction has the UID and version of the pod that was marked."""
    made = user_b()
    uid = made.get(PODS, "b")["metadata"]["uid"]
    made.relabel("n1", userB=None)
    made.settle()
    (eviction,) = [action for action in made.done if isinstance(action, Evict)]
    assert eviction.uid == uid
    assert eviction.resource_version


def test_the_event_names_rule_node_label_and_where_the_replacement_goes() -> None:
    """The event names rule, node and label, and where the replacement would go."""
    made = user_b()
    made.relabel("n1", userB=None)
    made.settle()
    (event,) = made.events("NodeAffinityEviction")
    message = event["message"]
    assert "spec.affinity.nodeAffinity.requiredDuringSchedulingRequiredDuringExecution" in message
    assert "node n1" in message
    assert "userB" in message
    assert "Its replacement would go to node n2." in message
    assert event["involvedObject"]["name"] == "b"


def test_it_is_counted_and_timed() -> None:
    """An eviction by node affinity is counted under its own metric and timed."""
    made = user_b()
    made.relabel("n1", userB=None)
    made.settle()
    assert made.metric("evictions_node_affinity_total") == 1
    assert made.metric("evictions_pod_affinity_total") == 0
    assert made.metric("affinity_violation_eviction_duration_seconds_count", kind="node") == 1


def test_every_decision_tells_rule_node_label_and_value() -> None:
    """Violation and eviction are reported with pod, node, rule, label and value."""
    made = user_b()
    made.relabel("n1", userB="deny")
    made.settle()
    for what in (BROKEN, EVICTED):
        (decision,) = made.said(what)
        assert decision.subject == "default/b"
        assert decision.details["node"] == "n1"
        assert str(decision.details["rule"]).endswith("RequiredDuringExecution")
        assert "deny" in str(decision.details["cause"])
        assert "userB" in str(decision.details["cause"])
