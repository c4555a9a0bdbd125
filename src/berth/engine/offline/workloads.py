"""What workloads make of their pods: a DaemonSet one for each node, pinned to it; others roll them out."""

from __future__ import annotations

from msgspec.structs import replace

from berth.engine.placement.daemons import DaemonEligibility
from berth.kube.amounts.shares import or_one
from berth.kube.api_resources import DAEMON_SETS, DEPLOYMENTS
from berth.kube.defaults import created
from berth.kube.gates import FeatureGates
from berth.kube.manifests.manifest import Manifest
from berth.kube.objects import Pod, ReplicationController, RollingUpdate, UpdateStrategy, Workload

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


def strategy_of(manifest: Manifest) -> tuple[str, RollingUpdate]:
    """How a workload is rolled out: the type, empty if it is not given, and the figures."""
    workload = manifest.object
    if not isinstance(workload, Workload):
        return "", RollingUpdate()
    spec = workload.spec
    found = (spec.strategy if manifest.kind == DEPLOYMENTS.kind else spec.update_strategy) or UpdateStrategy()
    return found.type or "", found.rolling_update or RollingUpdate()
