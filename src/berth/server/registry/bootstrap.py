"""Objects that every cluster has from the start (bootstrap.yaml), and keeps."""

from __future__ import annotations

import asyncio
import time
from importlib.resources import files

from berth.certificates import LOOPBACK, WILDCARDS
from berth.kube.objects import RawObject
from berth.kube.text import yaml_reader
from berth.kube.well_known import AUTOUPDATE
from berth.server.registry import quotas, writes
from berth.server.registry.kinds.access import service_accounts
from berth.server.registry.kinds.custom import karmada
from berth.server.registry.kinds.network.services import FIRST_ADDRESS
from berth.server.registry.strategy import Endpoint, Registry, plural_of
from berth.server.registry.users import Intent
from berth.server.settings import ServerSettings
from berth.server.storage.bucket import decode

_INTENT = Intent("berth", own=True)
_REPAIR = 10.0  # seconds, as upstream
_SERVICE = "kubernetes"


async def fill(registry: Registry, settings: ServerSettings) -> None:
    """Serve the custom resources that are stored, and create what is missing."""
    definitions = registry.builtin("apiextensions.k8s.io", "customresourcedefinitions")
    for record in definitions.bucket.newest_in(""):
        registry.serve_crd(decode(record.data))
    created = _define(registry, definitions)
    text = files(__package__).joinpath("bootstrap.yaml").read_text(encoding="utf-8")
    for obj in next(yaml_reader.read(text)).value:
        group, _, version = obj["apiVersion"].rpartition("/")
        created += _ensure(registry, registry.builtin(group, plural_of(obj["kind"]), version), "", obj)
    for record in registry.bucket("namespaces").newest_in(""):
        created += service_accounts.provide(registry, record.key[1])
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
        if (metadata.get("annotations") or {}).get(AUTOUPDATE) == "true":
            metadata["resourceVersion"] = str(record.rv)
            made.append(writes.update(registry, endpoint, record, {**known, "spec": crd["spec"]}, _INTENT))
    return made


def _announce(registry: Registry, settings: ServerSettings) -> list[writes.Write]:
    """The Service by which pods know the server, and where it is."""
    address = LOOPBACK[0] if settings.host in WILDCARDS else settings.host
    port = {"name": "https", "port": settings.port, "protocol": "TCP"}
    service_port = {**port, "port": 443, "targetPort": settings.port}
    service: RawObject = {"spec": {"clusterIP": FIRST_ADDRESS, "ports": [service_port]}}
    endpoints: RawObject = {"subsets": [{"addresses": [{"ip": address}], "ports": [port]}]}
    endpoint_slice: RawObject = {
        "addressType": "IPv6" if ":" in address else "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [port],
    }
    made = []
    for group, plural, labels, content in (
        ("", "services", {"component": "apiserver", "provider": "kubernetes"}, service),
        ("", "endpoints", {}, endpoints),
        ("discovery.k8s.io", "endpointslices", {"kubernetes.io/service-name": _SERVICE}, endpoint_slice),
    ):
        metadata = {"name": _SERVICE, "labels": labels}
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
