"""What quotas say of exclusive domains on a stock cluster follows what is there, and loses no charge."""

from __future__ import annotations

from typing import Any

from berth.charging import ExclusiveCharges
from berth.kube.api_resources import NAMESPACES, NODES, PODS, RESOURCE_QUOTAS, Resource
from berth.kube.objects import LivePod, Namespace, Node, ResourceQuota
from berth.kube.quota.charging import LASTS, noted, pending_in
from berth.kube.quota.exclusive import BlockedNodes
from berth.kube.text.decoding import convert
from berth.kube.well_known import ADDED, DELETED, EXCLUSIVE_PENDING, MODIFIED
from berth.machines.cache import Cache
from berth.machines.contract import Event, Outcome, Patch
from tests.support.builders import HOSTNAME

Json = dict[str, Any]
NOW = 1_800_000_000.0
TERM = {"topologyKey": HOSTNAME, "labelSelector": {}, "namespaceSelector": {}}
RULES = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}
VIEWS: dict[Resource, type[Any]] = {
    NAMESPACES: Namespace,
    NODES: Node,
    PODS: LivePod,
    RESOURCE_QUOTAS: ResourceQuota,
}


class Cluster:
    """The machine and what it has seen; versions are counted."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.machine = ExclusiveCharges(self.cache)
        self.version = 0

    def show(self, resource: Resource, raw: Json, change: str = ADDED) -> None:
        self.version += 1
        metadata = {"resourceVersion": str(self.version), "uid": raw["metadata"]["name"], **raw["metadata"]}
        item = convert({**raw, "metadata": metadata}, VIEWS[resource])
        old = self.cache.look(resource, (metadata.get("namespace", ""), metadata["name"]))
        event = Event(resource, change, item, old)
        self.cache.handle(event)
        self.machine.handle(event)

    def node(self, name: str, cpu: str, change: str = ADDED) -> None:
        status = {"allocatable": {"cpu": cpu, "memory": "1Gi"}}
        self.show(NODES, {"metadata": {"name": name, "labels": {HOSTNAME: name}}, "status": status}, change)

    def pod(self, name: str, node: str = "", change: str = ADDED, **spec: Any) -> None:
        placed = {"nodeName": node} if node else {}
        raw = {"metadata": {"name": name, "namespace": "n"}, "spec": {"affinity": RULES, **placed, **spec}}
        self.show(PODS, raw, change)

    def quota(self, used: Json | None = None, note: str | None = None, change: str = ADDED) -> None:
        hard = {"berth.dev/exclusive.cpu": "9", "berth.dev/exclusive.nodes": "9", "pods": "9"}
        metadata = {
            "name": "q",
            "namespace": "n",
            **({"annotations": {EXCLUSIVE_PENDING: note}} if note else {}),
        }
        status = {"hard": hard, "used": {"pods": "1", **(used or {})}}
        self.show(RESOURCE_QUOTAS, {"metadata": metadata, "spec": {"hard": hard}, "status": status}, change)

    def writes(self, now: float = NOW) -> list[Json]:
        """What is written to the quota, which nobody else has written to since."""
        made = self.machine.reconcile(now)
        for action in made:
            assert isinstance(action, Patch)
            assert isinstance(action.body, dict)
            assert action.subresource == "status"
            assert action.body["metadata"]["resourceVersion"]
            self.machine.done(action, Outcome(now))
        return [action.body for action in made if isinstance(action, Patch) and isinstance(action.body, dict)]


def charges(body: Json) -> Json:
    return {name.rpartition(".")[2]: amount for name, amount in body["status"]["used"].items()}


def test_what_is_there_is_counted() -> None:
    """A quota gets to know at once, when a pod gets its node, when a node changes, and when a pod goes."""
    cluster = Cluster()
    cluster.node("a", "4")
    cluster.node("b", "8")
    cluster.quota()
    assert [charges(body) for body in cluster.writes()] == [{"cpu": "0", "nodes": "0"}]
    cluster.quota({"berth.dev/exclusive.cpu": "0", "berth.dev/exclusive.nodes": "0"}, change=MODIFIED)
    assert cluster.writes() == []
    cluster.pod("p")
    assert [charges(body) for body in cluster.writes()] == [{"cpu": "8", "nodes": "1"}]
    cluster.pod("p", "a", change=MODIFIED)
    assert [charges(body) for body in cluster.writes()] == [{"cpu": "4", "nodes": "1"}]
    cluster.node("a", "6", change=MODIFIED)
    assert [charges(body) for body in cluster.writes()] == [{"cpu": "6", "nodes": "1"}]
    cluster.pod("p", "a", change=DELETED)
    assert cluster.writes() == []  # the quota as it was seen says 0 still


def test_ordinary_pods_wake_nobody() -> None:
    """Neither they nor heartbeats of nodes make it look at a quota."""
    cluster = Cluster()
    cluster.node("a", "4")
    cluster.quota({"berth.dev/exclusive.cpu": "0", "berth.dev/exclusive.nodes": "0"})
    assert cluster.writes() == []
    cluster.pod("p", affinity=None)
    cluster.node("a", "4", change=MODIFIED)
    assert cluster.machine.due() is None


def test_a_charge_is_kept_until_its_pod_is_seen() -> None:
    """What the webhook let in counts before the watch shows it, and no longer than a pod may take."""
    cluster = Cluster()
    cluster.node("a", "4")
    note = noted({"p": (NOW, BlockedNodes(1, 4000, 1)), "refused": (NOW, BlockedNodes(1, 4000, 1))})
    charged = {"berth.dev/exclusive.cpu": "8", "berth.dev/exclusive.nodes": "2"}
    cluster.quota(charged, note)
    assert cluster.writes() == []
    cluster.pod("p")
    (body,) = cluster.writes()
    assert charges(body) == {"cpu": "8", "nodes": "2"}
    assert list(pending_in({"metadata": body["metadata"]}, NOW)) == ["refused"]
    cluster.quota(charged, body["metadata"]["annotations"][EXCLUSIVE_PENDING], change=MODIFIED)
    (body,) = cluster.writes(NOW + LASTS + 1)
    assert charges(body) == {"cpu": "4", "nodes": "1"}
    assert body["metadata"]["annotations"] == {EXCLUSIVE_PENDING: None}


def test_nonsense_in_the_note_is_no_charge() -> None:
    """Whoever may write to a quota cannot stop the count with it."""
    for text in (
        "[]",
        "{",
        '{"a": 1}',
        '{"a": [1, 2]}',
        '{"a": ["x", [1, 2, 3]]}',
        '{"a": [1e18, [1, 2, 3]]}',
    ):
        assert pending_in({"metadata": {"annotations": {EXCLUSIVE_PENDING: text}}}, NOW) == {}


def test_namespaces_are_followed() -> None:
    """A rule against one that is not there blocks nobody; when it comes the quota is told."""
    cluster = Cluster()
    cluster.node("a", "4")
    cluster.quota()
    term = {"topologyKey": HOSTNAME, "labelSelector": {}, "namespaces": ["later"]}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster.pod("p", "a", affinity=rules)
    assert [charges(body) for body in cluster.writes()] == [{"cpu": "0", "nodes": "0"}]
    cluster.show(NAMESPACES, {"metadata": {"name": "later"}})
    assert [charges(body) for body in cluster.writes()] == [{"cpu": "4", "nodes": "1"}]
