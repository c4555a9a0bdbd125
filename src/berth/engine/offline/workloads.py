"""What workloads make of their pods: a DaemonSet one for each node, pinned to it; others roll them out."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from berth.engine.placement.daemons import DaemonEligibility
from berth.kube.amounts.shares import or_one
from berth.kube.api_resources import DAEMON_SETS
from berth.kube.defaults import created
from berth.kube.gates import FeatureGates
from berth.kube.manifests.manifest import Manifest
from berth.kube.objects import Pod, ReplicationController, Workload

DAEMON_SET = DAEMON_SETS.kind
ROLLOUT_DEFAULT = "25%"  # of maxUnavailable and maxSurge


def unpinned(pod: Pod, manifest: Manifest) -> Pod:
    """A pod of a DaemonSet without the node it was made for: the same for all its pods."""
    view = manifest.object
    template = view.spec.template if isinstance(view, Workload) else None
    spec = template.spec if template else None
    if spec is None:
        return pod
    affinity = created(Pod(metadata=pod.metadata, spec=spec)).spec.affinity
    return replace(pod, spec=replace(pod.spec, affinity=affinity))


def eligibility_of(manifest: Manifest, gates: FeatureGates) -> DaemonEligibility:
    """On which nodes a DaemonSet wants its pods."""
    view = manifest.object
    return DaemonEligibility(view.spec.template if isinstance(view, Workload) else None, gates)


def replicas_of(manifest: Manifest | None, otherwise: int = 1) -> int:
    """How many pods a workload is meant to run; `otherwise` if it is not there, or has no such number."""
    view = manifest.object if manifest is not None and manifest.kind != DAEMON_SET else None
    return or_one(view.spec.replicas) if isinstance(view, Workload | ReplicationController) else otherwise


def strategy_of(manifest: Manifest) -> dict[str, Any]:
    """How a workload is rolled out, as written."""
    spec = manifest.to_dict().get("spec")
    name = "strategy" if manifest.kind == "Deployment" else "updateStrategy"
    found = spec.get(name) if isinstance(spec, dict) else None
    return found if isinstance(found, dict) else {}
