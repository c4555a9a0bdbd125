"""How many volumes of a driver a node takes, and drivers that are missing."""

from __future__ import annotations

import random
from itertools import count

import numpy as np
import pytest

from berth.engine.execution.violations import placement_violations
from berth.engine.placement.plan import plan_for
from berth.engine.placement.queueing_hints import can_help
from berth.engine.rules.node_volume_limits.rule import NodeVolumeLimits
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import PodDeleted, VolumeDetached, VolumesChanged
from berth.engine.state.hypothetical_removal import HypotheticalRemoval, RemovablePods
from berth.engine.state.options import Options
from berth.kube.defaults import default_node
from berth.kube.objects import (
    CSIDriver,
    CSINode,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    VolumeAttachment,
)
from berth.kube.versions import VERSIONS
from tests.reference import Args, World
from tests.reference.rules.node_volume_limits import reject
from tests.reference.world import StorageObject
from tests.support.builders import PodBuilder, make_node, make_pod
from tests.support.storage import (
    causes,
    class_of,
    cluster_with,
    feasible,
    make_attachment,
    make_claim,
    make_class,
    make_csi_driver,
    make_csi_node,
    make_csi_volume,
    message,
    store,
)

DISK = make_class("disk", "disk.csi")
A, B = make_node("a"), make_node("b")
POD = make_pod("p").mounts("new")
NEW = make_claim("new", "disk")
FULL = "node(s) exceed max volume count."


def with_volume(cluster: Cluster, name: str, node: str, claim: str | None = None) -> None:
    claim = claim or name
    store(cluster, make_claim(claim, "disk", volume=f"pv-{claim}"))
    store(cluster, make_csi_volume(f"pv-{claim}", claim=claim))
    cluster.add_pod(make_pod(name).mounts(claim).on(node).build())


# --- limits ---------------------------------------------------------------------------------------


def test_a_node_takes_as_many_volumes_as_its_driver_says() -> None:
    """The volumes of the pods there count, and that of the newcomer; without a limit any number fits."""
    cluster = cluster_with(A, B, DISK, NEW, make_csi_node("a", disk=2), make_csi_node("b", disk=None))
    with_volume(cluster, "one", "a")
    assert feasible(cluster, POD) == ["a", "b"]
    with_volume(cluster, "two", "a")
    assert feasible(cluster, POD) == ["b"]
    words = ("2 volumes of disk.csi are attached, 1 more would exceed 2",)
    assert causes(cluster, POD, "a") == {"NodeVolumeLimits": words}
    cluster.remove_pod("default/one")
    assert feasible(cluster, POD) == ["a", "b"]


def test_a_volume_counts_once() -> None:
    """Two pods with one volume take one place, and a pod whose volume is attached already takes none."""
    cluster = cluster_with(A, DISK, NEW, make_csi_node("a", disk=1))
    with_volume(cluster, "one", "a", claim="shared")
    with_volume(cluster, "two", "a", claim="shared")
    assert message(cluster, POD) == f"1 {FULL}"
    assert feasible(cluster, make_pod("q").mounts("shared")) == ["a"]


def test_a_volume_takes_its_place_until_it_is_detached() -> None:
    """What is attached and mounted by nobody counts, the pod's own as well; what a pod mounts counts once."""
    cluster = cluster_with(A, DISK, NEW, make_csi_node("a", disk=2))
    with_volume(cluster, "one", "a")
    store(cluster, make_attachment("a", "pv-one"))
    assert feasible(cluster, POD) == ["a"]
    store(cluster, make_csi_volume("left"))
    store(cluster, make_attachment("a", "left"))
    assert message(cluster, POD) == f"1 {FULL}"
    assert causes(cluster, POD, "a") == {
        "NodeVolumeLimits": ("2 volumes of disk.csi are attached, 1 more would exceed 2",)
    }
    cluster.remove_pod("default/one")
    assert feasible(cluster, make_pod("again").mounts("one")) == []
    assert cluster.volumes.attachments.remove("a-left") == "a"
    assert feasible(cluster, make_pod("again").mounts("one")) == ["a"]


def test_running_pods_are_not_in_their_own_way() -> None:
    """Who audits a full node finds nothing wrong with the pods whose volumes are attached there."""
    cluster = cluster_with(A, DISK, make_csi_node("a", disk=1))
    with_volume(cluster, "one", "a")
    store(cluster, make_attachment("a", "pv-one"))
    assert placement_violations(cluster, ["default/one"]) == {"default/one": []}


def test_the_limit_of_one_driver_is_not_that_of_another() -> None:
    """Volumes are counted driver by driver."""
    tape = make_class("tape", "tape.csi")
    cluster = cluster_with(A, DISK, NEW, tape, make_claim("t", "tape"), make_csi_node("a", disk=0, tape=1))
    assert not feasible(cluster, POD)
    assert feasible(cluster, make_pod("q").mounts("t")) == ["a"]


def test_a_claim_becomes_the_volume_that_was_made_for_it() -> None:
    """When a running pod's claim is bound it still takes one place, under its volume's handle."""
    cluster = cluster_with(A, DISK, NEW, make_claim("own", "disk"), make_csi_node("a", disk=2))
    cluster.add_pod(make_pod("r").mounts("own").on("a").build())
    store(cluster, make_csi_volume("pv", claim="own"))
    store(cluster, make_claim("own", "disk", volume="pv"))
    assert feasible(cluster, POD) == ["a"]
    store(cluster, make_claim("alias", "disk", volume="pv"))
    cluster.add_pod(make_pod("s").mounts("alias").on("a").build())
    assert feasible(cluster, POD) == ["a"]


# --- drivers that are missing ---------------------------------------------------------------------


@pytest.mark.parametrize(("version", "nodes"), [("1.36", ["a", "b"]), ("1.37", ["b"])])
def test_a_driver_that_wants_to_be_there(version: str, nodes: list[str]) -> None:
    """Since 1.37 a driver may keep its pods off nodes that do not list it."""
    options = Options(version=VERSIONS[version])
    driver = make_csi_driver("disk", needed=True)
    cluster = cluster_with(A, B, DISK, NEW, driver, make_csi_node("b", disk=None), options=options)
    assert feasible(cluster, POD) == nodes
    cluster.volumes.csi.remove_node("b")
    if version == "1.37":
        assert message(cluster, POD) == "2 disk.csi CSI driver is not installed on the node."
    store(cluster, make_csi_driver("disk", needed=False))
    assert feasible(cluster, POD) == ["a", "b"]


# --- what helps -----------------------------------------------------------------------------------


def test_what_helps_a_pod_that_waits_for_room() -> None:
    """A pod with a volume that leaves helps, and one without does not; a change of volumes always may."""
    cluster = cluster_with(A, DISK, NEW, make_csi_node("a", disk=1))
    with_volume(cluster, "one", "a")
    cluster.add_pod(make_pod("plain").on("a").build())
    waiting = class_of(cluster, POD)
    assert not feasible(cluster, POD)
    refused = {NodeVolumeLimits.name}
    left = []
    for pod in ("plain", "one"):
        (pod_class, _, _) = cluster.find_pod(f"default/{pod}") or pytest.fail("it is there")
        cluster.remove_pod(f"default/{pod}")
        left.append(can_help(cluster, waiting, refused, PodDeleted(pod_class, 0)))
    assert left == [False, True]
    assert can_help(cluster, waiting, refused, VolumesChanged())
    for name in ("x", "y"):
        store(cluster, make_csi_volume(name))
        store(cluster, make_attachment("a", name))
    assert not feasible(cluster, POD)
    helped = []
    for name in ("x", "y"):
        cluster.volumes.attachments.remove(f"a-{name}")
        helped.append(can_help(cluster, waiting, refused, VolumeDetached(0)))
    assert helped == [False, True]


# --- compared with the reference ------------------------------------------------------------------


def mounting(name: str, *claims: str) -> PodBuilder:
    pod = make_pod(name)
    for claim in claims:
        pod = pod.mounts(claim)
    return pod


class Random:
    """A cluster to which anything about volumes may happen, and the same as plain objects."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - no secrets
        self.version = self.chance.choice(list(VERSIONS.values()))
        disabled = frozenset({"VolumeBinding", "VolumeZone", "VolumeRestrictions"})
        self.cluster = Cluster(Options(version=self.version, disabled=disabled), expected_nodes=1)
        self.cluster.volumes.known = True
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.storage: dict[tuple[type, str], StorageObject] = {}
        self.fresh = count()
        for thing in (DISK, make_class("tape", "tape.csi"), make_csi_driver("tape", needed=True)):
            self.put(thing)

    def put(self, thing: StorageObject) -> None:
        self.storage[type(thing), thing.metadata.name or ""] = thing
        store(self.cluster, thing)

    def drop(self, form: type[StorageObject]) -> None:
        names = [name for kind, name in self.storage if kind is form]
        if not names:
            return
        name = self.chance.choice(names)
        del self.storage[form, name]
        index = self.cluster.volumes
        if form is PersistentVolumeClaim:
            index.remove_claim("default", name)
        elif form is CSINode:
            index.csi.remove_node(name)
        elif form is CSIDriver:
            index.csi.remove_driver(name)
        elif form is VolumeAttachment:
            index.attachments.remove(name)
        elif form is StorageClass:
            index.remove_class(name)
        else:
            index.remove_volume(name)

    def happen(self) -> None:
        choice, driver = self.chance.random(), self.chance.choice(("disk", "tape"))
        claim, volume = (f"{kind}{self.chance.randrange(6)}" for kind in ("claim", "pv"))
        node = f"n{self.chance.randrange(4)}"
        if choice < 0.15:
            self.nodes[node] = default_node(make_node(node).build())
            self.cluster.add_node(self.nodes[node])
        elif choice < 0.45:
            name = f"p{next(self.fresh)}"
            claims = self.chance.sample(range(6), self.chance.randrange(4))
            pod = mounting(name, *(f"claim{i}" for i in claims)).on(node).build()
            self.pods[name] = pod
            self.cluster.add_pod(pod)
        elif choice < 0.55 and self.pods:
            name = self.chance.choice(sorted(self.pods))
            del self.pods[name]
            self.cluster.remove_pod(f"default/{name}")
        elif choice < 0.7:
            self.put(make_claim(claim, driver, volume=self.chance.choice((None, volume))))
        elif choice < 0.8:
            self.put(make_csi_volume(volume, driver))
        elif choice < 0.9:
            self.put(make_csi_node(node, **{driver: self.chance.choice((None, 0, 1, 2, 3))}))
        elif choice < 0.93:
            self.put(make_csi_driver(driver, needed=self.chance.random() < 0.5))
        elif node in self.nodes and choice < 0.95:
            del self.nodes[node]
            self.cluster.remove_node(node)
        elif choice < 0.96:
            kinds = (PersistentVolumeClaim, PersistentVolume, CSINode, CSIDriver, StorageClass)
            self.drop(self.chance.choice(kinds))
        elif choice < 0.99:
            self.put(make_attachment(node, volume, driver))
        else:
            self.drop(VolumeAttachment)

    def world(self, without: str | None = None) -> World:
        return World(
            self.nodes.values(),
            [pod for name, pod in self.pods.items() if name != without],
            storage=self.storage.values(),
            args=Args(version=self.version),
        )

    def expected(self, pod: Pod, without: str | None = None) -> dict[str, str]:
        """Node -> why it is refused; which of several missing drivers is named, is chance upstream."""
        found = reject(self.world(without), pod)
        return {node: status.reasons[0].rpartition(" CSI driver ")[2] for node, status in found.items()}

    def answered(self, pod: Pod, without: str | None = None) -> dict[str, str]:
        pod_class = self.cluster.class_of(pod)
        rule = next(r for r in plan_for(self.cluster, pod_class).rules if isinstance(r, NodeVolumeLimits))
        gone = [self.cluster.pods.index[f"default/{without}"]] if without else []
        pods = np.array(gone, dtype=np.intp)
        removal = HypotheticalRemoval(RemovablePods(self.cluster, pods), np.ones(len(pods), dtype=np.bool_))
        slots = np.flatnonzero(self.cluster.nodes.alive[: self.cluster.nodes.count])
        names = self.cluster.nodes.names
        return {
            names[slot] or "": found.reasons[0].rpartition(" CSI driver ")[2]
            for found in rule.verdicts(slots, removal)
            for slot in found.slots.tolist()
        }


@pytest.mark.parametrize("seed", range(25))
def test_after_any_changes_the_answers_are_the_references(seed: int) -> None:
    """Whatever came and went, nodes are refused as the reference does, also with a pod imagined gone."""
    given = Random(seed)
    probes = [mounting("x", "claim0", "claim1").build(), mounting("y", "claim2").build()]
    for _ in range(80):
        given.happen()
        for probe in probes:
            expected = given.expected(probe)
            assert given.answered(probe) == expected
            plan = plan_for(given.cluster, given.cluster.class_of(probe))
            names, blocked = given.cluster.nodes.names, plan.blocked()
            fast = {name for slot, name in enumerate(names) if name and blocked[slot]}
            assert fast == expected.keys()
        on_nodes = sorted(name for name, pod in given.pods.items() if pod.spec.node_name in given.nodes)
        if on_nodes:
            gone = given.chance.choice(on_nodes)
            node = given.pods[gone].spec.node_name
            one = {k: v for k, v in given.answered(probes[0], gone).items() if k == node}
            assert one == {k: v for k, v in given.expected(probes[0], gone).items() if k == node}
