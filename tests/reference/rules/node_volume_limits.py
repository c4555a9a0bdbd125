"""NodeVolumeLimits: so many volumes of a driver on a node, each counted once, none where it lacks."""

from collections.abc import Iterator

from berth.kube.objects import (
    CSIDriver,
    CSINode,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    VolumeAttachment,
)
from tests.reference.verdicts import SKIP, SUCCESS, UNRESOLVABLE, UNSCHEDULABLE, Rejections, Status
from tests.reference.world import World, name_of, namespace_of

REASON = "node(s) exceed max volume count"

Volume = tuple[str, str]  # driver and handle


def claims_of(pod: Pod) -> list[str]:
    found = []
    for volume in pod.spec.volumes or []:
        if volume.persistent_volume_claim is not None:
            found.append(volume.persistent_volume_claim.claim_name or "")
        elif volume.ephemeral is not None:
            found.append(f"{pod.metadata.name}-{volume.name}")
    return found


def claim_named(world: World, namespace: str, name: str) -> PersistentVolumeClaim | None:
    for found in world.storage:
        if isinstance(found, PersistentVolumeClaim):
            place = (found.metadata.namespace or "default", found.metadata.name)
            if place == (namespace, name):
                return found
    return None


def volume_of(world: World, claim: PersistentVolumeClaim) -> Volume | None:
    for found in world.storage:
        if isinstance(found, PersistentVolume) and found.metadata.name == (claim.spec.volume_name or ""):
            csi = found.spec.csi
            return (csi.driver or "", csi.volume_handle or "") if csi is not None else None
    for found in world.storage:
        if isinstance(found, StorageClass) and found.metadata.name == claim.spec.storage_class_name:
            place = (claim.metadata.namespace or "default", claim.metadata.name or "")
            return found.provisioner or "", f"to be made for {'/'.join(place)}"
    return None


def volumes_of(world: World, pod: Pod) -> Iterator[Volume]:
    for mounted in pod.spec.volumes or []:
        if mounted.gce_persistent_disk is not None:
            disk = f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{mounted.gce_persistent_disk.pd_name}"
            yield "pd.csi.storage.gke.io", disk
        if mounted.aws_elastic_block_store is not None:
            yield "ebs.csi.aws.com", mounted.aws_elastic_block_store.volume_id or ""
    for name in claims_of(pod):
        claim = claim_named(world, namespace_of(pod), name)
        volume = volume_of(world, claim) if claim is not None else None
        if volume is not None and all(volume):
            yield volume


def drivers_on(world: World, node: Node) -> dict[str, int | None]:
    """By name of driver, the most volumes, None if it does not say."""
    for found in world.storage:
        if isinstance(found, CSINode) and found.metadata.name == name_of(node):
            return {
                driver.name or "": driver.allocatable.count if driver.allocatable else None
                for driver in found.spec.drivers or []
            }
    return {}


def attachments_to(world: World, node: Node) -> Iterator[Volume]:
    for found in world.storage:
        if isinstance(found, VolumeAttachment) and found.spec.node_name == name_of(node):
            named = found.spec.source.persistent_volume_name if found.spec.source else None
            for volume in world.storage:
                if isinstance(volume, PersistentVolume) and volume.metadata.name == named:
                    csi = volume.spec.csi
                    if csi is not None:
                        yield found.spec.attacher or "", csi.volume_handle or ""


def wants_no_pods_where_missing(world: World, driver: str) -> bool:
    return world.args.version.missing_drivers_refuse and any(
        isinstance(found, CSIDriver)
        and found.metadata.name == driver
        and bool(found.spec.prevent_pod_scheduling_if_missing)
        for found in world.storage
    )


def prefilter(world: World, pod: Pod) -> Status:
    return Status(SUCCESS if claims_of(pod) or any(volumes_of(world, pod)) else SKIP)


def judge(world: World, pod: Pod, node: Node) -> Status | None:
    for name in claims_of(pod):
        if claim_named(world, namespace_of(pod), name) is None:
            missing = f'persistentvolumeclaim "{name}" not found'
            return Status(UNRESOLVABLE, (f"looking up PVC {namespace_of(pod)}/{name}: {missing}",))
    there = drivers_on(world, node)
    new = dict.fromkeys(volumes_of(world, pod))
    for driver, _ in new:
        if wants_no_pods_where_missing(world, driver) and driver not in there:
            return Status(UNSCHEDULABLE, (f"{driver} CSI driver is not installed on the node",))
    attached = {volume for other in world.pods_on(node) for volume in volumes_of(world, other)}
    held = set(attachments_to(world, node)) - attached
    for driver, most in there.items():
        added = [volume for volume in new if volume[0] == driver and volume not in attached]
        known = [volume for volume in attached | held if volume[0] == driver]
        if most is not None and added and len(known) + len(added) > most:
            return Status(UNSCHEDULABLE, (REASON,))
    return None


def reject(world: World, pod: Pod) -> Rejections:
    found = {name_of(node): judge(world, pod, node) for node in world.nodes}
    return {node: status for node, status in found.items() if status is not None}
