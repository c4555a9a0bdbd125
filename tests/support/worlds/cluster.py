"""One test's part of a cluster: it makes nodes and pods, and waits for what becomes of them.

Pods live in a namespace of the test's own; everything that belongs to the whole cluster is removed
in the end, so that the next test starts with nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from tests.support.api.client import MERGE, STRATEGIC, Answer, Client, Json
from tests.support.api.servers import Backend
from tests.support.builders import HOSTNAME, ZONE, NodeBuilder, PodBuilder, make_node, make_pod
from tests.support.processes.scheduler import NAME
from tests.support.waiting import polls

WAIT = 60.0
CORE, STORAGE, SCHEDULING = "/api/v1", "/apis/storage.k8s.io/v1", "/apis/scheduling.k8s.io"
CUSTOM_RESOURCES = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CLUSTER_WIDE = (
    f"{CORE}/nodes",
    f"{CORE}/persistentvolumes",
    f"{STORAGE}/storageclasses",
    f"{STORAGE}/csinodes",
    f"{STORAGE}/csidrivers",
    CUSTOM_RESOURCES,
)
# What the API server learns of a little later than the client that made it.
_NOT_YET = ("no PriorityClass with name", "not yet ready to handle request")
_Found = TypeVar("_Found")


class ClusterWorld:
    def __init__(self, backend: Backend, namespace: str, scheduler_name: str = NAME) -> None:
        self.backend = backend
        self.namespace = namespace
        self.scheduler_name = scheduler_name
        self.client: Client = backend.client()
        self._classes: list[str] = []
        self._namespaces: list[str] = []
        self.add_namespace(namespace)

    # --- making ------------------------------------------------------------------------------------

    def add_namespace(self, name: str, labels: dict[str, str] | None = None) -> None:
        metadata = {"name": name, "labels": labels or {}}
        if self.client.get(f"{CORE}/namespaces/{name}").status == 404:
            self.make(f"{CORE}/namespaces", {"metadata": metadata})
        self._namespaces.append(name)

    def make(self, path: str, body: Json) -> Json:
        """Create something that has to succeed, once the API server knows what it refers to."""
        for _ in polls(WAIT):
            answer = self.client.post(path, body)
            if answer.status == 201:
                return answer.json
            assert any(text in answer.body.decode() for text in _NOT_YET), answer.body
        raise AssertionError(f"{path} was not accepted in time")

    def nodes(self, *builders: NodeBuilder) -> None:
        for builder in builders:
            self.make(f"{CORE}/nodes", manifest(builder.build()))

    def pod(self, builder: PodBuilder, **spec: Any) -> str:
        """Create a pod for the scheduler under test; keywords are fields of its spec as they are written."""
        return str(self.add_pod(manifest(builder.build()), **spec)["metadata"]["name"])

    def add_pod(self, body: Json, namespace: str | None = None, **spec: Any) -> Json:
        metadata = body["metadata"]
        # Builders name a namespace and a uid, which are the server's to give.
        metadata = {name: value for name, value in metadata.items() if name not in ("namespace", "uid")}
        full = {
            "schedulerName": self.scheduler_name,
            "terminationGracePeriodSeconds": 0,
            **body["spec"],
            **spec,
        }
        return self.make(self.path("pods", namespace=namespace), {**body, "metadata": metadata, "spec": full})

    def pods(self, *builders: PodBuilder) -> None:
        for builder in builders:
            self.pod(builder)

    def priority_class(self, name: str, value: int, **fields: Any) -> str:
        """A class of the test's own, whose full name is returned."""
        full = f"{self.namespace}-{name}"
        self._classes.append(full)
        self.make(f"{SCHEDULING}/v1/priorityclasses", {"metadata": {"name": full}, "value": value, **fields})
        return full

    # --- changing ----------------------------------------------------------------------------------

    def path(self, plural: str, name: str = "", prefix: str = CORE, namespace: str | None = None) -> str:
        path = f"{prefix}/namespaces/{namespace or self.namespace}/{plural}"
        return f"{path}/{name}" if name else path

    def patch(self, path: str, body: Json, kind: str = MERGE, **query: object) -> Json:
        return done(self.client.patch(path, body, kind, **query))

    def patch_pod(self, name: str, body: Json, kind: str = STRATEGIC) -> None:
        self.patch(self.path("pods", name), body, kind)

    def label_node(self, name: str, **labels: str) -> None:
        self.patch(f"{CORE}/nodes/{name}", {"metadata": {"labels": labels}})

    def delete_pod(self, name: str) -> None:
        done(self.client.delete(self.path("pods", name), None, gracePeriodSeconds=0))

    def delete_node(self, name: str) -> None:
        done(self.client.delete(f"{CORE}/nodes/{name}"))

    # --- seeing ------------------------------------------------------------------------------------

    def get(self, path: str) -> Json:
        return done(self.client.get(path))

    def get_pod(self, name: str) -> Json:
        return self.get(self.path("pods", name))

    def all_pods(self, namespace: str | None = None) -> list[Json]:
        items: list[Json] = self.get(self.path("pods", namespace=namespace))["items"]
        return items

    def until(self, find: Callable[[], _Found | None], what: str, wait: float = WAIT) -> _Found:
        """What `find` finds, as soon as it does."""
        for _ in polls(wait):
            found = find()
            if found:
                return found
        raise AssertionError(f"{what}: not within {wait:.0f} seconds\n{self._state()}")

    def node_of(self, name: str) -> str | None:
        node: str | None = self.get_pod(name)["spec"].get("nodeName")
        return node

    def bound(self, name: str) -> str:
        """The node a pod gets."""
        return self.until(lambda: self.node_of(name), f"{name} has a node")

    def placed(self, *names: str) -> dict[str, str]:
        return {name: self.bound(name) for name in names}

    def condition(self, name: str) -> Json:
        """The PodScheduled condition, empty while there is none."""
        conditions = self.get_pod(name).get("status", {}).get("conditions") or []
        return next((one for one in conditions if one["type"] == "PodScheduled"), {})

    def refused(self, name: str, containing: str = "") -> str:
        """What the PodScheduled condition says once a pod was found to fit nowhere (for this reason)."""

        def message() -> str | None:
            condition = self.condition(name)
            if condition.get("reason") != "Unschedulable":
                return None
            text = str(condition.get("message", ""))
            return text if containing in text else None

        return self.until(message, f"{name} is unschedulable: {containing}")

    def settled(self) -> None:
        """Wait until the scheduler has seen everything so far: it places a pod that came after."""
        self.nodes(make_node("marker").labels(marker="yes").taint("marker"))
        self.pod(make_pod("marker").node_selector(marker="yes").tolerates("marker"))
        self.bound("marker")
        self.delete_pod("marker")
        self.delete_node("marker")

    def passed_over(self, *names: str) -> None:
        """The scheduler has been through with everything so far, and these pods still wait."""
        self.settled()
        assert dict.fromkeys(names) == {name: self.node_of(name) for name in names}

    def events(self, name: str, reason: str) -> list[Json]:
        """The events about a pod, once there is one."""

        def found() -> list[Json]:
            items = self.get(self.path("events"))["items"]
            return [
                item for item in items if item["involvedObject"]["name"] == name and item["reason"] == reason
            ]

        return self.until(found, f"a {reason} event for {name}")

    def _state(self) -> str:
        lines = [f"{p['metadata']['name']}: {p['spec'].get('nodeName')}" for p in self.all_pods()]
        return "\n".join(lines[:40])

    # --- leaving -----------------------------------------------------------------------------------

    def clear(self) -> None:
        """Remove what the test made."""
        for namespace in self._namespaces:
            self._empty(self.path("pods", namespace=namespace))
            self._empty(self.path("persistentvolumeclaims", namespace=namespace))
            self._empty(self.path("statefulsets", prefix="/apis/apps/v1", namespace=namespace))
            self._empty(self.path("poddisruptionbudgets", prefix="/apis/policy/v1", namespace=namespace))
        for path in _CLUSTER_WIDE:
            self._empty(path)
        for name in self._classes:
            self.client.delete(f"{SCHEDULING}/v1/priorityclasses/{name}")
        self.client.close()

    def _empty(self, path: str) -> None:
        self.client.delete(path, None, gracePeriodSeconds=0)
        for _ in polls(WAIT):
            left = self.client.get(path).json["items"]
            if not left:
                return
            for item in left:
                one = f"{path}/{item['metadata']['name']}"
                if item["metadata"].get("finalizers"):
                    self.client.patch(one, {"metadata": {"finalizers": None}})
                self.client.delete(one, None, gracePeriodSeconds=0)
        raise AssertionError(f"{path} cannot be emptied")


def manifest(thing: object) -> Json:
    """An object from the builders as it is sent."""
    raw: Json = msgspec.to_builtins(thing, str_keys=True)
    return raw


def done(answer: Answer) -> Json:
    assert answer.status < 300, answer.body
    return answer.json


def zoned(name: str, zone: str) -> NodeBuilder:
    return make_node(name).labels({HOSTNAME: name, ZONE: zone})
