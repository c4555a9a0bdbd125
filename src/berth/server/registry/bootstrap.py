"""Objects that every cluster has from the start."""

from __future__ import annotations

from berth.kube.objects import RawObject
from berth.server.registry import writes
from berth.server.registry.admission import SYSTEM_CLASSES
from berth.server.registry.catalog import Endpoint
from berth.server.registry.core import Core
from berth.server.registry.kinds.karmada import definitions as karmada
from berth.server.storage.store import decode

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_MANAGER = "berth"
_ABOUT = {
    "system-cluster-critical": (
        "Used for system critical pods that must run in the cluster, but can be moved to another node "
        "if necessary."
    ),
    "system-node-critical": ("Used for system critical pods that must not be moved from their current node."),
}


async def fill(core: Core) -> None:
    """Serve the custom resources that are stored, and create what is missing."""
    definitions = core.catalog.builtin("apiextensions.k8s.io", "customresourcedefinitions")
    for record in definitions.bucket.newest_in(""):
        core.catalog.serve_crd(decode(record.data))
    intent = writes.Intent(_MANAGER)
    created = _define(core, definitions, intent)
    namespaces = core.catalog.core("namespaces")
    for name in NAMESPACES:
        if namespaces.bucket.newest(("", name)) is None:
            obj = _object("v1", "Namespace", name)
            created.append(writes.create(core, namespaces, obj, "", intent))
    classes = core.catalog.builtin("scheduling.k8s.io", "priorityclasses")
    for name, value in SYSTEM_CLASSES.items():
        if classes.bucket.newest(("", name)) is None:
            obj = _object("scheduling.k8s.io/v1", "PriorityClass", name)
            obj.update(value=value, description=_ABOUT[name])
            created.append(writes.create(core, classes, obj, "", intent))
    for write in created:
        if write.done is not None:
            await write.done


def _define(core: Core, endpoint: Endpoint, intent: writes.Intent) -> list[writes.Write]:
    """Karmada's kinds; an older definition of ours becomes the present one, unless somebody objects."""
    made = []
    for crd in karmada.definitions():
        record = endpoint.bucket.newest(("", crd["metadata"]["name"]))
        if record is None:
            made.append(writes.create(core, endpoint, crd, "", intent))
            continue
        known = decode(record.data)
        metadata = known["metadata"]
        if (metadata.get("annotations") or {}).get(karmada.AUTOUPDATE) == "true":
            metadata["resourceVersion"] = str(record.rv)
            made.append(writes.update(core, endpoint, record, {**known, "spec": crd["spec"]}, intent))
    return made


def _object(api_version: str, kind: str, name: str) -> RawObject:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}
