"""Objects that every cluster has from the start."""

from __future__ import annotations

from berth.kube.objects import RawObject
from berth.server.registry import writes
from berth.server.registry.kinds.karmada import definitions as karmada
from berth.server.registry.kinds.namespaces import INITIAL_NAMESPACES
from berth.server.registry.kinds.priority_classes import SYSTEM_CLASSES
from berth.server.registry.strategy import Endpoint, Registry
from berth.server.storage.store import decode

_MANAGER = "berth"
_ABOUT = {
    "system-cluster-critical": (
        "Used for system critical pods that must run in the cluster, but can be moved to another node "
        "if necessary."
    ),
    "system-node-critical": ("Used for system critical pods that must not be moved from their current node."),
}


async def fill(registry: Registry) -> None:
    """Serve the custom resources that are stored, and create what is missing."""
    definitions = registry.builtin("apiextensions.k8s.io", "customresourcedefinitions")
    for record in definitions.bucket.newest_in(""):
        registry.serve_crd(decode(record.data))
    intent = writes.Intent(_MANAGER)
    created = _define(registry, definitions, intent)
    namespaces = registry.builtin("", "namespaces")
    for name in INITIAL_NAMESPACES:
        if namespaces.bucket.newest(("", name)) is None:
            created.append(writes.create(registry, namespaces, _object(namespaces, name), "", intent))
    classes = registry.builtin("scheduling.k8s.io", "priorityclasses")
    for name, value in SYSTEM_CLASSES.items():
        if classes.bucket.newest(("", name)) is None:
            obj = {**_object(classes, name), "value": value, "description": _ABOUT[name]}
            created.append(writes.create(registry, classes, obj, "", intent))
    for write in created:
        if write.done is not None:
            await write.done


def _define(registry: Registry, endpoint: Endpoint, intent: writes.Intent) -> list[writes.Write]:
    """Karmada's kinds; an older definition of ours becomes the present one, unless somebody objects."""
    made = []
    for crd in karmada.definitions():
        record = endpoint.bucket.newest(("", crd["metadata"]["name"]))
        if record is None:
            made.append(writes.create(registry, endpoint, crd, "", intent))
            continue
        known = decode(record.data)
        metadata = known["metadata"]
        if (metadata.get("annotations") or {}).get(karmada.AUTOUPDATE) == "true":
            metadata["resourceVersion"] = str(record.rv)
            made.append(writes.update(registry, endpoint, record, {**known, "spec": crd["spec"]}, intent))
    return made


def _object(endpoint: Endpoint, name: str) -> RawObject:
    resource = endpoint.resource
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
