"""A rollout that waits for its own old pods: the new one fits only where an old one goes first."""

from __future__ import annotations

from typing import Any

from berth.engine.offline.snapshot import Entry, Snapshot
from berth.engine.placement.plan import plan_for
from berth.kube.amounts.shares import resolved
from berth.kube.pods import is_terminating
from berth.kube.well_known import TEMPLATE_HASH

_MOST_TRIED = 50
ROLLOUT_DEFAULT = "25%"  # of maxUnavailable and maxSurge


def rollout_clue(snapshot: Snapshot, entry: Entry) -> str | None:
    """Which old pod is in the way of a new one of its Deployment, and what lets it go first."""
    kind, _, name = (entry.owner or "").partition("/")
    if kind != "Deployment":
        return None
    found = _strategy(snapshot, entry.namespace, name)
    if found is None:
        return None  # nobody knows whether old pods may go first
    strategy, replicas = found
    stated = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", ROLLOUT_DEFAULT)
    if (
        strategy.get("type") == "Recreate"
        or resolved(stated, replicas, default=ROLLOUT_DEFAULT, up=False) > 0
    ):
        return None  # old pods go anyhow
    cluster = snapshot.cluster
    pod_class = cluster.class_of(entry.pod)
    for old in _old_pods(snapshot, entry)[:_MOST_TRIED]:
        with cluster.without(old.key):
            fits = not plan_for(cluster, pod_class).blocked().all()
        if fits:
            return (
                f"{old.key} on {old.pod.spec.node_name}, an old pod of {entry.owner}, is in the way and goes "
                f"only after a new one runs: spec.strategy.rollingUpdate.maxUnavailable 1 "
                f"(now {stated}) lets it go first"
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


def _strategy(snapshot: Snapshot, namespace: str, name: str) -> tuple[dict[str, Any], int] | None:
    """The strategy of a Deployment and its replicas."""
    for manifest in snapshot.manifests:
        if (manifest.kind, manifest.namespace, manifest.name) == ("Deployment", namespace, name):
            spec = manifest.to_dict().get("spec") or {}
            replicas = spec.get("replicas")
            return spec.get("strategy") or {}, 1 if replicas is None else replicas
    return None
