"""Claims, volumes, storage classes and the other kinds of storage.k8s.io.

Upstream: pkg/registry/core/{persistentvolume,persistentvolumeclaim}, the checks of
pkg/apis/{core,storage}/validation that a scheduler's writes meet, and the admission plugin
DefaultStorageClass.
"""

from __future__ import annotations

from typing import Any

from berth.kube import names
from berth.kube.amounts.quantity import QuantityError, read
from berth.kube.objects import RawObject
from berth.kube.validation import FieldError
from berth.kube.validation.errors import Errors
from berth.kube.well_known import BETA_STORAGE_CLASS
from berth.server.registry.fields import copy_field, spec_of, spell_amounts, unchanged
from berth.server.registry.kinds.cluster.limit_ranges import check_claim
from berth.server.registry.resources import served
from berth.server.registry.strategy import Registry, Strategy
from berth.server.storage.store import decode
from berth.server.tables import cluster as tables

_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_FROZEN_CLAIM = (
    "spec is immutable after creation except resources.requests and "
    "volumeAttributesClassName for bound claims"
)
_FROZEN_SOURCE = "spec.persistentvolumesource is immutable after creation"
# What a volume's spec holds beside its source.
_NOT_A_SOURCE = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)


class ClaimStrategy(Strategy):
    """A claim gets the default class, and changes hardly at all once it is made."""

    def default(self, obj: RawObject) -> None:
        spec = spec_of(obj)
        spec.setdefault("volumeMode", "Filesystem")
        resources = spec.get("resources")
        if isinstance(resources, dict):
            spell_amounts(resources.get("requests"))
        obj.setdefault("status", {}).setdefault("phase", "Pending")

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        if old is not None or obj["spec"].get("storageClassName") is not None:
            return
        if BETA_STORAGE_CLASS not in (obj["metadata"].get("annotations") or {}):
            chosen = _default_class(registry)
            if chosen is not None:
                obj["spec"]["storageClassName"] = chosen

    def check(self, obj: RawObject) -> list[FieldError]:
        found = Errors()
        _check_claim(obj["spec"], found)
        return found

    def validate_update(self, obj: RawObject, old: RawObject) -> list[FieldError]:
        return _check_claim_update(obj, old)

    def accept(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        if old is None or not old["metadata"].get("deletionTimestamp"):
            check_claim(registry, obj)


class VolumeStrategy(Strategy):
    """A volume keeps its source, and its status tells since when it is in its phase."""

    def default(self, obj: RawObject) -> None:
        spec = spec_of(obj)
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        spell_amounts(spec.get("capacity"))
        obj.setdefault("status", {}).setdefault("phase", "Pending")

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        if old is None:
            obj["status"]["lastPhaseTransitionTime"] = obj["metadata"]["creationTimestamp"]

    def check(self, obj: RawObject) -> list[FieldError]:
        found = Errors()
        _check_volume(obj["spec"], found)
        return found

    def validate_update(self, obj: RawObject, old: RawObject) -> list[FieldError]:
        return _check_volume_update(obj["spec"], old["spec"])

    def judge_subresource(self, registry: Registry, obj: RawObject, old: RawObject) -> list[FieldError]:
        status, before = obj.setdefault("status", {}), old.get("status") or {}
        since, since_before = status.get("lastPhaseTransitionTime"), before.get("lastPhaseTransitionTime")
        if status.get("phase") != before.get("phase"):
            if since in (None, since_before):
                status["lastPhaseTransitionTime"] = registry.timestamp()
        elif since is None and since_before is not None:
            status["lastPhaseTransitionTime"] = since_before
        return []


class StorageClassStrategy(Strategy):
    """A class stays as it is."""

    def default(self, obj: RawObject) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def check(self, obj: RawObject) -> list[FieldError]:
        found = Errors()
        if not obj.get("provisioner"):
            found.required(("provisioner",))
        found.one_of(("reclaimPolicy",), obj.get("reclaimPolicy"), ("Delete", "Retain"))
        found.one_of(("volumeBindingMode",), obj.get("volumeBindingMode"), _BINDING_MODES)
        return found

    def validate_update(self, obj: RawObject, old: RawObject) -> list[FieldError]:
        frozen = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
        return [found for name in frozen for found in unchanged(obj, old, name)]


STRATEGIES = (
    ClaimStrategy(
        served("v1", "persistentvolumeclaims", "PersistentVolumeClaim", short="pvc", subresources="status"),
        columns=tables.PERSISTENT_VOLUME_CLAIM,
        first_status={"phase": "Pending"},
        generation=False,
        returns_deleted=True,
    ),
    VolumeStrategy(
        served(
            "v1", "persistentvolumes", "PersistentVolume", namespaced=False, short="pv", subresources="status"
        ),
        columns=tables.PERSISTENT_VOLUME,
        first_status={"phase": "Pending"},
        generation=False,
        returns_deleted=True,
    ),
    StorageClassStrategy(
        served("storage.k8s.io/v1", "storageclasses", "StorageClass", namespaced=False, short="sc"),
        columns=tables.STORAGE_CLASS,
        generation=False,
    ),
    Strategy(served("storage.k8s.io/v1", "csidrivers", "CSIDriver", namespaced=False), generation=False),
    Strategy(
        served("storage.k8s.io/v1", "csinodes", "CSINode", namespaced=False),
        columns=tables.CSI_NODE,
        generation=False,
    ),
    Strategy(
        served("storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity"),
        columns=tables.CSI_STORAGE_CAPACITY,
    ),
    Strategy(
        served(
            "storage.k8s.io/v1",
            "volumeattachments",
            "VolumeAttachment",
            namespaced=False,
            subresources="status",
        ),
        columns=tables.VOLUME_ATTACHMENT,
        status_metadata=(),
    ),
)


def _default_class(registry: Registry) -> str | None:
    """The newest of the classes marked as default, the first by name among those of one second."""
    bucket = registry.builtin("storage.k8s.io", "storageclasses").bucket
    marked = [
        entry["metadata"]
        for entry in (decode(record.data) for record in bucket.newest_in(""))
        if any((entry["metadata"].get("annotations") or {}).get(name) == "true" for name in _DEFAULT_CLASS)
    ]
    marked.sort(key=lambda metadata: str(metadata["name"]))
    marked.sort(key=lambda metadata: str(metadata["creationTimestamp"]), reverse=True)
    return str(marked[0]["name"]) if marked else None


# --- checks


def _check_claim(spec: RawObject, found: Errors) -> None:
    _check_access_modes(spec, found, "at least 1 access mode is required")
    requests = (spec.get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        found.required(("spec", "resources", "[storage]"))
    elif not _amount(requests["storage"]) > 0:
        found.invalid(("spec", "resources", "[storage]"), requests["storage"], "must be greater than zero")
    if spec.get("storageClassName"):
        name = spec["storageClassName"]
        found.invalid_for_each(("spec", "storageClassName"), name, names.dns_subdomain_errors(name))
    found.one_of(("spec", "volumeMode"), spec.get("volumeMode"), _VOLUME_MODES)


def _check_volume(spec: RawObject, found: Errors) -> None:
    _check_access_modes(spec, found, "")
    capacity = spec.get("capacity") or {}
    if not capacity:
        found.required(("spec", "capacity"))
    if "storage" not in capacity or len(capacity) > 1:
        found.not_supported(("spec", "capacity"), capacity, ("storage",))
    for name, amount in capacity.items():
        if not _amount(amount) > 0:
            found.invalid(("spec", "capacity", f"[{name}]"), amount, "must be greater than zero")
    found.one_of(
        ("spec", "persistentVolumeReclaimPolicy"),
        spec.get("persistentVolumeReclaimPolicy"),
        _RECLAIM_POLICIES,
    )
    found.one_of(("spec", "volumeMode"), spec.get("volumeMode"), _VOLUME_MODES)
    sources = [name for name in spec if name not in _NOT_A_SOURCE and spec[name] is not None]
    if not sources:
        found.required(("spec",), "must specify a volume type")
    for name in sources[1:]:
        found.forbidden(("spec", name), "may not specify more than 1 volume type")


def _check_access_modes(spec: RawObject, found: Errors, missing: str) -> None:
    given = spec.get("accessModes") or ()
    if not given:
        found.required(("spec", "accessModes"), missing)
    for mode in given:
        if mode not in _MODES:
            found.not_supported(("spec", "accessModes"), mode, _MODES)
    known = [mode for mode in given if mode in _MODES]
    if "ReadWriteOncePod" in known and set(known) != {"ReadWriteOncePod"}:
        found.forbidden(("spec", "accessModes"), "may not use ReadWriteOncePod with other access modes")


def _check_claim_update(obj: RawObject, old: RawObject) -> list[FieldError]:
    new_spec, old_spec = dict(obj["spec"]), dict(old["spec"])
    found: list[FieldError] = []
    if not old_spec.get("volumeName"):  # whoever binds the claim sets it, once
        copy_field("volumeName", new_spec, old_spec)
    if old_spec.get("storageClassName") is None:
        copy_field("storageClassName", new_spec, old_spec)
    new_size, old_size = _requested(new_spec), _requested(old_spec)
    if (obj.get("status") or {}).get("phase") == "Bound":
        copy_field("volumeAttributesClassName", new_spec, old_spec)
        new_spec["resources"] = _with_storage(new_spec.get("resources"), old_size)
        old_spec["resources"] = _with_storage(old_spec.get("resources"), old_size)
    if new_spec != old_spec:
        found.append(FieldError("spec", "FieldValueForbidden", _FROZEN_CLAIM))
    granted = ((old.get("status") or {}).get("capacity") or {}).get("storage")
    if _amount(new_size) < _amount(old_size) and _amount(new_size) <= _amount(granted):
        path = "spec.resources.requests.storage"
        found.append(FieldError(path, "FieldValueForbidden", "field can not be less than status.capacity"))
    return found + unchanged(obj["spec"], old["spec"], "volumeMode")


def _with_storage(resources: RawObject | None, size: Any) -> RawObject:  # noqa: ANN401 - as it came
    given = resources or {}
    return {**given, "requests": {**(given.get("requests") or {}), "storage": size}}


def _requested(spec: RawObject) -> Any:  # noqa: ANN401 - as it came over the wire
    return ((spec.get("resources") or {}).get("requests") or {}).get("storage")


def _check_volume_update(spec: RawObject, old: RawObject) -> list[FieldError]:
    found: list[FieldError] = []
    if _source(spec, old) != _source(old, old):
        found.append(FieldError("spec.persistentvolumesource", "FieldValueForbidden", _FROZEN_SOURCE))
    found += unchanged(spec, old, "volumeMode")
    if old.get("nodeAffinity") is not None:
        found += unchanged(spec, old, "nodeAffinity")
    return found


def _source(spec: RawObject, old: RawObject) -> RawObject:
    """Where a volume's data is; one secret of a CSI driver may be named later."""
    source = {name: value for name, value in spec.items() if name not in _NOT_A_SOURCE}
    late = "controllerExpandSecretRef"
    if isinstance(source.get("csi"), dict) and late not in (old.get("csi") or {}):
        source["csi"] = {name: value for name, value in source["csi"].items() if name != late}
    return source


def _amount(raw: Any) -> Any:  # noqa: ANN401 - a number that compares
    try:
        return read(raw).amount if raw is not None else 0
    except QuantityError:
        return 0
