"""Whatever happens to requests and to the watch: no pod is bound twice, no rule broken, none forgotten."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.engine.execution.violations import placement_violations
from berth.engine.placement.plan import plan_for
from berth.engine.state.cluster import Cluster, pod_name
from berth.engine.state.options import Options
from berth.kube.api_resources import EVENTS, NODES, PODS
from berth.kube.objects import Pod
from berth.machines.contract import Action, Bind, Get, Outcome
from tests.support.builders import ZONE
from tests.support.scripts.scheduler import SchedulerScript, anti, near

KINDS: list[dict[str, Any]] = [
    {"cpu": "1"},
    {"cpu": "3"},
    {"cpu": "1", "labels": {"app": "a"}, "affinity": anti("a")},
    {"cpu": "1", "labels": {"app": "b"}, "affinity": anti("b", ZONE)},
    {"cpu": "1", "labels": {"app": "c"}, "affinity": near("c")},
    {"cpu": "2", "priority": 10},
    {
        "cpu": "1",
        "labels": {"app": "d"},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "d"}},
            }
        ],
    },
]
FAULTS = ("none", "none", "lost before", "lost after", "conflict", "busy", "error before", "error after")


class Chaos(SchedulerScript):
    """A world in which requests fail in every way, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = random.Random(seed)  # noqa: S311 - a test, made repeatable
        self.faulty = True
        self.bound: dict[str, str] = {}
        self.refuse = self._fault
        self._pods = self._nodes = 0

    def _fault(self, action: Action) -> Outcome | None:
        if isinstance(action, Bind):
            item = self.objects.get((PODS, action.namespace, action.name))
            if item is not None and item["spec"].get("nodeName"):
                return Outcome(at=self.now, code=409, reason="Conflict", message="is already assigned")
        if not self.faulty or not isinstance(action, Bind | Get):
            self._count(action)
            return None
        fault = self.rng.choice(FAULTS)
        if fault.endswith("after") and isinstance(action, Bind):
            self._count(action)
            if (PODS, action.namespace, action.name) in self.objects:
                self._act(action)
        code = {"lost": 0, "conflict": 409, "busy": 429, "error": 500}.get(fault.split()[0])
        if code is None:
            self._count(action)
            return None
        return Outcome(at=self.now, code=code, message=fault, retry_after=2.0 if code == 429 else None)

    def _count(self, action: Action) -> None:
        """Note every binding that is made."""
        if isinstance(action, Bind) and (PODS, action.namespace, action.name) in self.objects:
            uid = self.get(PODS, action.name, action.namespace)["metadata"]["uid"]
            assert uid not in self.bound, f"{action.name} is bound a second time"
            self.bound[uid] = action.node

    # --- what may happen ----------------------------------------------------------------------------

    def add_node(self) -> None:
        self._nodes += 1
        self.node(f"n{self._nodes}", labels={ZONE: f"z{self._nodes % 3}"})

    def add_pod(self) -> None:
        self._pods += 1
        self.pod(f"p{self._pods}", **self.rng.choice(KINDS))

    def remove_pod(self) -> None:
        if names := self.names(PODS):
            self.leave(self.rng.choice(names))

    def remove_node(self) -> None:
        if len(names := self.names(NODES)) > 2:
            self.drop_node(self.rng.choice(names))

    def hold(self) -> None:
        self.held.add(PODS)

    def pass_time(self) -> None:
        self.advance(self.rng.choice((0.1, 1.0, 5.0)))

    def calm_down(self) -> None:
        """Nothing fails any more, the watch catches up, what terminates ends, and time passes."""
        self.faulty = False
        self.deliver()
        for _ in range(8):
            self.advance(320)  # longer than it takes for every stuck pod to be tried again
            for item in self.all(PODS):
                if "deletionTimestamp" in item["metadata"]:
                    self.leave(item["metadata"]["name"])

    def step(self) -> None:
        trouble = self.rng.choices(
            (
                self.add_pod,
                self.add_node,
                self.remove_pod,
                self.remove_node,
                self.hold,
                self.deliver,
                self.pass_time,
            ),
            (8, 1, 2, 0.5, 1, 2, 3),
        )[0]
        trouble()


def final_cluster(story: Chaos) -> tuple[Cluster, list[Pod], list[Pod]]:
    cluster = Cluster(Options())
    for node in story.all(NODES):
        cluster.add_node(story.view(NODES, node))
    pods = [story.view(PODS, item) for item in story.all(PODS)]
    placed = [pod for pod in pods if pod.spec.node_name]
    for pod in placed:
        cluster.add_pod(pod)
    return cluster, placed, [pod for pod in pods if not pod.spec.node_name]


@pytest.mark.parametrize("steps", [40])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_after_any_faults_everything_is_in_order(seed: int, steps: int) -> None:
    """After any faults no rule is broken, no pod that fits waits, and nothing is left over."""
    story = Chaos(seed)
    for _ in range(4):
        story.add_node()
    for _ in range(steps):
        story.step()
    story.calm_down()
    cluster, placed, left = final_cluster(story)
    for pod in placed:
        if pod.spec.node_name in cluster.nodes.slot_of:
            found = placement_violations(cluster, [pod_name(pod)]).get(pod_name(pod), [])
            broken = [one.rule for one in found if one.rule != "PodTopologySpread"]
            # Peers that were needed may have gone since; whatever excludes others must still hold.
            assert "NodeResourcesFit" not in broken
            if not (pod.spec.affinity and pod.spec.affinity.pod_affinity):
                assert broken == []
    for pod in left:
        assert plan_for(cluster, cluster.class_of(pod)).choose() is None, f"{pod.metadata.name} fits"
    queue = story.scheduler.state.queue
    assert not queue.assumed
    assert queue.in_flight == 0
    assert {key[1] for key in queue.pods} == {pod.metadata.name for pod in left}
    assert sum(queue.counts.values()) == len(left)
    assert story.all(EVENTS)


def test_the_mirror_equals_one_made_from_scratch() -> None:
    """After all that, what the scheduler believes is what there is."""
    story = Chaos(7)
    for _ in range(6):
        story.add_node()
    for _ in range(120):
        story.step()
    story.calm_down()
    fresh, _, _ = final_cluster(story)
    mirrored = story.scheduler.state.mirror.cluster
    for name, slot in fresh.nodes.slot_of.items():
        other = mirrored.nodes.slot_of[name]
        assert fresh.nodes.requested[:, slot].tolist() == mirrored.nodes.requested[:, other].tolist()
    assert set(fresh.pods.index) == set(mirrored.pods.index)
