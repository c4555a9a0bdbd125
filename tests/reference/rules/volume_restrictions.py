"""VolumeRestrictions: some claims are for one pod at a time, and some disks for one pod of a node."""

from berth.kube.objects import Node, Pod
from berth.kube.objects.pods import Volume
from tests.reference.rules.node_volume_limits import claim_named
from tests.reference.verdicts import SKIP, SUCCESS, UNRESOLVABLE, UNSCHEDULABLE, Rejections, Status
from tests.reference.world import World, name_of, namespace_of

DISK = "node(s) had no available disk"
CLAIM = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)


def claims_of(pod: Pod) -> list[str]:
    stated = [volume.persistent_volume_claim for volume in pod.spec.volumes or []]
    return [claim.claim_name or "" for claim in stated if claim is not None]


def collide(one: Volume, other: Volume) -> bool:
    """Whether two pods with these volumes cannot be on one node."""
    gce, other_gce = one.gce_persistent_disk, other.gce_persistent_disk
    if gce and other_gce and gce.pd_name == other_gce.pd_name:
        return not (gce.read_only and other_gce.read_only)
    ebs, other_ebs = one.aws_elastic_block_store, other.aws_elastic_block_store
    if ebs and other_ebs and ebs.volume_id == other_ebs.volume_id:
        return True
    iscsi, other_iscsi = one.iscsi, other.iscsi
    if iscsi and other_iscsi and iscsi.iqn == other_iscsi.iqn:
        return not (iscsi.read_only and other_iscsi.read_only)
    rbd, other_rbd = one.rbd, other.rbd
    if rbd and other_rbd and any(monitor in (other_rbd.monitors or []) for monitor in rbd.monitors or []):
        same = (rbd.pool or "rbd", rbd.image) == (other_rbd.pool or "rbd", other_rbd.image)
        return same and not (rbd.read_only and other_rbd.read_only)
    return False


def is_disk(volume: Volume) -> bool:
    sources = (volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.iscsi, volume.rbd)
    return any(source is not None for source in sources)


def missing_claim(world: World, pod: Pod) -> str | None:
    for name in claims_of(pod):
        if claim_named(world, namespace_of(pod), name) is None:
            return f'persistentvolumeclaim "{name}" not found'
    return None


def claims_for_one_pod(world: World, pod: Pod) -> list[str]:
    found = []
    for name in claims_of(pod):
        claim = claim_named(world, namespace_of(pod), name)
        if claim is not None and "ReadWriteOncePod" in (claim.spec.access_modes or []):
            found.append(name)
    return found


def in_use(world: World, pod: Pod) -> bool:
    others = [other for _, other in world.running() if namespace_of(other) == namespace_of(pod)]
    used = [name for other in others for name in claims_of(other)]
    return any(name in used for name in claims_for_one_pod(world, pod))


def prefilter(world: World, pod: Pod) -> Status:
    missing = missing_claim(world, pod)
    if missing is not None:
        return Status(UNRESOLVABLE, (missing,))
    if claims_for_one_pod(world, pod) or any(is_disk(volume) for volume in pod.spec.volumes or []):
        return Status(SUCCESS)
    return Status(SKIP)


def judge(world: World, pod: Pod, node: Node) -> Status | None:
    missing = missing_claim(world, pod)
    if missing is not None:
        return Status(UNRESOLVABLE, (missing,))
    there = [volume for other in world.pods_on(node) for volume in other.spec.volumes or []]
    if any(collide(volume, other) for volume in pod.spec.volumes or [] for other in there):
        return Status(UNSCHEDULABLE, (DISK,))
    return Status(UNSCHEDULABLE, (CLAIM,)) if in_use(world, pod) else None


def reject(world: World, pod: Pod) -> Rejections:
    found = {name_of(node): judge(world, pod, node) for node in world.nodes}
    return {node: status for node, status in found.items() if status is not None}
