"""The recorded cases: their input as objects, and the answer in the form it was recorded."""

from typing import Any

import msgspec

from berth.kube.objects import (
    CSIDriver,
    CSINode,
    MountingPod,
    Namespace,
    Node,
    NodeAffinity,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ReplicationController,
    Service,
    StorageClass,
    TopologySpreadConstraint,
    Workload,
)
from berth.kube.versions import NEWEST, KubernetesVersion
from tests.reference.scheduler import evaluate_pod, place
from tests.reference.world import Args, World, name_of, namespace_of

STORAGE = {
    "csiDrivers": CSIDriver,
    "csiNodes": CSINode,
    "storageClasses": StorageClass,
    "persistentVolumes": PersistentVolume,
    "persistentVolumeClaims": PersistentVolumeClaim,
}


def args_of(case: dict[str, Any], version: KubernetesVersion) -> Args:
    raw = case["args"]
    return Args(
        version=version,
        extra_plugins=tuple(case.get("extraPlugins", ())),
        hard_pod_affinity_weight=raw["hardPodAffinityWeight"],
        ignore_preferred_terms_of_existing_pods=raw["ignorePreferredTermsOfExistingPods"],
        added_affinity=msgspec.convert(raw["addedAffinity"], NodeAffinity | None),
        default_constraints=tuple(msgspec.convert(raw["defaultConstraints"], list[TopologySpreadConstraint])),
        defaulting_type=raw["defaultingType"],
    )


def world_of(case: dict[str, Any], version: KubernetesVersion) -> World:
    return World(
        nodes=msgspec.convert(case["nodes"], list[Node]),
        pods=msgspec.convert(case["pods"], list[Pod]),
        namespaces=msgspec.convert(case["namespaces"], list[Namespace]),
        services=msgspec.convert(case.get("services", []), list[Service]),
        replica_sets=msgspec.convert(case.get("replicaSets", []), list[Workload]),
        stateful_sets=msgspec.convert(case.get("statefulSets", []), list[Workload]),
        replication_controllers=msgspec.convert(
            case.get("replicationControllers", []), list[ReplicationController]
        ),
        storage=[
            msgspec.convert(raw, form) for field, form in STORAGE.items() for raw in case.get(field, ())
        ],
        args=args_of(case, version),
    )


def evaluate(case: dict[str, Any], version: KubernetesVersion = NEWEST) -> dict[str, Any]:
    world = world_of(case, version)
    if "sequence" not in case:
        mounting = msgspec.convert(case["pod"], MountingPod)
        result = evaluate_pod(world, msgspec.convert(case["pod"], Pod), mounting)
        return {"id": case["id"], **result.recorded()}
    steps = [
        place(world, pod).recorded_step(f"{namespace_of(pod)}/{name_of(pod)}")
        for pod in msgspec.convert(case["sequence"], list[Pod])
    ]
    return {"id": case["id"], "steps": steps}
