"""What is assumed of a cluster whose scheduler cannot be asked for its daemon namespaces.

Apart from the flag: a scheduler that starts reads no snapshot.
"""

from __future__ import annotations

from berth.engine.offline.snapshot import Snapshot
from berth.engine.state.options import Options
from berth.kube.affinity.annotations import effective_affinity
from berth.kube.affinity.anti_affinity import has_required_rules


def assume_daemon_namespaces(snapshot: Snapshot, options: Options) -> None:
    """Note which were assumed for a cluster whose scheduler cannot be asked, if they concern a pod's rule."""
    names = options.daemon_namespaces
    if not any(
        entry.namespace not in names
        and entry.fault is None
        and has_required_rules(effective_affinity(entry.pod, options.gates))
        for entry in snapshot.pods
    ):
        return
    snapshot.daemon_namespaces = sorted(names)
    words = f"pods in {', '.join(sorted(names))} are" if names else "no pods are"
    snapshot.notes.append(
        f"{words} left out of required anti-affinity; if the cluster's scheduler has other daemon "
        "namespaces, name them with --daemon-namespaces"
    )
