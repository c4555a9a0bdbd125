"""What single kinds need beyond the general rules when they are written or removed."""

from __future__ import annotations

import base64
import ipaddress

from berth.kube.objects import RawObject
from berth.kube.validation import FieldError
from berth.server import errors
from berth.server.registry.admission import SYSTEM_CLASSES
from berth.server.registry.catalog import Endpoint
from berth.server.registry.core import Core
from berth.server.registry.kinds import definitions, pod_groups, volumes
from berth.server.registry.resources import ServedResource
from berth.server.storage.store import decode

_SERVICE_NETWORK = ipaddress.ip_network("10.96.0.0/12")
_COUNTS = {
    "PodDisruptionBudget": ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"),
    "ReplicaSet": ("replicas",),
    "ReplicationController": ("replicas",),
    "StatefulSet": ("replicas", "availableReplicas"),
    "DaemonSet": (
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
    ),
}
_CONTROLLER_UID, _JOB_NAME = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"


def stored(core: Core, endpoint: Endpoint) -> Endpoint:
    """The endpoint whose version is the stored one."""
    return core.catalog.core(endpoint.resource.plural)


def first_status(resource: ServedResource) -> RawObject:
    """The status of a new object: what upstream always writes out, zero or not."""
    if resource.kind == "Service":
        return {"loadBalancer": {}}
    if resource.kind in ("PersistentVolumeClaim", "PersistentVolume"):
        return {"phase": "Pending"}
    return dict.fromkeys(_COUNTS.get(resource.kind, ()), 0)


def prepare(endpoint: Endpoint, obj: RawObject, old: RawObject | None) -> None:
    """Before validation."""
    resource = endpoint.resource
    if (resource.group, resource.kind) == ("batch", "Job") and old is None:
        _select_own_pods(obj)
    elif resource.kind == "Service" and not resource.group:
        _give_address(endpoint, obj, old)
    elif resource.kind == "Secret" and isinstance(obj.get("stringData"), dict):
        _encode_strings(obj)
    elif resource.kind == "CustomResourceDefinition":
        definitions.prepare(obj)
    elif resource.group == pod_groups.GROUP:
        pod_groups.prepare(resource, obj)


def prepare_status(endpoint: Endpoint, obj: RawObject, old: RawObject, now: str) -> list[FieldError]:
    """Bring a written status into shape; what is wrong with it."""
    resource = endpoint.resource
    pod_groups.prepare_status(resource, obj)
    volumes.prepare_status(resource, obj, old, now)
    return pod_groups.status_problems(resource, obj)


def _select_own_pods(job: RawObject) -> None:
    spec = job["spec"]
    if spec.get("manualSelector"):
        return
    uid, name = job["metadata"]["uid"], job["metadata"].get("name") or ""
    template = spec.get("template")
    if not isinstance(template, dict):
        return
    own = {_CONTROLLER_UID: uid, _JOB_NAME: name, "controller-uid": uid, "job-name": name}
    labels = template.setdefault("metadata", {}).get("labels") or {}
    template["metadata"]["labels"] = {**labels, **own}
    if spec.get("selector") is None:
        spec["selector"] = {"matchLabels": {_CONTROLLER_UID: uid}}


def _give_address(endpoint: Endpoint, service: RawObject, old: RawObject | None) -> None:
    spec = service["spec"]
    if old is not None and not spec.get("clusterIP"):
        for name in ("clusterIP", "clusterIPs"):
            if name in old["spec"]:
                spec[name] = old["spec"][name]
    if spec.get("clusterIP") or spec.get("type") == "ExternalName":
        return
    taken = {record.fields.get("spec.clusterIP") for record in endpoint.bucket.newest_in("")}
    count = len(taken)
    while (address := str(_SERVICE_NETWORK[count + 1])) in taken:
        count += 1
    spec["clusterIP"], spec["clusterIPs"] = address, [address]


def _encode_strings(secret: RawObject) -> None:
    data = dict(secret.get("data") or {})
    for name, text in secret.pop("stringData").items():
        data[name] = base64.b64encode(str(text).encode()).decode()
    secret["data"] = data


def before_create(core: Core, endpoint: Endpoint, obj: RawObject) -> None:
    """Once the object is known to be valid."""
    resource = endpoint.resource
    if resource.kind == "CustomResourceDefinition":
        definitions.accept(core, obj)
    elif resource.kind == "PriorityClass" and obj["metadata"]["name"].startswith("system-"):
        _check_system_class(resource, obj)


def _check_system_class(resource: ServedResource, obj: RawObject) -> None:
    name = obj["metadata"]["name"]
    if SYSTEM_CLASSES.get(name) != obj.get("value"):
        why = "priority class names with 'system-' prefix are reserved for system use only"
        raise errors.forbidden(resource.plural, resource.group, name, why)


def before_update(core: Core, endpoint: Endpoint, obj: RawObject, old: RawObject, subresource: str) -> None:
    if endpoint.resource.kind == "CustomResourceDefinition" and not subresource:
        definitions.accept(core, obj, old)


def may_go(obj: RawObject) -> bool:
    """Whether an object that is being deleted has nothing left to wait for."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if obj.get("kind") == "Namespace" and obj.get("apiVersion") == "v1":
        return not (obj.get("spec") or {}).get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")


def after_write(core: Core, endpoint: Endpoint, obj: RawObject) -> None:
    if endpoint.resource.kind == "CustomResourceDefinition":
        core.catalog.serve_crd(obj)


def after_remove(core: Core, endpoint: Endpoint, obj: RawObject) -> None:
    """Once the removal is proposed: whatever waited for the object to go."""
    if endpoint.resource.kind == "CustomResourceDefinition":
        core.catalog.remove_crd(obj)
    elif endpoint.crd is not None:
        _finish_crd(core, endpoint)


def _finish_crd(core: Core, endpoint: Endpoint) -> None:
    """The last object of a definition that is being deleted has gone: so does the definition."""
    if endpoint.bucket.newest_in(""):
        return
    kept = core.catalog.builtin("apiextensions.k8s.io", "customresourcedefinitions")
    key = ("", endpoint.resource.group_resource)
    record = kept.bucket.newest(key)
    if record is None:
        return
    crd = decode(record.data)
    if crd["metadata"].get("deletionTimestamp"):
        finalizers = [item for item in crd["metadata"].get("finalizers") or () if item != definitions.CLEANUP]
        crd["metadata"]["finalizers"] = finalizers
        if finalizers:
            core.store.put(kept.bucket, key, crd)
        else:
            core.store.remove(kept.bucket, key, crd)
            core.catalog.remove_crd(crd)
