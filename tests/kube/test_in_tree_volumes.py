"""In-tree volumes, by the CSI drivers that have taken the place of their plugins."""

from __future__ import annotations

import msgspec
import pytest

from berth.kube.in_tree_volumes import translated
from berth.kube.objects import (
    PersistentVolumeSpec,
)
from berth.kube.well_known import ZONE

GCE = "pd.csi.storage.gke.io"
DISK = {"gcePersistentDisk": {"pdName": "d"}}
NOWHERE = "projects/UNSPECIFIED"


@pytest.mark.parametrize(
    ("spec", "zone", "expected"),
    [
        (DISK, "", f"{GCE} {NOWHERE}/zones/UNSPECIFIED/disks/d"),
        (DISK, "us-central1-a", f"{GCE} {NOWHERE}/zones/us-central1-a/disks/d"),
        (DISK, "us-central1-a__us-central1-b", f"{GCE} {NOWHERE}/regions/us-central1/disks/d"),
        (DISK, "us-central1-a__us-east1-b", None),
        (DISK, "here__there", None),
        ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, "", "ebs.csi.aws.com vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}}, "", "ebs.csi.aws.com vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/disk"}}, "", None),
        ({"azureDisk": {"diskURI": "/a/b", "kind": "Managed"}}, "", "disk.csi.azure.com /a/b"),
        ({"azureDisk": {"diskURI": "/a/b", "kind": "Shared"}}, "", None),
        ({"cinder": {"volumeID": "c"}}, "", "cinder.csi.openstack.org c"),
        ({"portworxVolume": {"volumeID": "x"}}, "", "pxd.portworx.com x"),
        ({"hostPath": {"path": "/x"}}, "", None),
    ],
)
def test_each_is_what_kube_scheduler_translates_it_to(spec: object, zone: str, expected: str | None) -> None:
    """Driver and handle are upstream's; what cannot be translated counts for nobody."""
    found = translated(msgspec.convert(spec, PersistentVolumeSpec), {ZONE: zone})

    assert (found and " ".join(found)) == expected
