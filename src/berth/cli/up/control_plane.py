"""The machines of `berth up` except the schedulers, and the cache they share: put together in one place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from prometheus_client import CollectorRegistry

from berth.cli.up.gates import ComponentGates
from berth.controllers.disruption import DisruptionController
from berth.controllers.garbage import GarbageCollector
from berth.controllers.hollow.leases import Leases
from berth.controllers.hollow.pods import Kubelets
from berth.controllers.hollow.registration import Registration
from berth.controllers.namespaces import NamespaceController
from berth.controllers.node_lifecycle import NodeLifecycle
from berth.controllers.propagation import (
    ClusterEvictionController,
    PropagationController,
    UnmatchedPolicies,
)
from berth.controllers.root_certificate import RootCertificatePublisher
from berth.controllers.taint_eviction import TaintEviction
from berth.controllers.workloads.daemon_set import DaemonSetController
from berth.controllers.workloads.deployment import DeploymentController
from berth.controllers.workloads.jobs.cron_job import CronJobController
from berth.controllers.workloads.jobs.job import JobController
from berth.controllers.workloads.replica_set import ReplicaSetController
from berth.controllers.workloads.stateful_set import StatefulSetController
from berth.engine.state.options import Options
from berth.eviction import AffinityEviction, EvictionMetrics, EvictionSettings, Tell
from berth.eviction.decisions import silent
from berth.kube.api_resources import EVENTS, POLICIES, VIEWS, Resource
from berth.kube.objects import PartialObjectMetadata, RawObject
from berth.machines.cache import Cache
from berth.machines.contract import Machine
from berth.spreading import KeepSpread, SpreadingSettings
from berth.spreading.metrics import SpreadingMetrics


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The machines, and the cache they share, which must hear every event first."""

    cache: Cache
    controllers: list[Machine]
    garbage: GarbageCollector
    namespaces: NamespaceController
    registration: Registration
    propagation: PropagationController | None = None

    def learn(self, resource: Resource) -> tuple[Machine, ...]:
        """The server has one more resource; those who want to hear of its objects."""
        self.garbage.learn(resource)
        self.namespaces.learn(resource)
        if self.propagation is None:
            return (self.garbage, self.namespaces)
        self.propagation.learn(resource)
        return (self.garbage, self.namespaces, self.propagation)


def assemble(  # noqa: PLR0913 - all but one have defaults
    resources: Iterable[Resource],
    *,
    nodes: Iterable[RawObject] = (),
    gates: ComponentGates | None = None,
    registry: CollectorRegistry | None = None,
    tell: Tell = silent,
    eviction: EvictionSettings | None = None,
    spreading: SpreadingSettings | None = None,
    certificate: str = "",
) -> ControlPlane:
    """Everything but scheduling, for a server with these resources.

    Args:
        resources: What the server has.
        nodes: Hollow nodes to register.
        gates: Which features the components have.
        registry: Where evictions are counted.
        tell: Who hears what is decided about them.
        eviction: How pods are evicted for affinity, and for kubelets, too, which namespaces are those
            of daemons and which version they are of; by default with these gates and no other wish.
        spreading: How groups are kept spread; by default with these gates and no other wish.
        certificate: Who vouches for the server, to be told in every namespace; empty: nobody is told.
    """
    gates = gates or ComponentGates()
    cache = Cache()
    known = list(resources)
    kept = [resource for resource in known if resource.plural != EVENTS.plural]
    garbage = GarbageCollector(kept)
    namespaces = NamespaceController(cache, known)
    eviction = eviction or EvictionSettings(options=Options(gates=gates.controllers))
    daemons, version = eviction.options.daemon_namespaces, eviction.options.version
    registration = Registration(cache, nodes, version.release)
    evicting = AffinityEviction(cache, eviction, metrics=EvictionMetrics(registry), tell=tell)
    spreading = replace(spreading or SpreadingSettings(), options=eviction.options)
    metrics = SpreadingMetrics(registry)
    keeping = KeepSpread(cache, evicting.state.mirror, spreading, metrics=metrics, wakes=(evicting,))
    evicting.follow(keeping.rebalancer)
    controllers: list[Machine] = [
        registration,
        Leases(cache),
        Kubelets(cache, options=Options(gates=gates.kubelet, daemon_namespaces=daemons, version=version)),
        DeploymentController(cache),
        ReplicaSetController(cache),
        StatefulSetController(cache),
        DaemonSetController(cache, gates.controllers),
        JobController(cache),
        CronJobController(cache),
        DisruptionController(cache),
        NodeLifecycle(cache),
        TaintEviction(cache),
        evicting,
        keeping,
        garbage,
        namespaces,
    ]
    if certificate:
        controllers.append(RootCertificatePublisher(cache, certificate))
    propagation = None
    if POLICIES in known:
        propagation = PropagationController(cache, kept)
        controllers += [
            propagation,
            UnmatchedPolicies(cache, propagation.kinds),
            ClusterEvictionController(cache),
        ]
    return ControlPlane(cache, controllers, garbage, namespaces, registration, propagation)


def view_of(resource: Resource) -> type[Any]:
    return VIEWS.get(resource, PartialObjectMetadata)
