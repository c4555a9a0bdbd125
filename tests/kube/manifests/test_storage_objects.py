"""Claims, volumes and storage classes in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.kube.manifests.manifest import ManifestError, load
from tests.kube.written import written
from tests.support.manifests.problems import problems


def test_storage_objects_have_views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Volumes and classes live in no namespace, and what is wrong with them is named like anything else."""
    monkeypatch.chdir(tmp_path)
    written(
        tmp_path,
        c_yaml="{kind: PersistentVolumeClaim, metadata: {name: c}, spec: {storageClassName: s}}",
        v_yaml="{kind: PersistentVolume, metadata: {name: v}, spec: {capacity: {storage: 1Gi}}}",
        s_yaml="{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: s}, provisioner: p}",
        bad_yaml="{kind: PersistentVolume, metadata: {name: v}, spec: {capacity: {storage: much}}}",
    )
    loaded = load(["c.yaml", "v.yaml", "s.yaml"])

    assert [(m.title, type(m.object).__name__) for m in loaded] == [
        ("PersistentVolumeClaim default/c", "PersistentVolumeClaim"),
        ("PersistentVolume v", "PersistentVolume"),
        ("StorageClass s", "StorageClass"),
    ]
    assert not list(problems(loaded))
    with pytest.raises(ManifestError, match=r"^bad.yaml: PersistentVolume v: spec.capacity\[storage\]: "):
        load(["bad.yaml"])
