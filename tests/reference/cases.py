"""The recorded cases: their input as objects, and the answer in the form it was recorded."""

from typing import Any

import msgspec

from berth.kube.objects import (
    Namespace,
    Node,
    NodeAffinity,
    Pod,
    ReplicationController,
    Service,
    TopologySpreadConstraint,
    Workload,
)
from tests.reference.scheduler import evaluate_pod, place
from tests.reference.world import Args, World, name_of, namespace_of


def args_of(raw: dict[str, Any]) -> Args:
    return Args(
        hard_pod_affinity_weight=raw["hardPodAffinityWeight"],
        ignore_preferred_terms_of_existing_pods=raw["ignorePreferredTermsOfExistingPods"],
        added_affinity=msgspec.convert(raw["addedAffinity"], NodeAffinity | None),
        default_constraints=tuple(msgspec.convert(raw["defaultConstraints"], list[TopologySpreadConstraint])),
        defaulting_type=raw["defaultingType"],
    )


def world_of(case: dict[str, Any]) -> World:
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
        args=args_of(case["args"]),
    )


def evaluate(case: dict[str, Any]) -> dict[str, Any]:
    world = world_of(case)
    if "sequence" not in case:
        return {"id": case["id"], **evaluate_pod(world, msgspec.convert(case["pod"], Pod)).recorded()}
    steps = [
        place(world, pod).recorded_step(f"{namespace_of(pod)}/{name_of(pod)}")
        for pod in msgspec.convert(case["sequence"], list[Pod])
    ]
    return {"id": case["id"], "steps": steps}
