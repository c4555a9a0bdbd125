"""Rules about other pods: who goes when they stop holding, and when."""

from __future__ import annotations

import pytest

from berth.engine.state.options import Options
from berth.eviction import EvictionRate, EvictionSettings
from berth.kube.api_resources import BUDGETS, NAMESPACES, NODES, PODS
from berth.kube.gates import FeatureGates
from berth.machines.contract import Evict, Patch
from tests.support.builders import HOSTNAME, ZONE
from tests.support.scripts.eviction import EvictionScript, apart_from, interfere_once, near
from tests.support.scripts.script import Raw


def pair(settings: EvictionSettings | None = None) -> EvictionScript:
    """A follower that has to be where its leader is, and a second place to be."""
    world = EvictionScript(settings)
    world.labelled("n1")
    world.labelled("n2", zone="b")
    world.pod("leader", "n1", app="leader")
    world.pod("follower", "n1", near("leader"), app="follower")
    world.settle()
    return world


def neighbours(priority: int = 0, other: int = 0, rule: Raw | None = None) -> EvictionScript:
    """A pod with a rule against noise, and noise on another node."""
    world = EvictionScript()
    world.labelled("n1")
    world.labelled("n2", zone="b")
    world.pod("quiet", "n1", rule or apart_from("noise"), app="quiet", priority=priority)
    world.pod("noise", "n2", app="noise", priority=other)
    world.settle()
    return world


# --- affinity ---------------------------------------------------------------------------------------


def test_a_follower_goes_when_its_leader_has_been_gone_for_the_grace() -> None:
    """A pod goes when the pod it must be near has been gone for the grace period."""
    world = pair()
    world.vanish("leader")
    world.advance(29.9)
    assert world.attempts() == []
    world.advance(0.2)
    assert world.going() == {"follower"}
    assert world.condition("follower") == ("True", "RequiredPodAffinityViolation")
    assert len(world.events("PodAffinityEviction")) == 1
    assert world.metric("evictions_pod_affinity_total") == 1


def test_a_leader_that_is_replaced_in_time_takes_nobody_down() -> None:
    """Nothing is written when the pod to be near is replaced within the grace period."""
    world = pair()
    world.vanish("leader")
    world.advance(29)
    world.pod("leader-2", "n1", app="leader")
    world.advance(300)
    assert world.writes() == []


def test_the_grace_starts_anew_with_every_violation() -> None:
    """Each violation has a grace period of its own."""
    world = pair()
    world.vanish("leader")
    world.advance(29)
    world.pod("leader-2", "n1", app="leader")
    world.advance(10)
    world.vanish("leader-2")
    world.advance(29)
    assert world.attempts() == []
    world.advance(2)
    assert world.going() == {"follower"}


def test_a_follower_of_the_same_name_has_its_own_grace() -> None:
    """A new pod of the same name does not inherit the old one's grace period."""
    world = pair()
    world.vanish("leader")
    world.advance(29)
    world.vanish("follower")
    world.pod("follower", "n1", near("leader"), app="follower")
    world.advance(29)
    assert world.attempts() == []
    world.advance(2)
    assert world.attempts() == ["follower"]


def test_the_grace_can_be_none() -> None:
    """With a grace of zero the pod goes at once."""
    world = pair(EvictionSettings(grace=0))
    world.vanish("leader")
    world.settle()
    assert world.going() == {"follower"}


def test_a_leader_that_loses_its_label_is_no_leader() -> None:
    """A pod that loses the label that was matched counts as gone."""
    world = pair()
    world.change(PODS, "leader", {"metadata": {"labels": {"app": "retired"}}})
    world.advance(31)
    assert world.going() == {"follower"}


def test_a_node_that_leaves_its_domain_takes_its_pods_along() -> None:
    """The leader is in another domain once the labels of its node say so."""
    world = EvictionScript()
    world.labelled("n1")
    world.labelled("n2")
    world.pod("leader", "n1", app="leader")
    world.pod("follower", "n2", near("leader", ZONE), app="follower")
    world.settle()
    world.change(NODES, "n1", {"metadata": {"labels": {ZONE: "c"}}})
    world.advance(31)
    assert world.going() == {"follower"}


def test_a_follower_that_is_refused_is_retried_until_a_leader_is_back() -> None:
    """A refused eviction is retried until the rule holds again, then taken back."""
    world = pair()
    world.budget("pdb", "follower", allowed=0)
    world.vanish("leader")
    world.advance(60)
    assert world.metric("pod_failed_eviction_pod_affinity_total", pod="follower", namespace="default") > 3
    world.pod("leader-2", "n1", app="leader")
    world.settle()
    asked = len(world.attempts())
    world.advance(600)
    assert len(world.attempts()) == asked
    assert world.condition("follower")[0] == "False"


@pytest.mark.parametrize("refused", [False, True])
def test_a_leader_that_the_watch_has_not_shown_yet_keeps_its_follower(*, refused: bool) -> None:
    """The mark has to come back by the same watch before anybody goes for it."""
    world = pair()
    world.vanish("leader")
    if refused:
        world.budget("pdb", "follower", allowed=0)
    world.advance(31 if refused else 29)
    asked = len(world.attempts())
    assert bool(asked) is refused
    world.held.add(PODS)
    world.pod("leader-2", "n1", app="leader")
    if refused:
        world.change(BUDGETS, "pdb", {"status": {"disruptionsAllowed": 1}})
    world.advance(60)
    assert len(world.attempts()) == asked
    world.deliver()
    world.advance(60)
    assert len(world.attempts()) == asked
    assert world.condition("follower")[0] == "False"


def test_a_condition_from_before_a_restart_is_taken_back_if_the_rule_heals_in_its_new_grace() -> None:
    """A condition left by the last run is withdrawn if the rule heals in time."""
    world = pair()
    world.budget("pdb", "follower", allowed=0)
    world.vanish("leader")
    world.advance(40)
    assert world.condition("follower")[0] == "True"
    world.restart()
    world.advance(10)
    world.pod("leader-2", "n1", app="leader")
    world.advance(10)
    assert world.condition("follower")[0] == "False"


def test_a_leader_whose_annotation_cannot_be_read_leads_all_the_same() -> None:
    """A pod with an unreadable annotation still satisfies the rules of others."""
    world = pair()
    world.change(PODS, "leader", {"metadata": {"annotations": {"berth.dev/affinity": "{"}}})
    world.advance(60)
    assert world.attempts() == []
    assert len(world.events("InvalidAffinityAnnotation")) == 1


# --- anti-affinity ------------------------------------------------------------------------------------


def test_with_equal_priorities_the_pod_whose_rule_is_violated_goes_at_once() -> None:
    """With equal priorities the pod that has the anti-affinity rule goes."""
    world = neighbours()
    world.pod("noise-2", "n1", app="noise")
    world.settle()
    assert world.going() == {"quiet"}


def test_of_different_priorities_the_lower_goes() -> None:
    """Of two that exclude each other the lower priority goes, though the rule is the other's."""
    world = neighbours(priority=10)
    world.pod("noise-2", "n1", app="noise")
    world.pod("noise-3", "n1", app="noise")
    world.settle()
    assert world.going() == {"noise-2", "noise-3"}
    assert all("of pod default/quiet" in event["message"] for event in world.events("PodAffinityEviction"))


def test_the_owner_of_the_rule_goes_if_it_has_the_lower_priority() -> None:
    """The pod with the rule goes when the other has the higher priority."""
    world = neighbours()
    world.pod("noise-2", "n1", app="noise", priority=10)
    world.settle()
    assert world.going() == {"quiet"}


def test_nobody_goes_for_a_pod_that_is_going() -> None:
    """The noise was evicted, and is heard until it is gone."""
    world = neighbours(priority=10)
    world.pod("noise-2", "n1", app="noise")
    world.settle()
    world.advance(300)
    assert world.attempts() == ["noise-2"]
    world.vanish("noise-2")
    world.advance(300)
    assert world.attempts() == ["noise-2"]


def test_nobody_goes_for_a_pod_that_somebody_else_deletes_meanwhile() -> None:
    """The budget allows it in the end, when it is not needed any more."""
    world = neighbours()
    world.budget("pdb", "quiet", allowed=0)
    world.pod("noise-2", "n1", app="noise")
    world.settle()
    assert world.attempts() == ["quiet"]
    world.delete(PODS, "noise-2")
    world.change(BUDGETS, "pdb", {"status": {"disruptionsAllowed": 1}})
    world.advance(25)
    assert world.attempts() == ["quiet"]
    world.vanish("noise-2")
    world.advance(60)
    assert world.going() == set()


def test_a_pod_that_is_in_nobodys_way_any_more_stays() -> None:
    """A pod that is in nobody's way any more stays, though others still break the rule."""
    rate = EvictionRate(qps=0.2, burst=1)
    world = EvictionScript(EvictionSettings(rate=rate, max_share=1.0))
    world.labelled("n1")
    for number in range(13):
        world.pod(f"noise-{number:02}", "n1", app="noise")
    world.pod("quiet", "n1", apart_from("noise"), app="quiet", priority=10)
    world.settle()
    (first,) = world.going()
    left = {item["metadata"]["name"] for item in world.all(PODS)} - {"quiet", first}
    calm = sorted(left)[-2:]
    for name in calm:
        world.change(PODS, name, {"metadata": {"labels": {"app": "calm"}}})
    world.advance(600)
    assert set(world.attempts()) == (left | {first}) - set(calm)


def test_the_last_moment_counts() -> None:
    """One is in another zone by the time its eviction would be sent; the other one is still in the way."""
    world = neighbours(priority=10, rule=apart_from("noise", ZONE))
    world.labelled("n3")
    world.pod("noise-2", "n3", app="noise")
    world.pod("noise-3", "n1", app="noise")
    interfere_once(world, Evict, lambda: world.relabel("n3", **{ZONE: "c"}))
    world.advance(60)
    assert world.going() == {"noise-3"}
    assert world.condition("noise-2")[0] == "False"


def test_nobody_goes_by_a_plan_that_is_out_of_date(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long plans are made anew only now and then."""
    monkeypatch.setattr("berth.eviction.planning.LONG", 0)
    world = neighbours()
    world.budget("pdb", "quiet", allowed=0)
    world.pod("noise-2", "n1", app="noise")
    world.settle()
    assert world.attempts() == ["quiet"]
    world.delete(PODS, "noise-2")
    world.change(BUDGETS, "pdb", {"status": {"disruptionsAllowed": 1}})
    world.advance(25)
    assert world.attempts() == ["quiet"]


def test_the_condition_says_since_when_and_when_it_was_looked_at_last() -> None:
    """Retries move the condition's probe time and keep its transition time."""
    world = neighbours()
    world.budget("pdb", "quiet", allowed=0)
    world.pod("noise-2", "n1", app="noise")
    times = []
    for _ in range(2):
        world.advance(10)
        conditions = world.get(PODS, "quiet")["status"]["conditions"]
        (target,) = [each for each in conditions if each["type"] == "DisruptionTarget"]
        times.append((target["lastTransitionTime"], target["lastProbeTime"]))
    assert times[0][0] == times[1][0]
    assert times[0][1] < times[1][1]


def test_a_restart_takes_nothing_back_from_those_who_go_for_others() -> None:
    """The condition of the pod in the way stays what it is."""
    world = neighbours(priority=10)
    world.budget("pdb", "noise", allowed=0)
    world.pod("noise-2", "n1", app="noise")
    world.settle()
    assert world.condition("noise-2") == ("True", "RequiredPodAffinityViolation")
    world.done.clear()
    world.restart()
    world.settle()
    statuses = [
        action.body["status"]["conditions"][0]["status"]
        for action in world.done
        if isinstance(action, Patch) and isinstance(action.body, dict) and action.resource == PODS
    ]
    assert set(statuses) == {"True"}


def test_a_label_makes_a_neighbour() -> None:
    """A label added to a running pod can violate another's anti-affinity."""
    world = neighbours()
    world.pod("calm", "n1", app="calm")
    world.settle()
    assert world.going() == set()
    world.change(PODS, "calm", {"metadata": {"labels": {"app": "noise"}}})
    world.settle()
    assert world.going() == {"quiet"}


def test_a_topology_label_makes_neighbours() -> None:
    """A changed topology label of a node can violate anti-affinity."""
    world = neighbours(rule=apart_from("noise", ZONE))
    world.change(NODES, "n2", {"metadata": {"labels": {ZONE: "a"}}})
    world.settle()
    assert world.going() == {"quiet"}


def test_a_namespace_label_makes_neighbours() -> None:
    """A label added to a namespace can violate anti-affinity with a namespace selector."""
    term = {
        "labelSelector": {"matchLabels": {"app": "noise"}},
        "namespaceSelector": {"matchLabels": {"team": "loud"}},
        "topologyKey": ZONE,
    }
    rule = {"podAntiAffinity": {"requiredDuringSchedulingRequiredDuringExecution": [term]}}
    world = neighbours(rule=rule)
    world.change(NODES, "n2", {"metadata": {"labels": {ZONE: "a"}}})
    world.settle()
    assert world.going() == set()
    world.change(NAMESPACES, "default", {"metadata": {"labels": {"team": "loud"}}})
    world.settle()
    assert world.going() == {"quiet"}


def test_a_static_pod_stays_and_the_other_one_goes() -> None:
    """The other pod goes, whatever the priorities: no API server can remove a static pod."""
    world = neighbours(priority=10)
    world.pod("noise-2", "n1", app="noise", annotations={"kubernetes.io/config.mirror": "x"})
    world.settle()
    assert world.going() == {"quiet"}


@pytest.mark.parametrize("topology", [HOSTNAME, ZONE])
def test_with_the_gate_off_nothing_happens(topology: str) -> None:
    """With PodAffinityEviction off nothing is written."""
    options = Options(gates=FeatureGates(pod_affinity_eviction=False))
    world = pair(EvictionSettings(options=options))
    world.pod("quiet", "n1", apart_from("leader", topology), app="quiet")
    world.vanish("leader")
    world.advance(300)
    assert world.writes() == []


def test_only_as_many_go_as_have_to() -> None:
    """Of three that keep away from each other and meet on one node, two."""
    world = EvictionScript()
    world.labelled("n1")
    world.labelled("n2")
    for name in ("a", "b", "c"):
        world.pod(name, "n1", apart_from("web"))
    world.settle()
    world.advance(60)
    assert len(world.going()) == 2
