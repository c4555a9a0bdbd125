"""All of `berth up` in the scripted world: the controllers, the hollow nodes and the scheduler.

The server's part, what is stored of a pod or a template, is played here.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

from berth.cli.up.control_plane import ComponentGates, assemble
from berth.engine.state.options import DEFAULT_DAEMON_NAMESPACES, Options
from berth.eviction import EvictionSettings
from berth.kube import api_resources
from berth.kube.api_resources import NAMESPACES, PODS, Resource
from berth.kube.gates import FeatureGates
from berth.kube.manifests.manifest import Manifest, load
from berth.kube.well_known import DEFAULT_SCHEDULER_NAME
from berth.machines.cache import Cache
from berth.scheduler.machine import Scheduler
from berth.scheduler.state import SchedulerSettings
from berth.spreading import SpreadingSettings
from tests.support.builders import EXECUTION
from tests.support.scripts.script import Raw, Script

RESOURCES = {one.kind: one for one in vars(api_resources).values() if isinstance(one, Resource)}


class PlaneScript(Script):
    """Attributes:
    scheduler: The only one.
    """

    def __init__(
        self,
        gates: ComponentGates | None = None,
        daemon_namespaces: frozenset[str] = DEFAULT_DAEMON_NAMESPACES,
        spreading: SpreadingSettings | None = None,
    ) -> None:
        super().__init__()
        self._gates = gates or ComponentGates()
        options = Options(gates=self._gates.controllers, daemon_namespaces=daemon_namespaces)
        eviction = EvictionSettings(options=options)
        plane = assemble(RESOURCES.values(), gates=self._gates, eviction=eviction, spreading=spreading)
        options = Options(gates=self._gates.scheduler, daemon_namespaces=daemon_namespaces)
        settings = SchedulerSettings(profiles={DEFAULT_SCHEDULER_NAME: options})
        self.scheduler = Scheduler(settings, clock=lambda: self.now, timer=lambda: 0.0)
        self.cache: Cache = plane.cache
        self.machines = [*plane.controllers, self.scheduler]
        for name in ("default", "kube-system"):
            self.create(NAMESPACES, {"metadata": {"name": name}})

    def create(self, resource: Resource, body: Raw) -> Raw:
        if resource is PODS:
            body = copy.deepcopy(body)
            body["spec"].setdefault("schedulerName", DEFAULT_SCHEDULER_NAME)
            body["status"] = {}
            _drop_disabled(body["spec"], self._gates.server)
        elif not body["metadata"].get("ownerReferences") and "template" in body.get("spec", {}):
            body = copy.deepcopy(body)
            _drop_disabled(body["spec"]["template"]["spec"], self._gates.server)
        return super().create(resource, body)

    def upgrade(self, server: FeatureGates) -> None:
        """From now on the server has other gates; what is stored stays."""
        self._gates = replace(self._gates, server=server)

    def apply(self, *files: Path) -> None:
        """Create what is in the files, in their order, and let it work."""
        for manifest in load(files):
            self._apply(manifest)
        self.settle()

    def _apply(self, manifest: Manifest) -> None:
        resource = RESOURCES[manifest.kind]
        # Without its namespace the server would refuse it.
        assert not resource.namespaced or (NAMESPACES, "", manifest.namespace) in self.objects
        body = manifest.to_dict()
        if resource is api_resources.NODES:
            status = body.setdefault("status", {})
            status.setdefault("allocatable", status.get("capacity") or {})
        self.create(resource, body)

    def phases(self, phase: str) -> list[str]:
        """The pods in a phase, Pending if they have none."""
        found = [pod for pod in self.all(PODS) if pod.get("status", {}).get("phase", "Pending") == phase]
        return sorted(pod["metadata"]["name"] for pod in found)


def _drop_disabled(spec: Raw, gates: FeatureGates) -> None:
    """What the server does not store while its gate is off."""
    kinds = {
        "nodeAffinity": gates.node_affinity_eviction,
        "podAffinity": gates.pod_affinity_eviction,
        "podAntiAffinity": gates.pod_affinity_eviction,
    }
    for kind, enabled in kinds.items():
        if not enabled:
            ((spec.get("affinity") or {}).get(kind) or {}).pop(EXECUTION, None)
