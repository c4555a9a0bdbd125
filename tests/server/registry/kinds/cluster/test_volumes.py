"""Claims, volumes and storage classes: what a scheduler and a provisioner write to each other."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api.client import Client, Json

VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
SELECTED = "volume.kubernetes.io/selected-node"


def claim(name: str = "data", **spec: Any) -> Json:
    given = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": given}


def volume(name: str, **spec: Any) -> Json:
    given = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "local": {"path": "/mnt"},
        **spec,
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": given}


def storage_class(name: str, **fields: Any) -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "example.com/disk",
        **fields,
    }


def test_a_new_claim_waits(client: Client, space: str) -> None:
    """A new claim is Pending and has its volume mode defaulted."""
    made = client.made(f"{space}/persistentvolumeclaims", claim(storageClassName=""))
    assert made["status"] == {"phase": "Pending"}
    assert made["spec"]["volumeMode"] == "Filesystem"


def test_a_claim_is_told_its_node_and_its_volume(client: Client, space: str) -> None:
    """The annotation comes first, the volume's name once, and the status apart."""
    client.made(f"{space}/persistentvolumeclaims", claim(storageClassName="local"))
    path = f"{space}/persistentvolumeclaims/data"
    noted = client.patch(path, {"metadata": {"annotations": {SELECTED: "n1"}}})
    assert noted.json["metadata"]["annotations"] == {SELECTED: "n1"}

    bound = client.patch(path, {"spec": {"volumeName": "v1"}, "status": {"phase": "Bound"}})
    assert (bound.json["spec"]["volumeName"], bound.json["status"]["phase"]) == ("v1", "Pending")
    status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    assert client.patch(f"{path}/status", {"status": status}).json["status"] == status

    again = client.patch(path, {"spec": {"volumeName": "v2"}})
    assert again.status == 422
    assert "spec: Forbidden: spec is immutable after creation except resources.requests" in again.message


def test_only_a_bound_claim_grows(client: Client, space: str) -> None:
    """A claim's request may grow once it is bound, and never below its capacity."""
    client.made(f"{space}/persistentvolumeclaims", claim(storageClassName="local"))
    path = f"{space}/persistentvolumeclaims/data"
    larger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    assert client.patch(path, larger).status == 422
    granted = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    assert client.patch(f"{path}/status", {"status": granted}).status == 200
    assert client.patch(path, larger).status == 200
    smaller = client.patch(path, {"spec": {"resources": {"requests": {"storage": "512Mi"}}}})
    assert "field can not be less than status.capacity" in smaller.message


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"accessModes": []}, "spec.accessModes: Required value: at least 1 access mode is required"),
        ({"accessModes": ["Some"]}, 'spec.accessModes: Unsupported value: "Some"'),
        ({"resources": {}}, "spec.resources[storage]: Required value"),
        ({"resources": {"requests": {"storage": "0"}}}, "must be greater than zero"),
        ({"volumeMode": "Odd"}, 'spec.volumeMode: Unsupported value: "Odd"'),
        ({"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]}, "may not use ReadWriteOncePod with other"),
    ],
)
def test_claims_that_make_no_sense_are_refused(client: Client, space: str, spec: Json, message: str) -> None:
    """An invalid PersistentVolumeClaim is a 422 that names the field."""
    answer = client.post(f"{space}/persistentvolumeclaims", claim(**spec))
    assert (answer.status, message in answer.message) == (422, True), answer.message


def test_a_volume_is_claimed(client: Client) -> None:
    """A claimRef may come, be completed and go; phases are dated; the source stays."""
    made = client.made(VOLUMES, volume("v1"))
    assert made["status"]["phase"] == "Pending"
    assert made["status"]["lastPhaseTransitionTime"] == made["metadata"]["creationTimestamp"]
    assert made["spec"]["persistentVolumeReclaimPolicy"] == "Retain"

    path = f"{VOLUMES}/v1"
    ref = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"}
    assert client.patch(path, {"spec": {"claimRef": ref}}).json["spec"]["claimRef"] == ref
    completed = client.patch(path, {"spec": {"claimRef": {"uid": "u-1"}}}).json
    assert completed["spec"]["claimRef"] == {**ref, "uid": "u-1"}
    written = client.patch(f"{path}/status", {"status": {"phase": "Bound"}}).json
    assert written["status"]["phase"] == "Bound"
    assert "claimRef" not in client.patch(path, {"spec": {"claimRef": None}}).json["spec"]

    moved = client.patch(path, {"spec": {"local": {"path": "/elsewhere"}}})
    assert "spec.persistentvolumesource is immutable after creation" in moved.message


def test_where_a_volume_is_reachable_is_said_once(client: Client) -> None:
    """A volume's node affinity can be set once and not be removed."""
    client.made(VOLUMES, volume("v2"))
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    affinity = {"required": {"nodeSelectorTerms": [term]}}
    assert client.patch(f"{VOLUMES}/v2", {"spec": {"nodeAffinity": affinity}}).status == 200
    assert client.patch(f"{VOLUMES}/v2", {"spec": {"nodeAffinity": None}}).status == 422


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"capacity": {}}, "spec.capacity: Required value"),
        ({"local": None}, "spec: Required value: must specify a volume type"),
        ({"hostPath": {"path": "/x"}}, "may not specify more than 1 volume type"),
    ],
)
def test_volumes_that_make_no_sense_are_refused(client: Client, spec: Json, message: str) -> None:
    """An invalid PersistentVolume is a 422 that names the field."""
    answer = client.post(VOLUMES, volume("bad", **spec))
    assert (answer.status, message in answer.message) == (422, True), answer.message


def test_classes(client: Client) -> None:
    """A class binds at once unless it says otherwise, and does not change."""
    made = client.made(CLASSES, storage_class("plain"))
    assert (made["reclaimPolicy"], made["volumeBindingMode"]) == ("Delete", "Immediate")
    late = client.patch(f"{CLASSES}/plain", {"volumeBindingMode": "WaitForFirstConsumer"})
    assert "volumeBindingMode: Invalid value" in late.message
    assert "field is immutable" in late.message
    assert client.post(CLASSES, storage_class("odd", volumeBindingMode="Never")).status == 422
    assert client.post(CLASSES, storage_class("none", provisioner="")).status == 422


def test_the_default_class_is_filled_in(client: Client, space: str) -> None:
    """A claim that says nothing gets the default class; an empty name asks for none."""
    standard = storage_class("standard")
    standard["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    client.made(CLASSES, standard)
    claims = f"{space}/persistentvolumeclaims"
    assert client.made(claims, claim("a"))["spec"]["storageClassName"] == "standard"
    assert client.made(claims, claim("b", storageClassName=""))["spec"]["storageClassName"] == ""
    client.delete(f"{CLASSES}/standard")
    unset = client.made(claims, claim("c"))
    assert "storageClassName" not in unset["spec"]
    assert client.patch(f"{claims}/c", {"spec": {"storageClassName": "late"}}).status == 200
