"""Objects from the builders as the manifests the tools take in."""

import msgspec

from berth.engine.offline.explanation import Explanation, explain
from berth.engine.offline.lookup import find
from berth.engine.offline.simulation import Simulation, simulate
from berth.engine.offline.snapshot import Snapshot, read
from berth.engine.state.options import Options
from berth.kube.manifests.kinds import is_cluster_scoped
from berth.kube.manifests.manifest import Manifest, Source
from berth.kube.objects import (
    IntOrString,
    KubeObject,
    LabelSelector,
    ObjectMeta,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PodTemplateSpec,
    Workload,
    WorkloadSpec,
)
from tests.support.builders import (
    HOSTNAME,
    ZONE,
    NodeBuilder,
    PodBuilder,
    make_node,
    make_pod,
    make_selector,
)


def manifest(thing: KubeObject) -> Manifest:
    """As if the object stood alone in a file."""
    kind = getattr(thing, "kind", None) or type(thing).__name__
    namespace = None if is_cluster_scoped(kind) else thing.metadata.namespace or "default"
    raw = msgspec.to_builtins(thing)
    return Manifest(
        kind, thing.api_version or "v1", namespace, thing.metadata.name or "", Source("test.yaml"), thing, raw
    )


def snapshot(*things: KubeObject, options: Options | None = None) -> Snapshot:
    return read([manifest(thing) for thing in things], options)


def simulated(*things: KubeObject, options: Options | None = None) -> Simulation:
    return simulate(snapshot(*things, options=options))


def explained(name: str, *things: KubeObject, options: Options | None = None) -> Explanation:
    simulation = simulated(*things, options=options)
    return explain(simulation, find(simulation, name, None))


def where(simulation: Simulation) -> dict[str, str]:
    """Pod name -> node."""
    return {placement.entry.name: placement.node for placement in simulation.placements}


def zone_node(name: str, zone: str) -> NodeBuilder:
    return make_node(name).labels({HOSTNAME: name, ZONE: zone})


def new(name: str) -> PodBuilder:
    """A pod as its owner writes it: no server has given it a uid yet."""
    built = make_pod(name)
    return built._meta(ObjectMeta(name=name, namespace="default"))


def sentences(explanation: Explanation) -> list[str]:
    return [relaxation.sentence for relaxation in explanation.relaxations]


def helps(*things: KubeObject, pod: PodBuilder, options: Options | None = None) -> list[str]:
    """What would help a pod called p."""
    explanation = explained("p", *things, pod.build(), options=options)
    assert explanation.state == "DoesNotFit"
    return sentences(explanation)


def workload(kind: str, name: str, replicas: int | None, pod: PodBuilder | None = None) -> Workload:
    built = (pod or make_pod(name)).labels(app=name).build()
    return Workload(
        api_version="apps/v1",
        kind=kind,
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=WorkloadSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels={"app": name}),
            template=PodTemplateSpec(metadata=ObjectMeta(labels=built.metadata.labels), spec=built.spec),
        ),
    )


def messages(simulation: Simulation) -> dict[str, str]:
    return {unplaced.entry.name: unplaced.message for unplaced in simulation.unplaced}


def budget(
    *,
    min_available: IntOrString | None = None,
    max_unavailable: IntOrString | None = None,
    status: PodDisruptionBudgetStatus | None = None,
    policy: str | None = None,
) -> PodDisruptionBudget:
    spec = PodDisruptionBudgetSpec(
        min_available=min_available,
        max_unavailable=max_unavailable,
        selector=make_selector(app="web"),
        unhealthy_pod_eviction_policy=policy,
    )
    metadata = ObjectMeta(name="keep", namespace="default")
    return PodDisruptionBudget(api_version="policy/v1", metadata=metadata, spec=spec, status=status)
