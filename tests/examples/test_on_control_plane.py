"""The examples on `berth up`: the nodes they bring are run, and so is every pod that is placed."""

from __future__ import annotations

import pytest

from berth.kube.api_resources import NODES, PODS
from tests.examples.shown import FILES
from tests.support.cli.example_placements import EXAMPLES
from tests.support.scripts.plane import PlaneScript

# Pods that are bound to a node where a rule does not hold: no kubelet takes them.
REFUSED = {
    "execution-time/label-removed.yaml": ["app-old"],
    "execution-time/pod-affinity.yaml": ["s1-old"],
    "execution-time/pod-anti-affinity.yaml": ["calm-old"],
}


@pytest.mark.parametrize("file", FILES)
def test_the_pods_of_an_example_run(file: str) -> None:
    """No pod has a node without running there, and none waits for another reason than its rules."""
    world = PlaneScript()
    world.apply(EXAMPLES / file)
    world.advance(5)
    bound = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in world.all(PODS)}
    waiting = world.phases("Pending")
    assert not [name for name in waiting if bound[name]]
    assert REFUSED.get(file, []) == world.phases("Failed")
    for node in world.all(NODES):
        assert {"type": "Ready", "status": "True"}.items() <= node["status"]["conditions"][-1].items()
        assert "node.kubernetes.io/not-ready" not in str(node["spec"].get("taints"))
