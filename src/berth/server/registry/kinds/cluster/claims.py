"""Claims to volumes and to devices, and what they are made from: the kinds of storage and resource.k8s.io.

Upstream: pkg/registry/core/{persistentvolume,persistentvolumeclaim}, the checks of
pkg/apis/{core,storage}/validation that a scheduler's writes meet, and the admission plugin
DefaultStorageClass.
Of devices: pkg/registry/resource, and of pkg/apis/resource/validation what those who place pods meet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from berth.kube.amounts.quantity import QuantityError, read
from berth.kube.defaults import default_storage_class
from berth.kube.objects import ObjectMeta, RawObject
from berth.kube.validation.errors import NOT_POSITIVE, FieldError, too_many
from berth.kube.well_known import BETA_STORAGE_CLASS
from berth.kube.workloads.stored_templates import fill, spell_amounts
from berth.server.fields import annotations_of, at, items, mapping, mappings, without
from berth.server.registry import checks
from berth.server.registry.checks import FieldErrors, choice, forbidden, has, invalid, one_of, required
from berth.server.registry.kinds.cluster.limits import check_claim
from berth.server.registry.strategy import Registry, Strategy, served
from berth.server.storage.bucket import decode
from berth.server.storage.selectors import paths
from berth.server.tables import AGE, NAME, UNSET, Column, default_name, flag, size, text

# The access modes, and how tables show them.
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_VOLUME_MODES = ("Block", "Filesystem")
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
_DEVICES = "resource.k8s.io/v1"
_RESERVED = "status.reservedFor"
_MOST_CONSUMERS = 256
_GOING = "`deallocationRequested` or `deletionTimestamp`"


class ClaimStrategy(Strategy):
    """A claim gets the default class, and changes hardly at all once it is made."""

    def default(self, obj: RawObject) -> None:
        spec = checks.spec_of(obj)
        spec.setdefault("volumeMode", "Filesystem")
        spell_amounts(at(spec, "resources", "requests"))
        obj.setdefault("status", {}).setdefault("phase", "Pending")

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        stated = obj["spec"].get("storageClassName") is not None or BETA_STORAGE_CLASS in annotations_of(obj)
        if old is not None or stated:
            return
        classes = registry.bucket("storageclasses", "storage.k8s.io").newest_in("")
        known = (checks.decode_as(decode(record.data)["metadata"], ObjectMeta) for record in classes)
        if (chosen := default_storage_class(known)) is not None:
            obj["spec"]["storageClassName"] = chosen

    def check(self, obj: RawObject) -> FieldErrors:
        spec = obj["spec"]
        yield from _check_access_modes(spec, "at least 1 access mode is required")
        requests = mapping(spec, "resources", "requests")
        if "storage" not in requests:
            yield required("spec.resources[storage]")
        else:
            yield from _check_size("spec.resources[storage]", requests["storage"])
        yield from checks.subdomain("spec.storageClassName", spec.get("storageClassName"), needed=False)
        yield from choice("spec", spec, "volumeMode", *_VOLUME_MODES)

    def validate_update(self, obj: RawObject, old: RawObject) -> FieldErrors:
        new_spec, old_spec = dict(obj["spec"]), dict(old["spec"])
        if not old_spec.get("volumeName"):  # whoever binds the claim sets it, once
            checks.copy_field("volumeName", new_spec, old_spec)
        if old_spec.get("storageClassName") is None:
            checks.copy_field("storageClassName", new_spec, old_spec)
        new_size, old_size = (at(spec, "resources", "requests", "storage") for spec in (new_spec, old_spec))
        if at(obj, "status", "phase") == "Bound":
            checks.copy_field("volumeAttributesClassName", new_spec, old_spec)
            for spec in (new_spec, old_spec):
                requests = {**mapping(spec, "resources", "requests"), "storage": old_size}
                spec["resources"] = {**mapping(spec, "resources"), "requests": requests}
        if new_spec != old_spec:
            yield forbidden("spec", _FROZEN_CLAIM)
        granted = at(old, "status", "capacity", "storage")
        if _amount(new_size) < _amount(old_size) and _amount(new_size) <= _amount(granted):
            yield forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
        yield from checks.unchanged(obj["spec"], old["spec"], "volumeMode")

    def final_admission(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        if old is None or not old["metadata"].get("deletionTimestamp"):
            check_claim(registry, obj)


class VolumeStrategy(Strategy):
    """A volume keeps its source, and its status tells since when it is in its phase."""

    def default(self, obj: RawObject) -> None:
        spec = checks.spec_of(obj)
        fill(spec, persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
        spell_amounts(spec.get("capacity"))
        obj.setdefault("status", {}).setdefault("phase", "Pending")

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        if old is None:
            obj["status"]["lastPhaseTransitionTime"] = obj["metadata"]["creationTimestamp"]

    def check(self, obj: RawObject) -> FieldErrors:
        spec = obj["spec"]
        yield from _check_access_modes(spec, "")
        capacity = spec.get("capacity") or {}
        yield from has("spec", spec, "capacity")
        if "storage" not in capacity or len(capacity) > 1:
            yield from one_of("spec.capacity", capacity, ("storage",), needed=False)
        for name, amount in capacity.items():
            yield from _check_size(f"spec.capacity[{name}]", amount)
        yield from choice("spec", spec, "persistentVolumeReclaimPolicy", "Delete", "Recycle", "Retain")
        yield from choice("spec", spec, "volumeMode", *_VOLUME_MODES)
        sources = [name for name in spec if name not in _NOT_A_SOURCE and spec[name] is not None]
        if not sources:
            yield required("spec", "must specify a volume type")
        for name in sources[1:]:
            yield forbidden(f"spec.{name}", "may not specify more than 1 volume type")

    def validate_update(self, obj: RawObject, old: RawObject) -> FieldErrors:
        spec, before = obj["spec"], old["spec"]
        if _source(spec, before) != _source(before, before):
            yield forbidden("spec.persistentvolumesource", _FROZEN_SOURCE)
        yield from checks.unchanged(spec, before, "volumeMode")
        if before.get("nodeAffinity") is not None:
            yield from checks.unchanged(spec, before, "nodeAffinity")

    def judge_subresource(self, registry: Registry, obj: RawObject, old: RawObject) -> list[FieldError]:
        status, before = obj.setdefault("status", {}), mapping(old, "status")
        since, since_before = status.get("lastPhaseTransitionTime"), before.get("lastPhaseTransitionTime")
        if status.get("phase") != before.get("phase"):
            if since in (None, since_before):
                status["lastPhaseTransitionTime"] = registry.timestamp()
        elif since is None and since_before is not None:
            status["lastPhaseTransitionTime"] = since_before
        return []


class StorageClassStrategy(Strategy):
    """A class stays as it is."""

    def check(self, obj: RawObject) -> FieldErrors:
        yield from has("", obj, "provisioner")
        yield from choice("", obj, "reclaimPolicy", "Delete", "Retain")
        yield from choice("", obj, "volumeBindingMode", "Immediate", "WaitForFirstConsumer")


class ResourceClaimStrategy(Strategy):
    """What a claim asks for stays; its devices come and go as a whole, and are reserved only if there."""

    def default(self, obj: RawObject) -> None:
        _default_requests(mapping(obj, "spec"))

    def judge_subresource(self, registry: Registry, obj: RawObject, old: RawObject) -> FieldErrors:
        status, before = mapping(obj, "status"), mapping(old, "status")
        consumers, known = mappings(status, "reservedFor"), mappings(before, "reservedFor")
        if len(consumers) > _MOST_CONSUMERS:
            yield too_many(_RESERVED, consumers, _MOST_CONSUMERS)
        seen: set[str] = set()
        for path, consumer in checks.numbered(_RESERVED, consumers):
            yield from has(path, consumer, "resource", "name", "uid")
            yield from checks.once(seen, path, str(consumer.get("uid")))
        if consumers and status.get("allocation") is None:
            yield forbidden(_RESERVED, "may not be specified when `allocated` is not set")
        elif obj["metadata"].get("deletionTimestamp") and any(one not in known for one in consumers):
            yield forbidden(_RESERVED, f"new entries may not be added while {_GOING} are set")
        if before.get("allocation") is not None and status.get("allocation") is not None:
            yield from checks.unchanged(obj, old, "status", "allocation")


class ResourceClaimTemplateStrategy(Strategy):
    """A template stays as it is."""

    def default(self, obj: RawObject) -> None:
        _default_requests(mapping(obj, "spec", "spec"))


def _default_requests(spec: RawObject) -> None:
    for request in mappings(spec, "devices", "requests"):
        for asked in (request.get("exactly"), *mappings(request, "firstAvailable")):
            if isinstance(asked, dict):
                fill(asked, allocationMode="ExactCount")
                if asked["allocationMode"] == "ExactCount":
                    fill(asked, count=1)


# --- columns


def _phase(obj: RawObject, _: float) -> str:
    if at(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    return str(at(obj, "status", "phase") or "")


def _access_modes(*path: str) -> Callable[[RawObject, float], str]:
    return lambda obj, _: ",".join(
        shown for mode, shown in _MODES.items() if mode in items(obj, *path, "accessModes")
    )


def _claim(obj: RawObject, _: float) -> str:
    found = at(obj, "spec", "claimRef")
    return f"{at(found, 'namespace')}/{at(found, 'name')}" if found else ""


_VOLUME_CLASS = Column("VolumeAttributesClass", text("spec", "volumeAttributesClassName", otherwise=UNSET))
_VOLUME_MODE = Column("VolumeMode", text("spec", "volumeMode", otherwise=UNSET), wide=True)


def _claim_state(obj: RawObject, _: float) -> str:
    deleted = at(obj, "metadata", "deletionTimestamp") is not None
    states = ["deleted"] if deleted else []
    if at(obj, "status", "allocation") is not None:
        states += ["allocated", "reserved"] if items(obj, "status", "reservedFor") else ["allocated"]
    elif not deleted:
        states.append("pending")
    return ",".join(states)


GROUP_PRIORITIES = {"storage.k8s.io": 16_800, "resource.k8s.io": 15_900}
STRATEGIES = (
    ClaimStrategy(
        served("v1", "PersistentVolumeClaim", short="pvc", subresources="status"),
        columns=(
            NAME,
            Column("Status", _phase),
            Column("Volume", text("spec", "volumeName")),
            Column("Capacity", text("status", "capacity", "storage")),
            Column("Access Modes", _access_modes("status")),
            Column("StorageClass", text("spec", "storageClassName")),
            _VOLUME_CLASS,
            AGE,
            _VOLUME_MODE,
        ),
        first_status={"phase": "Pending"},
        generation=False,
        returns_deleted=True,
    ),
    VolumeStrategy(
        served("v1", "PersistentVolume", namespaced=False, short="pv", subresources="status"),
        columns=(
            NAME,
            Column("Capacity", text("spec", "capacity", "storage")),
            Column("Access Modes", _access_modes("spec")),
            Column("Reclaim Policy", text("spec", "persistentVolumeReclaimPolicy")),
            Column("Status", _phase),
            Column("Claim", _claim),
            Column("StorageClass", text("spec", "storageClassName")),
            _VOLUME_CLASS,
            Column("Reason", text("status", "reason")),
            AGE,
            _VOLUME_MODE,
        ),
        first_status={"phase": "Pending"},
        generation=False,
        returns_deleted=True,
    ),
    StorageClassStrategy(
        served("storage.k8s.io/v1", "StorageClass", namespaced=False, short="sc"),
        columns=(
            default_name("storageclass.kubernetes.io/is-default-class"),
            Column("Provisioner", text("provisioner")),
            Column("ReclaimPolicy", text("reclaimPolicy", otherwise="Delete")),
            Column("VolumeBindingMode", text("volumeBindingMode", otherwise="Immediate")),
            Column("AllowVolumeExpansion", flag("allowVolumeExpansion")),
            AGE,
        ),
        defaults={"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
        frozen=("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"),
        generation=False,
    ),
    Strategy(served("storage.k8s.io/v1", "CSIDriver", namespaced=False), generation=False),
    Strategy(
        served("storage.k8s.io/v1", "CSINode", namespaced=False),
        columns=(NAME, Column("Drivers", size("spec", "drivers"), type="integer"), AGE),
        generation=False,
    ),
    Strategy(
        served("storage.k8s.io/v1", "CSIStorageCapacity"),
        columns=(
            NAME,
            Column("StorageClassName", text("storageClassName")),
            Column("Capacity", text("capacity", otherwise=UNSET)),
        ),
    ),
    Strategy(
        served("storage.k8s.io/v1", "VolumeAttachment", namespaced=False, subresources="status"),
        columns=(
            NAME,
            Column("Attacher", text("spec", "attacher")),
            Column("PV", text("spec", "source", "persistentVolumeName")),
            Column("Node", text("spec", "nodeName")),
            Column("Attached", flag("status", "attached"), type="boolean"),
            AGE,
        ),
        status_metadata=(),
    ),
    Strategy(served(_DEVICES, "DeviceClass", namespaced=False), columns=(NAME, AGE)),
    ResourceClaimStrategy(
        served(_DEVICES, "ResourceClaim", subresources="status"),
        columns=(NAME, Column("State", _claim_state), AGE),
        frozen=("spec",),
        status_metadata=(),
        generation=False,
        returns_deleted=True,
    ),
    ResourceClaimTemplateStrategy(
        served(_DEVICES, "ResourceClaimTemplate"),
        columns=(NAME, AGE),
        frozen=("spec",),
        generation=False,
        returns_deleted=True,
    ),
    Strategy(
        served(_DEVICES, "ResourceSlice", namespaced=False),
        columns=(
            NAME,
            Column("Node", text("spec", "nodeName", otherwise=UNSET)),
            Column("Driver", text("spec", "driver")),
            Column("Pool", text("spec", "pool", "name")),
            AGE,
        ),
        fields=paths("spec.nodeName", "spec.driver"),
        returns_deleted=True,
    ),
)


# --- checks


def _check_size(path: str, raw: object) -> FieldErrors:
    if not _amount(raw) > 0:
        yield invalid(path, raw, NOT_POSITIVE)


def _check_access_modes(spec: RawObject, missing: str) -> FieldErrors:
    path, given = "spec.accessModes", spec.get("accessModes") or ()
    yield from has("spec", spec, "accessModes", detail=missing)
    for mode in given:
        yield from one_of(path, mode, sorted(_MODES), needed=False)
    known = {mode for mode in given if mode in _MODES}
    if "ReadWriteOncePod" in known and len(known) > 1:
        yield forbidden(path, "may not use ReadWriteOncePod with other access modes")


def _source(spec: RawObject, old: RawObject) -> RawObject:
    """Where a volume's data is; one secret of a CSI driver may be named later."""
    source = without(spec, *_NOT_A_SOURCE)
    late = "controllerExpandSecretRef"
    if isinstance(source.get("csi"), dict) and late not in (old.get("csi") or {}):
        source["csi"] = without(source["csi"], late)
    return source


def _amount(raw: Any) -> Any:  # noqa: ANN401 - a number that compares
    try:
        return read(raw).amount if raw is not None else 0
    except QuantityError:
        return 0
