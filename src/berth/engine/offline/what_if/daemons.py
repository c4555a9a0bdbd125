"""The pods of DaemonSets follow the nodes: one comes where it is wanted, and goes where it no longer is."""

from __future__ import annotations

from collections.abc import Iterable

from berth.engine.offline.scheduling.making_room import DAEMON_SET
from berth.engine.offline.snapshot import Entry, SnapshotReader, eligible_nodes
from berth.engine.offline.what_if.world import ChangingWorld
from berth.kube.manifests.manifest import Manifest
from berth.kube.workloads.expansion import expand


def follow_nodes(world: ChangingWorld, names: Iterable[str]) -> None:
    """Give these nodes the pods of DaemonSets that they lack, and take those that they should not have."""
    for manifest in [each for each in world.snapshot.manifests if each.kind == DAEMON_SET and each.object]:
        follow(world, manifest, names)


def follow(world: ChangingWorld, manifest: Manifest, names: Iterable[str]) -> None:
    names = list(names)
    owner, space = f"{DAEMON_SET}/{manifest.name}", manifest.namespace or "default"
    mine = {node_of_daemon(entry): entry for entry in world.pods_of(owner, space)}
    made = [each.pod for each in expand([manifest], names).created]
    if not made:
        return
    wanted = eligible_nodes(world.cluster, manifest, made[0])
    reader = SnapshotReader(world.snapshot.manifests, world.cluster, origin=world.snapshot.origin)
    world.add(entry for entry in reader.made_for(manifest, made) if entry.daemon_of not in mine)
    for name in names:
        if name not in wanted and name in mine:
            world.remove(mine[name], f"{owner} wants no pod on this node any more")


def node_of_daemon(entry: Entry) -> str | None:
    return entry.daemon_of or entry.pod.spec.node_name
