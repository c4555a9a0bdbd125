"""The machines of `berth up` except the schedulers, and the cache they share: put together in one place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from prometheus_client import CollectorRegistry

from berth.cli.input.options import gates_of, gates_option, in_this_order
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
from berth.kube.api_resources import EVENTS, POLICIES, VIEWS, Resource
from berth.kube.gates import DEFAULT_GATES, FeatureGates
from berth.kube.objects import PartialObjectMetadata, RawObject
from berth.machines.cache import Cache
from berth.machines.contract import Machine
from berth.machines.recorder import silent
from berth.spreading import KeepSpread, SpreadingSettings
from berth.spreading.machine import SpreadingMetrics

# --- gates ----------------------------------------------------------------------------------------
# One setting for all components, and one for each, as in a cluster whose components are upgraded one after
# the other.

_COMPONENTS = {
    "server": "the API server",
    "scheduler": "the scheduler",
    "controllers": "the controllers",
    "kubelet": "the hollow nodes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentGates:
    """Which features each component has."""

    server: FeatureGates = DEFAULT_GATES
    scheduler: FeatureGates = DEFAULT_GATES
    controllers: FeatureGates = DEFAULT_GATES
    kubelet: FeatureGates = DEFAULT_GATES


# The options that `read_gates` reads.
gate_options = in_this_order(
    gates_option("Switch features of every component."),
    *(
        gates_option(
            f"The same for {words} alone, on top of --feature-gates.", f"--{component}-feature-gates"
        )
        for component, words in _COMPONENTS.items()
    ),
)


def read_gates(given: dict[str, str]) -> ComponentGates:
    """Take the values of the options, by the name of their parameter, out of `given`.

    Raises:
        ClickException: a gate or a value that there is not; the message names the option.
    """
    # What others may not be surprised by is on here, where it can be tried.
    everywhere = gates_of(given.pop("feature_gates"), replace(DEFAULT_GATES, keep_spread=True))
    return ComponentGates(
        **{
            component: gates_of(
                given.pop(f"{component}_feature_gates"), everywhere, f"--{component}-feature-gates"
            )
            for component in _COMPONENTS
        }
    )


# --- machines -------------------------------------------------------------------------------------


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
    registration = Registration(cache, nodes, eviction.options.version.release)
    evicting = AffinityEviction(cache, eviction, metrics=EvictionMetrics(registry), tell=tell)
    spreading = replace(spreading or SpreadingSettings(), options=eviction.options)
    metrics = SpreadingMetrics(registry)
    keeping = KeepSpread(cache, evicting.state.mirror, spreading, metrics=metrics, wakes=(evicting,))
    evicting.follow(keeping.rebalancer)
    controllers: list[Machine] = [
        registration,
        Leases(cache),
        Kubelets(cache, options=replace(eviction.options, gates=gates.kubelet)),
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
