"""What operators see of a scheduler: a line for every failed attempt, and metrics of every rule in use."""

from __future__ import annotations

import pytest

from berth.cli.output.decision_log import log_failed_attempt
from berth.engine.state.options import Options
from berth.kube.api_resources import POD_GROUPS
from berth.kube.versions import VERSIONS
from berth.live.logs import v
from berth.machines.contract import Action, Bind, Outcome
from berth.scheduler.reports import FailedAttempt
from tests.support.builders import ZONE
from tests.support.scripts.scheduler import SchedulerScript

SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
]
PLUGIN = "scheduler_plugin_execution_duration_seconds_count"


@pytest.fixture
def story() -> SchedulerScript:
    return SchedulerScript()


@pytest.fixture
def told(story: SchedulerScript) -> list[FailedAttempt]:
    found: list[FailedAttempt] = []
    story.scheduler.state.reports.tell = found.append
    return found


def timed(story: SchedulerScript, rule: str, step: str = "Filter") -> float:
    labels = {"plugin": rule, "extension_point": step, "status": "Success"}
    return story.scheduler.state.metrics.registry.get_sample_value(PLUGIN, labels) or 0.0


def uneven(story: SchedulerScript) -> None:
    """A pod that only a full zone could take."""
    story.zoned(a1="a", b1="b")
    story.running("w1", "a1", labels={"app": "web"})
    story.running("full", "b1", cpu="4")
    story.pod("w2", labels={"app": "web"}, topologySpreadConstraints=SPREAD)
    story.settle()


def test_every_failed_attempt_is_told_with_its_rules(
    story: SchedulerScript, told: list[FailedAttempt]
) -> None:
    """A pod without a place: which rules refused nodes, and the keyword for a spread constraint."""
    uneven(story)
    (attempt,) = told
    assert (attempt.pod, attempt.number, attempt.error) == ("default/w2", 1, False)
    assert attempt.failed == "failed NodeResourcesFit, failed spreadConstraint"
    assert "0/2 nodes are available" in attempt.message
    story.zoned(c1="c")
    story.advance(5)
    assert story.node_of("w2") == "c1"
    assert len(told) == 1


def test_a_binding_that_failed_is_a_failed_attempt(story: SchedulerScript, told: list[FailedAttempt]) -> None:
    """It names no rule, and says what the server said."""
    story.nodes("n1")
    refusal = Outcome(at=0.0, code=403, reason="Forbidden", message="not here")
    left = [refusal]

    def refuse(action: Action) -> Outcome | None:
        return left.pop() if isinstance(action, Bind) and left else None

    story.refuse = refuse
    story.pod("web")
    story.settle()
    (attempt,) = told
    assert (attempt.error, attempt.failed) == (True, "")
    assert "not here" in attempt.message


def test_it_is_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    """At the default level, with the rules in front of the message; errors are warnings."""
    with caplog.at_level(v(2), "berth.cli.output.decision_log"):
        log_failed_attempt(FailedAttempt("shop/a", 2, "0/3 nodes", frozenset({"PodTopologySpread"})))
        log_failed_attempt(FailedAttempt("shop/b", 1, "broken", error=True))
    first, second = caplog.records
    assert first.__dict__["keys"] == {
        "pod": "shop/a",
        "failed": "failed spreadConstraint",
        "attempt": 2,
        "err": "0/3 nodes",
    }
    assert second.__dict__["keys"] == {"pod": "shop/b", "attempt": 1, "err": "broken"}
    assert (first.levelname == "WARNING", second.levelname == "WARNING") == (False, True)


def test_every_rule_in_use_is_timed_after_one_pod(story: SchedulerScript) -> None:
    """A rule that comes with a later pod is timed at once, like those of the first."""
    story.zoned(a1="a", b1="b")
    story.pod("plain")
    story.settle()
    assert timed(story, "NodeResourcesFit") == 1
    assert timed(story, "PodTopologySpread") == 0
    story.pod("web", labels={"app": "web"}, topologySpreadConstraints=SPREAD)
    story.settle()
    assert timed(story, "PodTopologySpread") == 1
    story.pod("web-2", labels={"app": "web"}, topologySpreadConstraints=SPREAD)
    story.settle()
    assert timed(story, "PodTopologySpread") == 1


def test_a_rule_of_a_pod_that_finds_no_node_is_timed_too(story: SchedulerScript) -> None:
    """A rule of a pod that finds no node is timed, since it was used."""
    uneven(story)
    assert timed(story, "PodTopologySpread") == 1


def counted(story: SchedulerScript, metric: str) -> dict[tuple[str, ...], float]:
    """What a metric says, but for zeros, by the values of its labels in their order by name."""
    families = story.scheduler.state.metrics.registry.collect()
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
        if sample.name == f"scheduler_{metric}" and sample.value
    }


def queued_groups(story: SchedulerScript) -> None:
    """A group without room, one that lacks pods, one without an object, and two pods of their own."""
    story.nodes("n1")
    for name, minimum in (("big", 2), ("lacking", 3)):
        policy = {"gang": {"minCount": minimum}}
        story.create(POD_GROUPS, {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy}})
    for group, cpu in (("big", "3"), ("lacking", "1"), ("unknown", "1")):
        for number in range(2):
            story.pod(f"{group}-{number}", cpu=cpu, schedulingGroup={"podGroupName": group})
    story.pod("fits")
    story.pod("alone", cpu="4")
    story.settle()


def test_groups_are_counted_as_one_thing_that_waits(story: SchedulerScript) -> None:
    """Since 1.37 a group is one entity, where its foremost pods are; without its object it is incomplete."""
    queued_groups(story)
    assert counted(story, "pending_pods") == {("unschedulable",): 3, ("gated",): 2, ("incomplete",): 2}
    assert counted(story, "queued_entities") == {
        ("unschedulable", "pod"): 1,
        ("unschedulable", "podgroup"): 1,
        ("gated", "podgroup"): 1,
    }
    assert counted(story, "queue_incoming_pods_total") == {("PodAdd", "active"): 8}
    arrived = {("PodAdd", "active", "pod"): 2, ("PodAdd", "active", "podgroup"): 3}
    assert counted(story, "queue_incoming_entities_total") == arrived

    story.nodes("n2")
    story.advance(60)
    assert counted(story, "queue_incoming_pods_total")["NodeAdded", "active"] == 3
    woken = {("NodeAdded", "active", "pod"): 1, ("NodeAdded", "active", "podgroup"): 1}
    assert counted(story, "queue_incoming_entities_total") == {**arrived, **woken}


def test_earlier_versions_count_pods_alone() -> None:
    """1.36 has neither metric, and knows four queues."""
    story = SchedulerScript(profiles={"berth": Options(version=VERSIONS["1.36"])})
    queued_groups(story)
    assert counted(story, "pending_pods") == {("unschedulable",): 3, ("gated",): 4}
    assert counted(story, "queue_incoming_pods_total") == {("PodAdd", "active"): 8}
    assert counted(story, "queued_entities") == counted(story, "queue_incoming_entities_total") == {}
