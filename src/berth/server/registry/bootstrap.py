"""Objects that every cluster has from the start, and keeps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from berth.certificates import LOOPBACK, WILDCARDS
from berth.kube.objects import RawObject
from berth.server.registry import policy, quotas, writes
from berth.server.registry.kinds.access import service_accounts
from berth.server.registry.kinds.cluster.namespaces import INITIAL_NAMESPACES
from berth.server.registry.kinds.custom import karmada
from berth.server.registry.kinds.network.services import FIRST_ADDRESS
from berth.server.registry.kinds.pods.priority_classes import SYSTEM_CLASSES
from berth.server.registry.strategy import Endpoint, Registry
from berth.server.settings import ServerSettings
from berth.server.storage.store import decode

_MANAGER = "berth"
_INTENT = writes.Intent(_MANAGER, own=True)
_REPAIR = 10.0  # seconds, as upstream
_SERVICE = "kubernetes"
_ABOUT = {
    "system-cluster-critical": (
        "Used for system critical pods that must run in the cluster, but can be moved to another node "
        "if necessary."
    ),
    "system-node-critical": ("Used for system critical pods that must not be moved from their current node."),
}


async def fill(registry: Registry, settings: ServerSettings) -> None:
    """Serve the custom resources that are stored, and create what is missing."""
    definitions = registry.builtin("apiextensions.k8s.io", "customresourcedefinitions")
    for record in definitions.bucket.newest_in(""):
        registry.serve_crd(decode(record.data))
    created = _define(registry, definitions)
    namespaces = registry.builtin("", "namespaces")
    for name in INITIAL_NAMESPACES:
        created += _ensure(registry, namespaces, "", {"metadata": {"name": name}})
    for record in namespaces.bucket.newest_in(""):
        created += service_accounts.provide(registry, record.key[1])
    classes = registry.builtin("scheduling.k8s.io", "priorityclasses")
    for name, value in SYSTEM_CLASSES.items():
        body = {"metadata": {"name": name}, "value": value, "description": _ABOUT[name]}
        created += _ensure(registry, classes, "", body)
    created += _allow(registry)
    created += _announce(registry, settings)
    quotas.recount(registry)
    for write in created:
        if write.done is not None:
            await write.done


async def keep(registry: Registry, settings: ServerSettings) -> None:
    """Repair, for as long as it is awaited, what tells clients where the server is, and what is used."""
    while True:
        await asyncio.sleep(_REPAIR)
        _announce(registry, settings)
        quotas.release(registry, time.time())


def _define(registry: Registry, endpoint: Endpoint) -> list[writes.Write]:
    """Karmada's kinds; an older definition of ours becomes the present one, unless somebody objects."""
    made = []
    for crd in karmada.definitions():
        record = endpoint.bucket.newest(("", crd["metadata"]["name"]))
        if record is None:
            made.append(writes.create(registry, endpoint, crd, "", _INTENT))
            continue
        known = decode(record.data)
        metadata = known["metadata"]
        if (metadata.get("annotations") or {}).get(karmada.AUTOUPDATE) == "true":
            metadata["resourceVersion"] = str(record.rv)
            made.append(writes.update(registry, endpoint, record, {**known, "spec": crd["spec"]}, _INTENT))
    return made


def _allow(registry: Registry) -> list[writes.Write]:
    """The roles that everybody expects, and who has them."""
    group = "rbac.authorization.k8s.io"
    roles, bindings = registry.builtin(group, "clusterroles"), registry.builtin(group, "clusterrolebindings")
    made = [write for role in policy.roles() for write in _ensure(registry, roles, "", role)]
    for role, groups in policy.bindings():
        subjects = [{"kind": "Group", "apiGroup": group, "name": name} for name in groups]
        reference = {"apiGroup": group, "kind": roles.resource.kind, "name": role}
        body = {"metadata": {"name": role}, "subjects": subjects, "roleRef": reference}
        made += _ensure(registry, bindings, "", body)
    return made


def _announce(registry: Registry, settings: ServerSettings) -> list[writes.Write]:
    """The Service by which pods know the server, and where it is."""
    address = LOOPBACK[0] if settings.host in WILDCARDS else settings.host
    family = "IPv6" if ":" in address else "IPv4"
    port = {"name": "https", "port": settings.port, "protocol": "TCP"}
    labels = {"component": "apiserver", "provider": "kubernetes"}
    service = {"port": 443, "targetPort": settings.port}
    wanted: Iterator[tuple[str, str, RawObject, RawObject]] = iter(
        (
            (
                "",
                "services",
                labels,
                {"spec": {"clusterIP": FIRST_ADDRESS, "ports": [{**port, **service}]}},
            ),
            ("", "endpoints", {}, {"subsets": [{"addresses": [{"ip": address}], "ports": [port]}]}),
            (
                "discovery.k8s.io",
                "endpointslices",
                {"kubernetes.io/service-name": _SERVICE},
                {
                    "addressType": family,
                    "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
                    "ports": [port],
                },
            ),
        )
    )
    made = []
    for group, plural, labelled, content in wanted:
        metadata = {"name": _SERVICE, "labels": labelled} if labelled else {"name": _SERVICE}
        endpoint = registry.builtin(group, plural)
        made += _ensure(registry, endpoint, "default", {"metadata": metadata, **content}, content)
    return made


def _ensure(
    registry: Registry, endpoint: Endpoint, namespace: str, obj: RawObject, content: RawObject | None = None
) -> list[writes.Write]:
    """Create an object if it is missing; if there is one, its `content` is made what it should be."""
    resource, name = endpoint.resource, obj["metadata"]["name"]
    record = endpoint.bucket.newest((namespace, name))
    if record is None:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        return [writes.create(registry, endpoint, body, namespace, _INTENT)]
    if content is None:
        return []
    known = decode(record.data)
    changed = {**known, **content}
    if "spec" in content:
        changed["spec"] = {**known["spec"], **content["spec"]}
    if changed == known:
        return []
    changed["metadata"] = {**known["metadata"], "resourceVersion": str(record.rv)}
    return [writes.update(registry, endpoint, record, changed, _INTENT)]
