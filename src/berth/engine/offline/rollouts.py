"""A rollout that waits for its own old pods: the new one fits only where an old one goes first."""

from __future__ import annotations

from typing import Any

from berth.engine.offline.snapshot import Entry, Snapshot
from berth.engine.placement.plan import plan_for
from berth.kube.amounts.shares import resolved
from berth.kube.manifests.manifest import Manifest
from berth.kube.pods import is_terminating
from berth.kube.well_known import TEMPLATE_HASH

_MOST_TRIED = 50
ROLLOUT_DEFAULT = "25%"  # of maxUnavailable and maxSurge
_FIELD = "spec.strategy.rollingUpdate.maxUnavailable"


def strategy_of(manifest: Manifest) -> dict[str, Any]:
    """How a workload is rolled out, as written."""
    spec = manifest.to_dict().get("spec")
    name = "strategy" if manifest.kind == "Deployment" else "updateStrategy"
    found = spec.get(name) if isinstance(spec, dict) else None
    return found if isinstance(found, dict) else {}


def rollout_clue(snapshot: Snapshot, entry: Entry) -> str | None:
    """Which old pod is in the way of a new one of its Deployment, and what lets it go first."""
    kind, _, name = (entry.owner or "").partition("/")
    if kind != "Deployment":
        return None
    stated = _kept_available(snapshot, entry.namespace, name)
    if stated == "":
        return None  # old pods go anyhow
    cluster = snapshot.cluster
    pod_class = cluster.class_of(entry.pod)
    for old in _old_pods(snapshot, entry)[:_MOST_TRIED]:
        with cluster.without(old.key):
            fits = not plan_for(cluster, pod_class).blocked().all()
        if fits:
            in_the_way = f"{old.key} on {old.pod.spec.node_name}, an old pod of {entry.owner}, is in the way"
            if stated is None:
                return f"{in_the_way}; {entry.owner} is not here to say whether it goes first ({_FIELD})"
            return (
                f"{in_the_way} and goes only after a new one runs: {_FIELD} 1 (now {stated}) lets it go first"
            )
    return None


def _old_pods(snapshot: Snapshot, entry: Entry) -> list[Entry]:
    revision = _revision(entry)
    return [
        other
        for other in snapshot.running
        if (other.namespace, other.owner) == (entry.namespace, entry.owner)
        # Without the label nobody can tell which of them is the older.
        and None not in (revision, _revision(other))
        and _revision(other) != revision
        and not is_terminating(other.pod)
    ]


def _revision(entry: Entry) -> str | None:
    return (entry.pod.metadata.labels or {}).get(TEMPLATE_HASH)


def _kept_available(snapshot: Snapshot, namespace: str, name: str) -> str | None:
    """The maxUnavailable by which a Deployment keeps its old pods.

    Returns:
        Empty if it lets them go, None if the Deployment is not among what is known.
    """
    for manifest in snapshot.manifests:
        if (manifest.kind, manifest.namespace, manifest.name) == ("Deployment", namespace, name):
            strategy, replicas = strategy_of(manifest), (manifest.to_dict().get("spec") or {}).get("replicas")
            stated = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", ROLLOUT_DEFAULT)
            number = 1 if replicas is None else replicas
            goes = resolved(stated, number, default=ROLLOUT_DEFAULT, up=False) > 0
            return "" if strategy.get("type") == "Recreate" or goes else str(stated)
    return None
