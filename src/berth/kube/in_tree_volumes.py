"""In-tree volumes, as the CSI drivers know them that have taken the place of their plugins."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from berth.kube.objects import PersistentVolumeSpec, Volume
from berth.kube.well_known import BETA_ZONE, ZONE

# By the name that a plugin has as a provisioner. Of other in-tree volumes no driver's limit is asked.
DRIVERS = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
_UNSPECIFIED = "UNSPECIFIED"


def translated(
    spec: PersistentVolumeSpec | Volume, labels: Mapping[str, str] | None = None
) -> tuple[str, str] | None:
    """Driver and handle of an in-tree volume, or one of a pod, None if there is no driver for it."""
    plugin, handle = "", None
    if (gce := spec.gce_persistent_disk) is not None:
        plugin, handle = "gce-pd", _gce_handle(gce.pd_name or "", labels or {})
    elif (ebs := spec.aws_elastic_block_store) is not None:
        plugin, handle = "aws-ebs", _ebs_handle(ebs.volume_id or "")
    elif (azure := spec.azure_disk) is not None:
        managed = azure.kind is None or azure.kind.lower() == "managed"
        plugin, handle = "azure-disk", azure.disk_uri if managed else None
    elif spec.cinder is not None:
        plugin, handle = "cinder", spec.cinder.volume_id
    elif spec.portworx_volume is not None:
        plugin, handle = "portworx-volume", spec.portworx_volume.volume_id
    return (DRIVERS[f"kubernetes.io/{plugin}"], handle) if handle else None


def _gce_handle(name: str, labels: Mapping[str, str]) -> str | None:
    """A disk is of a zone, or of the region that all its zones have in common."""
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE) or _UNSPECIFIED).split("__")
    if len(zones) == 1:
        return f"projects/{_UNSPECIFIED}/zones/{zones[0]}/disks/{name}"
    parts = [zone.split("-") for zone in zones]
    regions = {"-".join(part[:2]) for part in parts}
    if len(regions) != 1 or any(len(part) != 3 for part in parts):
        return None
    return f"projects/{_UNSPECIFIED}/regions/{regions.pop()}/disks/{name}"


def _ebs_handle(volume_id: str) -> str | None:
    """The id may stand after its zone, in the form of an address."""
    if not volume_id.startswith("aws://"):
        return volume_id
    bare = urlsplit(volume_id).path.strip("/")
    return bare if bare.startswith("vol-") and "/" not in bare else None
