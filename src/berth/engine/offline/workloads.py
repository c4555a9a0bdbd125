"""What workloads make of their pods: a DaemonSet one for each node, pinned to it; others roll them out."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace

from berth.engine.state.cluster import Cluster
from berth.kube.api_resources import DAEMON_SETS
from berth.kube.defaults import created
from berth.kube.manifests.manifest import Manifest
from berth.kube.objects import Pod, Workload

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


def eligible_nodes(cluster: Cluster, manifest: Manifest, pod: Pod) -> set[str]:
    """Nodes a DaemonSet wants a pod on: they match its selectors and it tolerates their taints."""
    pod_class = cluster.class_of(unpinned(pod, manifest))
    nodes = cluster.nodes
    eligible = pod_class.selects(nodes, nodes.every_slot)
    eligible &= nodes.tolerated(pod.spec.tolerations, nodes.every_slot)
    return {nodes.names[slot] or "" for slot in np.flatnonzero(eligible)}


def strategy_of(manifest: Manifest) -> dict[str, Any]:
    """How a workload is rolled out, as written."""
    spec = manifest.to_dict().get("spec")
    name = "strategy" if manifest.kind == "Deployment" else "updateStrategy"
    found = spec.get(name) if isinstance(spec, dict) else None
    return found if isinstance(found, dict) else {}
