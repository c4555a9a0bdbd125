"""A scheduler in the scripted world, and short words for what happens there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from berth.engine.state.options import Options
from berth.kube.api_resources import EVENTS, NODES, PODS, VIEWS, Resource
from berth.kube.objects import PartialObjectMetadata
from berth.machines.contract import Bind
from berth.scheduler.machine import Scheduler
from berth.scheduler.state import SchedulerSettings
from tests.support.builders import HOSTNAME, ZONE
from tests.support.scripts.script import Raw, Script


class SchedulerScript(Script):
    """One scheduler, named berth."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        profiles: Mapping[str, Options] = settings.pop("profiles", {"berth": Options()})
        made = SchedulerSettings(profiles=profiles, **settings)
        self.scheduler = Scheduler(made, clock=lambda: self.now, timer=lambda: 0.0)
        self.machines.append(self.scheduler)

    @staticmethod
    def view(resource: Resource, item: Raw) -> Any:
        return msgspec.convert(item, VIEWS.get(resource, PartialObjectMetadata))

    def nodes(self, *names: str, **spec: Any) -> None:
        for name in names:
            self.node(name, **spec)

    def zoned(self, **zones: str) -> None:
        for name, zone in zones.items():
            self.node(name, labels={ZONE: zone})

    def pod(self, name: str, cpu: str = "1", labels: Mapping[str, str] | None = None, **spec: Any) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        metadata = {"name": name, "labels": dict(labels or {})}
        spec = {"schedulerName": "berth", "containers": [container], **spec}
        self.create(PODS, {"metadata": metadata, "spec": spec})

    def running(self, name: str, node: str, cpu: str = "1", **more: Any) -> None:
        """A pod that somebody else placed."""
        self.pod(name, cpu, nodeName=node, **more)

    def node_of(self, name: str) -> str | None:
        node: str | None = self.get(PODS, name)["spec"].get("nodeName")
        return node

    @property
    def placements(self) -> dict[str, str | None]:
        return {name: self.node_of(name) for name in self.names(PODS)}

    @property
    def bindings(self) -> list[tuple[str, str]]:
        return [(action.name, action.node) for action in self.done if isinstance(action, Bind)]

    def events(self, reason: str | None = None) -> list[str]:
        return [e["message"] for e in self.all(EVENTS) if reason in (None, e["reason"])]

    def condition(self, name: str) -> tuple[str, str] | None:
        status = self.get(PODS, name).get("status", {})
        for found in status.get("conditions", ()):
            if found["type"] == "PodScheduled" and found["status"] == "False":
                return found["reason"], found["message"]
        return None

    def nominated(self, name: str) -> str | None:
        node: str | None = self.get(PODS, name).get("status", {}).get("nominatedNodeName")
        return node

    def leave(self, name: str) -> None:
        """A pod goes at once."""
        self.delete(PODS, name, grace=0)

    def drop_node(self, name: str) -> None:
        self.delete(NODES, name)


def anti(app: str, key: str = HOSTNAME) -> dict[str, Any]:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(app, key)]}}


def near(app: str, key: str = ZONE) -> dict[str, Any]:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(app, key)]}}


def term(app: str, key: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
