"""Hollow nodes register, keep their leases and do with pods what a kubelet would."""

from __future__ import annotations

from typing import Any

import pytest

from berth.controllers.hollow.leases import Leases
from berth.controllers.hollow.pods import Kubelets
from berth.controllers.hollow.registration import Registration, Shape, make_nodes
from berth.engine.state.options import Options
from berth.kube.api_resources import LEASES, NODES, PODS
from berth.kube.gates import FeatureGates
from berth.kube.times import stamp
from berth.machines.contract import Delete, Update
from tests.support.builders import EXECUTION
from tests.support.scripts.script import Script, verbs


def script(nodes: int = 2, **shape: Any) -> Script:
    wanted = make_nodes(Shape(nodes=nodes, **shape))
    world = Script(lambda cache: Registration(cache, wanted), lambda _cache: Leases(), Kubelets)
    world.settle()
    return world


def run(world: Script, name: str, node: str = "node-0001", **spec: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "annotations": spec.pop("annotations", {}),
        "labels": spec.pop("labels", {}),
    }
    cpu = spec.pop("cpu", "1")
    container = {
        "name": "c",
        "image": "i",
        "resources": {"requests": {"cpu": cpu}},
        **spec.pop("container", {}),
    }
    world.create(PODS, {"metadata": metadata, "spec": {"nodeName": node, "containers": [container], **spec}})
    world.settle()
    return world.get(PODS, name)


def test_nodes_are_dealt_out_to_zones_and_racks() -> None:
    """Twelve nodes in three zones of two racks are two nodes a rack."""
    world = script(12, zones=3, racks=2)
    labels = [node["metadata"]["labels"] for node in world.all(NODES)]
    racks = [entry["rack"] for entry in labels]
    assert {2} == {racks.count(rack) for rack in racks}
    assert len({entry["topology.kubernetes.io/zone"] for entry in labels}) == 3
    assert len({node["status"]["addresses"][0]["address"] for node in world.all(NODES)}) == 12


def test_a_deleted_node_is_not_registered_again() -> None:
    """A node that a user deletes is not registered again by a running kubelet."""
    world = script(2)
    world.delete(NODES, "node-0002")
    world.advance(60)
    assert world.names(NODES) == ["node-0001"]


def test_a_node_that_others_gave_up_says_that_it_is_ready() -> None:
    """After a pause of all hollow nodes they come back by themselves."""
    world = script(1)
    world.change(NODES, "node-0001", {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})
    world.settle()
    conditions = {c["type"]: c["status"] for c in world.get(NODES, "node-0001")["status"]["conditions"]}
    assert conditions["Ready"] == "True"


def test_every_lease_is_renewed_in_time_and_renewals_are_spread() -> None:
    """A hundred nodes make some eight renewals a second, not a hundred every twelve seconds."""
    world = script(100)
    world.advance(20)
    assert len(world.names(LEASES)) == 100
    world.done.clear()
    counts = []
    for _ in range(12):
        before = len(world.done)
        world.advance(1)
        counts.append(len(world.done) - before)
    assert {"update"} == set(verbs(world.done, LEASES))
    assert (sum(counts), max(counts) <= 15) == (100, True)


def test_a_conflict_on_a_lease_is_read_and_renewed() -> None:
    """Somebody else's write costs one interval, not the lease."""
    world = script(1)
    world.advance(11)
    world.machines[1]._nodes["node-0001"].version = ""
    world.done.clear()
    world.advance(20)
    assert verbs(world.done, LEASES)[:2] == ["get", "update"]
    assert any(isinstance(action, Update) for action in world.done)


def test_large_clusters_renew_more_slowly_with_longer_leases() -> None:
    """There are no more than a hundred renewals a second, and leases last accordingly."""
    world = script(2000)
    world.advance(40)
    world.done.clear()
    world.advance(10)
    assert 900 <= len(world.done) <= 1100
    assert world.all(LEASES)[0]["spec"]["leaseDurationSeconds"] == 80


def test_a_pod_runs_as_soon_as_it_is_bound() -> None:
    """A bound pod runs with conditions, container statuses and an address of its node's range."""
    world = script(1)
    status = run(world, "p")["status"]
    assert status["phase"] == "Running"
    assert {"True"} == {condition["status"] for condition in status["conditions"]}
    assert status["podIP"].startswith("10.0.1.")
    other = run(world, "q")["status"]
    assert status["podIP"] != other["podIP"]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"cpu": "9"}, "OutOfcpu"),
        ({"nodeSelector": {"disk": "ssd"}}, "NodeAffinity"),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        EXECUTION: {
                            "nodeSelectorTerms": [{"matchExpressions": [{"key": "x", "operator": "Exists"}]}]
                        }
                    }
                }
            },
            "NodeAffinity",
        ),
        (
            {
                "annotations": {
                    "berth.dev/affinity": f"nodeAffinity: {{{EXECUTION}: {{nodeSelectorTerms: "
                    "[{matchExpressions: [{key: x, operator: Exists}]}]}}"
                }
            },
            "NodeAffinity",
        ),
        ({"container": {"ports": [{"hostPort": 80, "containerPort": 80}]}}, "NodePorts"),
    ],
)
def test_what_does_not_fit_is_rejected_with_the_kubelets_reason(spec: dict[str, Any], reason: str) -> None:
    """A pod that does not fit ends in phase Failed with the kubelet's reason."""
    world = script(1)
    run(world, "other", container={"ports": [{"hostPort": 80, "containerPort": 80}]})
    status = run(world, "p", **spec)["status"]
    assert ("Failed", reason) == (status["phase"], status["reason"])
    assert status["message"].startswith("Pod was rejected: ")


def beside(rules: str, app: str, topology: str = "kubernetes.io/hostname") -> dict[str, Any]:
    """A rule about other pods that must hold during execution."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": topology}
    return {"affinity": {rules: {EXECUTION: [term]}}}


def test_a_pod_is_not_admitted_beside_one_it_must_not_be_with() -> None:
    """A kubelet rejects a pod whose anti-affinity, or another pod's, forbids the node."""
    world = script(2)
    run(world, "noise", labels={"app": "noise"})
    alone = beside("podAntiAffinity", "noise")
    status = run(world, "shy", **alone)["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "InterPodAffinity")
    assert run(world, "far", "node-0002", **alone)["status"]["phase"] == "Running"
    status = run(world, "loud", "node-0002", labels={"app": "noise"})["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "InterPodAffinity")


def test_a_pod_is_not_admitted_where_those_are_missing_that_it_must_be_with() -> None:
    """Those that are to run there will do; whoever may be the first of its group may be alone."""
    world = script(2)
    near = beside("podAffinity", "lead")
    status = run(world, "early", **near)["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "InterPodAffinity")
    assert run(world, "first", labels={"app": "lead"}, **near)["status"]["phase"] == "Running"
    assert run(world, "follower", **near)["status"]["phase"] == "Running"


def test_two_that_arrive_together_find_each_other() -> None:
    """Two pods that arrive together run beside each other, whichever is looked at first."""
    world = script(1)
    container = {"name": "c", "image": "i"}
    near = beside("podAffinity", "lead")["affinity"]
    spec = {"nodeName": "node-0001", "containers": [container]}
    world.create(PODS, {"metadata": {"name": "a"}, "spec": {**spec, "affinity": near}})
    world.create(PODS, {"metadata": {"name": "b", "labels": {"app": "lead"}}, "spec": spec})
    world.settle()
    assert {pod["status"]["phase"] for pod in world.all(PODS)} == {"Running"}


def test_what_a_node_cannot_know_is_not_asked_of_it() -> None:
    """A rule about a zone is not asked of a node, which does not know the zone's other nodes."""
    world = script(1, zones=1)
    zone = "topology.kubernetes.io/zone"
    run(world, "noise", labels={"app": "noise"})
    for name, rules, app in (("near", "podAffinity", "lead"), ("away", "podAntiAffinity", "noise")):
        assert run(world, name, **beside(rules, app, zone))["status"]["phase"] == "Running"


def test_with_the_gate_off_neighbours_do_not_matter() -> None:
    """With PodAffinityEviction off a hollow kubelet runs a pod beside one it should avoid."""
    options = Options(gates=FeatureGates(pod_affinity_eviction=False))
    wanted = make_nodes(Shape(nodes=1))
    world = Script(lambda cache: Registration(cache, wanted), lambda cache: Kubelets(cache, options=options))
    world.settle()
    run(world, "noise", labels={"app": "noise"})
    assert run(world, "shy", **beside("podAntiAffinity", "noise"))["status"]["phase"] == "Running"


def test_a_node_takes_no_more_pods_than_it_says() -> None:
    """Finished pods no longer count."""
    world = script(1, pods=2)
    for name in ("a", "b", "c"):
        run(world, name, cpu="100m")
    assert world.get(PODS, "c")["status"]["reason"] == "OutOfpods"
    world.finish("a", "Succeeded")
    assert run(world, "d", cpu="100m")["status"]["phase"] == "Running"


def test_a_noexecute_taint_rejects_pods() -> None:
    """A NoExecute taint rejects what slipped past the scheduler, as the kubelet does."""
    world = script(1)
    world.change(NODES, "node-0001", {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}})
    assert run(world, "p")["status"]["reason"] == "TaintToleration"


@pytest.mark.parametrize(("code", "phase"), [("0", "Succeeded"), ("3", "Failed")])
def test_pods_that_are_not_restarted_finish(code: str, phase: str) -> None:
    """After a second, or what the annotation says, with the exit code it says."""
    world = script(1)
    annotations = {"berth.dev/run-for": "5s", "berth.dev/exit-code": code}
    run(world, "p", restartPolicy="Never", annotations=annotations)
    run(world, "quick", restartPolicy="Never")
    world.advance(2)
    assert (
        world.get(PODS, "p")["status"]["phase"],
        world.get(PODS, "quick")["status"]["phase"],
    ) == ("Running", "Succeeded")
    world.advance(5)
    status = world.get(PODS, "p")["status"]
    assert phase == status["phase"]
    assert int(code) == status["containerStatuses"][0]["state"]["terminated"]["exitCode"]


@pytest.mark.parametrize("given", ["10.².0.0/24", "10.x.y.0/24", "10.-1.0.0/24"])
def test_a_pod_range_that_is_none_keeps_nobody_from_registering(given: str) -> None:
    """Whatever a node says its pods' addresses are, the next nodes get theirs."""
    world = script(1)
    world.create(NODES, {"metadata": {"name": "odd"}, "spec": {"podCIDR": given}})
    world.settle()
    assert world.get(NODES, "node-0001")["spec"]["podCIDR"] == "10.0.1.0/24"


@pytest.mark.parametrize(
    ("given", "host", "address"),
    [
        ("10.1.2.0/24", "172.16.1.2", "10.1.2.2"),
        ("192.168.3.0/24", "192.168.3.1", "192.168.3.2"),
        ("192.168.3.64/28", "192.168.3.65", "192.168.3.66"),
        ("fd00:1::/64", "fd00:1::1", "fd00:1::2"),
        ("10.1.2.3/32", "172.16.1.2", "10.255.255.2"),
        ("nonsense", "10.255.255.1", "10.255.255.2"),
    ],
)
def test_pods_have_addresses_of_their_nodes_range(given: str, host: str, address: str) -> None:
    """Whatever range somebody else gave the node; pods of one that has none get addresses, too."""
    world = script(0)
    room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    metadata = {"name": "odd", "labels": {"berth.dev/hollow": "true"}}
    status = {"capacity": room, "allocatable": room}
    world.create(NODES, {"metadata": metadata, "spec": {"podCIDR": given}, "status": status})
    world.settle()
    run(world, "p", node="odd")
    world.advance(2)
    seen = world.get(PODS, "p")["status"]
    assert (seen["hostIP"], seen["podIP"]) == (host, address)


@pytest.mark.parametrize("code", ["²", "--5", "-1", "2147483648", "x"])
def test_an_exit_code_that_is_none_is_a_failure(code: str) -> None:
    """What is no exit code ends the containers with 1."""
    world = script(1)
    run(world, "p", restartPolicy="Never", annotations={"berth.dev/exit-code": code})
    world.advance(2)
    (status,) = world.get(PODS, "p")["status"]["containerStatuses"]
    assert status["state"]["terminated"]["exitCode"] == 1


def test_failing_containers_are_restarted_with_on_failure() -> None:
    """The pod goes on, and the restarts are counted."""
    world = script(1)
    run(world, "p", restartPolicy="OnFailure", annotations={"berth.dev/exit-code": "1"})
    world.advance(40)
    status = world.get(PODS, "p")["status"]
    assert status["phase"] == "Running"
    assert status["containerStatuses"][0]["restartCount"] >= 2


def test_deleting_takes_two_steps() -> None:
    """The kubelet stops the containers and then removes the pod for good."""
    world = script(1)
    run(world, "p", annotations={"berth.dev/stop-after": "10s"})
    world.delete(PODS, "p")
    world.advance(9)
    assert world.names(PODS) == ["p"]
    world.advance(2)
    assert world.names(PODS) == []
    assert next(action.grace for action in world.done if isinstance(action, Delete)) == 0


def test_a_pod_is_ready_again_when_its_node_is_back() -> None:
    """A pod that was reported not ready with its node is Ready again when the node is back."""
    world = script(1)
    run(world, "p")
    lost = {"type": "Ready", "status": "False", "reason": "NodeNotReady"}
    world.change(PODS, "p", {"status": {"conditions": [lost]}})
    world.settle()
    conditions = {c["type"]: c["status"] for c in world.get(PODS, "p")["status"]["conditions"]}
    assert conditions["Ready"] == "True"


def test_a_node_without_power_does_nothing() -> None:
    """A node without power renews no lease and runs no pod, and catches up when it is back."""
    world = script(1)
    world.change(NODES, "node-0001", {"metadata": {"annotations": {"berth.dev/power": "off"}}})
    world.done.clear()
    run(world, "p")
    world.advance(60)
    assert world.done == []
    world.change(NODES, "node-0001", {"metadata": {"annotations": {"berth.dev/power": None}}})
    world.settle()
    assert world.get(PODS, "p")["status"]["phase"] == "Running"


# --- nodes of others ------------------------------------------------------------------------------


def apply_node(world: Script, name: str, labels: dict[str, str] | None = None, **status: Any) -> None:
    world.create(NODES, {"metadata": {"name": name, "labels": labels or {}}, "spec": {}, "status": status})


def test_an_applied_node_that_nobody_runs_becomes_hollow() -> None:
    """Its pods run, with addresses of their own, and what its manifest says stays."""
    world = script(1)
    apply_node(
        world, "mine", {"disk": "ssd", "kubernetes.io/hostname": "h"}, allocatable={"cpu": "2", "pods": "9"}
    )
    apply_node(world, "bare")
    world.settle()
    mine, bare = world.get(NODES, "mine"), world.get(NODES, "bare")
    assert {"disk": "ssd", "kubernetes.io/hostname": "h", "berth.dev/hollow": "true"}.items() <= (
        mine["metadata"]["labels"].items()
    )
    assert [node["status"]["allocatable"]["cpu"] for node in (mine, bare)] == ["2", "8"]
    assert len({node["spec"]["podCIDR"] for node in world.all(NODES)}) == 3
    assert run(world, "a", "mine")["status"]["phase"] == "Running"
    assert run(world, "b", "bare")["status"]["phase"] == "Running"
    assert len({pod["status"]["podIP"] for pod in world.all(PODS)}) == 2
    world.advance(120)
    assert {"node-0001", "mine", "bare"} == set(world.names(LEASES))


def test_a_node_from_a_dump_is_run_although_it_says_that_it_is_ready() -> None:
    """A node whose kubelet reported to another cluster, long ago, is run here."""
    world = script(0)
    old = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2025-01-01T00:00:00Z"}
    apply_node(world, "old", conditions=[old], allocatable={"cpu": "2", "pods": "9"})
    world.settle()
    assert run(world, "a", "old")["status"]["phase"] == "Running"


def test_a_node_with_a_kubelet_is_left_to_it() -> None:
    """A fresh heartbeat or a lease is enough; without a lease it is taken over when the heartbeats end."""
    world = script(0)
    for name in ("leased", "beating"):
        fresh = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
        apply_node(world, name, conditions=[fresh])
    world.create(LEASES, {"metadata": {"name": "leased", "namespace": "kube-node-lease"}})
    world.advance(39)
    assert not any("berth.dev/hollow" in node["metadata"]["labels"] for node in world.all(NODES))
    world.advance(300)
    hollow = [
        n["metadata"]["name"] for n in world.all(NODES) if "berth.dev/hollow" in n["metadata"]["labels"]
    ]
    assert hollow == ["beating"]


def test_a_node_may_say_that_it_is_not_to_be_run() -> None:
    """The label's value false keeps a node as it is, and its pods wait."""
    world = script(0)
    apply_node(world, "mine", {"berth.dev/hollow": "false"})
    world.advance(300)
    assert world.get(NODES, "mine")["status"] == {}
    assert "status" not in run(world, "a", "mine")


def test_a_pod_waits_for_its_readiness_gates() -> None:
    """It runs, but is ready only while every condition that it names as a gate is true."""
    world = script(1)
    status = run(world, "p", readinessGates=[{"conditionType": "a/b"}])["status"]

    def ready(**gate: str) -> tuple[str, str]:
        if gate:
            conditions = world.get(PODS, "p")["status"]["conditions"]
            others = [entry for entry in conditions if entry["type"] != "a/b"]
            told = {"type": "a/b", "status": gate["status"], "lastTransitionTime": stamp(world.now)}
            world.change(PODS, "p", {"status": {"conditions": [*others, told]}})
            world.settle()
        conditions = world.get(PODS, "p")["status"]["conditions"]
        (found,) = (entry for entry in conditions if entry["type"] == "Ready")
        return found["status"], found.get("message") or ""

    assert status["phase"] == "Running"
    assert ready() == ("False", 'corresponding condition of pod readiness gate "a/b" does not exist.')
    assert ready(status="True") == ("True", "")
    assert ready(status="False") == (
        "False",
        'the status of pod readiness gate "a/b" is not "True", but False',
    )


def test_extended_capacity_can_be_allocated() -> None:
    """What a node is given of an extended resource is allocatable, and no longer when it is taken away."""
    world = script(1)
    world.change(NODES, "node-0001", {"status": {"capacity": {"example.com/gpu": "3"}}}, "")
    world.settle()
    assert world.get(NODES, "node-0001", "")["status"]["allocatable"]["example.com/gpu"] == "3"
    world.change(NODES, "node-0001", {"status": {"capacity": {"example.com/gpu": None}}}, "")
    world.settle()
    assert "example.com/gpu" not in world.get(NODES, "node-0001", "")["status"]["allocatable"]
