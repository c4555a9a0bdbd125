"""Disks that pods mount without a claim: one pod of a node at a time, but for reading."""

import random
from itertools import count

import numpy as np
import pytest

from berth.engine.placement.plan import plan_for
from berth.engine.placement.preemption import preempt
from berth.engine.placement.queueing_hints import can_help
from berth.engine.rules.volume_restrictions.rule import VolumeRestrictions
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import NodeAdded, PodDeleted
from berth.engine.state.hypothetical_removal import HypotheticalRemoval, RemovablePods
from berth.engine.state.options import Options
from berth.kube.defaults import created, default_node
from berth.kube.objects import Node, Pod
from berth.kube.well_known import UNSCHEDULABLE
from tests.reference.rules.volume_restrictions import reject
from tests.reference.world import World
from tests.support.builders import PodBuilder, make_node, make_pod
from tests.support.storage import causes, class_of, cluster_with, feasible, make_claim, message, verdict

Source = dict[str, object]
A, B = make_node("a"), make_node("b")


def _source(kind: str, **fields: object) -> Source:
    return {kind: fields}


GCE, GCE_READ = (_source("gcePersistentDisk", pdName="d", readOnly=r) for r in (False, True))
EBS, EBS_READ = (_source("awsElasticBlockStore", volumeID="d", readOnly=r) for r in (False, True))
ISCSI, ISCSI_READ = (
    _source("iscsi", targetPortal=portal, iqn="iqn.x", lun=0, readOnly=r)
    for portal, r in (("1.2.3.4", False), ("5.6.7.8", True))
)
RBD = _source("rbd", monitors=["m1", "m2"], pool="rbd", image="i")
RBD_READ = _source("rbd", monitors=["m2", "m3"], image="i", readOnly=True)


def rbd(*monitors: str, pool: str = "rbd", image: str = "i") -> Source:
    return _source("rbd", monitors=list(monitors), pool=pool, image=image)


def with_disk(source: Source, name: str = "p") -> PodBuilder:
    return make_pod(name).disk(**source)


@pytest.mark.parametrize(
    ("wanted", "taken", "shared"),
    [
        pytest.param(GCE, GCE, False, id="the same"),
        pytest.param(GCE, GCE_READ, False, id="a reader is there"),
        pytest.param(GCE_READ, GCE, False, id="a writer is there"),
        pytest.param(GCE_READ, GCE_READ, True, id="two readers"),
        pytest.param(GCE, _source("gcePersistentDisk", pdName="e"), True, id="another"),
        pytest.param(EBS, EBS, False, id="EBS"),
        pytest.param(EBS_READ, EBS_READ, False, id="EBS is not shared to read"),
        pytest.param(EBS, GCE, True, id="two kinds with one name"),
        pytest.param(ISCSI, ISCSI_READ, False, id="iSCSI, by whichever portal"),
        pytest.param(ISCSI_READ, ISCSI_READ, True, id="iSCSI read"),
        pytest.param(RBD, RBD_READ, False, id="RBD by one monitor and the default pool"),
        pytest.param(RBD_READ, RBD_READ, True, id="RBD read"),
        pytest.param(RBD, rbd("m3"), True, id="RBD of other monitors"),
        pytest.param(RBD, rbd("m1", pool="q"), True, id="RBD of another pool"),
        pytest.param(RBD, rbd("m1", image="j"), True, id="RBD of another image"),
    ],
)
def test_which_disks_are_shared(wanted: Source, taken: Source, *, shared: bool) -> None:
    """Only a node with a pod that has the same disk is refused, whatever is known of claims."""
    for known in (False, True):
        cluster = cluster_with(A, B, known=known)
        assert feasible(cluster, with_disk(wanted)) == ["a", "b"]
        cluster.add_pod(created(with_disk(taken, "other").namespace("other").on("a").build()))

        assert feasible(cluster, with_disk(wanted)) == (["a", "b"] if shared else ["b"])


def test_the_reason() -> None:
    """It is kube-scheduler's, names disk and pod, and comes before that of a claim; preemption may help."""
    claim = make_claim("data", volume="pv", modes=["ReadWriteOncePod"])
    cluster = cluster_with(A, claim)
    cluster.add_pod(created(with_disk(GCE, "other").mounts("data").on("a").build()))
    pod = with_disk(GCE)

    assert message(cluster, pod) == "1 node(s) had no available disk."
    assert causes(cluster, pod, "a") == {
        "VolumeRestrictions": ("gcePersistentDisk d is in use by pod default/other",)
    }
    assert [r.code for r in verdict(cluster, pod).verdicts[0]] == [UNSCHEDULABLE]
    (said,) = (v for v in verdict(cluster, pod.mounts("data")).verdicts[0] if v.rule == "VolumeRestrictions")
    assert said.reasons == ("node(s) had no available disk",)


def test_what_helps_a_pod_that_waits_for_a_disk() -> None:
    """The last pod with the disk that leaves a node helps, in whichever namespace, and so does a new node."""
    cluster = cluster_with(A)
    for name, source in (("one", GCE), ("two", GCE_READ), ("three", EBS)):
        cluster.add_pod(created(with_disk(source, name).namespace("other").on("a").build()))
    waiting = class_of(cluster, with_disk(GCE))
    assert not feasible(cluster, with_disk(GCE))
    refused = {VolumeRestrictions.name}
    helped = []
    for name in ("three", "one", "two"):
        pod_class, _, _ = cluster.find_pod(f"other/{name}") or pytest.fail("it is there")
        cluster.remove_pod(f"other/{name}")
        helped.append(can_help(cluster, waiting, refused, PodDeleted(pod_class, 0)))
    assert helped == [False, False, True]
    cluster.add_node(default_node(B.build()))
    assert can_help(cluster, waiting, refused, NodeAdded(cluster.nodes.slot_of["b"]))


def test_preemption_frees_a_disk() -> None:
    """Only the pods that have the disk leave, on the node where nobody of the same priority has it."""
    cluster = cluster_with(A, B)
    for name, node, priority, source in (
        ("holder", "a", 0, GCE),
        ("reader", "a", 0, GCE_READ),
        ("other", "a", 0, EBS),
        ("equal", "b", 9, GCE),
    ):
        cluster.add_pod(created(with_disk(source, name).priority(priority).on(node).build()))
    found = preempt(cluster, class_of(cluster, with_disk(GCE).priority(9)), budgets=[], started=lambda _: 0.0)

    assert found.node == "a"
    assert {victim.partition("/")[2] for victim in found.victims} == {"holder", "reader"}


# --- compared with the reference ------------------------------------------------------------------

SOURCES = (GCE, GCE_READ, EBS, ISCSI, ISCSI_READ, RBD, RBD_READ, rbd("m1"), rbd("m3"), rbd("m1", image="j"))


class Random:
    """A cluster in which pods with disks and claims come and go, and the same as plain objects."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - no secrets
        disabled = frozenset({"VolumeBinding", "VolumeZone", "NodeVolumeLimits"})
        self.cluster = Cluster(Options(disabled=disabled), expected_nodes=1)
        self.cluster.volumes.known = True
        modes = (("ReadWriteOncePod",), ("ReadWriteOnce",))
        self.claims = [make_claim(f"c{i}", modes=mode) for i, mode in enumerate(modes)]
        for claim in self.claims:
            self.cluster.volumes.set_claim(claim)
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.fresh = count()

    def pod(self, name: str, disks: int) -> PodBuilder:
        pod = make_pod(name)
        for source in self.chance.sample(SOURCES, disks):
            pod = pod.disk(**source)
        return pod.mounts(f"c{self.chance.randrange(2)}") if self.chance.random() < 0.2 else pod

    def happen(self) -> None:
        choice, node = self.chance.random(), f"n{self.chance.randrange(5)}"
        if choice < 0.3:
            self.nodes[node] = default_node(make_node(node).build())
            self.cluster.add_node(self.nodes[node])
        elif choice < 0.7:
            name = f"p{next(self.fresh)}"
            self.pods[name] = created(self.pod(name, self.chance.randrange(3)).on(node).build())
            self.cluster.add_pod(self.pods[name])
        elif choice < 0.95 and self.pods:
            name = self.chance.choice(sorted(self.pods))
            del self.pods[name]
            self.cluster.remove_pod(f"default/{name}")
        elif node in self.nodes:
            del self.nodes[node]
            self.cluster.remove_node(node)

    def expected(self, pod: Pod, without: str = "") -> dict[str, tuple[str, ...]]:
        pods = [other for name, other in self.pods.items() if name != without]
        found = reject(World(self.nodes.values(), pods, storage=self.claims), pod)
        return {node: status.reasons for node, status in found.items()}

    def answered(self, pod: Pod, without: str = "") -> dict[str, tuple[str, ...]]:
        pod_class = self.cluster.class_of(pod)
        rule = next(r for r in plan_for(self.cluster, pod_class).rules if isinstance(r, VolumeRestrictions))
        gone = [self.cluster.pods.index[f"default/{without}"]] if without else []
        pods = np.array(gone, dtype=np.intp)
        removal = HypotheticalRemoval(RemovablePods(self.cluster, pods), np.ones(len(pods), dtype=np.bool_))
        slots = np.flatnonzero(self.cluster.nodes.alive[: self.cluster.nodes.count])
        names = self.cluster.nodes.names
        return {
            names[slot] or "": found.reasons
            for found in rule.verdicts(slots, removal)
            for slot in found.slots.tolist()
        }


@pytest.mark.parametrize("seed", range(15))
def test_after_any_changes_the_answers_are_the_references(seed: int) -> None:
    """Whatever came and went, nodes are refused as the reference does, also with a pod imagined gone."""
    given = Random(seed)
    for _ in range(80):
        given.happen()
        probe = created(given.pod("x", 2).build())
        expected = given.expected(probe)
        assert given.answered(probe) == expected
        plan = plan_for(given.cluster, given.cluster.class_of(probe))
        names, blocked = given.cluster.nodes.names, plan.blocked()
        assert {name for slot, name in enumerate(names) if name and blocked[slot]} == expected.keys()
        (rule,) = (rule for rule in plan.rules if isinstance(rule, VolumeRestrictions))
        said = {name: rule.verdict(slot) for slot, name in enumerate(names) if name}
        assert {name: found.reasons for name, found in said.items() if found} == expected
        on_nodes = sorted(name for name, pod in given.pods.items() if pod.spec.node_name in given.nodes)
        if on_nodes:
            gone = given.chance.choice(on_nodes)
            node = given.pods[gone].spec.node_name or ""
            assert given.answered(probe, gone).get(node) == given.expected(probe, gone).get(node)
