"""All the controllers of a control plane, put together in one place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from berth.controllers.cache import Cache
from berth.controllers.cron_job import CronJobController
from berth.controllers.daemon_set import DaemonSetController
from berth.controllers.deployment import DeploymentController
from berth.controllers.disruption import DisruptionController
from berth.controllers.eviction import AffinityEviction, EvictionSettings
from berth.controllers.garbage import GarbageCollector
from berth.controllers.hollow.leases import Leases
from berth.controllers.hollow.pods import Kubelets, Pace
from berth.controllers.hollow.registration import Registration
from berth.controllers.job import JobController
from berth.controllers.namespaces import NamespaceController
from berth.controllers.node_lifecycle import NodeLifecycle
from berth.controllers.replica_set import ReplicaSetController
from berth.controllers.stateful_set import StatefulSetController
from berth.controllers.taint_eviction import TaintEviction
from berth.controllers.views import VIEWS, Bare
from berth.engine.options import Options
from berth.kube.gates import DEFAULT_GATES, FeatureGates
from berth.machinery.contract import EVENTS, Controller, RawObject, Resource


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The machines, and the cache they share, which must hear every event first."""

    cache: Cache
    controllers: list[Controller]
    garbage: GarbageCollector
    namespaces: NamespaceController
    registration: Registration

    def learn(self, resource: Resource) -> None:
        """The server has one more resource."""
        self.garbage.learn(resource)
        self.namespaces.learn(resource)


def assemble(
    resources: Iterable[Resource],
    *,
    nodes: Iterable[RawObject] = (),
    pace: Pace | None = None,
    gates: FeatureGates = DEFAULT_GATES,
) -> ControlPlane:
    """Everything but scheduling, for a server with these resources; `nodes` are hollow ones to register."""
    cache = Cache()
    known = list(map(canonical, resources))
    kept = [resource for resource in known if resource.plural != EVENTS.plural]
    garbage = GarbageCollector(kept)
    namespaces = NamespaceController(cache, known)
    registration = Registration(cache, nodes)
    controllers: list[Controller] = [
        registration,
        Leases(cache),
        Kubelets(cache, pace, gates),
        DeploymentController(cache),
        ReplicaSetController(cache),
        StatefulSetController(cache),
        DaemonSetController(cache, gates),
        JobController(cache),
        CronJobController(cache),
        DisruptionController(cache),
        NodeLifecycle(cache),
        TaintEviction(cache),
        AffinityEviction(cache, EvictionSettings(options=Options(gates=gates))),
        garbage,
        namespaces,
    ]
    return ControlPlane(cache, controllers, garbage, namespaces, registration)


_CANONICAL = {resource: resource for resource in (*VIEWS, EVENTS)}


def canonical(resource: Resource) -> Resource:
    """The constant for a resource that has one: machines compare by identity."""
    return _CANONICAL.get(resource, resource)


def view_of(resource: Resource) -> type[Any]:
    return VIEWS.get(resource, Bare)
