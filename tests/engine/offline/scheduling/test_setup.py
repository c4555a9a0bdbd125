"""Which pods are placed, and how, as a scheduler's configuration says."""

import pytest

from berth.engine.offline.scheduling.setup import configured
from berth.engine.offline.simulation import simulate
from berth.engine.offline.snapshot import read as take_in
from berth.engine.state.options import Options
from berth.kube.objects import KubeObject
from berth.kube.scheduler_configuration.load import read
from tests.support.builders import make_node, make_pod
from tests.support.snapshots import manifest, new, where

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
STRATEGY = "{scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}"
PACKING = f"{{name: NodeResourcesFit, args: {STRATEGY}}}"


def nodes_by(text: str, *things: KubeObject) -> dict[str, str]:
    setup = configured(read(HEAD + text), Options())
    taken = take_in([manifest(thing) for thing in things], setup.options, profiles=setup.profiles)
    return where(simulate(taken, setup))


NODES = [make_node(name).capacity(cpu="4").build() for name in ("empty", "used")]
USED = make_pod("running").on("used").requests(cpu="2").build()


def test_the_profile_decides_how_nodes_are_scored() -> None:
    """A profile that packs takes the fuller node, for pods that name nobody and for those that name Berth."""
    pods = [new("plain").requests(cpu="1").build(), new("own").requests(cpu="1").scheduler("berth").build()]
    assert nodes_by("", *NODES, USED, *pods)["plain"] == "empty"
    packed = nodes_by(f"profiles: [{{pluginConfig: [{PACKING}]}}]", *NODES, USED, *pods)
    assert packed == {"plain": "used", "own": "used"}


def test_profiles_place_their_own_pods_only() -> None:
    """Pods of a scheduler that the configuration has no profile for wait for theirs."""
    pods = [new("plain").build(), new("other").scheduler("other").build()]
    assert set(nodes_by("profiles: [{schedulerName: other}]", *NODES, *pods)) == {"other"}


def test_a_profile_without_preemption_preempts_nobody() -> None:
    """DefaultPreemption can be disabled, as on the scheduler."""
    things: list[KubeObject] = [make_node("n").capacity(pods="1").build(), make_pod("low").on("n").build()]
    urgent = new("urgent").priority(9).build()
    assert nodes_by("", *things, urgent) == {"urgent": "n"}
    off = "profiles: [{plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}}}]"
    assert nodes_by(off, *things, urgent) == {}


def test_a_name_without_a_profile_is_refused() -> None:
    """Asking for a scheduler that the configuration does not have says which it has."""
    with pytest.raises(ValueError, match="no profile of this name, only default-scheduler"):
        configured(read(HEAD), Options(), ("x",))
